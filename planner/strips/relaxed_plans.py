"""Relaxed plans, and how far they lead when executed as they are.

    state - h_add's choices, from the goals backwards -> relaxed plan - what of it can run -> state

The relaxed plan's length guides the search, its first actions are preferred, and the state that it
leads to is often many steps nearer to the goals. Sources: Hoffmann and Nebel, The FF planning
system, JAIR 14, 2001; Vidal, A lookahead strategy for heuristic search planning, ICAPS 2004.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from rearrange.planner.strips.encoding import EncodedTask, Operator, facts_of
from rearrange.planner.strips.heuristics import INFINITE


class RelaxedPlans:
    """For one task and any of its facts as goals."""

    def __init__(self, task: EncodedTask) -> None:
        self._operators = task.operators
        self._num_facts = len(task.literals)
        self._needs = [operator.preconditions for operator in task.operators]
        self._adds = [operator.adds for operator in task.operators]
        self._num_needs = [len(needs) for needs in self._needs]
        self._needed_by: list[list[int]] = [[] for _ in task.literals]
        for index, needs in enumerate(self._needs):
            for fact in needs:
                self._needed_by[fact].append(index)
        self._free = [index for index, count in enumerate(self._num_needs) if count == 0]

    def plan(self, state: int, goals: Sequence[int]) -> list[int] | None:
        """Numbers of actions that reach the goals without deletes, the cheap ones first.

        None: the goals cannot be reached from here, with deletes neither.
        """
        costs, reached_by, sums = self._additive_costs(state, goals)
        if any(costs[goal] >= INFINITE for goal in goals):
            return None
        queue = [(-costs[goal], goal) for goal in goals]
        queue.sort()
        chosen: dict[int, int] = {}
        achieved: set[int] = set()
        while queue:
            _, fact = heappop(queue)
            operator = reached_by[fact]
            if operator < 0 or fact in achieved:
                continue
            cost = chosen[operator] = sums[operator]
            # What it adds besides is there for dearer actions, not for those that lead to it.
            achieved.update([added for added in self._adds[operator] if costs[added] >= cost])
            for needed in self._needs[operator]:
                if needed not in achieved and reached_by[needed] >= 0:
                    heappush(queue, (-costs[needed], needed))
        return sorted(chosen, key=chosen.__getitem__)

    def _additive_costs(
        self, state: int, goals: Sequence[int]
    ) -> tuple[list[float], list[int], list[int]]:
        """h_add of each fact, its cheapest action (-1: none), each action's cost; until goals."""
        costs: list[float] = [INFINITE] * self._num_facts
        reached_by = [-1] * self._num_facts
        missing, sums = self._num_needs.copy(), [1] * len(self._num_needs)
        adds, needed_by = self._adds, self._needed_by
        buckets = {0: facts_of(state), 1: list[int]()}  # by cost, of which few occur
        waiting = [0, 1]  # a heap of these
        for fact in buckets[0]:
            costs[fact] = 0
        for operator in self._free:
            for fact in adds[operator]:
                if costs[fact] > 1:
                    costs[fact], reached_by[fact] = 1, operator
                    buckets[1].append(fact)
        open_goals = {goal for goal in goals if costs[goal]}
        while open_goals and waiting:
            cost = heappop(waiting)
            for fact in buckets.pop(cost):
                if costs[fact] != cost:  # found cheaper since
                    continue
                open_goals.discard(fact)
                for operator in needed_by[fact]:
                    missing[operator] -= 1
                    sums[operator] += cost
                    if missing[operator]:
                        continue
                    total = sums[operator]
                    for added in adds[operator]:
                        if total < costs[added]:
                            costs[added], reached_by[added] = total, operator
                            if total not in buckets:
                                buckets[total] = []
                                heappush(waiting, total)
                            buckets[total].append(added)
        return costs, reached_by, sums

    def carry_out(self, state: int, plan: Sequence[int]) -> tuple[int, list[Operator]]:
        """Where as much of a relaxed plan as can run leads, and the actions that have run."""
        steps: list[Operator] = []
        waiting = [self._operators[index] for index in plan]
        while True:
            able = [operator for operator in waiting if operator.is_applicable(state)]
            if not able:
                return state, steps
            first = len(steps)
            for operator in able:
                if operator.is_applicable(state) and not _takes_from(operator, able, state, steps):
                    state = operator.apply(state)
                    steps.append(operator)
            if len(steps) == first:  # each takes from another
                state = able[0].apply(state)
                steps.append(able[0])
            done = {id(operator) for operator in steps[first:]}
            waiting = [operator for operator in waiting if id(operator) not in done]


def _takes_from(
    operator: Operator, others: Sequence[Operator], state: int, done: Sequence[Operator]
) -> bool:
    """Whether it deletes what another that could still run now needs: a truck waits for loads."""
    gone = ~operator.keep_mask & ~operator.add_mask
    return any(
        gone & other.precondition_mask
        and other is not operator
        and other.is_applicable(state)
        and other not in done
        for other in others
    )
