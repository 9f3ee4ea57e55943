"""Oracle skills for drawers and the fridge: open by the handle, close by pushing.

Quick programs come first (`still_drawers`, `still_fridge`: arm held still, rehearsed), then the
general ones:

    open    hand to the handle -> suction -> along the handle's path, arm and base together
                -> let go -> rest
    close   hand to the outside of the front -> along the same path backwards, pushing -> rest

A point of a drawer moves on a line, one of a door on an arc; both follow from the joint's value.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

import numpy as np

from rearrange.sim.home import furniture as fur
from rearrange.sim.home.furniture import piece_to_world
from rearrange.sim.simulation import Simulation
from rearrange.skills.motion.kinematics import MAX_BASE_FORWARD, MAX_BASE_TURN, whole_body_step
from rearrange.skills.motion.motion import ARM_REST, time_parametrise
from rearrange.skills.motion.reach import HEADINGS, HandPose, ReachPlan, final_corners, plan_reach
from rearrange.skills.motion.retreat import back_off, let_go, persist, to_rest
from rearrange.skills.motion.robot import Robot, world_to_base_axes
from rearrange.skills.oracle import still_drawers as doors_drawers
from rearrange.skills.oracle import still_fridge as doors_fridge
from rearrange.skills.oracle.objects import approach
from rearrange.skills.skill import Program

OPEN_VALUE = {"drawer": 0.455, "fridge": 1.38}  # m, rad: target of the hand
IS_OPEN = {"drawer": 0.41, "fridge": 1.19}  # m, rad: must still count as open
CLOSED_VALUE = 0.02
HANDLE_HALF = 0.015  # m
PRESS = 0.012  # m
PITCHES = (1.2, 0.9, 1.45, 0.6, 0.3, 0.0)  # rad below level: the hand points down at rest
# Where a hand that points down goes before it pushes the fridge's door: m from the hinge, m in
# front of the door.
HOOKS = ((0.58, 0.09), (0.64, 0.09), (0.64, 0.13), (0.66, 0.18))
HOOK_HEIGHT = 0.97  # m, of the hand's tip
HAND_SPEED = 0.022  # m a control step along the path
# Cost of motion when dragging: seven joints, forward, turn. The base covers the distance.
DRAG_WEIGHTS = np.array([1.0, 1.0, 1.0, 1.0, 0.6, 0.6, 0.6, 0.5, 1.5])
STRAIGHT_WEIGHTS = np.array([1.0, 1.0, 1.0, 1.0, 0.6, 0.6, 0.6, 0.3, 20.0])


def kind_of(joint: str) -> str:
    return "drawer" if joint in fur.DRAWERS else "fridge"


def _pose(sim: Simulation, joint: str) -> tuple[float, float, float]:
    return sim.layout.pieces["counter" if kind_of(joint) == "drawer" else "fridge"]


def carried(sim: Simulation, joint: str, point: np.ndarray, value: float) -> np.ndarray:
    """Where a point of the drawer or door, given now [3] world, is when the joint has `value`."""
    pose = _pose(sim, joint)
    change = value - sim.joint_position(joint)
    if kind_of(joint) == "drawer":
        return point + change * np.array([np.cos(pose[2]), np.sin(pose[2]), 0.0])
    hx, hy = piece_to_world(pose, *sim.layout.fridge.hinge)
    change *= sim.layout.fridge.side
    c, s = np.cos(change), np.sin(change)
    dx, dy = point[0] - hx, point[1] - hy
    return np.array([hx + c * dx - s * dy, hy + s * dx + c * dy, point[2]])


def outward_of(sim: Simulation, joint: str) -> np.ndarray:
    """Outer normal of the front, [3] world."""
    yaw = _pose(sim, joint)[2]
    if kind_of(joint) == "fridge":
        yaw += sim.layout.fridge.side * sim.joint_position(joint)
    return np.array([np.cos(yaw), np.sin(yaw), 0.0])


def open_container(robot: Robot, marker: str, give_up: int = 3) -> Program:
    """Opens the drawer or door behind `marker` and brings the hand to rest."""
    joint = fur.MARKERS[marker]
    if robot.sim.joint_position(joint) < IS_OPEN[kind_of(joint)] and (
        yield from _open_quickly(robot, marker)
    ):
        return None
    return (yield from persist(lambda attempt: _open_once(robot, marker, joint), give_up))


def _open_quickly(robot: Robot, marker: str) -> Generator[np.ndarray, None, bool]:
    """Opens with the base alone if a rehearsal succeeds; whether it did."""
    if fur.MARKERS[marker] == doors_fridge.JOINT:
        tow = doors_fridge.plan_tow(robot, marker)
        program = None if tow is None else doors_fridge.tow_open(robot, marker, tow)
    else:
        pull = doors_drawers.plan_pull(robot, marker)
        program = None if pull is None else doors_drawers.pull_open(robot, marker, pull)
    if program is None:
        return False
    failure = yield from program
    if failure is not None and robot.sim.is_holding:
        yield from let_go(robot)
    return failure is None


def _close_quickly(robot: Robot, marker: str) -> Generator[np.ndarray, None, bool]:
    """Closes with the base alone if a rehearsal succeeds; whether it did."""
    if fur.MARKERS[marker] == doors_fridge.JOINT:
        sweep = doors_fridge.plan_sweep(robot)
        program = None if sweep is None else doors_fridge.sweep_shut(robot, sweep)
    else:
        push = doors_drawers.plan_push(robot, marker)
        program = None if push is None else doors_drawers.push_shut(robot, marker, push)
    return program is not None and (yield from program) is None


def _open_once(robot: Robot, marker: str, joint: str) -> Program:
    sim = robot.sim
    wanted = OPEN_VALUE[kind_of(joint)]
    if sim.joint_position(joint) < IS_OPEN[kind_of(joint)]:
        reach = plan_handle(robot, marker)
        if reach is None:
            return "no reach"
        failure = yield from approach(robot, reach)
        if failure is not None:
            return failure
        failure = yield from _grip_handle(robot, reach, marker)
        if failure is None:
            failure = yield from _drag(robot, joint, wanted)
        yield from let_go(robot)
        yield from back_off(robot, 0.08)
        if failure is not None and sim.joint_position(joint) < IS_OPEN[kind_of(joint)]:
            return failure
    failure = yield from to_rest(robot)
    if failure is None and sim.joint_position(joint) < IS_OPEN[kind_of(joint)]:
        return "it swung back"
    return failure


def plan_handle(robot: Robot, marker: str) -> ReachPlan | None:
    """How to reach a handle to grip it."""
    sim, joint = robot.sim, fur.MARKERS[marker]
    handle = sim.model.geom(f"{joint}_handle").id
    inward = -outward_of(sim, joint)
    facing = float(np.arctan2(inward[1], inward[0]))
    return plan_reach(
        robot, sim.floor_plan(), lambda heading: _handle_hands(sim, marker, joint, heading),
        robot.world_obstacles(), robot.world_obstacles((handle,)),
        headings=facing + np.array([0.0, 0.27, -0.27, 0.55, -0.55]), pre_distance=0.08,
    )  # fmt: skip


def _handle_hands(sim: Simulation, marker: str, joint: str, heading: float) -> Iterable[HandPose]:
    geom = sim.model.geom(f"{joint}_handle").id
    centre, axes = sim.data.geom_xpos[geom], sim.data.geom_xmat[geom].reshape(3, 3)
    for number, pitch in enumerate(PITCHES):
        approach_w = _direction(heading, pitch)
        depth = float(np.min(sim.model.geom_size[geom] / (np.abs(axes.T @ approach_w) + 1e-9)))
        yield HandPose(centre - approach_w * (depth - PRESS), approach_w, penalty=0.05 * number)


def _grip_handle(robot: Robot, reach, marker: str) -> Program:
    sim = robot.sim
    robot.phase = "reaching the handle"
    robot.grip_wanted = True
    corners = final_corners(robot, reach)
    try:
        yield from robot.follow_arm(time_parametrise(corners), lambda: sim.is_holding)
        for _ in range(15):
            if sim.is_holding:
                break
            step, _ = whole_body_step(
                sim.arm_target, _to_base(sim, 0.004 * reach.hand.approach), False
            )
            yield robot.action(sim.arm_target + step)
    finally:  # also when the generator is closed by a time limit
        robot.grip_wanted = False
    return None if sim.held_marker == marker else "no grip on the handle"


def _drag(robot: Robot, joint: str, wanted: float) -> Program:
    """Moves the hand along the path of what it holds, until the joint has `wanted`."""
    sim = robot.sim
    robot.phase = "opening"
    plan = sim.floor_plan(0.28)
    is_drawer = kind_of(joint) == "drawer"
    radius = 1.0 if is_drawer else sim.layout.fridge.door_width
    best, stalled = sim.joint_position(joint), 0
    for _ in range(160):
        value = sim.joint_position(joint)
        if value >= wanted:
            return None
        if not sim.is_holding:
            return "the handle slipped"
        ahead = min(value + HAND_SPEED / radius * 1.6, wanted + 0.03)
        step_w = carried(sim, joint, sim.ee_pos_w, ahead) - sim.ee_pos_w
        yield hand_action(robot, plan, step_w, is_drawer)
        stalled = 0 if value > best + 0.002 else stalled + 1
        best = max(best, value)
        if stalled > 40:
            return "the handle does not move"
    return "the handle moves too slowly"


def hand_action(
    robot: Robot, plan, step_w: np.ndarray, is_drawer: bool, preferred: np.ndarray = ARM_REST
) -> np.ndarray:
    """Arm and base together move the hand by `step_w` [3] m, world.

    Args:
        preferred: [7] rad, what the arm's remaining freedom goes towards.
    """
    sim = robot.sim
    dq, base = whole_body_step(
        sim.arm_target, _to_base(sim, step_w), True, q_preferred=preferred,
        weights=STRAIGHT_WEIGHTS if is_drawer else DRAG_WEIGHTS,
    )  # fmt: skip
    return robot.action(sim.arm_target + dq, _allowed(sim, plan, base))


def _allowed(sim: Simulation, plan, motion: np.ndarray) -> tuple[float, float]:
    """Base action of a motion (m, rad a control step), without driving into furniture."""
    x, y, yaw = sim.base_pose
    forward = float(motion[0])
    reach = np.sign(forward) * 0.08
    ahead = (x + reach * np.cos(yaw), y + reach * np.sin(yaw))
    if plan.is_free(x, y) and not plan.is_free(*ahead):
        forward = 0.0
    return forward / MAX_BASE_FORWARD, float(motion[1]) / MAX_BASE_TURN


def _to_base(sim: Simulation, vector: np.ndarray) -> np.ndarray:
    return (world_to_base_axes(sim.base_pose[2]) * vector).sum(axis=1)


def close_container(robot: Robot, marker: str, give_up: int = 3) -> Program:
    """Pushes the drawer or door behind `marker` shut and brings the hand to rest."""
    joint = fur.MARKERS[marker]
    if robot.sim.joint_position(joint) > 0.04 and (yield from _close_quickly(robot, marker)):
        return None
    return (yield from persist(lambda attempt: _close_once(robot, marker, joint), give_up))


def _close_once(robot: Robot, marker: str, joint: str) -> Program:
    sim = robot.sim
    if sim.joint_position(joint) > 0.04:
        world = robot.world_obstacles()
        inward = -outward_of(sim, joint)
        facing = float(np.arctan2(inward[1], inward[0]))
        is_drawer = kind_of(joint) == "drawer"
        headings = (
            np.array([facing + e for e in (0.0, 0.25, -0.25, 0.5, -0.5)]) if is_drawer else HEADINGS
        )
        reach = plan_reach(
            robot, sim.floor_plan(), lambda heading: _push_hands(sim, marker, joint, heading),
            world, world, headings=headings, pre_distance=0.06,
        )  # fmt: skip
        if reach is None:
            return "no reach"
        failure = yield from approach(robot, reach)
        if failure is not None:
            return failure
        robot.phase = "reaching the front"
        corners = final_corners(robot, reach)
        yield from robot.follow_arm(time_parametrise(corners))
        failure = yield from _push(robot, joint)
        if failure is not None:
            yield from back_off(robot, 0.08)
            return failure
    failure = yield from to_rest(robot)
    if failure is None and sim.joint_position(joint) > 0.045:
        return "it came open again"
    return failure


def _push_hands(sim: Simulation, marker: str, joint: str, heading: float) -> Iterable[HandPose]:
    """Hand positions just outside the front: of a drawer at its handle, of a door near its free
    edge.
    """
    outward = outward_of(sim, joint)
    if kind_of(joint) == "drawer":
        point = sim.marker_pos_w(marker) + (HANDLE_HALF + 0.02) * outward
        for number, pitch in enumerate(PITCHES):
            yield HandPose(point, _direction(heading, pitch), penalty=0.05 * number)
        return
    # The hand points down, as at rest, and hooks around the door's free edge like a finger.
    fridge = sim.layout.fridge
    hinge = piece_to_world(_pose(sim, joint), *fridge.hinge)
    # From hinge to free edge.
    along = fridge.side * np.array([outward[1], -outward[0], 0.0])
    for pitch in (1.35, 1.0):
        for number, (radius, gap) in enumerate(HOOKS):
            point = np.array([*hinge, HOOK_HEIGHT]) + radius * along
            point = point + (fur.FRIDGE_DOOR_THICKNESS + gap) * outward
            yield HandPose(point, _direction(heading, pitch), penalty=0.1 * number)


def _direction(heading: float, pitch: float) -> np.ndarray:
    return np.array(
        [np.cos(pitch) * np.cos(heading), np.cos(pitch) * np.sin(heading), -np.sin(pitch)]
    )


def _push(robot: Robot, joint: str) -> Program:
    """Moves the hand along the front's path until the joint is shut, whatever part of the hand
    pushes."""
    sim = robot.sim
    robot.phase = "closing"
    plan = sim.floor_plan(0.28)
    is_drawer = kind_of(joint) == "drawer"
    hinge = np.array(piece_to_world(_pose(sim, joint), *sim.layout.fridge.hinge))
    virtual = sim.joint_position(joint)  # where the hand is along the path, as a value of the joint
    hand = sim.ee_pos_w
    radius = 1.0 if is_drawer else float(np.linalg.norm(hand[:2] - hinge))
    start = virtual
    patience = 60 if is_drawer else 70  # control steps without movement
    best, stalled = start, 0
    for _ in range(200):
        value = sim.joint_position(joint)
        if value <= CLOSED_VALUE:
            return None
        # The target point runs ahead of the hand, never by more than a few steps.
        virtual = max(virtual - HAND_SPEED / radius, -0.12 if is_drawer else -0.25)
        target = _along(sim, joint, hand, start, virtual)
        step_w = target - sim.ee_pos_w
        length = float(np.linalg.norm(step_w))
        if length > 3.0 * HAND_SPEED:
            virtual += HAND_SPEED / radius  # wait for the hand
        step_w *= min(1.0, 1.4 * HAND_SPEED / max(length, 1e-6))
        yield hand_action(robot, plan, step_w, is_drawer)
        stalled = 0 if value < best - 0.003 else stalled + 1
        best = min(best, value)
        if stalled > patience:
            return "the front does not move"
    return "the front moves too slowly"


def _along(sim: Simulation, joint: str, hand: np.ndarray, start: float, value: float) -> np.ndarray:
    """Where the hand, at `hand` when the joint had `start`, has to be for `value`."""
    now = sim.joint_position(joint)
    return carried(sim, joint, hand, now + value - start)
