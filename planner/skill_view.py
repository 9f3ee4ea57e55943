"""What a skill saw in training, cut out of what a long task's environment gives.

    skill               in its own task                  in a long task
    pick                obj_start_sensor [3]             obj_start_sensor [3N] of its target
    place               obj_goal_sensor [3]              obj_goal_sensor [3N] of its target
    navigate            goal_to_agent_gps_compass [2]    obj_start_ or obj_goal_gps_compass [2N]
    open_*, close_*     marker_rel_pos, marker_js [3, 2] the same [3M, 2M], of its handle

All else is the same in both. The environment delays all of it or nothing, and so does the view.

The start sensors give where an object was at the BEGINNING of the episode, as Habitat's do. If it
was moved or dropped since, the skill still goes by that place: the robot has no sensor that would
tell it more.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rearrange.tasks.ranges import RANGES
from rearrange.tasks.registry import make_task

IMAGE = "head_depth"
SIGHTS = (IMAGE, *RANGES)
_OF_TARGET = {"obj_start_sensor": 3, "obj_goal_sensor": 3}
_OF_MARKER = {"marker_rel_pos": 3, "marker_js": 2}
_COMPASS = "goal_to_agent_gps_compass"


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
        self._parts: list[tuple[str, str, slice]] = []  # its name, where it is cut from
        for name in make_task(skill).sensors:
            source, size, place = name, 0, 0
            if name in _OF_TARGET:
                size, place = _OF_TARGET[name], target
            elif name in _OF_MARKER:
                size, place = _OF_MARKER[name], marker
            elif name == _COMPASS:
                source = f"obj_{'goal' if is_at_goal else 'start'}_gps_compass"
                size, place = 2, target
            cut = slice(size * place, size * (place + 1)) if size else slice(None)
            self._parts.append((name, source, cut))

    def __call__(self, observation: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The skill's observation, views into the given arrays."""
        view = {name: observation[source][cut] for name, source, cut in self._parts}
        view |= {name: observation[name] for name in SIGHTS if name in observation}
        return view
