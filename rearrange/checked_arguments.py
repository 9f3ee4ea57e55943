"""Arguments that callers give in Python, checked: what is wrong is one line.

Their counterparts for untrusted JSON are in `rearrange.system.checked_json`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from rearrange.errors import UserError
from rearrange.system.checked_json import MAX_WHOLE, quoted


def whole(name: str, value: Any, low: int, high: int = MAX_WHOLE) -> int:
    """`value` as an int from `low` to `high`; UserError otherwise."""
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not is_whole or not low <= value <= high:
        is_small = high == MAX_WHOLE and not (is_whole and value > high)
        room = f"of {low} or more" if is_small else f"from {low} to {high}"
        raise UserError(f"{name} must be a whole number {room}, got {quoted(value)}")
    return int(value)


def seed_each(seed: Any, num_envs: int) -> list[int | None]:
    """A seed for each of so many environments, or none: of `reset(seed=seed)` of a vector of them.

    Raises UserError for any that is wrong.
    """
    if seed is None:
        return [None] * num_envs
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool):
        first = int(seed)
        seed = [first + i for i in range(num_envs)]
    if not isinstance(seed, list | tuple | np.ndarray) or np.ndim(seed) != 1:
        raise UserError(f"seed must be a whole number or a list of them, got {quoted(seed)}")
    if len(seed) != num_envs:
        raise UserError(f"there must be {num_envs} seeds, got {len(seed)}")
    return [None if one is None else whole("seed", one, 0) for one in seed]


def check_flag(name: str, value: Any) -> None:
    """Raises UserError for anything but true and false."""
    if not isinstance(value, bool | np.bool_):
        raise UserError(f"{name} must be true or false, got {quoted(value)}")


def check_choice(name: str, value: Any, known: Collection[str]) -> None:
    """Raises UserError for anything but a text that is one of `known`."""
    if not isinstance(value, str) or value not in known:
        raise UserError(f"{name} must be one of {', '.join(known)}; got {quoted(value)}")


def checked_reset_options(options: Any, known: Collection[str]) -> Mapping[str, Any]:
    """The options of a reset, none for None. Raises UserError for unknown ones."""
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        line = f"reset options must be a dict with {' or '.join(known)}, got {quoted(options)}"
        raise UserError(line)
    if unknown := sorted(str(name) for name in options if name not in known):
        raise UserError(f"reset options must be {' or '.join(known)}, got {unknown}")
    return options


def reset_mask(options: Mapping[str, Any], num_envs: int) -> np.ndarray:
    """Which of so many environments a reset is for, [num_envs] bool: all without "reset_mask".

    Raises UserError for a mask that is none.
    """
    mask: Any = options.get("reset_mask", np.ones(num_envs, bool))
    if not isinstance(mask, np.ndarray) or mask.dtype != bool or mask.shape != (num_envs,):
        raise UserError(f"reset_mask must be a bool array of shape ({num_envs},)")
    return mask
