"""From where and how to reach a thing: a place for the base, a posture to start from, a posture at the thing.

    what to touch  ->  hand poses (direction of approach)  ->  base places on free floor at arm's length
                   ->  inverse kinematics, clear of everything  ->  way for base and arm  ->  ReachPlan

Candidates are tried in the order of what they cost; the first that passes every check is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from rearrange.sim import fetch
from rearrange.sim.navigation import FloorPlan
from rearrange.skills.body import ARM_MARGIN, DRIVE_MARGIN, Body, near, path_to
from rearrange.skills.collision import Obstacles, min_clearance
from rearrange.skills.kinematics import ee_pose, solve_ik, straight_line
from rearrange.skills.motion import ARM_REST, plan_arm, time_parametrise

DISTANCES = (0.62, 0.55, 0.70, 0.48, 0.78, 0.86, 0.94)  # m from base to hand, best first
HEADINGS = np.linspace(-np.pi, np.pi, 24, endpoint=False)
SIDES = (0.0, 0.4, -0.4)  # rad, how far the hand is to the side of where the base faces
BACK_OFFS = (0.0, 0.2, 0.35, 0.5)  # m, from where the arm is got ready when there is no room at the place
HAND_MARGIN = 0.004  # m kept around the hand in the last centimetres
MAX_CANDIDATES = 500
MAX_PLANS = 8


@dataclass(frozen=True)
class HandPose:
    """Where the hand goes. `rotation` None: only the approach (hand's x axis) counts."""

    pos: np.ndarray  # [3] end effector, world
    approach: np.ndarray  # [3] unit, world
    rotation: np.ndarray | None = None  # [3, 3] world
    penalty: float = 0.0  # m of driving that this pose is worse than the best


@dataclass(frozen=True)
class ReachPlan:
    """A checked way to reach: drive to `ready_base`, arm to `pre`, on to `base`, along `lower` to the thing."""

    base: tuple[float, float, float]
    ready_base: tuple[float, float, float]
    drive_path: np.ndarray  # [n, 2] to ready_base
    carry_rows: np.ndarray  # [T, 7] arm to the posture for driving
    pre_rows: np.ndarray  # [T, 7] arm from there to the ready posture, at ready_base
    lower_rows: np.ndarray  # [n, 7] corner points from the ready posture to the thing
    hand: HandPose


HandMaker = Callable[[float], Iterable[HandPose]]
"""Hand poses for a heading: the direction, seen from above, from base to thing (rad, world)."""


def plan_reach(
    body: Body,
    plan: FloorPlan,
    point: np.ndarray,  # [3] what the base goes near to
    hands: HandMaker,
    world: Obstacles,
    touchable: Obstacles,
    pre_offset: np.ndarray | None = None,  # [3] from hand pose to the pose before it; None: back along the approach
    pre_distance: float = 0.10,
    headings: np.ndarray = HEADINGS,
    distances: tuple[float, ...] = DISTANCES,
    carry: np.ndarray = ARM_REST,
) -> ReachPlan | None:
    """The first plan that works, or None.

    `world` holds everything; `touchable` leaves out what the hand is going to touch.
    """
    here = body.sim.base_pose
    island = plan.island(*plan.snap(here[0], here[1]))
    candidates = []
    for heading in headings:
        for hand in hands(heading):
            for distance in distances:
                x = hand.pos[0] - distance * np.cos(heading)
                y = hand.pos[1] - distance * np.sin(heading)
                if plan.island(x, y) != island:
                    continue
                drive = np.hypot(x - here[0], y - here[1])
                turn = abs(_wrapped(heading - here[2])) * 0.25
                for side in SIDES:
                    cost = drive + turn + hand.penalty + 0.15 * abs(side) + 0.3 * abs(distance - 0.62)
                    candidates.append((cost, len(candidates), x, y, heading - side, hand))
    candidates.sort(key=lambda c: c[:2])
    held = body.held_spheres()
    tried = 0
    for _, _, x, y, yaw, hand in candidates[:MAX_CANDIDATES]:
        base = (x, y, _wrapped(yaw))
        postures = _postures(base, hand, touchable, held, pre_offset, pre_distance)
        if postures is None:
            continue
        found = _approach_plan(body, plan, base, hand, postures, world, touchable, held, carry)
        if found is not None:
            return found
        tried += 1
        if tried >= MAX_PLANS:
            break
    return None


def _postures(base, hand, touchable, held, pre_offset, pre_distance) -> np.ndarray | None:
    """Corner points [n, 7] from before the thing to the thing, clear of all but the thing, or None."""
    turn = _turn(base[2])
    pos_b = turn @ (hand.pos - (base[0], base[1], 0.0))
    approach_b = turn @ hand.approach
    rotation_b = None if hand.rotation is None else turn @ hand.rotation
    local = near(touchable, base)
    for restart in range(2):
        q = solve_ik(
            pos_b, approach_b, ARM_REST, rotation_b=rotation_b, preferred=ARM_REST, posture_gain=0.1,
            num_restarts=4, random_seed=restart,
        )  # fmt: skip
        if q is None:
            return None
        if min_clearance(q, local, held) < HAND_MARGIN:
            continue
        offset = -pre_distance * approach_b if pre_offset is None else turn @ pre_offset
        back = straight_line(q, pos_b + offset, "approach" if rotation_b is None else "rotation")
        if back is None:
            continue
        if all(min_clearance(row, local, held) >= HAND_MARGIN for row in back):
            return np.concatenate([back[::-1], q[None]]) if len(back) else q[None]
    return None


def _approach_plan(body, plan, base, hand, postures, world, touchable, held, carry) -> ReachPlan | None:
    """How base and arm get to the first of `postures`, or None."""
    pre = postures[0]
    here, now = body.sim.base_pose, body.sim.arm_target.copy()
    for back in BACK_OFFS:
        ready = (base[0] - back * np.cos(base[2]), base[1] - back * np.sin(base[2]), base[2])
        if not plan.is_free(ready[0], ready[1]):
            return None
        local = near(world, ready)
        for posture in (carry, now):
            if min_clearance(posture, local, held) < ARM_MARGIN:
                continue
            path = plan_arm(posture, pre, local, held, ARM_MARGIN, max_iterations=400)
            if path is None:
                continue
            steps = np.arange(0.0, back + 0.04, 0.05)
            slide = [(ready[0] + s * np.cos(base[2]), ready[1] + s * np.sin(base[2]), base[2]) for s in steps]
            if back and any(min_clearance(pre, near(touchable, p), held) < HAND_MARGIN for p in slide):
                break
            drive = path_to(plan, here, ready)
            if drive is None:
                return None
            carry_path = _carry_path(body, now, posture, world, held)
            if carry_path is None:
                continue
            return ReachPlan(
                base, ready, drive, carry_path, time_parametrise(path), postures, hand
            )
    return None


def _carry_path(body, now, posture, world, held) -> np.ndarray | None:
    """Arm rows from the present posture to the one for driving, planned where the robot stands."""
    if np.abs(posture - now).max() < 1e-6:
        return np.empty((0, 7))
    path = plan_arm(now, posture, near(world, body.sim.base_pose), held, ARM_MARGIN, max_iterations=800)
    return None if path is None else time_parametrise(path)


def schedule(body: Body, reach: ReachPlan, world: Obstacles) -> tuple[np.ndarray, int, bool] | None:
    """Arm rows to play while driving, after how many steps, and whether they already end ready.

    The best that is clear along the predicted drive: arm straight to its ready posture, starting as early as
    possible; else to the carrying posture; None if neither is clear.
    """
    poses = body.predict(reach.drive_path, reach.ready_base[2])
    now = body.sim.arm_target
    if np.abs(now - reach.lower_rows[0]).max() < 2.0:
        direct = time_parametrise(np.stack([now, reach.lower_rows[0]]))
        late = max(0, len(poses) - len(direct))
        for delay in sorted({0, late // 2, late, max(0, len(poses) - len(direct) // 2), len(poses)}):
            if body.is_drive_clear(poses, direct, delay, world):
                return direct, delay, True
    both = np.concatenate([reach.carry_rows, reach.pre_rows])
    late = max(0, len(poses) - len(reach.pre_rows))
    for delay in (late // 2, late, len(poses)):
        if len(reach.carry_rows) == 0 and body.is_drive_clear(poses, both, delay, world):
            return both, delay, True
    for delay in (0, 15, 30):
        if body.is_drive_clear(poses, reach.carry_rows, delay, world):
            return reach.carry_rows, delay, False
    if body.is_drive_clear(poses, np.empty((0, 7)), 0, world, DRIVE_MARGIN / 2):
        return np.empty((0, 7)), 0, False
    return None


def refine(body: Body, hand: HandPose, rows: np.ndarray) -> np.ndarray | None:
    """The last posture of `rows` solved again for where the base really stands, as corner points to it."""
    base = body.sim.base_pose
    turn = _turn(base[2])
    pos_b = turn @ (hand.pos - (base[0], base[1], 0.0))
    rotation = None if hand.rotation is None else turn @ hand.rotation
    q = solve_ik(
        pos_b, turn @ hand.approach, rows[-1], rotation_b=rotation, preferred=rows[-1], num_restarts=1,
        approach_tolerance=0.05,
    )  # fmt: skip
    if q is None or np.abs(q - rows[-1]).max() > 0.5:
        return None
    start = body.sim.arm_target
    line = straight_line(start, pos_b, "position")
    if line is not None and len(line) and np.abs(line[-1] - q).max() < 0.4:
        return np.concatenate([start[None], line, q[None]])
    return np.stack([start, q])


def ee_position(q: np.ndarray) -> np.ndarray:
    """End effector of a posture in the base frame, [3] m."""
    return ee_pose(q)[0]


def is_resting(q: np.ndarray, radius: float = 0.13) -> bool:
    """Whether a posture has the hand within `radius` m of the resting point."""
    return bool(np.linalg.norm(ee_position(q) - fetch.EE_REST_B) < radius)


def _turn(yaw: float) -> np.ndarray:
    """Rotation from world to base axes, [3, 3]."""
    c, s = np.cos(yaw), np.sin(yaw)
    return np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])


def _wrapped(angle: float) -> float:
    return float((angle + np.pi) % (2.0 * np.pi) - np.pi)
