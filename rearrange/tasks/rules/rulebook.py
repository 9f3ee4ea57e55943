"""The rules of a task, by its name."""

from __future__ import annotations

from rearrange.tasks.rules import articulation, home, navigate, pick, place
from rearrange.tasks.rules.names import check_task
from rearrange.tasks.rules.task import Task


def make_task(task: str) -> Task:
    """The rules of a task. Raises UserError for one that does not exist."""
    check_task(task)
    if task in home.HOMES:
        return home.HomeTask(task)
    if task in articulation.ARTICULATIONS:
        return articulation.ArticulationTask(task)
    return {"navigate": navigate.NavigateTask, "pick": pick.PickTask, "place": place.PlaceTask}[
        task
    ]()
