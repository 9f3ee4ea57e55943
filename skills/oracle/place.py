"""Oracle skill place: puts the held object down at its goal, upright if possible, and rests."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, product

import numpy as np

from rearrange.sim.home.objects import ObjectKind
from rearrange.sim.simulation import Simulation
from rearrange.skills.motion.collision import min_clearance
from rearrange.skills.motion.kinematics import straight_line
from rearrange.skills.motion.motion import time_parametrise
from rearrange.skills.motion.reach import HandPose, ReachPlan, final_corners, plan_reach
from rearrange.skills.motion.retreat import back_off, find_reach, let_go, persist, to_rest
from rearrange.skills.motion.robot import Robot, near, world_to_base_axes
from rearrange.skills.oracle.objects import approach, object_rotation
from rearrange.skills.oracle.rehearsal import twin
from rearrange.skills.skill import ARM, BASE, GRIP, Program

RELEASE_HEIGHT = 0.012  # m above its place at which an object is released
PLACED = 0.15  # m, hab-spec 4.5
SAFELY_PLACED = 0.12  # m
FALL_STEPS = 20  # control steps until a falling object has come to rest
PLACE_TILTS = (0.0, 0.35, 0.7, 1.05, 1.3)  # rad


def place(robot: Robot, index: int, goal: np.ndarray, give_up: int = 2) -> Program:
    """Drives to where the goal is within reach, sets the held object down upright, and rests."""
    goal = np.asarray(goal, dtype=float)
    return (yield from persist(lambda attempt: _place_once(robot, index, goal, attempt), give_up))


def _place_once(robot: Robot, index: int, goal: np.ndarray, attempt: int) -> Program:
    sim = robot.sim
    if sim.held_object != index:
        if not _is_there(sim, index, goal):
            return "object lost"
        return (yield from to_rest(robot))  # an earlier attempt came this far
    reach = yield from find_reach(robot, lambda: plan_place(robot, index, goal, attempt), attempt)
    if reach is None:
        return "no reach"
    failure = yield from approach(robot, reach)
    if failure is not None:
        return failure
    corners = final_corners(robot, reach)
    yield from robot.follow_arm(time_parametrise(corners))
    yield from robot.settle(4)
    if sim.held_object != index:
        return "object lost"
    yield from _make_up_for_fall(robot, index, goal)
    yield from let_go(robot, 4)
    yield from back_off(robot, 0.06)
    failure = yield from to_rest(robot)
    if failure is None and not _is_there(sim, index, goal):
        return "not at its place"
    return failure


def _make_up_for_fall(robot: Robot, index: int, goal: np.ndarray) -> Program:
    """Moves an object that would fall over aside, if it then comes to rest nearer to its goal.

    A tall object that is released tilted may come to rest more than `PLACED` away, or off the
    table.
    """
    sim = robot.sim
    miss = _miss(robot, index, goal, np.empty((0, 7)))
    if (best := float(np.linalg.norm(miss))) < SAFELY_PLACED:
        return None
    local, held = near(robot.world_obstacles(), sim.base_pose), robot.held_spheres()
    room = min_clearance(sim.arm_target, local, held) - 0.004
    chosen = np.empty((0, 7))
    for share, rise in product((0.5, 1.0, 0.25, -0.5), (0.0, -RELEASE_HEIGHT)):
        shift = np.array([share * miss[0], share * miss[1], rise])
        shift_b = world_to_base_axes(sim.base_pose[2]) @ shift
        line = straight_line(sim.arm_target, sim.ee_pos_b + shift_b, "rotation")
        if line is None or min((min_clearance(row, local, held) for row in line), default=1) < room:
            continue
        rows = time_parametrise(np.concatenate([sim.arm_target[None], line]))
        left = float(np.linalg.norm(_miss(robot, index, goal, rows)))
        if left < best:
            best, chosen = left, rows
        if best < SAFELY_PLACED:
            break
    yield from robot.follow_arm(chosen)
    yield from robot.settle(4)


def _miss(robot: Robot, index: int, goal: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """From an object's resting place to its goal, [3] m, if released after arm motion [T, 7]."""
    with twin(robot.sim) as sim:
        other = Robot(sim)
        for action in chain(other.follow_arm(rows), other.settle(4)):
            sim.step(action[ARM], float(action[GRIP]), action[BASE])
        for _ in range(FALL_STEPS):
            sim.step(np.zeros(7), -1.0, (0.0, 0.0))
        return goal - sim.object_pos_w(index)


