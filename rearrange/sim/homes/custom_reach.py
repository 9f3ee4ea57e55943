"""What the arm has to reach in a home of one's own, beyond what `check_usable` asks of all homes.

Procedural homes need no such check: their furniture has usual heights, and stands in rooms.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rearrange.sim.home.house import (
    REACH_MAX,
    REACH_MIN,
    Layout,
    floor_plan,
)
from rearrange.sim.home.navigation import FloorPlan
from rearrange.sim.home.standing import is_cut_off

# m, of surfaces. The oracle picks from and places on tables from 0.1 to 1.3 m; at 1.4 m it finds no
# posture to pick in. Lower ones are no furniture.
LOWEST, HIGHEST = 0.1, 1.3


def unreached(layout: Layout, spots: Mapping[str, np.ndarray]) -> tuple[str, str, str] | None:
    """A piece with a surface or container that no arm reaches, what must hold, and what came.

    Among furniture in a room of its own a surface may be hard to reach, as in a few procedural
    homes: it then holds no targets. One that walls keep from all the robot's floor is a mistake.

    Args:
        spots: of the layout, by receptacle.
    """
    plan = floor_plan(layout, {})
    for receptacle in layout.receptacles:
        height = round(receptacle.pos[2], 3)
        if receptacle.kind == "open" and not LOWEST <= height <= HIGHEST:
            must = f"hold objects {LOWEST:g} to {HIGHEST:g} m above the floor, where the arm works"
            return receptacle.piece, must, f"{height:g} m"
        for x, y in spots[receptacle.name]:
            if any(_is_in_sight(plan, layout.walls, x, y, far) for far in (REACH_MAX, np.inf)):
                break
        else:
            must = "be in a room that the robot gets into: move it or add a doorway"
            return receptacle.piece, must, "walls all around"
    return None


def _is_in_sight(plan: FloorPlan, walls: np.ndarray, x: float, y: float, far: float) -> bool:
    """Whether some of the robot's floor, `far` m away at most, has no wall before a place."""
    stands = plan.free_cells_near(x, y, REACH_MIN, far)
    return not is_cut_off(stands, (x, y), walls).all()
