"""Our tasks in habitat-lab: its configuration, and what tells success there.

Runs in Habitat's Python too: numpy alone, Python 3.9.
"""

from __future__ import annotations

from typing import NamedTuple

_SKILLS = "benchmark/rearrange/skills/"
_HAB = "benchmark/rearrange/multi_task/"
_EASY, _DRAWER, _FRIDGE = "rearrange_easy", "in_drawer_1k_100", "in_fridge_1k_100"
_TIDY, _TABLE = "tidy_house_10k_1k", "set_table_10k_1k"
_GROCERIES = "prepare_groceries_10k_1k"


class StockTask(NamedTuple):
    """A task as habitat-lab has it."""

    config: str
    """habitat-lab's configuration file."""
    success: str
    """Its measure of success."""
    file: str
    """Name of its episodes' file in an export, without .json.gz."""
    own_file: str
    """That of the file which its configuration names."""
    is_grip_watched: bool = False
    """Whether a wrong or lost object ends an episode."""
    max_steps: int | None = None
    """Control steps of an episode; None: what its configuration says."""


STOCK_TASKS: dict[str, StockTask] = {
    "pick": StockTask(_SKILLS + "pick.yaml", "pick_success", "pick", _EASY, True),
    "place": StockTask(_SKILLS + "place.yaml", "place_success", "place", _EASY, True),
    "navigate": StockTask(_SKILLS + "nav_to_obj.yaml", "nav_to_obj_success", "navigate", _EASY),
    "open_drawer": StockTask(_SKILLS + "open_cab.yaml", "art_obj_success", _DRAWER, _DRAWER),
    "open_fridge": StockTask(_SKILLS + "open_fridge.yaml", "art_obj_success", _FRIDGE, _FRIDGE),
    "close_drawer": StockTask(
        _SKILLS + "close_cab.yaml", "art_obj_success", "close_drawer", _DRAWER
    ),
    "close_fridge": StockTask(
        _SKILLS + "close_fridge.yaml", "art_obj_success", "close_fridge", _FRIDGE
    ),
    "tidy_house": StockTask(_HAB + "tidy_house.yaml", "pddl_success", _TIDY, _TIDY, max_steps=5000),
    "prepare_groceries": StockTask(
        _HAB + "prepare_groceries.yaml", "pddl_success", _GROCERIES, _GROCERIES, max_steps=4000
    ),
    "set_table": StockTask(_HAB + "set_table.yaml", "pddl_success", _TABLE, _TABLE, max_steps=4500),
}
"""By the names of our tasks. HAB's three have the steps that HAB gave them (habitat-lab 0.2.2)."""


def episode_file(task: StockTask, split: str, is_export: bool) -> str:
    """Path of the task's episodes, below the folder that habitat-lab is started in."""
    name = task.file if is_export else task.own_file
    return f"data/datasets/replica_cad/rearrange/v2/{split}/{name}.json.gz"
