"""The rules of a task, by name, and how long its episodes may last."""

from __future__ import annotations

from rearrange.sim.homes.layout import HAB, MIXED
from rearrange.tasks.rules.definition import TASKS
from rearrange.tasks.rules.names import HOME_TASKS
from rearrange.tasks.rules.task import Task, check_task

# Paths between many rooms are longer: up to 20 m, where HAB's home is crossed in 10 m.
LONGER_WAYS = 1.5  # factor on the time limits of HAB's tasks of several skills


def make_task(task: str) -> Task:
    """The rules of a task. Raises UserError for one that does not exist."""
    definition = TASKS.find(task)
    return check_task(definition.name, definition.make_rules())


def most_steps(task: Task, homes: str, drawn: str) -> int:
    """Control steps after which an episode in a home of kind `homes` is cut off.

    Args:
        drawn: the kinds that its environment draws: in mixed homes all episodes have as many.
    """
    is_far = (homes != HAB or drawn == MIXED) and task.name in HOME_TASKS
    return round((LONGER_WAYS if is_far else 1) * task.rules.max_episode_steps)
