"""Our tasks in habitat-lab: its configuration, and what tells success there.

Runs in Habitat's Python too: numpy alone, Python 3.9.
"""

from __future__ import annotations

from typing import NamedTuple

_SKILLS = "benchmark/rearrange/skills/"
_HAB = "benchmark/rearrange/multi_task/"


class StockTask(NamedTuple):
    """A task as habitat-lab has it."""

    config: str
    """habitat-lab's configuration file."""
    success: str
    """Its measure of success."""
    file: str
    """Name of its episodes' file in an export, without .json.gz."""
    is_grip_watched: bool = False
    """Whether a wrong or lost object ends an episode."""
    max_steps: int | None = None
    """Control steps of an episode; None: what its configuration says."""


STOCK_TASKS: dict[str, StockTask] = {
    "pick": StockTask(_SKILLS + "pick.yaml", "pick_success", "pick", True),
    "place": StockTask(_SKILLS + "place.yaml", "place_success", "place", True),
    "navigate": StockTask(_SKILLS + "nav_to_obj.yaml", "nav_to_obj_success", "navigate"),
    "open_drawer": StockTask(_SKILLS + "open_cab.yaml", "art_obj_success", "in_drawer_1k_100"),
    "open_fridge": StockTask(_SKILLS + "open_fridge.yaml", "art_obj_success", "in_fridge_1k_100"),
    "close_drawer": StockTask(_SKILLS + "close_cab.yaml", "art_obj_success", "close_drawer"),
    "close_fridge": StockTask(_SKILLS + "close_fridge.yaml", "art_obj_success", "close_fridge"),
    "tidy_house": StockTask(
        _HAB + "tidy_house.yaml", "pddl_success", "tidy_house_10k_1k", max_steps=5000
    ),
    "prepare_groceries": StockTask(
        _HAB + "prepare_groceries.yaml", "pddl_success", "prepare_groceries_10k_1k", max_steps=4000
    ),
    "set_table": StockTask(
        _HAB + "set_table.yaml", "pddl_success", "set_table_10k_1k", max_steps=4500
    ),
}
"""By the names of our tasks. HAB's three have the steps that HAB gave them (habitat-lab 0.2.2)."""
