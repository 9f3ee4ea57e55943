"""Checks shared by the classes of settings."""

from typing import Any

MISSING: Any = "???"  # OmegaConf's marker of a mandatory value, of any type
LONGEST_S = 1e6  # longest time limit; the system's clocks count no further than 2e6 s


def check(is_right: bool, message: str) -> None:
    """Raises ValueError with the message if the condition is false."""
    if not is_right:
        raise ValueError(message)
