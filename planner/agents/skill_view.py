"""A skill's training observation, extracted from a long task's observation.

    skill               in its own task                  in a long task
    pick                obj_start_sensor [3]             obj_start_sensor [3N] of its target
    place               obj_goal_sensor [3]              obj_goal_sensor [3N] of its target
    navigate            goal_to_agent_gps_compass [2]    obj_start_ or obj_goal_gps_compass [2N]
    open_*, close_*     marker_rel_pos, marker_js [3, 2] the same [3M, 2M], of its handle, where
                                                         the environments have them

The rest is the same in both. The environment delays all observations or none, and so does the view.

The start sensors give an object's position at the BEGINNING of the episode, like Habitat's.
`shifted` moves them to the believed current position (`planner.agents.beliefs`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from rearrange.skills.definition import SKILLS
from rearrange.skills.deployed.deployment import COMPASS, Frames
from rearrange.skills.motion.driving import wrapped
from rearrange.tasks.ranges import RANGES
from rearrange.tasks.rules.rulebook import make_task

IMAGE = "head_depth"
SIGHTS = (IMAGE, *RANGES)
START = "obj_start_sensor"
_OF_TARGET = {START: 3, "obj_goal_sensor": 3}
_OF_MARKER = {"marker_rel_pos": 3, "marker_js": 2}


class SkillView:
    """The observation of one skill on one target or handle.

    Args:
        target: place of the target among those of the episode.
        is_at_goal: for navigate: to the target's goal instead of its start.
        marker: place of the handle in `tasks.home.HOME_MARKERS`.
    """

    def __init__(
        self, skill: str, target: int = 0, *, is_at_goal: bool = False, marker: int = 0
    ) -> None:
        self._parts: list[tuple[str, str, slice]] = []  # its name, the sensor it is a slice of
        task = make_task(SKILLS[skill].task)
        for name in (*task.sensors, *task.handle_sensors):
            source, size, place = name, 0, 0
            if name in _OF_TARGET:
                size, place = _OF_TARGET[name], target
            elif name in _OF_MARKER:
                size, place = _OF_MARKER[name], marker
            elif name == COMPASS:
                source = f"obj_{'goal' if is_at_goal else 'start'}_gps_compass"
                size, place = 2, target
            cut = slice(size * place, size * (place + 1)) if size else slice(None)
            self._parts.append((name, source, cut))

    def __call__(self, observation: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The skill's observation, views into the given arrays."""
        view = {
            name: observation[source][cut]
            for name, source, cut in self._parts
            if source in observation
        }
        view |= {name: observation[name] for name in SIGHTS if name in observation}
        return view


def shifted(
    view: Mapping[str, np.ndarray], offset: np.ndarray, frames: Frames
) -> dict[str, np.ndarray]:
    """A view whose object is `offset` [3] m, world, from the position of its start sensors."""
    moved = dict(view)
    if START in view:
        moved[START] = (view[START] + frames.ee.T @ offset).astype(np.float32)
    if COMPASS in view:
        rho, bearing = float(view[COMPASS][0]), frames.yaw - float(view[COMPASS][1])
        x = rho * math.cos(bearing) + float(offset[0])
        y = rho * math.sin(bearing) + float(offset[1])
        phi = wrapped(math.atan2(y, x) - frames.yaw)
        moved[COMPASS] = np.array([math.hypot(x, y), -phi], np.float32)
    return moved
