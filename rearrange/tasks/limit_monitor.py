"""Watches the robot's limits under any behaviour: joint speeds, contact depth, walls.

with LimitMonitor(env.sim) as watch: ... env.step(...) ...   ->   watch.summary()
"""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from rearrange.sim.robot import fetch
from rearrange.sim.simulation import Simulation

_LIMITS = np.array([joint.max_velocity for joint in fetch.ARM_JOINTS])  # rad/s


class LimitMonitor:
    """Looks at every substep of a simulation, where contacts are found. One at a time."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        first = int(sim.model.joint(fetch.ARM_JOINTS[0].name).dofadr[0])
        self._arm = slice(first, first + len(fetch.ARM_JOINTS))
        self._is_robot = np.zeros(sim.model.ngeom, dtype=bool)
        base = sim.model.body("base_link").id
        self._is_robot[sim.model.body_rootid[sim.model.geom_bodyid] == base] = True
        self.speed_ratio = 0.0
        """Largest speed of an arm joint, as a share of its limit."""
        self.depth = 0.0
        """Deepest contact of robot, objects and home, m."""
        self.robot_depth = 0.0
        """Deepest contact that the robot has a part in, m."""
        self.worst = ""
        """Between what the deepest contact was."""
        self.outside = 0
        """Control steps with the base beyond the outer walls, or an object below the floor."""

    def __enter__(self) -> LimitMonitor:
        mujoco.set_mjcb_control(self._look)
        return self

    def __exit__(self, *error: object) -> None:
        mujoco.set_mjcb_control(None)

    def _look(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        if model.opt.timestep < 1e-6:  # putting things to sleep, see `Simulation`
            return
        ratio = float((np.abs(data.qvel[self._arm]) / _LIMITS).max())
        self.speed_ratio = max(self.speed_ratio, ratio)
        if not data.ncon:
            return
        # What is parked far below lies in the floor for good.
        depth = np.where(data.contact.pos[:, 2] > -1.0, -data.contact.dist, 0.0)
        deepest = int(depth.argmax())
        if depth[deepest] > self.depth:
            self.depth = float(depth[deepest])
            names = (model.geom(int(geom)).name for geom in data.contact.geom[deepest])
            self.worst = f"{' and '.join(names)} in {self._sim.layout.id}"
        is_robot = self._is_robot[data.contact.geom].any(axis=1)
        if is_robot.any():
            self.robot_depth = max(self.robot_depth, float(depth[is_robot].max()))

    def after_step(self) -> None:
        """Call after each control step: is all still in the home?"""
        sim = self._sim
        x, y, _ = sim.base_pose
        xmin, ymin, xmax, ymax = sim.layout.bounds
        is_in = xmin < x < xmax and ymin < y < ymax
        heights = [sim.object_pos_w(i)[2] for i in range(sim.num_objects)]
        self.outside += not (is_in and min(heights, default=0.0) > -0.02)

    def summary(self) -> dict[str, Any]:
        """The worst of everything watched, depths in mm."""
        return {
            "worst_joint_speed": round(self.speed_ratio, 3),
            "worst_depth_mm": round(1000 * self.depth, 1),
            "worst_robot_depth_mm": round(1000 * self.robot_depth, 1),
            "worst_between": self.worst,
            "outside": self.outside,
        }
