"""Action vectors: the meaning of each number, with checks and clipping.

    slot   0..6              7                   8, 9                             10
           arm               grip                base                             stop
           x 0.0125 rad      >= 0 on, < 0 off    forward x 1.0 m/s, yaw x 2.5 rad/s > 0 stop

Three spaces. `full` has all 11 slots in every task: the VER paper's, in which any skill may
drive. `skill` has those a skill has in Habitat-lab (hab-spec 1.6). `stationary` is the paper's
ablation, as in Habitat 2.0: no base for Pick, Place and the drawers; their episodes start up to 2
m away, so not all of them can be solved.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box

from rearrange.errors import UserError
from rearrange.tasks.rules.definition import TASKS

ACTION_SIZE = 11
ARM, GRIP, BASE, STOP = slice(0, 7), 7, slice(8, 10), 10

_ALL = tuple(range(ACTION_SIZE))
ARM_GRIP = tuple(range(8))
ARM_GRIP_STOP = (*ARM_GRIP, STOP)
BASE_STOP = (8, 9, 10)
NO_STOP = tuple(range(10))
ACTION_SPACES: tuple[str, ...] = ("full", "skill", "stationary")
_NUMBERS = "fiub"  # numpy's kinds of numbers, without complex ones


def action_slots(task: str, action_space: str) -> tuple[int, ...]:
    """Slots of the full vector that the space has, in order.

    Raises UserError for an unknown task or space.
    """
    if action_space not in ACTION_SPACES:
        known = ", ".join(ACTION_SPACES)
        raise UserError(f"action_space must be one of {known}; got {action_space!r}")
    return TASKS[task].action_slots.get(action_space, _ALL)


def action_array(action: Any, shape: tuple[int, ...], what: str = "action") -> np.ndarray:
    """An action, or several, as float64. Raises UserError for another shape and for no numbers."""
    values = np.asarray(action)
    if values.shape != shape:
        raise UserError(f"{what} must have shape {shape}, got {values.shape}")
    try:
        if values.dtype.kind == "O":
            values = values.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{what} must be finite numbers: {error}") from error
    if values.dtype.kind not in _NUMBERS:
        raise UserError(f"{what} must be finite numbers, got {values.dtype}")
    return values.astype(np.float64, copy=False)


class Command(NamedTuple):
    """One action, clipped to [-1, 1]."""

    arm: list[float]  # [7]
    grip: float | None  # None: leave the grip unchanged
    base: list[float]  # [2]
    stop: bool


class ActionReader:
    """Turns an action of one space into a `Command`. A slot that the space lacks does nothing."""

    def __init__(self, slots: tuple[int, ...]) -> None:
        self.slots = slots
        self.space = Box(-1.0, 1.0, (len(slots),), np.float32)
        self._shape = (len(slots),)
        self._has_grip = GRIP in slots

    def read(self, action) -> Command:
        """The command.

        Raises UserError for a wrong shape and for numbers that are not finite.
        """
        values = action_array(action, self._shape).tolist()
        for slot, value in zip(self.slots, values, strict=True):
            if not math.isfinite(value):
                raise UserError(f"action must be finite numbers, got {value} in slot {slot}")
        return self.command([-1.0 if v < -1.0 else 1.0 if v > 1.0 else v for v in values])

    def command(self, values: list[float]) -> Command:
        """The command of numbers that are finite and clipped already."""
        full = values
        if self.slots != _ALL:
            full = [0.0] * ACTION_SIZE
            for slot, value in zip(self.slots, values, strict=True):
                full[slot] = value
        grip = full[GRIP] if self._has_grip else None
        return Command(full[ARM], grip, full[BASE], full[STOP] > 0.0)
