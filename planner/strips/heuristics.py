"""Delete-relaxation heuristics: distances to the goals if no action deleted anything.

    h_add(fact) = 0 if the fact holds, else
                  1 + least over the actions that add it of the sum over their preconditions
    h_max       the same with the maximum for the sum; never too high
    h_FF        actions of a plan built from h_add's choices, each counted once
    LM-cut      h_max's zones cut into disjunctive landmarks, one after another; never too high

h_FF guides well: in the home it is nearly always the true distance. LM-cut is slower and tells
whether a plan is shortest. Sources: Bonet and Geffner, Planning as heuristic search, AIJ 129, 2001
(h_add, h_max); Hoffmann and Nebel, The FF planning system, JAIR 14, 2001 (h_FF); Helmert and
Domshlak, Landmarks, critical paths and abstractions: what's the difference anyway?, ICAPS 2009.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heappop, heappush

from rearrange.planner.strips.encoding import EncodedTask, facts_of

INFINITE = math.inf
"""Cost of what cannot be reached. No number: h_add doubles from level to level, without bounds."""


class RelaxedTask:
    """The task without deletes. Each action costs 1."""

    def __init__(self, task: EncodedTask) -> None:
        self.goals = task.goals
        self.num_facts = len(task.literals)
        self.preconditions = [list(operator.preconditions) for operator in task.operators]
        self.adds = [list(operator.adds) for operator in task.operators]
        self._num_preconditions = [len(needs) for needs in self.preconditions]
        self._needed_by: list[list[int]] = [[] for _ in range(self.num_facts)]
        for operator, needs in enumerate(self.preconditions):
            for fact in needs:
                self._needed_by[fact].append(operator)
        self._free = [i for i, count in enumerate(self._num_preconditions) if count == 0]

    def relaxed_plan(self, state: int) -> float:
        """Number of actions of a plan without deletes; INFINITE when there is none."""
        costs, reached_by = self.additive_costs(state, stop_at_goals=True)
        if any(costs[goal] >= INFINITE for goal in self.goals):
            return INFINITE
        # The goals first, then the dearest: what their actions bring along is not sought again.
        queue = [(-INFINITE, goal) for goal in self.goals]
        chosen: set[int] = set()
        achieved: set[int] = set()
        while queue:
            _, fact = heappop(queue)
            operator = reached_by[fact]
            if fact in achieved or operator < 0:
                continue
            chosen.add(operator)
            achieved.update(self.adds[operator])
            for needed in self.preconditions[operator]:
                if needed not in achieved and reached_by[needed] >= 0:
                    heappush(queue, (-costs[needed], needed))
        return len(chosen)

    def additive_costs(
        self, state: int, stop_at_goals: bool = False
    ) -> tuple[list[float], list[int]]:
        """h_add of each fact, and the action through which it is reached so cheaply (-1: none)."""
        costs: list[float] = [INFINITE] * self.num_facts
        reached_by = [-1] * self.num_facts
        missing = self._num_preconditions.copy()
        sums = [1] * len(missing)
        queue = [(0, fact) for fact in facts_of(state)]  # ascending, hence a heap
        for _, fact in queue:
            costs[fact] = 0
        open_goals = set(self.goals) if stop_at_goals else {-1}

        def add(operator: int) -> None:
            cost = sums[operator]
            for fact in self.adds[operator]:
                if cost < costs[fact]:
                    costs[fact], reached_by[fact] = cost, operator
                    heappush(queue, (cost, fact))

        for operator in self._free:
            add(operator)
        while queue and open_goals:
            cost, fact = heappop(queue)
            if cost > costs[fact]:
                continue
            open_goals.discard(fact)
            for operator in self._needed_by[fact]:
                sums[operator] += cost
                missing[operator] -= 1
                if missing[operator] == 0:
                    add(operator)
        return costs, reached_by

    def landmark_cut(self, state: int) -> float:
        """LM-cut of the goals: at most the length of the shortest plan; INFINITE as above."""
        action_costs = [1] * len(self.preconditions)
        start = facts_of(state)
        total = 0
        while True:
            costs, supporters = self._max_costs(start, action_costs)
            farthest = max(self.goals, key=lambda goal: costs[goal], default=None)
            if farthest is None or costs[farthest] == 0:
                return total
            if costs[farthest] >= INFINITE:
                return INFINITE
            cut = self._cut(start, farthest, supporters, action_costs)
            cheapest = min(action_costs[operator] for operator in cut)
            total += cheapest
            for operator in cut:
                action_costs[operator] -= cheapest

    def _max_costs(
        self, start: Sequence[int], action_costs: Sequence[int]
    ) -> tuple[list[float], list[int]]:
        """h_max of each fact; each action's dearest precondition (-1: has none, -2: unreached)."""
        costs: list[float] = [INFINITE] * self.num_facts
        supporters = [-2] * len(self.preconditions)
        missing = self._num_preconditions.copy()
        queue = [(0, fact) for fact in start]
        for fact in start:
            costs[fact] = 0

        def add(operator: int, cost: int) -> None:
            for fact in self.adds[operator]:
                if cost < costs[fact]:
                    costs[fact] = cost
                    heappush(queue, (cost, fact))

        for operator in self._free:
            supporters[operator] = -1
            add(operator, action_costs[operator])
        while queue:
            cost, fact = heappop(queue)
            if cost > costs[fact]:
                continue
            for operator in self._needed_by[fact]:
                missing[operator] -= 1
                if missing[operator] == 0:  # facts come by rising cost: the last is the dearest
                    supporters[operator] = fact
                    add(operator, cost + action_costs[operator])
        return costs, supporters

    def _cut(
        self,
        start: Sequence[int],
        goal: int,
        supporters: Sequence[int],
        action_costs: Sequence[int],
    ) -> list[int]:
        """The actions that lead, first on any way, into where the goal costs nothing more."""
        near_goal = self._near(goal, supporters, action_costs)
        supported: dict[int, list[int]] = {}
        for operator, fact in enumerate(supporters):
            supported.setdefault(fact, []).append(operator)
        cut: list[int] = []
        reached = set(start)
        stack = [-1, *start]  # -1 supports the actions without preconditions
        while stack:
            for operator in supported.get(stack.pop(), ()):
                if any(fact in near_goal for fact in self.adds[operator]):
                    cut.append(operator)
                    continue
                for fact in self.adds[operator]:
                    if fact not in reached:
                        reached.add(fact)
                        stack.append(fact)
        return cut

    def _near(self, goal: int, supporters: Sequence[int], action_costs: Sequence[int]) -> set[int]:
        """Facts from which supporters lead to the goal through actions that cost nothing."""
        free_ways: dict[int, list[int]] = {}
        for operator, fact in enumerate(supporters):
            if fact >= 0 and action_costs[operator] == 0:
                for added in self.adds[operator]:
                    free_ways.setdefault(added, []).append(fact)
        near, stack = {goal}, [goal]
        while stack:
            for fact in free_ways.get(stack.pop(), ()):
                if fact not in near:
                    near.add(fact)
                    stack.append(fact)
        return near