def _is_there(sim: Simulation, index: int, goal: np.ndarray) -> bool:
    return bool(np.linalg.norm(sim.object_pos_w(index) - goal) < PLACED)


def plan_place(robot: Robot, index: int, goal: np.ndarray, attempt: int = 0) -> ReachPlan | None:
    """How to reach a goal to set down the held object: from above, or else along the approach."""
    sim = robot.sim
    world = robot.world_obstacles()
    from_above = np.array([0.0, 0.0, 0.05])
    for pre_offset in (None, from_above) if attempt % 2 else (from_above, None):
        reach = plan_reach(
            robot, sim.floor_plan(),
            lambda heading: place_hands(sim, index, goal, heading, attempt),
            world, world, pre_offset=pre_offset, pre_distance=0.08,
        )  # fmt: skip
        if reach is not None:
            return reach
    return None


def place_hands(
    sim: Simulation, index: int, goal: np.ndarray, heading: float, attempt: int
) -> Iterable[HandPose]:
    """Hand poses that hold the object at its goal: upright where the arm can, else tilted.

    Its rotation about the vertical is free. A tilted object is released just above the surface and
    falls over there, within its own height of the goal.
    """
    ee = sim.ee_rot_w
    in_hand = ee.T @ object_rotation(sim, index)  # the object's axes in the hand
    offset = sim.world_to_ee(sim.object_pos_w(index))
    kind = sim.object_kind(index)
    # Boxes and cylinders stand on either end: take the one for which the hand comes from above.
    up = -in_hand[:, 2] if in_hand[0, 2] > 0.0 else in_hand[:, 2]
    upright = _rotation_between(ee @ up, np.array([0.0, 0.0, 1.0])) @ ee
    level = float(np.hypot(upright[0, 0], upright[1, 0]))
    if level > 0.2:  # the hand comes from the side: turn it so that it comes from the base
        azimuth = heading - float(np.arctan2(upright[1, 0], upright[0, 0]))
        turns = azimuth + np.array([0.0, 0.5, -0.5, 1.0, -1.0])
    else:
        turns = np.linspace(-np.pi, np.pi, 6, endpoint=False)
    surface = goal[2] - kind.half_height
    for tilt in PLACE_TILTS:
        lean = np.array(
            [np.sin(tilt) * np.cos(heading), np.sin(tilt) * np.sin(heading), -np.cos(tilt)]
        )
        leaning = _rotation_between(np.array([0.0, 0.0, -1.0]), lean)
        for number, turn in enumerate(turns):
            rotation = leaning @ _about_z(turn) @ upright
            height = half_extent(kind, (rotation @ in_hand)[2]) + RELEASE_HEIGHT * (1 + attempt)
            centre = np.array([goal[0], goal[1], surface + height])
            pos = centre - rotation @ offset
            penalty = 1.5 * tilt + (0.05 * number if level > 0.2 else 0.0)
            yield HandPose(pos, rotation[:, 0], rotation, penalty)


def half_extent(kind: ObjectKind, up_o: np.ndarray) -> float:
    """Extent of an object from its centre along a unit vector of its own frame, m."""
    u = np.abs(up_o)
    if kind.shape == "box":
        return float(np.dot(u, kind.size))
    if kind.shape == "cylinder":
        return float(kind.size[0] * np.hypot(u[0], u[1]) + kind.size[1] * u[2])
    return kind.size[0]


def _about_z(angle: float) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def _rotation_between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The smallest rotation that turns unit vector a into b, [3, 3]."""
    axis = np.cross(a, b)
    sin, cos = float(np.linalg.norm(axis)), float(np.dot(a, b))
    if sin < 1e-9:
        return np.eye(3) if cos > 0 else np.diag([1.0, -1.0, -1.0])
    axis /= sin
    k = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    return np.eye(3) + sin * k + (1 - cos) * (k @ k)
