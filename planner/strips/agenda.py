"""Goal ordering: in which order to achieve goals so that none has to be undone.

Goal B comes before goal A if, with A achieved and the other goals not, B cannot be reached without
giving A up, even if nothing else is ever deleted: a tower is built from its foot. Source: Koehler
and Hoffmann, On reasonable and forced goal orderings, JAIR 12, 2000.
"""

from __future__ import annotations

from rearrange.planner.strips.encoding import EncodedTask, facts_of
from rearrange.planner.strips.together import facts_together


def goal_layers(task: EncodedTask) -> list[tuple[int, ...]]:
    """The goals in layers, to be achieved one after the other; each goal is in one of them."""
    if len(task.goals) < 2:
        return [task.goals]
    rows = facts_together(task)
    needed_by: list[list[int]] = [[] for _ in task.literals]
    for index, operator in enumerate(task.operators):
        for fact in operator.preconditions:
            needed_by[fact].append(index)
    before = {
        goal: facts_of(_unreachable_after(task, goal, rows[goal], needed_by)) for goal in task.goals
    }
    level = dict.fromkeys(task.goals, 0)
    for _ in task.goals:  # goals that want to precede each other end on high levels, in some order
        raised = [
            (goal, highest)
            for goal in task.goals
            if (highest := max((level[b] + 1 for b in before[goal]), default=0)) > level[goal]
        ]
        if not raised:
            break
        level.update(raised)
    return [
        tuple(goal for goal in task.goals if level[goal] == wanted)
        for wanted in sorted(set(level.values()))
    ]


def _unreachable_after(
    task: EncodedTask, goal: int, together: int, needed_by: list[list[int]]
) -> int:
    """The goals that cannot be reached from where `goal` holds alone, without deleting it."""
    reached = together & ~task.goal_mask | 1 << goal
    missing = [len(operator.preconditions) for operator in task.operators]
    facts = facts_of(reached)
    ready = [index for index, count in enumerate(missing) if count == 0]
    while facts or ready:
        if ready:
            operator = task.operators[ready.pop()]
            if operator.keep_mask >> goal & 1:
                new = operator.add_mask & ~reached
                reached |= new
                facts += facts_of(new)
            continue
        for index in needed_by[facts.pop()]:
            missing[index] -= 1
            if missing[index] == 0:
                ready.append(index)
    return task.goal_mask & ~reached
