"""A satisficing plan, quickly: greedy search with relaxed plans, one layer of goals at a time.

    goals - agenda -> layers; from layer to layer: greedy search for all goals so far, and if that
    is slow, goal by goal; if that leads nowhere, greedy search for all goals from the start

The greedy search expands the state with the shortest relaxed plan next. A state is only evaluated
when it is expanded; until then its parent's estimate orders it. Actions of the relaxed plan have
their own queue, which gets priority after progress, and each plan is followed as far as possible
(`relaxed_plans.carry_out`). Sources: Richter and Helmert, Preferred operators and deferred
evaluation in satisficing planning, ICAPS 2009, and those in `agenda.py` and `relaxed_plans.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from itertools import count

from rearrange.planner.strips.agenda import goal_layers
from rearrange.planner.strips.encoding import EncodedTask, Operator, facts_of
from rearrange.planner.strips.relaxed_plans import RelaxedPlans

LAYER_STATES = 300  # then goal by goal
GOAL_STATES = 100  # then at the cost of goals that are achieved
MAX_REPEATS = 3  # searches a goal, on average, before the agenda is given up
BOOST = 1000  # turns of the preferred actions' queue after progress, as in the source

Path = tuple[int, list[Operator]]
"""A state, and the actions that lead to it."""


class OutOfStates(Exception):
    """The greedy search has used its share of the states."""


def fast_plan(task: EncodedTask, spend: Callable[[], None]) -> list[Operator] | None:
    """A plan, or None if there is none. `spend` is called once a state and may raise."""
    greedy = _Greedy(task, spend)
    plan: list[Operator] = []
    try:
        state, done = task.init, ()
        for layer in goal_layers(task):
            state, steps, done = _next_layer(greedy, state, done, layer)
            plan += steps
        return plan
    except OutOfStates:
        pass
    path = greedy.search(task.init, task.goals)
    return None if path is None else path[1]


def _next_layer(
    greedy: _Greedy, state: int, done: tuple[int, ...], layer: tuple[int, ...]
) -> tuple[int, list[Operator], tuple[int, ...]]:
    """From a state with the goals `done` to one with those of the layer too; OutOfStates if not."""
    try:
        path = greedy.search(state, done + layer, LAYER_STATES)
        if path is None:
            raise OutOfStates
        return *path, done + layer
    except OutOfStates:
        pass
    plan: list[Operator] = []
    left = list(layer)
    for _ in range(MAX_REPEATS * (len(done) + len(layer))):
        if not left:
            return state, plan, done
        distances = {goal: greedy.distance(state, (goal,)) for goal in left}
        goal = min(left, key=distances.__getitem__)
        left.remove(goal)
        try:
            path = greedy.search(state, (*done, goal), GOAL_STATES)
        except OutOfStates:  # perhaps an achieved goal has to be undone temporarily
            path = greedy.search(state, (goal,), LAYER_STATES)
        if path is None:
            raise OutOfStates
        state, steps = path
        plan += steps
        lost = [other for other in done if not state >> other & 1]
        left += lost
        done = (*(other for other in done if other not in lost), goal)
    raise OutOfStates


Entry = tuple[int, int, int, list[int] | None, Operator | None]
"""Of a queue: estimate, number, state, its relaxed plan if known, the action still to apply."""


class _Greedy:
    def __init__(self, task: EncodedTask, spend: Callable[[], None]) -> None:
        self._relaxed = RelaxedPlans(task)
        self._spend = spend
        # An action is looked at only where that precondition holds which the fewest others share.
        sharing = [0] * len(task.literals)
        for operator in task.operators:
            for fact in operator.preconditions:
                sharing[fact] += 1
        self._operators = task.operators
        self._watching: list[list[int]] = [[] for _ in task.literals]
        self._free: list[int] = []
        for index, operator in enumerate(task.operators):
            needs = operator.preconditions
            watched = self._watching[min(needs, key=sharing.__getitem__)] if needs else self._free
            watched.append(index)

    def distance(self, state: int, goals: Sequence[int]) -> int:
        """Length of the relaxed plan; beyond all plans if there is none."""
        plan = self._relaxed.plan(state, goals)
        return len(self._operators) + 1 if plan is None else len(plan)

    def search(self, start: int, goals: Sequence[int], limit: int | None = None) -> Path | None:
        """A path to the goals, None if there is none. Raises OutOfStates after `limit` states."""
        goal_mask = sum(1 << goal for goal in goals)
        came_from: dict[int, tuple[int, list[Operator]] | None] = {start: None}
        queues: tuple[list[Entry], list[Entry]] = ([], [])  # all, preferred
        turns = [0, 0]
        number = count()
        best = len(self._operators) + 1
        jump: tuple[int, list[int] | None] | None = (start, None)
        expanded: set[int] = set()
        evaluated = 0
        while jump or queues[0] or queues[1]:
            if jump:
                state, plan = jump
                jump = None
            else:
                which = min((i for i in (0, 1) if queues[i]), key=turns.__getitem__)
                turns[which] += 1
                _, _, state, plan, operator = heappop(queues[which])
                if operator is not None:
                    parent, state = state, operator.apply(state)
                    if state in came_from:
                        continue
                    came_from[state] = (parent, [operator])
            if state & goal_mask == goal_mask:
                return state, _steps(came_from, state)
            if state in expanded:
                continue
            if plan is None:
                evaluated += 1
                self._count(evaluated, limit)
                plan = self._relaxed.plan(state, goals)
                if plan is None:
                    continue
            expanded.add(state)
            if len(plan) < best:
                best = len(plan)
                turns[1] -= BOOST
            far, steps = self._relaxed.carry_out(state, plan)
            if len(steps) > 1 and far not in came_from:
                came_from[far] = (state, steps)
                if far & goal_mask == goal_mask:
                    return far, _steps(came_from, far)
                evaluated += 1
                self._count(evaluated, limit)
                onward = self._relaxed.plan(far, goals)
                if onward is not None:
                    if len(onward) < len(plan):
                        jump = (far, onward)
                    entry = (len(onward), next(number), far, onward, None)
                    heappush(queues[0], entry)
                    heappush(queues[1], entry)
            preferred = set(plan)
            for index in self._applicable(state):
                operator = self._operators[index]
                if operator.apply(state) not in came_from:
                    entry = (len(plan), next(number), state, None, operator)
                    heappush(queues[0], entry)
                    if index in preferred:
                        heappush(queues[1], entry)
        return None

    def _count(self, evaluated: int, limit: int | None) -> None:
        self._spend()
        if limit is not None and evaluated > limit:
            raise OutOfStates

    def _applicable(self, state: int) -> list[int]:
        operators = self._operators
        return self._free + [
            index
            for fact in facts_of(state)
            for index in self._watching[fact]
            if operators[index].is_applicable(state)
        ]


def _steps(came_from: dict[int, tuple[int, list[Operator]] | None], state: int) -> list[Operator]:
    steps: list[Operator] = []
    while (before := came_from[state]) is not None:
        state, operators = before
        steps += reversed(operators)
    return steps[::-1]
