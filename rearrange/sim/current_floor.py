"""The free floor at this moment: furniture, open doors and drawers, objects on the floor.

Several callers ask for it in each control step; while nothing moves, they share one plan.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from rearrange.sim.home import furniture as fur
from rearrange.sim.home.house import Layout, floor_plan
from rearrange.sim.home.navigation import FloorPlan
from rearrange.sim.home.objects import ObjectKind

ON_FLOOR = 0.3  # m: a lower centre means that the object is on the floor; all surfaces are higher


class SimulationLike(Protocol):
    """What a floor plan needs to know of a simulation."""

    @property
    def layout(self) -> Layout: ...
    @property
    def held_object(self) -> int | None: ...
    @property
    def objects_pos_w(self) -> np.ndarray: ...
    def joint_position(self, name: str) -> float: ...
    def object_kind(self, index: int) -> ObjectKind: ...


class CurrentFloor:
    """Floor plans of a simulation; the last one for each radius is cached."""

    def __init__(self) -> None:
        self._plans: dict[float, tuple[tuple[object, ...], FloorPlan]] = {}  # radius -> key, plan

    def plan(self, sim: SimulationLike, radius: float) -> FloorPlan:
        """The plan for a robot of `radius` (m): drawers and doors as they stand, litter is
        blocked."""
        opening = {name: sim.joint_position(name) for name in fur.ARTICULATED_JOINTS}
        held = sim.held_object
        litter, places = [], sim.objects_pos_w
        for index in np.flatnonzero(places[:, 2] < ON_FLOOR).tolist():
            if index != held:
                size = sim.object_kind(index).footprint_radius
                litter.append((places[index, 0], places[index, 1], size, size, 0.0))
        key = (sim.layout, *opening.values(), *litter)
        kept = self._plans.get(radius)
        if kept is None or kept[0] != key:
            kept = self._plans[radius] = key, floor_plan(sim.layout, opening, radius, litter)
        return kept[1]
