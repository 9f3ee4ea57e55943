"""Drives the base with the arm kept clear: the route, the arm motion, and its timing.

    goal pose, optional arm motions  ->  base paths (direct, wide, after backing off)
        ->  predicted base poses  ->  arm clear at each?  ->  the first clear one

The arm reaches out 0.6 m; a path that is free for the base alone is not free for the robot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rearrange.sim.home.navigation import FloorPlan
from rearrange.sim.robot import fetch
from rearrange.sim.simulation import CONTROL_DT
from rearrange.skills.motion.collision import Obstacles, min_clearance
from rearrange.skills.motion.driving import PathFollower
from rearrange.skills.motion.robot import Robot, near
from rearrange.skills.motion.routes import RouteFollower, arm_footprint, overhead_plan, plan_route
from rearrange.skills.skill import Program

MARGIN = 0.03  # m kept by the arm on the way: the base follows its path to 3 cm
END_MARGIN = 0.01  # m kept where the way begins and ends
WIDE_RADII = (0.42, 0.55, 0.70)  # m, of ways on which the arm at rest has room to turn
BACKS = (0.0, 0.3, 0.6)  # m of backing off before the way proper
CORNER_RADIUS = 0.4  # m
MAX_PREDICTION = 900  # control steps
NO_ROWS = np.empty((0, 7))


@dataclass(frozen=True)
class ArmMotion:
    """Arm rows [T, 7] to play during the drive. `is_ready`: the last row is the wanted posture."""

    rows: np.ndarray
    is_ready: bool


@dataclass(frozen=True)
class BasePath:
    """A path of the base: along corners [n, 2] to a yaw, or through a route's poses [n, 3]."""

    points: np.ndarray
    yaw: float | None = None

    def follower(self) -> PathFollower | RouteFollower:
        """A fresh follower of this path."""
        if self.points.shape[1] == 3:
            return RouteFollower(self.points)
        return PathFollower(self.points, self.yaw)


@dataclass(frozen=True)
class Journey:
    """A path that was found clear."""

    back: float  # m straight back before the way
    way: BasePath
    motion: ArmMotion
    delay: int  # control steps of the way before the arm starts
    steps: int  # control steps that it takes, as predicted


def plan_journey(
    robot: Robot,
    plan: FloorPlan,
    goal,
    yaw: float | None,
    motions: Sequence[ArmMotion],
    world: Obstacles,
) -> Journey | None:
    """The first clear combination of path, arm motion and its start; None if none is clear.

    Motions come in order of preference; a still arm is tried last.
    """
    motions = [*motions, ArmMotion(NO_ROWS, False)]
    for back in BACKS:
        for backing, poses, way in _ways(robot, plan, goal, yaw, back, world):
            all_poses, first = np.concatenate([backing, poses]), len(backing)
            for motion in motions:
                for delay in _delays(len(poses), len(motion.rows)):
                    # The arm starts with the path, however long backing off takes.
                    if is_clear(robot, all_poses, motion.rows, first + delay, world):
                        steps = first + max(len(poses), delay + len(motion.rows))
                        return Journey(back, way, motion, delay, steps)
    return None


def run_journey(robot: Robot, journey: Journey) -> Program:
    """Carries it out."""
    if journey.back:
        failure = yield from robot.reverse(journey.back)
        if failure is not None:
            return failure
    return (yield from robot.drive(journey.way.follower(), journey.motion.rows, journey.delay))


