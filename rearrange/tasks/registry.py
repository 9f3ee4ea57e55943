"""The fourteen tasks by name, and how to get an environment of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium

from rearrange.errors import UserError

if TYPE_CHECKING:
    from rearrange.tasks.env import RearrangeEnv
    from rearrange.tasks.task import Task

HOME_TASKS: dict[str, str] = {
    "tidy_house": "rearrange/TidyHouse-v0",
    "prepare_groceries": "rearrange/PrepareGroceries-v0",
    "set_table": "rearrange/SetTable-v0",
    "tidy_house_easy": "rearrange/TidyHouseEasy-v0",
    "prepare_groceries_easy": "rearrange/PrepareGroceriesEasy-v0",
    "set_table_easy": "rearrange/SetTableEasy-v0",
    "rearrange_easy": "rearrange/RearrangeEasy-v0",
}
SKILL_TASKS: dict[str, str] = {
    "navigate": "rearrange/Navigate-v0",
    "pick": "rearrange/Pick-v0",
    "place": "rearrange/Place-v0",
    "open_drawer": "rearrange/OpenDrawer-v0",
    "close_drawer": "rearrange/CloseDrawer-v0",
    "open_fridge": "rearrange/OpenFridge-v0",
    "close_fridge": "rearrange/CloseFridge-v0",
}
TASKS: dict[str, str] = HOME_TASKS | SKILL_TASKS
"""Task name -> Gymnasium id."""
TASK_OF_ID: dict[str, str] = {gym_id: task for task, gym_id in TASKS.items()}


def register_all() -> None:
    """Makes the ids known to Gymnasium. Harmless when called again."""
    for task, gym_id in TASKS.items():
        if gym_id not in gymnasium.registry:
            gymnasium.register(
                gym_id, entry_point="rearrange.tasks.env:RearrangeEnv", kwargs={"task": task}
            )


def check_task(task: str) -> None:
    """Raises UserError, with the known names, for a task that does not exist."""
    if task not in TASKS:
        raise UserError(f"task must be one of {', '.join(TASKS)}; got {task!r}")


def make_env(task: str, split: str = "train", seed: int = 0, **options: Any) -> RearrangeEnv:
    """The environment itself, without Gymnasium's wrappers.

    `options` are those of `rearrange.tasks.env.RearrangeEnv`. Raises UserError for an unknown task,
    split or value.
    """
    from rearrange.tasks.env import RearrangeEnv

    return RearrangeEnv(task, split, seed, **options)


def make_task(task: str) -> Task:
    """The rules of a task. Raises UserError for one that does not exist."""
    check_task(task)
    from rearrange.tasks import articulation, home, navigate, pick, place

    if task in home.HOMES:
        return home.HomeTask(task)
    if task in articulation.ARTICULATIONS:
        return articulation.ArticulationTask(task)
    return {"navigate": navigate.NavigateTask, "pick": pick.PickTask, "place": place.PlaceTask}[
        task
    ]()
