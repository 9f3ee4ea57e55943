"""Task names and their Gymnasium ids, live from the registry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from rearrange.tasks.rules.definition import TASKS as DEFINITIONS
from rearrange.tasks.rules.definition import TaskDefinition


class _View(Mapping[str, str]):
    """A live mapping from one field to another, of the tasks that satisfy a condition."""

    def __init__(
        self, is_chosen: Callable[[TaskDefinition], bool], key: str = "name", value: str = "env_id"
    ) -> None:
        self._is_chosen, self._key, self._value = is_chosen, key, value

    def _dict(self) -> dict[str, str]:
        return {
            getattr(task, self._key): getattr(task, self._value)
            for task in DEFINITIONS.values()
            if self._is_chosen(task)
        }

    def __getitem__(self, key: str) -> str:
        return self._dict()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._dict())

    def __len__(self) -> int:
        return len(self._dict())


HOME_TASKS = _View(lambda task: task.is_planned)
"""Tasks that need a plan: name -> Gymnasium id."""
SKILL_TASKS = _View(lambda task: not task.is_planned)
"""Tasks of one skill: name -> Gymnasium id."""
TASKS = _View(lambda task: True)
"""Task name -> Gymnasium id."""
TASK_OF_ID = _View(lambda task: True, "env_id", "name")
"""Gymnasium id -> task name."""
