"""A search's limits, result and errors."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from rearrange.errors import UserError
from rearrange.planner.strips.grounding import GroundTask
from rearrange.planner.strips.pddl import GroundAction


class NoPlanError(UserError):
    """No sequence of actions reaches the goals."""


class SearchLimitError(UserError):
    """The search gave up; there may be a plan or not."""


class Plan(list[GroundAction]):
    """The actions in their order; no plan is shorter than `lower_bound`."""

    def __init__(self, steps: Iterable[GroundAction] = (), lower_bound: int = 0) -> None:
        super().__init__(steps)
        self.lower_bound = lower_bound

    @property
    def is_shortest(self) -> bool:
        """Whether it is known that no plan is shorter."""
        return len(self) <= self.lower_bound


@dataclass
class Budget:
    """The limits of a search: states, and optionally time."""

    states: int
    deadline: float | None = None  # of time.monotonic
    timeout_s: float | None = None
    used: int = 0

    def share(self, states: int) -> Budget:
        """A part of the budget for one search: some of the states, the same deadline."""
        return Budget(max(1, min(states, self.states)), self.deadline, self.timeout_s)

    def spend(self, task: GroundTask) -> None:
        """Counts a state. Raises SearchLimitError once all is used."""
        if self.used >= self.states:
            raise SearchLimitError(
                f"{task.name}: no plan within {self.states:,} states, though there may be one: give"
                " a larger max_nodes, search=fast or a smaller problem"
            )
        self.used += 1
        if self.deadline is not None and time.monotonic() > self.deadline:
            raise SearchLimitError(
                f"{task.name}: no plan within {self.timeout_s:g} s, though there may be one: give a"
                " larger timeout_s, search=fast or a smaller problem"
            )
