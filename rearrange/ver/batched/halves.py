"""Vector environments whose step has two halves, and those in processes, which may not answer.

    step_async --> the caller does something else --> step_wait

Only those in processes may not answer; all others are closed as they are.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from gymnasium.vector import VectorEnv

CLOSE_S = 3.0  # until processes that do not answer are killed

log = logging.getLogger(__name__)


def has_halves(envs: VectorEnv) -> bool:
    """Whether its `step` is nothing but `step_async` and `step_wait`.

    Not if a wrapper or a subclass has a `step` of its own, whose work would be left out.
    """
    owner = next(kind for kind in type(envs).__mro__ if "step" in vars(kind))
    return "step_async" in vars(owner) and "step_wait" in vars(owner)


def close_envs(envs: VectorEnv, is_begun: bool) -> None:
    """Closes environments, whatever state they are in.

    Args:
        is_begun: a step is under way.
    """
    processes: Any = getattr(envs.unwrapped, "processes", None)
    if processes is None:
        envs.close()
        return
    thread = threading.Thread(target=_close, args=(envs, is_begun), daemon=True)
    thread.start()
    thread.join(CLOSE_S)
    if thread.is_alive():
        log.warning("environments do not answer: their processes are ended")
        for process in processes:
            process.kill()
        thread.join(CLOSE_S)
    envs.unwrapped.closed = True  # nobody is to try it again when it is forgotten


def _close(envs: VectorEnv, is_begun: bool) -> None:
    try:
        if is_begun:
            envs.step_wait()  # pyrefly: ignore[missing-attribute] - those with halves alone
    except Exception as error:  # nobody needs this step any more
        log.warning("the last step of the environments failed: %s", error)
    try:
        envs.close()
    except Exception as error:
        log.warning("the environments were not closed properly: %s", error)
