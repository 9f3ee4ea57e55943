"""Our side of the pipe: an environment in Habitat's Python, as an agent of ours meets it.

    policy  --[11]-->  HabitatEnv  --pipe-->  serving.py: stock habitat-lab
            <--sensors of the step before--

All sensors are one control step old, as in our environment with `observation_delay=1`.
"""

from __future__ import annotations

import json
import logging
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from functools import lru_cache
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any

import numpy as np

from rearrange.errors import UserError
from rearrange.eval.habitat.lab.stock_env import StockCfg
from rearrange.ver.bridge import habitat
from rearrange.ver.bridge.external_python import describe, find_python
from rearrange.ver.bridge.spawning import Starter
from rearrange.ver.workers.forking import end_process

START_S = 300.0  # to import Habitat, and to load the first home
STEP_S = 120.0
SETTING = "habitat.python"  # that names Habitat's Python
_SERVING = "rearrange.eval.habitat.lab.serving"

log = logging.getLogger(__name__)


class HabitatEnv:
    """One habitat-lab environment in a process of its own.

    Args:
        python: Habitat's interpreter or its environment's folder.
        folder: of an export that has the task's episodes.
        delay: control steps by which observations are late, 0 or 1.

    Raises UserError, in one line, for a Python or folder that lacks something.
    """

    def __init__(self, python: str, folder: Path, cfg: StockCfg, delay: int = 1) -> None:
        self._delay = delay
        self._program, self._folder, self._cfg = find_python(python, SETTING), folder, cfg
        self._name, self._current = str(self._program), dict[str, np.ndarray]()
        self._start()

    def _start(self) -> None:
        self._closing = ExitStack()
        starter = Starter()
        self._closing.callback(starter.close)
        requests, self._questions = Pipe(duplex=False)
        self._answers, answers = Pipe(duplex=False)
        for pipe in (self._questions, self._answers):
            self._closing.callback(pipe.close)
        content = {"task": "call", "module": _SERVING, "folder": str(self._folder)}
        content |= {"cfg": asdict(self._cfg)}
        try:
            with requests, answers:
                fds = {"requests": requests.fileno(), "answers": answers.fileno()}
                process = starter.start(self._program, content, fds)
            self._closing.callback(end_process, process)
            self.num_episodes = int(self._heard(START_S)["num_episodes"])
        except BaseException:
            self.close()
            raise

    @property
    def current_observation(self) -> dict[str, np.ndarray]:
        """The current observation, without delay."""
        return self._current

    def reset(self, index: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The episode's first observation, and facts about it."""
        sensors, facts = self._ask({"do": "reset", "index": index})
        self._current = sensors
        return sensors, facts

    def step(self, action: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """An action of the full space, [11]; facts: success, is_over, failure, steps, force, base.

        `base` is the robot's place in our axes, [2] m; force is accumulated, N.
        """
        before = self._current
        numbers = [float(v) for v in action]
        self._current, facts = self._ask({"do": "step", "action": numbers})
        return (before if self._delay else self._current), facts

    def state(self) -> dict[str, Any]:
        """Where things are there, see `StockEnv.state`."""
        self._tell({"do": "state"})
        return self._heard(STEP_S)["state"]

    def places(self) -> dict[str, Any]:
        """Where all that moves is there, see `StockEnv.places`."""
        self._tell({"do": "places"})
        return self._heard(STEP_S)["places"]

    def memory_mb(self) -> float:
        """Most memory of the process there so far."""
        self._tell({"do": "memory"})
        return float(self._heard(STEP_S)["memory"])

    def film(self, size: int) -> None:
        """From the next reset on, pictures of that many pixels a side, or none: 0.

        Habitat draws all cameras at every step, so without them it is faster. To change it, its
        process is started anew.
        """
        if size != self._cfg.film_size:
            self.close()
            self._cfg = replace(self._cfg, film_size=size)
            self._start()

    def render(self) -> np.ndarray:
        """The scene from behind the robot, [H, W, 3] uint8; `film_size` of the settings says H."""
        self._tell({"do": "picture"})
        shape = self._heard(STEP_S)["shape"]
        return np.frombuffer(self._bytes(STEP_S), np.uint8).reshape(shape)

    def close(self) -> None:
        """Ends the process. May be called again."""
        self._closing.close()

    # --- private -------------------------------------------------------------------------------

    def _ask(self, question: dict[str, Any]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        self._tell(question)
        told = self._heard(STEP_S)
        flat, at, sensors = np.frombuffer(self._bytes(STEP_S), "<f4").copy(), 0, {}
        for name, shape in told["sensors"]:
            size = int(np.prod(shape))
            sensors[name] = flat[at : at + size].reshape(shape)
            at += size
        return sensors, told["facts"]

    def _tell(self, question: dict[str, Any]) -> None:
        with suppress(OSError):  # why it is gone is said by `_heard`
            self._questions.send_bytes(json.dumps(question).encode())

    def _heard(self, timeout_s: float) -> dict[str, Any]:
        told = json.loads(self._bytes(timeout_s))
        if "broken" in told:
            log.warning("in %s\n%s", self._name, told["where"].rstrip())
            raise UserError(f"habitat-lab in {self._name}: {told['broken']}")
        return told

    def _bytes(self, timeout_s: float) -> bytes:
        try:
            if self._answers.poll(timeout_s):
                return self._answers.recv_bytes()
        except (EOFError, OSError):
            raise UserError(f"habitat-lab in {self._name} ended before it answered") from None
        raise UserError(f"habitat-lab in {self._name} did not answer within {timeout_s:g} s")


def check_python(python: str | None) -> str:
    """The interpreter, once it is sure that Habitat is there. Raises UserError in one line."""
    if python is None:
        raise UserError(
            "backend=habitat needs habitat.python=, a Python (or its environment's folder) with "
            f"{habitat.lacking({})}"
        )
    program = str(find_python(python, SETTING))
    missing = habitat.lacking(versions_of(program))
    if missing is not None:
        raise UserError(f"{program} lacks {missing} for backend=habitat")
    return program


@lru_cache(maxsize=4)  # each asks that Python, which takes a second
def versions_of(python: str) -> dict[str, str]:
    """Of that Python and its packages. Raises UserError if workers cannot run there."""
    return describe(find_python(python, SETTING), START_S)
