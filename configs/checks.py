"""Checks shared by the classes of settings."""

from typing import Any

MISSING: Any = "???"  # OmegaConf's word for a value that has to be given, of whichever type
LONGEST_S = 1e6  # that is waited for anything; the system's clocks count no further than 2e6 s


def check(is_right: bool, message: str) -> None:
    """Raises ValueError with the message where it is not right."""
    if not is_right:
        raise ValueError(message)
