"""Navigate: drive to the target, face it, then call stop (hab-spec 4.3).

One episode in six starts with the object in the gripper, to be taken to its goal. The
gripper keeps its state. Two things differ from Habitat-lab on purpose: penalties for force and
for a broken hold are applied (the VER paper's change; the released reward forgets them), and the
heading reward starts anew each time the robot comes within 3 m (the released one remembers the
heading it left with).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rearrange.sim.simulation import Simulation
from rearrange.tasks.rules.episode import EpisodeSpec
from rearrange.tasks.rules.rewards import Progress
from rearrange.tasks.rules.task import Rules, Task

SUCCESS_DISTANCE = 1.5  # m, planar
SUCCESS_ANGLE = math.radians(15.0)
TURN_DISTANCE = 3.0  # m, within it facing the target pays
DISTANCE_COEF, ANGLE_COEF = 1.0, 1.0
RULES = Rules(
    max_episode_steps=400, slack=-0.005, force_coef=1e-4, force_cap=0.01, force_end_penalty=1.0,
    max_accum=10_000.0, max_instant=10_000.0, violation_penalty=1.0,
)  # fmt: skip
SENSORS = ("joint", "goal_to_agent_gps_compass")


class NavigateTask(Task):
    """Success: planar distance below 1.5 m and heading error below 15 degrees at the stop."""

    def __init__(self, name: str) -> None:
        super().__init__(name, RULES, SENSORS)
        self._goal = (0.0, 0.0, 0.0)
        self._closer, self._turned = Progress(), Progress()

    def start(self, sim: Simulation, episode: EpisodeSpec) -> None:
        target = episode.targets[episode.target_index]
        self._goal = target.goal if episode.start_holding else target.start
        self._closer.forget()
        self._turned.forget()
        self.progress(sim)

    def grip_command(self, sim: Simulation, grip: float | None) -> None:
        return None

    def progress(self, sim: Simulation) -> tuple[float, None]:
        distance, angle = distance_and_angle(sim.base_pose, self._goal)
        reward = DISTANCE_COEF * self._closer.step(distance)
        if distance < TURN_DISTANCE:
            reward += ANGLE_COEF * self._turned.step(angle)
        else:
            self._turned.forget()
        return reward, None

    def is_goal_reached(self, sim: Simulation) -> bool:
        distance, angle = distance_and_angle(sim.base_pose, self._goal)
        scale = self.success_scale
        return distance < scale * SUCCESS_DISTANCE and angle < scale * SUCCESS_ANGLE


def distance_and_angle(
    base: tuple[float, float, float], point: Sequence[float] | np.ndarray
) -> tuple[float, float]:
    """Planar distance [m] from the base to a world point, and heading error [rad] in [0, pi]."""
    x, y, yaw = base
    dx, dy = point[0] - x, point[1] - y
    cos, sin = math.cos(yaw), math.sin(yaw)
    return math.hypot(dx, dy), abs(math.atan2(cos * dy - sin * dx, cos * dx + sin * dy))
