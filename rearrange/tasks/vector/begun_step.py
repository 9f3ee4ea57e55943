"""What a vector of homes remembers between the two halves of a step.

    step_async: Python's part of the homes' motion --> jobs, which helpers do at once
    step_wait:  rewards, sensors, pictures         --> what `step` returns

Whatever else would move or read the homes meanwhile is refused.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np
from gymnasium.error import AlreadyPendingCallError
from gymnasium.vector import SyncVectorEnv

from rearrange.errors import UserError
from rearrange.sim.native.addresses import address_of
from rearrange.tasks.actions import Command, action_array
from rearrange.tasks.vector.job_board import JobBoard


class PictureCopies(NamedTuple):
    """Where pictures lie and are copied to: addresses of the first, and bytes of each, 0: none."""

    source: int = 0
    target: int = 0
    size: int = 0

    @classmethod
    def between(cls, source: np.ndarray, target: np.ndarray) -> PictureCopies:
        """Arrays of the same shape, a row for each home."""
        return cls(address_of(source), address_of(target), source[0].nbytes)

    def of(self, home: int) -> tuple[int, int, int]:
        return self.source + home * self.size, self.target + home * self.size, self.size


class BegunStep:
    """A step whose motion is under way.

    Args:
        owner: of the worlds that move. The jobs are ended when it is forgotten.

    Attributes:
        moving: home -> its command, and the job of its physics.
        errors: of homes that could not begin.
    """

    def __init__(self, owner: object, board: JobBoard) -> None:
        self.board = board
        self.moving: dict[int, tuple[Command, int]] = {}
        self.errors: dict[int, Exception] = {}
        self._end = weakref.finalize(owner, board.close)

    def close(self) -> None:
        """Returns when no job is being done any more."""
        self._end()


class HalvedVectorEnv(SyncVectorEnv):
    """A vector environment that refuses calls while a step is under way."""

    _begun: BegunStep | None = None  # between `step_async` and `step_wait`

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """As Gymnasium's; `get_attr` calls it."""
        self._check_idle(name)
        return super().call(name, *args, **kwargs)

    def set_attr(self, name: str, values: Any) -> None:
        self._check_idle("set_attr")
        super().set_attr(name, values)

    def render(self) -> Any:
        self._check_idle("render")
        return super().render()

    def _check_idle(self, call: str) -> None:
        if self._begun is not None:
            raise AlreadyPendingCallError(f"{call}: a step is under way, call step_wait", "step")


def clipped_actions(actions: Any, shape: tuple[int, ...], still: np.ndarray) -> list[list[float]]:
    """The actions of N homes, [N][A], in [-1, 1].

    Args:
        shape: (N, A).
        still: homes that do not move, [N] bool, which may have any numbers.

    Raises UserError for a wrong shape, or for a number that is not finite.
    """
    values = action_array(actions, shape, "actions")
    clipped = np.clip(values, -1.0, 1.0).tolist()
    if np.isfinite(values).all():
        return clipped
    wrong = ~np.isfinite(values)
    wrong[still] = False
    for home, slot in np.argwhere(wrong)[:1].tolist():
        got = f"{values[home, slot]} in row {home}, column {slot}"
        raise UserError(f"actions must be finite numbers, got {got}: no home has moved")
    return clipped
