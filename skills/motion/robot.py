"""Low-level programs that move Fetch's arm and base and watch for collisions.

Every program yields actions of 11 numbers and reads the simulator's state between them. Arm motions
are joint trajectories with one row per control step; the base follows paths; both run at once if
the predicted motion is free of collisions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numba import njit

from rearrange.sim.robot import fetch
from rearrange.sim.simulation import Simulation
from rearrange.skills.motion.collision import (
    BOX,
    Obstacles,
    held_spheres,
    min_clearance,
    obstacles_from_sim,
)
from rearrange.skills.motion.driving import PathFollower, wrapped
from rearrange.skills.motion.motion import plan_arm, time_parametrise
from rearrange.skills.motion.routes import RouteFollower
from rearrange.skills.skill import ACTION_SIZE, ARM, BASE, GRIP, Program

ARM_MARGIN = 0.012  # m kept from everything by planned arm motions


class Robot:
    """Fetch, with the actions and programs that oracle and teacher use."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.grip_wanted = False  # suction on although nothing is held yet
        self.phase = ""  # what the running program does, for people

    # --- actions -------------------------------------------------------------------------------

    def action(
        self, arm: np.ndarray | None = None, base: Sequence[float] | np.ndarray = (0.0, 0.0)
    ) -> np.ndarray:
        """Moves the motor targets towards `arm` [7] rad by at most a step and drives the base."""
        action = np.zeros(ACTION_SIZE, np.float32)
        if arm is not None:
            action[ARM] = np.minimum(
                np.maximum((arm - self.sim.arm_target) / fetch.MAX_ARM_STEP, -1.0), 1.0
            )
        # Suction off: nothing is gripped by accident; on: nothing is dropped.
        action[GRIP] = 1.0 if self.grip_wanted or self.sim.is_holding else -1.0
        action[BASE] = base
        return action

    # --- obstacles -----------------------------------------------------------------------------

    def world_obstacles(self, exclude: tuple[int, ...] = ()) -> Obstacles:
        """All geoms of the home in the world frame but `exclude` and the held object."""
        held = self.sim.held_object
        if held is not None:
            exclude = (*exclude, self.sim.object_geom(held))
        return obstacles_from_sim(
            self.sim.model, self.sim.data, (0.0, 0.0, 0.0), exclude, reach=50.0
        )

    def held_spheres(self) -> np.ndarray | None:
        """The held object as spheres in the end effector's frame."""
        index = self.sim.held_object
        if index is None:
            return None
        kind = self.sim.object_kind(index)
        geom = self.sim.object_geom(index)
        rotation = self.sim.ee_rot_w.T @ self.sim.data.geom_xmat[geom].reshape(3, 3)
        position = self.sim.world_to_ee(self.sim.data.geom_xpos[geom])
        return held_spheres(kind.shape, kind.size, position, rotation)

    def clearance(self, q: np.ndarray, base: tuple[float, float, float], world: Obstacles) -> float:
        """Smallest distance of arm and held object to the home at a base pose, m."""
        return min_clearance(q, near(world, base), self.held_spheres())

    # --- programs ------------------------------------------------------------------------------

    def follow_arm(self, rows: np.ndarray, until=None) -> Program:
        """Steps through joint positions [T, 7]; `until()` ends it early."""
        for row in rows:
            if until is not None and until():
                return None
            yield self.action(row)
        return None

    def settle(self, steps: int = 4) -> Program:
        """Waits for arm and base to catch up with their targets."""
        target = self.sim.arm_target.copy()
        for _ in range(steps):
            yield self.action(target)
        return None

    def move_arm(
        self, goal: np.ndarray, margin: float = ARM_MARGIN, exclude=(), until=None
    ) -> Program:
        """Plans around all obstacles and moves the arm to a posture."""
        world = self.world_obstacles(exclude)
        local = near(world, self.sim.base_pose)
        held = self.held_spheres()
        for allowed in (margin, 0.003):
            path = plan_arm(self.sim.arm_target, goal, local, held, allowed, max_iterations=1500)
            if path is not None:
                yield from self.follow_arm(time_parametrise(path), until)
                return None
        return "no free arm motion"

    def drive(
        self,
        follower: PathFollower | RouteFollower,
        arm_rows: np.ndarray | None = None,
        delay: int = 0,
        until=None,
    ) -> Program:
        """Follows a path; arm rows start after `delay` steps and continue to their end."""
        hold, step = self.sim.arm_target.copy(), 0
        while True:
            if until is not None and until():
                return None
            base = np.zeros(2) if follower.is_done else follower.act(self.sim.base_pose)
            row = hold
            if arm_rows is not None and len(arm_rows):
                row = (
                    arm_rows[min(max(step - delay, 0), len(arm_rows) - 1)]
                    if step >= delay
                    else hold
                )
            arm_done = arm_rows is None or step - delay >= len(arm_rows) - 1
            if follower.is_done and arm_done:
                return None
            if follower.is_stuck:
                return "the base is stuck"
            yield self.action(row, base)
            step += 1

    def reverse(self, distance: float, arm_rows: np.ndarray | None = None, until=None) -> Program:
        """Drives straight back (or forward, if negative) by a distance, m; the arm moves along."""
        x, y, yaw = self.sim.base_pose
        goal = np.array([x - distance * np.cos(yaw), y - distance * np.sin(yaw)])
        sign = -1.0 if distance > 0 else 1.0
        hold = self.sim.arm_target.copy()
        direction = sign * np.array([np.cos(yaw), np.sin(yaw)])
        for step in range(int(abs(distance) * 60) + 40):
            if until is not None and until():
                return None
            bx, by, byaw = self.sim.base_pose
            left = float(np.dot(goal - (bx, by), direction))
            arm_done = arm_rows is None or step >= len(arm_rows)
            if left < 0.01 and arm_done:
                return None
            speed = sign * float(np.clip(4.0 * left, 0.05, 1.0))
            turn = float(np.clip(2.0 * wrapped(yaw - byaw), -0.5, 0.5))
            row = (
                hold
                if arm_rows is None or not len(arm_rows)
                else arm_rows[min(step, len(arm_rows) - 1)]
            )
            yield self.action(row, (speed, turn))
        return "the base is blocked"

    def dock(self, pose: tuple[float, float, float]) -> Program:
        """Corrects heading and position along it to half a centimetre, not sideways."""
        hold = self.sim.arm_target.copy()
        x, y, yaw = pose
        for _ in range(45):
            bx, by, byaw = self.sim.base_pose
            ahead = float((x - bx) * np.cos(byaw) + (y - by) * np.sin(byaw))
            turn = wrapped(yaw - byaw)
            if abs(ahead) < 0.005 and abs(turn) < 0.008:
                return None
            speeds = 2.5 * ahead / fetch.MAX_BASE_SPEED, 2.5 * turn / fetch.MAX_BASE_TURN
            yield self.action(hold, np.clip(speeds, -0.3, 0.3))
        return None


def near(world: Obstacles, base, reach: float = 1.9) -> Obstacles:
    """Obstacles of the world frame that the arm could touch from a base pose, in the base frame."""
    columns = world.kind, world.pos, world.rot, world.size
    return Obstacles(*_near(*columns, float(base[0]), float(base[1]), reach)).in_base(tuple(base))


@njit(cache=True, nogil=True)
def _near(kind, pos, rot, size, x, y, reach):
    """The obstacles whose bounding circles reach that near to (x, y)."""
    is_near = np.zeros(len(kind), np.bool_)
    for k in range(len(kind)):
        if kind[k] == BOX:
            bound = np.sqrt(size[k, 0] ** 2 + size[k, 1] ** 2 + size[k, 2] ** 2)
        else:
            bound = size[k, 0] + size[k, 1]
        dx, dy = pos[k, 0] - x, pos[k, 1] - y
        is_near[k] = dx * dx + dy * dy < (reach + bound) ** 2
    return kind[is_near], pos[is_near], rot[is_near], size[is_near]


def world_to_base_axes(yaw: float) -> np.ndarray:
    """Rotation from world to base axes, [3, 3]."""
    c, s = math.cos(yaw), math.sin(yaw)
    return np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
