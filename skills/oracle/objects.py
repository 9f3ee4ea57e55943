"""Oracle skills for movable objects: navigate and pick. They use the simulator's state."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from rearrange.sim.home.objects import ObjectKind
from rearrange.sim.robot.fetch import NOZZLE_RADIUS
from rearrange.sim.simulation import Simulation
from rearrange.skills.motion.collision import min_clearance
from rearrange.skills.motion.driving import PathFollower
from rearrange.skills.motion.journey import plan_journey, run_journey
from rearrange.skills.motion.kinematics import straight_line
from rearrange.skills.motion.motion import ARM_REST, time_parametrise
from rearrange.skills.motion.reach import (
    HAND_MARGIN,
    HandPose,
    ReachPlan,
    final_corners,
    plan_reach,
)
from rearrange.skills.motion.retreat import back_off, find_reach, free_up, let_go, persist, to_rest
from rearrange.skills.motion.robot import ARM_MARGIN, Robot, near, world_to_base_axes
from rearrange.skills.skill import Program

PITCHES = (0.0, 0.5, 0.9, 1.25)  # rad from straight down to nearly level
PITCHES_LEVEL = (0.9, 1.2, 0.7, 1.45)  # into a shelf
PITCHES_SIDE = (1.25, 1.4, 1.05, 0.9)  # a tall object, to be set down under a shelf
PITCHES_HIGH = (0.6, 0.9, 0.3, 0.0)  # to be set down high up, where the arm cannot come from above
STEEP = 1.1  # rad from straight down; up to here the hand comes from above
PITCH_PENALTY = 0.15  # m of driving that an approach one place earlier in this list is worth
PRESS = 0.012  # m that the hand moves on beyond the expected contact
FLOOR_GAP = HAND_MARGIN + 0.002  # m between the nozzle's rim and the surface below a thin object


def surface_distance(kind: ObjectKind, direction_o: np.ndarray) -> float:
    """Distance from an object's centre to its surface along a unit vector of its own frame, m."""
    d = np.abs(direction_o) + 1e-9
    if kind.shape == "sphere":
        return kind.size[0]
    if kind.shape == "box":
        return float(np.min(np.array(kind.size) / d))
    return float(min(kind.size[0] / np.hypot(d[0], d[1]), kind.size[1] / d[2]))


def object_rotation(sim: Simulation, index: int) -> np.ndarray:
    """Axes of an object as columns, [3, 3] world."""
    return sim.data.geom_xmat[sim.object_geom(index)].reshape(3, 3).copy()


def navigate(
    robot: Robot,
    point: np.ndarray,
    reach: ReachPlan | None = None,
    standoff: tuple[float, float] = (0.55, 1.35),
) -> Program:
    """Drives to where `point` is within arm's length or a little more, and faces it.

    With a plan for the next motion it drives to where that starts.
    """
    sim = robot.sim
    robot.phase = "driving"
    if (
        reach is None
        and robot.clearance(sim.arm_target, sim.base_pose, robot.world_obstacles()) < ARM_MARGIN
    ):
        yield from free_up(robot)
    if reach is not None and reach.journey is not None:
        return (yield from run_journey(robot, reach.journey))
    plan = sim.floor_plan()
    here = sim.base_pose
    island = plan.island(*plan.snap(here[0], here[1]))
    cells = plan.free_cells_near(point[0], point[1], *standoff)
    cells = np.array([c for c in cells if plan.island(*c) == island])
    if not len(cells):
        cells = plan.free_cells_near(point[0], point[1], 0.0, 1.45)
    if not len(cells):
        return "no free floor near the goal"
    field = plan.geodesic_field(here[0], here[1])
    away = np.linalg.norm(cells - point[:2], axis=1)
    order = np.argsort(plan.at(field, cells) + 0.3 * np.abs(away - 1.0), kind="stable")
    world = robot.world_obstacles()
    for choice in order[:200:8]:
        goal = cells[choice]
        yaw = float(np.arctan2(point[1] - goal[1], point[0] - goal[0]))
        local = near(world, (goal[0], goal[1], yaw))
        if min_clearance(sim.arm_target, local, robot.held_spheres()) < 0.02:
            continue  # the hand would be inside something
        journey = plan_journey(robot, plan, goal, yaw, (), world)
        if journey is not None:
            return (yield from run_journey(robot, journey))
    # No place with the arm as it is: retract it and drive where the base alone fits.
    failure = yield from robot.move_arm(ARM_REST)
    if failure is not None:
        return failure
    goal = cells[order[0]]
    path = plan.shortest_path(np.asarray(sim.base_pose[:2]), goal)
    if path is None:
        return "no way to the goal"
    yaw = float(np.arctan2(point[1] - goal[1], point[0] - goal[0]))
    return (yield from robot.drive(PathFollower(path, yaw)))


def pick(
    robot: Robot, index: int, pitches: tuple[float, ...] = PITCHES, give_up: int = 3
) -> Program:
    """Drives to an object, grips it, brings the hand to rest. `pitches`: approaches, best first."""
    return (yield from persist(lambda attempt: _pick_once(robot, index, pitches, attempt), give_up))


