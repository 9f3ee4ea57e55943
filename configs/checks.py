"""Checks shared by the classes of settings."""

from typing import Any

from rearrange.system.checked_json import MAX_WHOLE

MISSING: Any = "???"  # OmegaConf's marker of a mandatory value, of any type
LONGEST_S = 1e6  # longest time limit; the system's clocks count no further than 2e6 s


def check(is_right: bool, message: str) -> None:
    """Raises ValueError with the message if the condition is false."""
    if not is_right:
        raise ValueError(message)


def check_number(name: str, value: int) -> None:
    """Raises ValueError for a seed or an index that no episode has."""
    check(value >= 0, f"{name} must not be negative, got {value}")
    check(value <= MAX_WHOLE, f"{name} must be at most {MAX_WHOLE}, got {value}")
