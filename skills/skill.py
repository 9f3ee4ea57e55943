"""The skill interface: reset, act until done, success or failure.

    reset(...)          chosen by the planner, once per use
    act(observation)    one action of 11 numbers in [-1, 1]: arm 7, grip, base 2, stop
    is_done             no more actions to give

Learned policies and oracles implement the same protocol, so the agent that chains them treats them
alike.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Protocol

import numpy as np

from rearrange.errors import UserError

ACTION_SIZE = 11
ARM, GRIP, BASE, STOP = slice(0, 7), 7, slice(8, 10), 10  # slots of the full action


class Skill(Protocol):
    """A skill at work on one target."""

    name: str

    def act(self, observation: Mapping[str, np.ndarray]) -> np.ndarray:
        """The next action, [11] float32."""
        ...

    @property
    def is_done(self) -> bool:
        """Whether the skill has ended, for better or worse."""
        ...

    @property
    def failure(self) -> str | None:
        """Why it failed, in a few words; None while it runs or after success."""
        ...


def checked_action(action: np.ndarray, whose: str) -> np.ndarray:
    """An action from user code. Raises UserError unless it has 11 numbers."""
    if np.shape(action) != (ACTION_SIZE,):
        raise UserError(f"{whose} must return ({ACTION_SIZE},) numbers, got {np.shape(action)}")
    return action


Program = Generator[np.ndarray, None, str | None]
"""An oracle skill as a coroutine: yields actions, returns None or the reason of failure."""


class ProgramSkill:
    """A `Program` as a `Skill`. Its last action is the stop that skill tasks wait for."""

    def __init__(self, name: str, program: Program) -> None:
        self.name = name
        self._program = program
        self._next: np.ndarray | None = None
        self._is_done = False
        self._failure: str | None = None
        self._advance()

    @property
    def is_done(self) -> bool:
        """Whether the program has ended."""
        return self._is_done

    @property
    def failure(self) -> str | None:
        """What the program returned."""
        return self._failure

    def act(self, observation: Mapping[str, np.ndarray]) -> np.ndarray:
        """The program's action; the oracle reads the simulator's state, not the observation."""
        if self._next is None:
            self._advance()
        action, self._next = self._next, None
        if action is None:
            action = np.zeros(ACTION_SIZE, np.float32)
            action[STOP] = 1.0
        return action

    def prepare(self) -> bool:
        """Computes the next action in advance, so that `is_done` is known; False if done."""
        if self._next is None and not self._is_done:
            self._advance()
        return not self._is_done

    def _advance(self) -> None:
        try:
            self._next = next(self._program)
        except StopIteration as end:
            self._is_done, self._failure = True, end.value
