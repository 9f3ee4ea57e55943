"""GroundTask -> plan: breadth-first search, or A*.

`bfs` is blind and gives a shortest plan. `astar` runs twice at most:
1. A* with h_FF, which sometimes estimates too high: a good plan, but not surely a shortest one;
2. LM-cut of the start state is a length no plan can undercut. If the plan is longer, A* with LM-cut
   looks for a shorter one for a while and otherwise leaves the first.
Among equals, actions that serve an earlier goal come first, so plans follow the order of the goals.
Everything is deterministic: limits count states, never seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from rearrange.errors import UserError
from rearrange.planner.encoding import EncodedTask, Operator, encode
from rearrange.planner.grounding import GroundTask
from rearrange.planner.heuristics import INFINITE, RelaxedTask
from rearrange.planner.pddl import GroundAction

ALGORITHMS = ("astar", "bfs")

# Limits when the caller gives none. The time of a state grows with the actions, its memory does not:
# on a 2020s core some 30 s and 150 MB for the search, about 1 s for the second search.
MAX_STATES = 300_000
MAX_WORK = 20_000_000  # states x actions
SHORTEN_WORK = 40_000  # states x actions, each many times as dear with LM-cut
MIN_STATES = 1_000


class NoPlanError(UserError):
    """No sequence of actions reaches the goals."""


class SearchLimitError(UserError):
    """The search gave up; there may be a plan or not."""


def search(
    task: GroundTask, algorithm: str = "astar", max_nodes: int | None = None
) -> list[GroundAction]:
    """A plan for the task: shortest with "bfs", mostly shortest with "astar".

    `max_nodes` limits the states kept in memory; by default the limit falls with the number of actions.
    Raises NoPlanError when there is no plan, SearchLimitError when the limit is reached before.
    """
    if algorithm not in ALGORITHMS:
        raise UserError(f"algorithm must be one of {', '.join(ALGORITHMS)}, got {algorithm}")
    if max_nodes is not None and max_nodes < 1:
        raise UserError(f"max_nodes must be at least 1, got {max_nodes}")
    encoded = encode(task)
    relaxed = RelaxedTask(encoded)
    _check_reachable(task, encoded, relaxed)
    operators = _by_goal(encoded, relaxed)
    limit = max_nodes or _limit(MAX_WORK, operators)
    if algorithm == "bfs":
        plan = _breadth_first(task, encoded, operators, limit)
    else:
        plan = _a_star(task, encoded, operators, relaxed.relaxed_plan, limit, bound=INFINITE)
        least = relaxed.landmark_cut(encoded.init)
        if len(plan) > least:
            limit = min(limit, max(MIN_STATES // 10, SHORTEN_WORK // max(1, len(operators))))
            try:
                plan = _a_star(
                    task, encoded, operators, relaxed.landmark_cut, limit, bound=len(plan)
                )
            except (NoPlanError, SearchLimitError):
                pass  # nothing shorter, or not found in time: the plan stands
    return [operator.action for operator in plan]


def _limit(work: int, operators: Sequence[Operator]) -> int:
    return min(MAX_STATES, max(MIN_STATES, work // max(1, len(operators))))


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
    """The actions that add what the first goal needs, then those for the second, ..., then others."""
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
    task: GroundTask, encoded: EncodedTask, operators: Sequence[Operator], limit: int
) -> list[Operator]:
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
                _check_limit(task, len(came_from), limit)
                came_from[successor] = (state, operator)
                queue.append(successor)
    raise _exhausted(task, len(came_from))


def _a_star(
    task: GroundTask,
    encoded: EncodedTask,
    operators: Sequence[Operator],
    heuristic: Callable[[int], int],
    limit: int,
    bound: int,
) -> list[Operator]:
    """A plan shorter than `bound`. States are opened again when a shorter way to them turns up."""
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
                _check_limit(task, len(estimates), limit)
                estimate = estimates[successor] = heuristic(successor)
            if estimate >= INFINITE or length + 1 + estimate >= bound:
                continue
            lengths[successor] = length + 1
            came_from[successor] = (state, operator)
            count += 1
            heappush(queue, (length + 1 + estimate, estimate, count, length + 1, successor))
    raise _exhausted(task, len(estimates))


def _path(came_from: dict[int, tuple[int, Operator] | None], state: int) -> list[Operator]:
    plan = []
    while (step := came_from[state]) is not None:
        state, operator = step
        plan.append(operator)
    return plan[::-1]


def _check_limit(task: GroundTask, num_states: int, limit: int) -> None:
    if num_states >= limit:
        raise SearchLimitError(
            f"{task.name}: no plan within {limit:,} states; there may be one, but not within the limit:"
            " give a larger max_nodes or a smaller problem"
        )


def _exhausted(task: GroundTask, num_states: int) -> NoPlanError:
    return NoPlanError(
        f"{task.name}: no plan exists, the goals cannot hold together (tried all {num_states:,} states)"
    )