def _pick_once(robot: Robot, index: int, pitches: tuple[float, ...], attempt: int) -> Program:
    sim = robot.sim
    if sim.held_object != index:
        reach = yield from find_reach(
            robot, lambda: plan_pick(robot, index, pitches, attempt), attempt
        )
        if reach is None:
            return "no reach"
        failure = yield from approach(robot, reach)
        if failure is not None:
            return failure
        failure = yield from _touch(robot, reach, index)
        if failure is not None:
            yield from back_off(robot)
            return failure
        yield from back_off(robot)
    return (yield from to_rest(robot))


def plan_pick(
    robot: Robot, index: int, pitches: tuple[float, ...] = PITCHES, attempt: int = 0
) -> ReachPlan | None:
    """How to reach an object to grip it."""
    sim = robot.sim
    touchable = robot.world_obstacles((sim.object_geom(index),))
    return plan_reach(
        robot, sim.floor_plan(), lambda heading: pick_hands(sim, index, heading, pitches, attempt),
        robot.world_obstacles(), touchable,
    )  # fmt: skip


def pick_hands(
    sim: Simulation, index: int, heading: float, pitches: tuple[float, ...], attempt: int
) -> Iterable[HandPose]:
    """Approaches of an object from the heading's side.

    A standing object is gripped at its top, at any pitch: the hand then stays clear of whatever the
    object is later set down between. An object that is level with the hand, or has fallen over, is
    gripped where the approach to its centre meets its surface.
    """
    centre, rotation = sim.object_pos_w(index), object_rotation(sim, index)
    kind = sim.object_kind(index)
    is_standing = kind.shape != "sphere" and rotation[2, 2] > 0.94
    press = PRESS * (1 + 0.5 * attempt)
    for number, pitch in enumerate(pitches):
        approach = np.array(
            [np.sin(pitch) * np.cos(heading), np.sin(pitch) * np.sin(heading), -np.cos(pitch)]
        )
        if is_standing and pitch < STEEP:
            pos = centre + kind.half_height * rotation[:, 2] + approach * press
            # The hand must not press a thin object onto the surface below it.
            lowest = centre[2] - kind.half_height + FLOOR_GAP + NOZZLE_RADIUS * np.sin(pitch)
            pos[2] = max(pos[2], lowest)
        else:
            pos = centre - approach * (surface_distance(kind, rotation.T @ approach) - press)
        # A grip far from the centre acts as a lever.
        if np.linalg.norm(pos - centre) < 0.145:
            yield HandPose(pos, approach, penalty=PITCH_PENALTY * number)


def approach(robot: Robot, reach: ReachPlan) -> Program:
    """Base and arm to the ready posture of a reach plan."""
    sim = robot.sim
    robot.phase = "driving there"
    journey = reach.journey
    assert journey is not None  # a caller that allows driving has planned the path
    is_ready = journey.motion.is_ready
    failure = yield from run_journey(robot, journey)
    if failure is not None:
        return failure
    robot.phase = "getting the arm ready"
    pre = reach.lower_rows[0]
    if robot.clearance(pre, sim.base_pose, robot.world_obstacles()) < HAND_MARGIN:
        yield from robot.dock(reach.ready_base)  # a narrow place: drives are only accurate to 3 cm
    if not is_ready and np.abs(sim.arm_target - pre).max() > 0.01:
        failure = yield from robot.move_arm(pre)
        if failure is not None:
            return failure
    robot.phase = "moving in"
    gap = float(np.hypot(reach.base[0] - sim.base_pose[0], reach.base[1] - sim.base_pose[1]))
    if reach.base != reach.ready_base and gap > 0.02:
        failure = yield from robot.reverse(-gap)
        if failure is not None:
            return failure
    yield from robot.settle(3)
    return None


def _touch(robot: Robot, reach: ReachPlan, index: int) -> Program:
    """The last centimetres, with suction on, until something is held."""
    sim = robot.sim
    corners = final_corners(robot, reach)
    robot.phase = "reaching"
    robot.grip_wanted = True

    def is_held() -> bool:
        return sim.is_holding

    try:
        yield from robot.follow_arm(time_parametrise(corners), is_held)
        for _ in range(12):  # the arm lags its targets a little
            if sim.is_holding:
                break
            yield robot.action(sim.arm_target)
        if not sim.is_holding:  # short of the surface: advance along the approach until contact
            forward = world_to_base_axes(sim.base_pose[2]) @ reach.hand.approach
            line = straight_line(
                sim.arm_qpos, sim.ee_pos_b + 0.04 * forward, "position", step=0.005
            )
            if line is not None:
                yield from robot.follow_arm(
                    time_parametrise(np.concatenate([sim.arm_target[None], line])), is_held
                )
    finally:  # also when the generator is closed by a time limit
        robot.grip_wanted = False
    if sim.held_object == index:
        return None
    if not sim.is_holding:
        return "no contact"
    yield from let_go(robot)
    return "wrong object"
