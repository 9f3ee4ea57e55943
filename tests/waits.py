"""Waiting for what happens elsewhere, never for a time to pass.

    a thread or a child tells: its event, its pipe, its end    Event.wait, readline, Popen.wait
    nothing tells: a file, a port, somebody else's process     wait_until, below

The pause between two looks is short, so that a test takes as long as what it waits for; a look that
takes long itself, at all processes or at a checkpoint, is followed by a pause of ten times as much.
The limit only ends a test that would wait for ever, and is generous: a busy machine is no failure.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

LIMIT_S = 120.0
PAUSE_S = 0.01


def wait_until(
    condition: Callable[[], Found],
    process: subprocess.Popen | None = None,
    limit_s: float = LIMIT_S,
    explain: Callable[[], object] = str,
) -> Found:
    """What `condition` gives as soon as that is true.

    Args:
        process: who has to make it true. Once it has ended and it is not, nothing is waited for.
        explain: what a failure says besides; called only then.

    Raises:
        AssertionError: when it is not true after `limit_s`, or can no longer become so.
    """
    end = time.monotonic() + limit_s
    while True:
        begun = time.monotonic()
        has_ended = process is not None and process.poll() is not None  # asked before the last look
        if found := condition():
            return found
        assert not has_ended, f"exit code {process.returncode}: {explain()}"
        now = time.monotonic()
        assert now < end, f"not within {limit_s:g} s: {explain()}"
        time.sleep(max(PAUSE_S, 10.0 * (now - begun)))
