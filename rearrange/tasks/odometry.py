"""What the robot did in the last control step, by its wheels and joints.

    motion  9  the base's way ahead and its turn, then the 7 joints' ways, each as a share of the
               longest that an action can ask for: what the action before would be if all had gone
               as asked for

A robot that is stuck does not move as it wants to. Position sensors tell that only to who compares
two of their readings to the millimetre, which a network does not. Habitat's Fetch has no such
sensor, the real one has wheel and joint encoders.
"""

from __future__ import annotations

import math

import numpy as np
from gymnasium.spaces import Box

from rearrange.sim import fetch
from rearrange.sim.simulation import Simulation

MOTION = "motion"
MOTION_SIZE = 9
BOUND = 20.0  # no motion of a control step is that much longer than the longest asked for
_LONGEST = np.array(
    [fetch.MAX_BASE_SPEED / 30.0, fetch.MAX_BASE_TURN / 30.0] + [fetch.MAX_ARM_STEP] * 7
)  # m, rad a control step


class MotionSensor:
    """Reads `motion`, once a control step."""

    def __init__(self) -> None:
        self._base, self._arm = (0.0, 0.0, 0.0), np.zeros(7)

    def spaces(self) -> dict[str, Box]:
        return {MOTION: Box(-BOUND, BOUND, (MOTION_SIZE,), np.float32)}

    def start(self, sim: Simulation) -> None:
        """An episode begins: nothing has moved yet."""
        self._base, self._arm = tuple(sim.base_pose), sim.arm_qpos.copy()

    def read(self, sim: Simulation) -> dict[str, np.ndarray]:
        """The way since the last reading; the array is a new one."""
        (x0, y0, yaw0), (x, y, yaw) = self._base, sim.base_pose
        middle = 0.5 * (yaw0 + yaw)
        ahead = (x - x0) * math.cos(middle) + (y - y0) * math.sin(middle)
        way = np.concatenate([[ahead, yaw - yaw0], sim.arm_qpos - self._arm])
        way[1:] = (way[1:] + math.pi) % (2.0 * math.pi) - math.pi
        self._base, self._arm = (x, y, yaw), sim.arm_qpos.copy()
        return {MOTION: np.clip(way / _LONGEST, -BOUND, BOUND).astype(np.float32)}
