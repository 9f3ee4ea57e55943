"""The rules of a task, by name."""

from __future__ import annotations

from rearrange.tasks.rules.definition import TASKS
from rearrange.tasks.rules.task import Task, check_task


def make_task(task: str) -> Task:
    """The rules of a task. Raises UserError for one that does not exist."""
    definition = TASKS.find(task)
    return check_task(definition.name, definition.make_rules())
