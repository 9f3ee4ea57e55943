"""The fourteen tasks by name: the one place where names and Gymnasium ids stand."""

from __future__ import annotations

from rearrange.errors import UserError

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


def check_task(task: str) -> None:
    """Raises UserError, with the known names, for a task that does not exist."""
    if task not in TASKS:
        raise UserError(f"task must be one of {', '.join(TASKS)}; got {task!r}")
