"""The sensor `floor_way`: where to drive, as far as the head camera has seen the floor.

    floor_way  5  cosine and sine of the directions, in the base's frame, in which the way to the
                  goal goes on 0.35 and 1 m ahead; tanh(m left / 4)

It is made of the depth picture and of where the goal is (`sim/robot/seen_floor.py`): nothing that
HAB's sensors do not tell. Here the base's pose is the simulation's, which spares the environment
the picture in full size; a trained skill makes it of its observations alone
(`skills/deployed/own_way.py`).
"""

from __future__ import annotations

import math

import mujoco
import numpy as np
from gymnasium.spaces import Box

from rearrange.errors import UserError
from rearrange.sim.robot.depth import DepthCamera
from rearrange.sim.robot.seen_floor import PIXELS, SIZE, SeenFloor
from rearrange.sim.simulation import Simulation
from rearrange.tasks.rules.task import Task

FLOOR_WAY = "floor_way"
NAV_GOAL = "goal_to_agent_gps_compass"  # the sensor that says where the goal is
SPACE = Box(-1.0, 1.0, (SIZE,), np.float32)
MAX_DEPTH = 10.0  # m


class FloorWay:
    """The memory of one home's camera. Call `begin` before each episode."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self._camera = DepthCamera(model, "head", PIXELS, MAX_DEPTH)
        self._floor = SeenFloor()
        self._start = (0.0, 0.0, 0.0)  # x, y, yaw: m, rad, world

    def begin(self, sim: Simulation, goal) -> None:
        """Forgets everything; the goal is a point [2] or [3] m, world."""
        self._start = sim.base_pose
        self._floor.begin(self._from_start(goal[0], goal[1]))

    def look(self, sim: Simulation) -> None:
        """Takes in what the camera sees now. Call once in a control step."""
        x, y, yaw = sim.base_pose
        pose = (*self._from_start(x, y), yaw - self._start[2])
        self._floor.look(MAX_DEPTH * self._camera.render(sim.data), pose)

    def read(self, out: np.ndarray | None = None) -> np.ndarray:
        """The sensor, [5], as of the last look; in `out` if it is given."""
        numbers = self._floor.numbers()
        if out is None:
            return numbers
        out[:] = numbers
        return out

    def ahead(self, distance: float) -> tuple[float, float]:
        """The point so many m ahead on the way, m, in the base's frame at the last look."""
        return self._floor.ahead(distance)

    def state(self) -> tuple[np.ndarray, ...]:
        """A copy of what has been seen, for `go_on`."""
        return np.array(self._start), *self._floor.state()

    def go_on(self, state: tuple[np.ndarray, ...] | None, sim: Simulation, goal) -> None:
        """Goes on from what `state` returned; with None, of who has no such memory, begins."""
        if state is None:
            self.begin(sim, goal)
            return
        x, y, yaw = state[0].tolist()
        self._start = (x, y, yaw)
        self._floor.restore(state[1:])

    def _from_start(self, x: float, y: float) -> tuple[float, float]:
        """A point of the world in the frame of the start, m."""
        x0, y0, yaw = self._start
        dx, dy = x - x0, y - y0
        cos, sin = math.cos(yaw), math.sin(yaw)
        return cos * dx + sin * dy, cos * dy - sin * dx


def way_sensor(sim: Simulation, task: Task) -> FloorWay:
    """The sensor of a task's environment. Raises UserError for a task without Navigate's goal."""
    if NAV_GOAL not in task.sensors:
        raise UserError(f"floor_way=true needs a task with the sensor {NAV_GOAL}, got {task.name}")
    return FloorWay(sim.model)
