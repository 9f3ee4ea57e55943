"""GroundTask -> plan, with a lower bound on its length.

`auto` tries A* as far as a small problem needs it, AUTO_WORK, and goes on with `fast` (`fast.py`)
for some plan of a large one. `optimal` gives a plan that is known to be shortest, or none. `bfs` is
blind and gives a shortest plan. `astar` is the home's, in three steps:
1. A* with h_FF, which sometimes estimates too high: a good plan, but not surely a shortest one;
2. if that needs too many states, the same with h_FF counted five times: any plan, found in a hurry;
3. LM-cut of the start state is a length that no plan can undercut. If the plan is longer, A* with
   LM-cut looks for a shorter one for a while, and otherwise leaves the plan as it is.
Among equals, actions that serve an earlier goal come first, so plans follow the order of the goals.
Everything is deterministic: limits count states, and seconds only where the caller asks for that.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from rearrange.errors import UserError
from rearrange.planner.strips.budget import Budget, NoPlanError, Plan, SearchLimitError
from rearrange.planner.strips.encoding import EncodedTask, Operator, encode
from rearrange.planner.strips.fast import fast_plan
from rearrange.planner.strips.grounding import GroundTask
from rearrange.planner.strips.heuristics import INFINITE, RelaxedTask

ALGORITHMS = ("auto", "fast", "optimal", "astar", "bfs")

# Limits when the caller gives none. A state's time grows with the actions, its memory does not:
# on a core of 2020 some 30 s and 150 MB to find a plan, and about 1 s to look for a shorter one.
MAX_STATES = 300_000
MAX_WORK = 20_000_000  # states x actions
MIN_STATES = 1_000
SHORTEN_WORK = 40_000  # states x actions, each many times as dear with LM-cut
MIN_SHORTEN_STATES = 100
HURRY_AFTER = 4  # A* may use a quarter of the states before the hurried search
AUTO_WORK = 1_000_000  # states x actions of A* in `auto`: a few seconds
HURRY_WEIGHT = 5  # usual for weighted A*; it may make a plan five times too long, and rarely does


def search(
    task: GroundTask,
    algorithm: str = "astar",
    max_nodes: int | None = None,
    timeout_s: float | None = None,
) -> Plan:
    """A plan for the task: shortest with "optimal" and "bfs", mostly shortest with "astar".

    `max_nodes` limits the states kept in memory; the default falls with the number of actions.
    Raises NoPlanError when there is no plan, SearchLimitError when a limit is reached before.
    """
    if algorithm not in ALGORITHMS:
        raise UserError(f"search must be one of {', '.join(ALGORITHMS)}, got {algorithm}")
    if max_nodes is not None and max_nodes < 1:
        raise UserError(f"max_nodes must be at least 1, got {max_nodes}")
    if timeout_s is not None and not timeout_s > 0:
        raise UserError(f"timeout_s must be above 0, got {timeout_s}")
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    encoded = encode(task)
    relaxed = RelaxedTask(encoded)
    _check_reachable(task, encoded, relaxed)
    operators = _by_goal(encoded, relaxed)
    most = max_nodes or min(MAX_STATES, max(MIN_STATES, MAX_WORK // max(1, len(operators))))
    budget = Budget(most, deadline, timeout_s)
    bound = 0
    if algorithm == "bfs":
        plan = _breadth_first(task, encoded, operators, budget)
        bound = len(plan)
    elif algorithm == "fast":
        plan = _fast(task, encoded, budget)
    else:
        plan, bound = _best_first(task, encoded, operators, relaxed, budget, algorithm)
    return Plan((operator.action for operator in plan), bound)


def _best_first(
    task: GroundTask,
    encoded: EncodedTask,
    operators: Sequence[Operator],
    relaxed: RelaxedTask,
    budget: Budget,
    algorithm: str,
) -> tuple[list[Operator], int]:
    """A plan and a lower bound: by A*, and if that takes too long a plan of any length."""
    guide = relaxed.relaxed_plan
    share = budget.states // HURRY_AFTER
    if algorithm == "auto":
        share = min(share, max(MIN_SHORTEN_STATES, AUTO_WORK // max(1, len(operators))))
    try:
        plan = _a_star(task, encoded, operators, guide, budget.share(share))
    except SearchLimitError:
        if algorithm == "auto":
            return _fast(task, encoded, budget), 0
        plan = _a_star(
            task, encoded, operators, guide, budget.share(budget.states), weight=HURRY_WEIGHT
        )
    bound = int(relaxed.landmark_cut(encoded.init))  # a number, since there is a plan
    if len(plan) <= bound:
        return plan, bound
    is_optimal = algorithm == "optimal"
    return _shorten(task, encoded, operators, relaxed, budget, plan, bound, is_optimal)


def _fast(task: GroundTask, encoded: EncodedTask, budget: Budget) -> list[Operator]:
    plan = fast_plan(encoded, lambda: budget.spend(task))
    if plan is None:
        raise _exhausted(task, budget.used)
    return plan


def _shorten(
    task: GroundTask,
    encoded: EncodedTask,
    operators: Sequence[Operator],
    relaxed: RelaxedTask,
    budget: Budget,
    plan: list[Operator],
    bound: int,
    is_optimal: bool,
) -> tuple[list[Operator], int]:
    """A shortest plan if one is found that is shorter than `plan`, else `plan`; and a lower bound.

    Unless it must be optimal, it looks for a while only.
    """
    limit = max(MIN_SHORTEN_STATES, SHORTEN_WORK // max(1, len(operators)))
    budget = budget.share(budget.states if is_optimal else limit)
    guide = relaxed.landmark_cut
    try:
        plan = _a_star(task, encoded, operators, guide, budget, bound=len(plan))
    except NoPlanError:  # none that is shorter
        return plan, len(plan)
    except SearchLimitError as error:
        if not is_optimal:
            return plan, bound
        raise SearchLimitError(
            f"{str(error).replace('no plan', 'no plan known as shortest', 1)} (one of {len(plan)}"
            " steps is known)"
        ) from None
    return plan, len(plan)


def _check_reachable(task: GroundTask, encoded: EncodedTask, relaxed: RelaxedTask) -> None:
    impossible = list(encoded.impossible_goals)
    if not impossible:
        costs, _ = relaxed.additive_costs(encoded.init)
        impossible = [encoded.text(goal) for goal in encoded.goals if costs[goal] >= INFINITE]
    if impossible:
        raise NoPlanError(
            f"{task.name}: no plan exists, as no action can bring about {impossible[0]}"
        )


def _by_goal(encoded: EncodedTask, relaxed: RelaxedTask) -> list[Operator]:
    """The actions that add what the first goal needs, then the second, ..., then all others."""
    _, reached_by = relaxed.additive_costs(encoded.init)
    rank: dict[int, int] = {}  # fact -> the first goal whose relaxed plan passes through it
    for index, goal in enumerate(encoded.goals):
        stack = [goal]
        while stack:
            fact = stack.pop()
            if fact in rank or reached_by[fact] < 0:  # -1: holds already
                continue
            rank[fact] = index
            stack.extend(encoded.operators[reached_by[fact]].preconditions)
    last = len(encoded.goals)
    return sorted(encoded.operators, key=lambda o: min(rank.get(fact, last) for fact in o.adds))


def _breadth_first(
    task: GroundTask, encoded: EncodedTask, operators: Sequence[Operator], budget: Budget
) -> list[Operator]:
    budget.spend(task)
    came_from: dict[int, tuple[int, Operator] | None] = {encoded.init: None}
    queue = deque([encoded.init])
    while queue:
        state = queue.popleft()
        if state & encoded.goal_mask == encoded.goal_mask:
            return _path(came_from, state)
        for operator in operators:
            if not operator.is_applicable(state):
                continue
            successor = operator.apply(state)
            if successor not in came_from:
                budget.spend(task)
                came_from[successor] = (state, operator)
                queue.append(successor)
    raise _exhausted(task, len(came_from))


def _a_star(
    task: GroundTask,
    encoded: EncodedTask,
    operators: Sequence[Operator],
    heuristic: Callable[[int], float],
    budget: Budget,
    weight: int = 1,
    bound: float = INFINITE,
) -> list[Operator]:
    """A plan shorter than `bound`. States are opened again when a shorter way to them turns up."""
    budget.spend(task)
    lengths = {encoded.init: 0}
    estimates = {encoded.init: heuristic(encoded.init)}
    came_from: dict[int, tuple[int, Operator] | None] = {encoded.init: None}
    count = 0  # of equals the oldest first
    estimate = estimates[encoded.init]
    queue = [(estimate, estimate, count, 0, encoded.init)]
    while queue:
        _, _, _, length, state = heappop(queue)
        if length > lengths[state]:
            continue
        if state & encoded.goal_mask == encoded.goal_mask:
            return _path(came_from, state)
        for operator in operators:
            if not operator.is_applicable(state):
                continue
            successor = operator.apply(state)
            if length + 1 >= lengths.get(successor, INFINITE):
                continue
            estimate = estimates.get(successor)
            if estimate is None:
                budget.spend(task)
                estimate = estimates[successor] = heuristic(successor)
            if estimate >= INFINITE or length + 1 + estimate >= bound:
                continue
            lengths[successor] = length + 1
            came_from[successor] = (state, operator)
            count += 1
            priority = length + 1 + weight * estimate
            heappush(queue, (priority, estimate, count, length + 1, successor))
    raise _exhausted(task, len(estimates))


def _path(came_from: dict[int, tuple[int, Operator] | None], state: int) -> list[Operator]:
    plan: list[Operator] = []
    while (step := came_from[state]) is not None:
        state, operator = step
        plan.append(operator)
    return plan[::-1]


def _exhausted(task: GroundTask, num_states: int) -> NoPlanError:
    return NoPlanError(
        f"{task.name}: no plan exists, the goals cannot hold together"
        f" (tried all {num_states:,} states)"
    )
