"""The sensor `floor_way`: where to drive, as far as the head camera has seen the floor.

    floor_way  5  cosine and sine of the directions, in the base's frame, in which the way to the
                  goal goes on 0.35 and 1 m ahead; tanh(m left / 4), for a goal of the arm's / 1

It is made of the depth picture, of where the goal is and how the arm is bent
(`sim/robot/seen_floor.py`): nothing that HAB's sensors do not tell. Here the base's pose is the
simulation's, which spares the environment the picture in full size; a trained skill makes it of its
observations alone (`skills/deployed/own_way.py`).
"""

from __future__ import annotations

import math
from collections.abc import Collection

import mujoco
import numpy as np
from gymnasium.spaces import Box

from rearrange.errors import UserError
from rearrange.sim.robot import fetch
from rearrange.sim.robot.depth import DepthCamera
from rearrange.sim.robot.seen_floor import (
    DRIVING,
    PIXELS,
    REACHING,
    SIZE,
    Ends,
    SeenFloor,
    in_frame,
)
from rearrange.sim.simulation import Simulation
from rearrange.tasks.rules.task import Task

FLOOR_WAY = "floor_way"
NAV_GOAL, START, GOAL = "goal_to_agent_gps_compass", "obj_start_sensor", "obj_goal_sensor"
ENDS = {NAV_GOAL: DRIVING, START: REACHING, GOAL: REACHING}  # by the sensor of the goal
SPACE = Box(-1.0, 1.0, (SIZE,), np.float32)
MAX_DEPTH = 10.0  # m


class FloorWay:
    """The memory of one home's camera. Call `begin` before each episode."""

    def __init__(self, model: mujoco.MjModel, ends: Ends) -> None:
        self._camera = DepthCamera(model, "head", PIXELS, MAX_DEPTH)
        self._floor = SeenFloor(ends)
        self._start = (0.0, 0.0, 0.0)  # x, y, yaw: m, rad, world
        self._joints = np.array([model.joint(joint.name).id for joint in fetch.ARM_JOINTS])

    def begin(self, sim: Simulation, goal) -> None:
        """Forgets everything; the goal is a point [3] m, world."""
        self._start = sim.base_pose
        x, y, height = (float(value) for value in goal)
        self._floor.begin(in_frame(self._start, (x, y)), height)

    def look(self, sim: Simulation) -> None:
        """Takes in what the camera sees now. Call once in a control step."""
        x, y, yaw = sim.base_pose
        pose = (*in_frame(self._start, (x, y)), yaw - self._start[2])
        depth = MAX_DEPTH * self._camera.render(sim.data)
        self._floor.look(depth, pose, self._arm(sim))

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

    def end(self) -> tuple[float, float]:
        """Where the way ends, m, in the base's frame at the last look."""
        return self._floor.end()

    def left(self) -> float:
        """Length of the way that is left, m."""
        return self._floor.left()

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

    def _arm(self, sim: Simulation) -> np.ndarray:
        """The arm's joints and the hand, [8, 3] m, in the base's frame."""
        x, y, yaw = sim.base_pose
        points = np.vstack([sim.data.xanchor[self._joints], sim.ee_pos_w])
        cos, sin = math.cos(yaw), math.sin(yaw)
        dx, dy = points[:, 0] - x, points[:, 1] - y
        return np.column_stack([cos * dx + sin * dy, cos * dy - sin * dx, points[:, 2]])


def goal_sensor(sensors: Collection[str]) -> str | None:
    """The one of these sensors that says where the goal of the way is; None: there is none."""
    return next((name for name in ENDS if name in sensors), None)


def way_sensor(sim: Simulation, task: Task) -> FloorWay:
    """The sensor of a task's environment. Raises UserError for a task without a single goal."""
    name = goal_sensor(task.sensors)
    if name is None or (name != NAV_GOAL and task.num_targets != 1):
        known = ", ".join(ENDS)
        raise UserError(f"floor_way=true needs a task of one target with one of {known}")
    return FloorWay(sim.model, ENDS[name])
