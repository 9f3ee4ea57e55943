"""What the page says: keys, the mouse, and what its buttons ask for.

    {"held": ["w", "ArrowUp"], "pressed": [" "], "orbit": [12, -3], "zoom": 0.1,
     "hand": [0.01, 0, -0.02], "ask": "drive", "value": "oracle"}

Everything may be left out but `held`. Keys have the names that browsers give them, letters small.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from rearrange.system.checked_json import strict_json

MAX_KEYS = 16  # at a time
MAX_TEXT = 300  # characters of an answer
FARTHEST = 1e4  # pixels, metres: no screen is larger
REQUESTS = (
    "again", "drive", "episode", "limit", "next", "pause", "save", "speed", "split",
    "start", "step", "task",
)  # fmt: skip


class Said(NamedTuple):
    """One message."""

    held: frozenset[str]
    """Keys that are down."""
    pressed: tuple[str, ...] = ()
    """Keys that went down since the last message."""
    orbit: tuple[float, float] = (0.0, 0.0)
    """How far the camera was dragged, pixels to the right and down."""
    zoom: float = 0.0
    """Above 0: away; 1 is e times as far."""
    hand: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """How far the hand was dragged: pixels to the right and up in the picture, steps away."""
    ask: str = ""
    """One of `REQUESTS`, or nothing."""
    value: str | int | float | bool | None = None
    """What goes with it."""


NOTHING = Said(frozenset())


def parse(body: bytes) -> Said:
    """The message in a request. Raises ValueError for what is none."""
    try:
        found = strict_json(body.decode())
        unknown = set(found) - set(Said._fields)
        ask, value = found.get("ask", ""), found.get("value")
        said = Said(
            frozenset(_keys(found["held"])),
            tuple(_keys(found.get("pressed", []))),
            _numbers(found.get("orbit", [0, 0]), 2),
            _numbers([found.get("zoom", 0)], 1)[0],
            _numbers(found.get("hand", [0, 0, 0]), 3),
            ask,
            value,
        )
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no message: {error}") from error
    if unknown or (ask and ask not in REQUESTS):
        raise ValueError(f"unknown {sorted(unknown) or ask}")
    if not isinstance(value, str | int | float | bool | None):
        raise ValueError("a value is a text, a number or a truth")
    if isinstance(value, str) and len(value) > MAX_TEXT:
        raise ValueError(f"a text has at most {MAX_TEXT} characters")
    return said


def _keys(values: Any) -> list[str]:
    if not isinstance(values, list) or len(values) > MAX_KEYS:
        raise ValueError(f"keys are a list of at most {MAX_KEYS}")
    if not all(isinstance(key, str) and len(key) < 32 for key in values):
        raise ValueError("keys are short strings")
    return [key.lower() if len(key) == 1 else key for key in values]


def _numbers(values: Any, count: int) -> tuple[Any, ...]:
    if not isinstance(values, list) or len(values) != count:
        raise ValueError(f"{count} numbers are needed")
    for value in values:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value) or abs(value) > FARTHEST:
            raise ValueError(f"a number up to {FARTHEST:g} is needed")
    return tuple(float(value) for value in values)
