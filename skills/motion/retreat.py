"""Recovery motions: back off, come to rest, make room, start over.

Shared by all oracle skills. Each program leaves the robot clear of what it touched, or as clear as
it can.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np

from rearrange.sim.robot import fetch
from rearrange.sim.simulation import Simulation
from rearrange.skills.motion.collision import Obstacles, min_clearance
from rearrange.skills.motion.driving import PathFollower
from rearrange.skills.motion.journey import is_clear, plan_journey, run_journey
from rearrange.skills.motion.kinematics import solve_ik_many, straight_line
from rearrange.skills.motion.motion import ARM_REST, plan_arm, time_parametrise
from rearrange.skills.motion.reach import ReachPlan, is_resting
from rearrange.skills.motion.robot import ARM_MARGIN, Robot, near, world_to_base_axes
from rearrange.skills.skill import GRIP, Program

QUICK = 60  # control steps; a motion to rest this quick is taken at once
REST_RADIUS = 0.12  # m, within the 0.15 m that tasks ask for


def back_off(robot: Robot, distance: float = 0.12) -> Program:
    """Moves the hand away from what it touched: along its approach, else to the most room."""
    sim = robot.sim
    robot.phase = "backing off"
    now, here = sim.arm_target.copy(), sim.ee_pos_b
    back = -(world_to_base_axes(sim.base_pose[2]) @ sim.ee_rot_w[:, 0])
    local, held = near(robot.world_obstacles(), sim.base_pose), robot.held_spheres()
    up = np.array([0.0, 0.0, 1.0])
    inward = -np.array([here[0], here[1], 0.0]) / np.hypot(here[0], here[1])
    side = np.array([-inward[1], inward[0], 0.0])
    lift = np.array([0.0, 0.0, 0.02]) if sim.is_holding else np.zeros(3)
    ways = (back, up, 0.7 * (back + up), inward, 0.7 * (inward + up), side, -side)
    first = min_clearance(now, local, held)
    best, best_room = None, -np.inf
    for way in ways:
        line = straight_line(now, here + lift + distance * way, "approach")
        if line is None:
            line = straight_line(now, here + lift + distance * way, "position")
        if line is None or len(line) < 2:
            continue
        if min(min_clearance(row, local, held) for row in line) < min(first, ARM_MARGIN) - 0.012:
            continue
        room = min_clearance(line[-1], local, held)
        if room > best_room + 0.01:
            best, best_room = line, room
        if room > 2 * ARM_MARGIN:
            break
    if best is not None:
        yield from robot.follow_arm(time_parametrise(np.concatenate([now[None], best])))
    return None


def to_rest(robot: Robot) -> Program:
    """Brings the hand to the resting point, backing off from furniture where there is no room."""
    sim = robot.sim
    robot.phase = "to rest"
    for _ in range(3):
        if is_resting(sim.arm_qpos, REST_RADIUS) and is_resting(sim.arm_target, REST_RADIUS):
            return None
        world, held = robot.world_obstacles(), robot.held_spheres()
        plan = sim.floor_plan(0.28)
        x, y, yaw = sim.base_pose
        now = sim.arm_target.copy()
        best, best_cost = None, np.inf
        for back in (0.0, 0.15, 0.3, 0.45, 0.6, -0.2):
            steps = np.arange(0.0, abs(back) + 1e-9, 0.05) * np.sign(back)
            poses = [(x - b * np.cos(yaw), y - b * np.sin(yaw), yaw) for b in steps]
            if back and not all(plan.is_free(p[0], p[1]) for p in poses[1:]):
                continue
            rows = _rest_rows(now, near(world, poses[-1]), held)
            if rows is None:
                continue
            low = min(min_clearance(now, near(world, p), held) for p in poses)
            if low < min(0.008, min_clearance(now, near(world, poses[0]), held) - 0.004):
                continue  # backing off with this posture would hit something
            together = back == 0.0 or is_clear(robot, np.array(poses), rows, 0, world, 0.015)
            cost = max(len(rows), 45 * abs(back)) if together else len(rows) + 45 * abs(back)
            if cost < best_cost:
                best_cost = cost
                best = (
                    (back, rows, rows[:0])
                    if back == 0.0 or not together
                    else (back, rows[:0], rows)
                )
            if best_cost < QUICK:
                break
        if best is None:
            failure = yield from robot.move_arm(ARM_REST, until=lambda: _at_rest(sim))
            if failure is not None:
                yield from free_up(robot)
            continue
        back, rows, together = best
        if back:
            failure = yield from robot.reverse(back, together if len(together) else None)
            if failure is not None and not sim.is_holding:
                return failure
        if len(rows):
            yield from robot.follow_arm(rows, until=lambda: _at_rest(sim))
        yield from robot.settle(3)
    return None if _at_rest(sim) else "no way to rest"


def _rest_rows(now: np.ndarray, local: Obstacles, held) -> np.ndarray | None:
    """The shortest clear arm motion [T, 7] that brings the hand to the resting point, or None."""
    near_by = solve_ik_many(
        fetch.EE_REST_B, None, now, num_solutions=3, preferred=now, posture_gain=0.2, num_restarts=6
    )
    postures = [ARM_REST, *near_by]
    postures.sort(key=lambda q: float(np.abs(q - now).max()))
    for posture in postures:
        if min_clearance(posture, local, held) < ARM_MARGIN:
            continue
        path = plan_arm(now, posture, local, held, ARM_MARGIN, max_iterations=500)
        if path is not None:
            return time_parametrise(path)
    return None


def _at_rest(sim: Simulation) -> bool:
    return bool(np.linalg.norm(sim.ee_pos_b - fetch.EE_REST_B) < REST_RADIUS)


def free_up(robot: Robot) -> Program:
    """Moves arm and base away from what is too near, by the small motion that gains most room."""
    sim = robot.sim
    world, held = robot.world_obstacles(), robot.held_spheres()
    plan = sim.floor_plan(0.27)
    x, y, yaw = sim.base_pose
    now = sim.arm_target.copy()
    first = min_clearance(now, near(world, (x, y, yaw)), held)
    best, best_room = None, first + 0.01
    for back in (0.1, 0.2, 0.3, -0.1, -0.2):
        pose = (x - back * np.cos(yaw), y - back * np.sin(yaw), yaw)
        if not plan.is_free(pose[0], pose[1]):
            continue
        room = min(min_clearance(now, near(world, pose), held), 0.05) - 0.02 * abs(back)
        if room > best_room:
            best, best_room = back, room
    if best is not None and best_room > ARM_MARGIN - 0.004:
        yield from robot.reverse(best)
    else:
        yield from back_off(robot)
    return None


def recover(robot: Robot, count: int) -> Program:
    """After a failure: away from what is touched, arm to rest, to an open place nearby.

    `count` varies which place.
    """
    sim = robot.sim
    robot.phase = "recovering"
    if robot.clearance(sim.arm_target, sim.base_pose, robot.world_obstacles()) < ARM_MARGIN:
        yield from free_up(robot)
    plan = sim.floor_plan()
    x, y, _ = sim.base_pose
    island = plan.island(*plan.snap(x, y))
    cells = np.array(
        [c for c in plan.free_cells_near(x, y, 0.4, 1.5)[::7] if plan.island(*c) == island]
    )
    if not len(cells):
        return None
    room = np.array([plan.clearance_at(*cell) for cell in cells])
    order = np.argsort(-np.minimum(room, 0.8), kind="stable")
    goal = cells[order[(count * 3) % len(order)]]
    for is_rested in (False, True):
        if is_rested:
            yield from robot.move_arm(ARM_REST)
        journey = plan_journey(robot, plan, goal, None, (), robot.world_obstacles())
        if journey is not None:
            yield from run_journey(robot, journey)
            return None
    # Nothing is clear for the arm: the base's own path out.
    path = plan.shortest_path(np.asarray(sim.base_pose[:2]), goal)
    if path is not None:
        yield from robot.drive(PathFollower(path))
    return None


def find_reach(
    robot: Robot, plan: Callable[[], ReachPlan | None], attempt: int
) -> Generator[np.ndarray, None, ReachPlan | None]:
    """The result of `plan` from here, or else from somewhere with more room; None if neither."""
    reach = plan()
    if reach is None:
        yield from recover(robot, attempt)
        reach = plan()
    return reach


def let_go(robot: Robot, steps: int = 3) -> Program:
    """Suction off, arm and base still."""
    target = robot.sim.arm_target.copy()
    robot.grip_wanted = False
    for _ in range(steps):
        action = robot.action(target)
        action[GRIP] = -1.0
        yield action
    return None


def persist(once: Callable[[int], Program], tries: int) -> Program:
    """Runs `once(attempt)` until it works, at most `tries` times."""
    failure = None
    for attempt in range(tries):
        failure = yield from once(attempt)
        if failure is None:
            return None
    return failure
