"""Progress of a recording, on stderr: a changing line on a terminal, occasional lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tqdm import tqdm

from rearrange.planner.home.descriptions import describe_progress

SAY_EVERY_S = 30.0  # where there is no terminal
EVERY = 15  # control steps
CONTROL_DT = 1.0 / 30.0  # s


@contextmanager
def filming_progress(
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Gives `add(info)`, for after the reset and every step."""
    steps, said_at = -1, clock()
    bar = tqdm(bar_format="recording: {desc} | {elapsed}", file=sys.stderr, disable=None)

    def add(info: dict[str, Any]) -> None:
        nonlocal steps, said_at
        steps += 1
        if steps % EVERY:
            return
        parts = [f"{steps * CONTROL_DT:.0f} s of the robot's time"]
        parts += filter(None, [describe_progress(info.get("stages", {}))])
        if not bar.disable:
            bar.set_description_str(", ".join(parts))
        elif clock() - said_at >= SAY_EVERY_S:
            said_at = clock()
            with suppress(OSError):  # nobody listens: no reason to end
                print(f"recording: {', '.join(parts)}", file=sys.stderr, flush=True)

    try:
        yield add
    finally:
        bar.close()
