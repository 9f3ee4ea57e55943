"""How to reach an object: a base pose, and arm postures before and at the object.

    what to touch  ->  hand poses (direction of approach)
                   ->  base places on free floor at arm's length
                   ->  inverse kinematics, clear of everything
                   ->  path for base and arm  ->  ReachPlan

Candidates are tried in order of cost, in groups that pass every check; the quickest plan is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from rearrange.sim.home.navigation import FloorPlan
from rearrange.sim.home.standing import is_cut_off
from rearrange.sim.robot import fetch
from rearrange.skills.motion.collision import Obstacles, min_clearance
from rearrange.skills.motion.driving import wrapped
from rearrange.skills.motion.journey import ArmMotion, Journey, plan_journey
from rearrange.skills.motion.kinematics import ee_pose, solve_ik, solve_ik_many, straight_line
from rearrange.skills.motion.motion import ARM_REST, plan_arm, time_parametrise
from rearrange.skills.motion.robot import ARM_MARGIN, Robot, near, world_to_base_axes

DISTANCES = (0.62, 0.54, 0.70, 0.47, 0.78, 0.86)  # m from base to hand
HEADINGS = np.linspace(-np.pi, np.pi, 16, endpoint=False)
SIDES = (0.0, 0.45, -0.45)  # rad, how far the hand is to the side of where the base faces
SLANTS = (
    0.0,
    0.5,
    -0.5,
)  # rad, between the hand's approach and the line from the base, seen from above
BACK_OFFS = (
    0.0,
    0.2,
    0.35,
    0.5,
)  # m, distance at which the arm gets ready if there is no room at the place
HAND_MARGIN = 0.004  # m kept around the hand in the last centimetres
AHEAD = (0.0, 0.1, 0.2, 0.35, 0.5, -0.1, -0.2, -0.3)  # m along the present heading
MAX_CANDIDATES = 1500
NEAREST = 500  # candidates tried first; the others are spread over the rest
ENOUGH = 20  # valid postures, of which the quickest is taken
MAX_GROUPS = 4  # of ENOUGH postures each, until a plan takes QUICK or is near the least expected
QUICK = 160  # control steps
APART = 0.12  # m between the places of which the quickest is taken
MAX_PLANS = 4
STEPS_PER_METRE, STEPS_PER_RADIAN, STEPS_PER_ARM_RADIAN = 33.0, 18.0, 80.0
_UPPER = sum(joint.origin[0] for joint in fetch.ARM_JOINTS[2:4])  # m, shoulder lift to elbow
_FOREARM = sum(joint.origin[0] for joint in fetch.ARM_JOINTS[4:6])  # m, elbow to wrist flex
_HAND_LENGTH = (
    fetch.ARM_JOINTS[6].origin[0] + fetch.GRIPPER_OFFSET[0] + fetch.EE_OFFSET[0]
)  # m, wrist to tip
_SHOULDER_OUT = (
    fetch.ARM_JOINTS[0].origin[0] + fetch.ARM_JOINTS[1].origin[0]
)  # m, about, from the base's axis
_SHOULDER_HEIGHT = fetch.ARM_JOINTS[0].origin[2] + fetch.ARM_JOINTS[1].origin[2]
_SLACK = 0.03  # m: the shoulder's turn shifts the ring a little
_RING = (
    math.sqrt(_UPPER**2 + _FOREARM**2 + 2 * _UPPER * _FOREARM * math.cos(fetch.ARM_JOINTS[3].upper))
    - _SLACK,
    _UPPER + _FOREARM + _SLACK,
)


@dataclass(frozen=True)
class HandPose:
    """Where the hand goes. `rotation` None: only the approach (hand's x axis) counts."""

    pos: np.ndarray  # [3] end effector, world
    approach: np.ndarray  # [3] unit, world
    rotation: np.ndarray | None = None  # [3, 3] world
    penalty: float = 0.0  # m of driving that this pose is worse than the best


@dataclass(frozen=True)
class ReachPlan:
    """A checked plan: drive to `ready_base`, arm ready, on to `base`, down to the object."""

    base: tuple[float, float, float]
    ready_base: tuple[float, float, float]  # where the arm gets ready, straight behind `base`
    motions: tuple[ArmMotion, ...]  # arm motions during the drive, best first
    lower_rows: np.ndarray  # [n, 7] corner points from the ready posture to the thing
    hand: HandPose
    journey: Journey | None = None  # the drive to `ready_base` from the pose at planning time


HandMaker = Callable[[float], Iterable[HandPose]]
"""Hand poses for a heading: the direction, seen from above, from base to thing (rad, world)."""


def plan_reach(
    robot: Robot,
    plan: FloorPlan,
    hands: HandMaker,
    world: Obstacles,
    touchable: Obstacles,
    pre_offset: np.ndarray
    | None = None,  # [3] from hand pose to the pose before it; None: back along the approach
    pre_distance: float = 0.10,
    headings: np.ndarray = HEADINGS,
    distances: tuple[float, ...] = DISTANCES,
    carry: np.ndarray = ARM_REST,
) -> ReachPlan | None:
    """The first plan that works, or None.

    `world` holds everything; `touchable` leaves out what the hand is going to touch.
    """
    here = robot.sim.base_pose
    island = plan.island(*plan.snap(here[0], here[1]))
    field = plan.geodesic_field(here[0], here[1])
    candidates = []
    for heading in headings:
        for hand in hands(heading):
            for x, y in _places(here, hand.pos, heading, distances):
                iy, ix = plan.index(x, y)
                if iy < 0 or plan.labels[iy, ix] != island:
                    continue
                if not wrist_in_reach(hand, x, y):
                    continue
                bearing = math.atan2(hand.pos[1] - y, hand.pos[0] - x)
                way = float(field[iy, ix])
                yaws = [wrapped(bearing - side) for side in SIDES]
                # If it is already there it stays: no drive ends that exactly.
                if (x, y) == here[:2] and abs(wrapped(bearing - here[2])) < SIDES[1]:
                    yaws.append(here[2])
                for yaw in yaws:
                    steps = STEPS_PER_METRE * (way + hand.penalty) + _turning(here, x, y, yaw)
                    candidates.append((steps, len(candidates), x, y, yaw, hand))
    candidates.sort(key=lambda c: c[:2])
    if len(candidates) > MAX_CANDIDATES:
        # If the nearest places all fail, as beside a fridge, farther ones are tried.
        rest = np.linspace(NEAREST, len(candidates) - 1, MAX_CANDIDATES - NEAREST).astype(int)
        candidates = candidates[:NEAREST] + [candidates[i] for i in rest]
    held, now = robot.held_spheres(), robot.sim.arm_target
    found, groups, walls = [], 0, robot.sim.layout.walls
    best, best_steps = None, math.inf
    for steps, number, x, y, yaw, hand in candidates:
        if is_cut_off(np.array([[x, y]]), hand.pos, walls)[0]:
            continue
        base = (x, y, yaw)
        postures = find_postures(base, hand, touchable, held, pre_offset, pre_distance, now)
        if postures is None:
            continue
        arm = STEPS_PER_ARM_RADIAN * float(np.abs(postures[0] - now).max())
        found.append((max(steps, arm) + 0.3 * min(steps, arm), number, base, hand, postures))
        if len(found) == ENOUGH:
            reach, taken = _quickest(robot, plan, found, world, touchable, held, carry)
            if taken < best_steps:
                best, best_steps = reach, taken
            promised = min(f[0] for f in found)
            found, groups = [], groups + 1
            if best_steps < max(QUICK, 1.5 * promised) or groups >= MAX_GROUPS:
                return best
    reach, taken = _quickest(robot, plan, found, world, touchable, held, carry)
    return reach if taken < best_steps else best


def _places(here, hand, heading, distances) -> Iterable[tuple[float, float]]:
    """Base positions for a hand: at arm's length around it, or near the current one."""
    for slant in SLANTS:
        c, s = math.cos(heading + slant), math.sin(heading + slant)
        for distance in distances:
            yield hand[0] - distance * c, hand[1] - distance * s
    c, s = math.cos(here[2]), math.sin(here[2])
    for ahead in AHEAD:
        x, y = here[0] + ahead * c, here[1] + ahead * s
        if 0.40 < math.hypot(hand[0] - x, hand[1] - y) < 0.92:
            yield x, y


def wrist_in_reach(hand: HandPose, x: float, y: float) -> bool:
    """Whether the arm is long enough, and not too long, for the wrist's place.

    A cheap test before the IK. Side view: from the shoulder's lift axis, upper arm and forearm
    reach a ring around it.
    """
    wrist = hand.pos - _HAND_LENGTH * hand.approach
    across = math.hypot(wrist[0] - x, wrist[1] - y) - _SHOULDER_OUT
    away = math.hypot(across, wrist[2] - _SHOULDER_HEIGHT)
    return _RING[0] < away < _RING[1]


def _turning(here, x: float, y: float, yaw: float) -> float:
    """Control steps of turning on a drive to (x, y, yaw).

    Towards the place, then to the yaw; or in reverse.
    """
    dx, dy = x - here[0], y - here[1]
    away = math.hypot(dx, dy)
    if away < 0.03:
        return STEPS_PER_RADIAN * abs(wrapped(yaw - here[2]))
    travel = math.atan2(dy, dx)
    turn = abs(wrapped(travel - here[2])) + abs(wrapped(yaw - travel))
    if away < 0.5:
        back = travel + math.pi
        turn = min(turn, abs(wrapped(back - here[2])) + abs(wrapped(yaw - back)))
    return STEPS_PER_RADIAN * turn


def _quickest(robot, plan, found, world, touchable, held, carry) -> tuple[ReachPlan | None, float]:
    """The quickest plan among the most promising postures, journey included, and its control steps.

    inf without a plan.
    """
    best, best_steps, plans = None, math.inf, 0
    bases: list[tuple[float, float]] = []
    for _, _, base, hand, postures in sorted(found, key=lambda f: f[:2]):
        if any(math.hypot(base[0] - x, base[1] - y) < APART for x, y in bases):
            continue
        reach = _approach_plan(robot, plan, base, hand, postures, world, touchable, held, carry)
        if reach is None:
            continue
        bases.append(base[:2])
        journey = plan_journey(
            robot, plan, reach.ready_base, reach.ready_base[2], reach.motions, world
        )
        if journey is None:
            continue
        lower = (
            float(np.abs(np.diff(postures, axis=0)).max(axis=1).sum()) if len(postures) > 1 else 0.0
        )
        back = math.hypot(base[0] - reach.ready_base[0], base[1] - reach.ready_base[1])
        steps = journey.steps + STEPS_PER_ARM_RADIAN * lower + 60.0 * back
        steps += STEPS_PER_METRE * hand.penalty
        if not journey.motion.is_ready:  # the rest of the arm's motion comes after the drive
            ready = min(len(motion.rows) for motion in reach.motions if motion.is_ready)
            steps += max(ready - len(journey.motion.rows), 0)
        if steps < best_steps:
            best, best_steps = replace(reach, journey=journey), steps
        plans += 1
        if plans >= MAX_PLANS:
            break
    return best, best_steps


def find_postures(base, hand, touchable, held, pre_offset, pre_distance, now) -> np.ndarray | None:
    """Corner points [n, 7] from before the thing to it, clear of all else, or None."""
    turn = world_to_base_axes(base[2])
    pos_b = turn @ (hand.pos - (base[0], base[1], 0.0))
    approach_b = turn @ hand.approach
    rotation_b = None if hand.rotation is None else turn @ hand.rotation
    local = near(touchable, base)
    for q in solve_ik_many(
        pos_b, approach_b, now, rotation_b=rotation_b, preferred=now, posture_gain=0.1,
        num_solutions=4, num_restarts=6,
    ):  # fmt: skip
        if min_clearance(q, local, held) < HAND_MARGIN:
            continue
        offset = -pre_distance * approach_b if pre_offset is None else turn @ pre_offset
        back = straight_line(q, pos_b + offset, "approach" if rotation_b is None else "rotation")
        if back is None:
            continue
        if all(min_clearance(row, local, held) >= HAND_MARGIN for row in back):
            return np.concatenate([back[::-1], q[None]]) if len(back) else q[None]
    return None


def _approach_plan(
    robot, plan, base, hand, postures, world, touchable, held, carry
) -> ReachPlan | None:
    """Plan for base and arm to the first of `postures`, or None."""
    pre = postures[0]
    now = robot.sim.arm_target.copy()
    for back in BACK_OFFS:
        ready = (base[0] - back * np.cos(base[2]), base[1] - back * np.sin(base[2]), base[2])
        if not plan.is_free(ready[0], ready[1]):
            return None
        if back and not _slides_in(ready, base, back, pre, touchable, held):
            continue
        local = near(world, ready)
        motions = []
        for posture in (now, carry):
            if min_clearance(posture, local, held) < ARM_MARGIN:
                continue
            path = plan_arm(posture, pre, local, held, ARM_MARGIN, max_iterations=400)
            if path is None:
                continue
            rows = time_parametrise(path)
            if posture is now:
                motions.append(ArmMotion(rows, True))
                continue
            first = plan_arm(
                now, carry, near(world, robot.sim.base_pose), held, ARM_MARGIN, max_iterations=600
            )
            if first is not None:
                carried = time_parametrise(first)
                motions.append(ArmMotion(np.concatenate([carried, rows]), True))
                motions.append(ArmMotion(carried, False))
        if motions:
            return ReachPlan(base, ready, tuple(motions), postures, hand)
    return None


def _slides_in(ready, base, back, pre, touchable, held) -> bool:
    """Whether the ready posture stays clear as the base drives straight from `ready` to `base`."""
    for s in np.arange(0.0, back + 0.04, 0.05):
        pose = (ready[0] + s * np.cos(base[2]), ready[1] + s * np.sin(base[2]), base[2])
        if min_clearance(pre, near(touchable, pose), held) < HAND_MARGIN:
            return False
    return True


def refine(robot: Robot, hand: HandPose, rows: np.ndarray) -> np.ndarray | None:
    """Corner points to the last of `rows`, solved again for the base's actual pose."""
    base = robot.sim.base_pose
    turn = world_to_base_axes(base[2])
    pos_b = turn @ (hand.pos - (base[0], base[1], 0.0))
    rotation = None if hand.rotation is None else turn @ hand.rotation
    q = solve_ik(
        pos_b, turn @ hand.approach, rows[-1], rotation_b=rotation, preferred=rows[-1],
        num_restarts=1, approach_tolerance=0.05,
    )  # fmt: skip
    if q is None or np.abs(q - rows[-1]).max() > 0.5:
        return None
    start = robot.sim.arm_target
    line = straight_line(start, pos_b, "position")
    if line is not None and len(line) and np.abs(line[-1] - q).max() < 0.4:
        return np.concatenate([start[None], line, q[None]])
    return np.stack([start, q])


def final_corners(robot: Robot, reach: ReachPlan) -> np.ndarray:
    """Corner points from the arm's posture to the object: `refine`d, or else as planned."""
    corners = refine(robot, reach.hand, reach.lower_rows)
    if corners is None:
        return np.concatenate([robot.sim.arm_target[None], reach.lower_rows])
    return corners


def ee_position(q: np.ndarray) -> np.ndarray:
    """End effector of a posture in the base frame, [3] m."""
    return ee_pose(q)[0]


def is_resting(q: np.ndarray, radius: float = 0.13) -> bool:
    """Whether a posture has the hand within `radius` m of the resting point."""
    return bool(np.linalg.norm(ee_position(q) - fetch.EE_REST_B) < radius)