def _delays(num_poses: int, num_rows: int) -> list[int]:
    if not num_rows:
        return [0]
    late = max(0, num_poses - num_rows)
    return sorted({0, late // 2, late, max(0, num_poses - num_rows // 2), max(0, num_poses - 10)})


def _ways(robot: Robot, plan: FloorPlan, goal, yaw, back, world: Obstacles):
    """Predicted base poses of backing off [B, 3] and of a path [T, 3], and the path.

    Paths are direct, around obstacles of the arm, or with room to turn.
    """
    x, y, heading = robot.sim.base_pose
    start = (x - back * np.cos(heading), y - back * np.sin(heading), heading)
    backing = (
        np.linspace((x, y, heading), start, 2 + int(back / 0.02))[1:-1]
        if back
        else np.empty((0, 3))
    )
    if back and not all(plan.is_free(*pose[:2]) for pose in [*backing[3:], start]):
        return
    path = plan.shortest_path(np.array(start[:2]), np.asarray(goal[:2]))
    if path is None:
        return
    direct = BasePath(rounded(path, plan), yaw)
    yield backing, predict(start, direct), direct
    if np.linalg.norm(np.diff(path, axis=0), axis=1).sum() < 0.5:
        return
    others = []
    for radius in WIDE_RADII:
        wide = robot.sim.floor_plan(radius)
        detour = (
            None
            if wide.largest < 0
            else wide.shortest_path(wide.snap(*start[:2]), np.asarray(goal[:2]))
        )
        if detour is not None:
            points = np.concatenate([[start[:2]], detour, [goal[:2]]])
            others.append(BasePath(rounded(points, plan), yaw))
    if not back:
        footprint = arm_footprint(robot.sim.arm_target, robot.held_spheres())
        overhead = overhead_plan(plan, world, footprint)
        poses = plan_route(plan, overhead, footprint, start, (float(goal[0]), float(goal[1])), yaw)
        if poses is not None:
            others.append(BasePath(poses))
    predicted = [predict(start, way) for way in others]
    for i in sorted(range(len(others)), key=lambda i: len(predicted[i])):
        yield backing, predicted[i], others[i]


def rounded(path: np.ndarray, plan: FloorPlan) -> np.ndarray:
    """The path [n, 2] with its corners rounded where the floor allows: no stop at each of them."""
    points = [path[0]]
    for before, corner, after in zip(path[:-2], path[1:-1], path[2:], strict=True):
        a, b = before - corner, after - corner
        length_a, length_b = np.linalg.norm(a), np.linalg.norm(b)
        if length_a < 1e-6 or length_b < 1e-6:
            continue
        turn = np.pi - np.arccos(np.clip(np.dot(a, b) / (length_a * length_b), -1.0, 1.0))
        if turn < 0.12:
            points.append(corner)
            continue
        cut = min(CORNER_RADIUS * np.tan(min(turn, 2.6) / 2.0), 0.45 * length_a, 0.45 * length_b)
        start, end = corner + cut * a / length_a, corner + cut * b / length_b
        shares = np.linspace(0.0, 1.0, max(3, int(np.ceil(turn / 0.12)) + 1))[:, None]
        arc = (1 - shares) ** 2 * start + 2 * shares * (1 - shares) * corner + shares**2 * end
        if all(plan.is_free(*point) for point in arc):
            points.extend(arc)
        else:
            points.append(corner)
    points.append(path[-1])
    return np.array(points)


def predict(start, way: BasePath) -> np.ndarray:
    """Base poses [T, 3] of a drive, by the follower on a base with a lag of 0.1 s."""
    follower = way.follower()
    x, y, yaw = (float(value) for value in start)
    poses, forward, turn = [(x, y, yaw)], 0.0, 0.0
    blend = CONTROL_DT / (CONTROL_DT + 0.07)
    for _ in range(MAX_PREDICTION):
        command = follower.act((x, y, yaw)).tolist()
        if follower.is_done or follower.is_stuck:
            break
        forward += blend * (fetch.MAX_BASE_SPEED * command[0] - forward)
        turn += blend * (fetch.MAX_BASE_TURN * command[1] - turn)
        x += CONTROL_DT * forward * math.cos(yaw)
        y += CONTROL_DT * forward * math.sin(yaw)
        yaw += CONTROL_DT * turn
        poses.append((x, y, yaw))
    return np.array(poses)


def is_clear(
    robot: Robot,
    poses: np.ndarray,
    rows: np.ndarray,
    delay: int,
    world: Obstacles,
    margin: float = MARGIN,
) -> bool:
    """Whether arm and held object stay clear on predicted poses, arm rows starting after `delay`.

    Obstacles nearer than the margin at the start may stay as near.
    """
    held = robot.held_spheres()
    hold = robot.sim.arm_target
    first = min_clearance(hold, near(world, poses[0]), held)
    total = max(len(poses), delay + len(rows))
    for step in range(0, total + 3, 4):
        pose = poses[min(step, len(poses) - 1)]
        row = hold if step < delay or not len(rows) else rows[min(step - delay, len(rows) - 1)]
        to_end = np.hypot(*(pose[:2] - poses[-1, :2]))
        from_start = np.hypot(*(pose[:2] - poses[0, :2])) + 0.1 * abs(pose[2] - poses[0, 2])
        wanted = min(margin, END_MARGIN + 0.1 * to_end)
        wanted = min(wanted, max(first, 0.0) - 0.004 + 0.15 * from_start)
        if min_clearance(row, near(world, pose), held) < wanted:
            return False
    return True
