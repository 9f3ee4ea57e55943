"""The rules of a task, by its name."""

from __future__ import annotations

from rearrange.tasks.rules.definition import TASKS
from rearrange.tasks.rules.task import Task


def make_task(task: str) -> Task:
    """The rules of a task. Raises UserError for one that does not exist."""
    return TASKS.find(task).make_rules()
