"""Oracle skills for loose objects: navigate, pick, place. They sense, plan and act on the simulator's state."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from rearrange.sim import fetch
from rearrange.sim.objects import ObjectKind
from rearrange.sim.simulation import Simulation
from rearrange.skills.body import ARM_MARGIN, Body, near
from rearrange.skills.collision import Obstacles, min_clearance
from rearrange.skills.driving import PathFollower
from rearrange.skills.journey import is_clear, plan_journey, run_journey
from rearrange.skills.kinematics import solve_ik_many, straight_line
from rearrange.skills.motion import ARM_REST, plan_arm, time_parametrise
from rearrange.skills.reach import (
    HandPose,
    ReachPlan,
    is_resting,
    plan_reach,
    refine,
)
from rearrange.skills.skill import GRIP, Program

PITCHES = (0.0, 0.5, 0.9, 1.25)  # rad from straight down to nearly level
PITCHES_LEVEL = (0.9, 1.2, 0.7, 1.45)  # into a shelf
PITCHES_SIDE = (1.25, 1.4, 1.05, 0.9)  # something tall, to be set down under a shelf
PITCHES_HIGH = (0.6, 0.9, 0.3, 0.0)  # to be set down high, where the arm does not reach from above
STEEP = 1.1  # rad from straight down; up to here the hand comes from above
PITCH_PENALTY = 0.15  # m of driving a radian of tilt is worth
PRESS = 0.012  # m that the hand presses on after first contact would be
RELEASE_HEIGHT = 0.012  # m above its place where an object is let go
PLACE_TILTS = (0.0, 0.35, 0.7, 1.05, 1.3)  # rad
QUICK = 60  # control steps; a way to rest this quick is not bettered
REST_RADIUS = 0.12  # m, within the 0.15 m that tasks ask for


def surface_distance(kind: ObjectKind, direction_o: np.ndarray) -> float:
    """Distance from an object's centre to its surface along a unit vector of the object's frame, m."""
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
    body: Body, point: np.ndarray, reach: ReachPlan | None = None, standoff: tuple[float, float] = (0.55, 1.35)
) -> Program:
    """Drives to where `point` is within arm's length or a little more, and faces it.

    With a plan for what comes next it drives to where that starts.
    """
    sim = body.sim
    body.phase = "driving"
    if reach is None and body.clearance(sim.arm_target, sim.base_pose, body.world_obstacles()) < ARM_MARGIN:
        yield from free_up(body)
    if reach is not None and reach.journey is not None:
        return (yield from run_journey(body, reach.journey))
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
    iy = ((cells[:, 1] - plan.bounds[1]) / plan.cell).astype(int)
    ix = ((cells[:, 0] - plan.bounds[0]) / plan.cell).astype(int)
    order = np.argsort(field[iy, ix] + 0.3 * np.abs(away - 1.0), kind="stable")
    world = body.world_obstacles()
    for choice in order[:200:8]:
        goal = cells[choice]
        yaw = float(np.arctan2(point[1] - goal[1], point[0] - goal[0]))
        local = near(world, (goal[0], goal[1], yaw))
        if min_clearance(sim.arm_target, local, body.held_spheres()) < 0.02:
            continue  # the hand would stand in something
        journey = plan_journey(body, plan, goal, yaw, (), world)
        if journey is not None:
            return (yield from run_journey(body, journey))
    # Nowhere with the arm as it is: bring it in and drive where the base alone fits.
    failure = yield from body.move_arm(ARM_REST)
    if failure is not None:
        return failure
    goal = cells[order[0]]
    path = plan.shortest_path(np.asarray(sim.base_pose[:2]), goal)
    if path is None:
        return "no way to the goal"
    yaw = float(np.arctan2(point[1] - goal[1], point[0] - goal[0]))
    return (yield from body.drive(PathFollower(path, yaw)))


def free_up(body: Body) -> Program:
    """Takes arm and base away from what they are too near to, by the small motion that gains most room."""
    sim = body.sim
    world, held = body.world_obstacles(), body.held_spheres()
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
        yield from body.reverse(best)
    else:
        yield from back_off(body)
    return None


def recover(body: Body, count: int) -> Program:
    """After a failure: away from what is touched, arm to rest, to an open place near by; `count` varies which."""
    sim = body.sim
    body.phase = "recovering"
    if body.clearance(sim.arm_target, sim.base_pose, body.world_obstacles()) < ARM_MARGIN:
        yield from free_up(body)
    plan = sim.floor_plan()
    x, y, _ = sim.base_pose
    island = plan.island(*plan.snap(x, y))
    cells = np.array([c for c in plan.free_cells_near(x, y, 0.4, 1.5)[::7] if plan.island(*c) == island])
    if not len(cells):
        return None
    room = np.array([plan.clearance_at(*cell) for cell in cells])
    order = np.argsort(-np.minimum(room, 0.8), kind="stable")
    goal = cells[order[(count * 3) % len(order)]]
    for is_rested in (False, True):
        if is_rested:
            yield from body.move_arm(ARM_REST)
        journey = plan_journey(body, plan, goal, None, (), body.world_obstacles())
        if journey is not None:
            yield from run_journey(body, journey)
            return None
    # Nothing is clear for the arm: the base's own way out of where it is stuck.
    path = plan.shortest_path(np.asarray(sim.base_pose[:2]), goal)
    if path is not None:
        yield from body.drive(PathFollower(path))
    return None


def pick(body: Body, index: int, pitches: tuple[float, ...] = PITCHES, give_up: int = 3) -> Program:
    """Drives to an object, grips it and brings the hand to rest. `pitches`: approaches, best first."""
    return (yield from persist(lambda attempt: _pick_once(body, index, pitches, attempt), give_up))


def persist(once: Callable[[int], Program], tries: int) -> Program:
    """Runs `once(attempt)` until it works, at most `tries` times."""
    failure = None
    for attempt in range(tries):
        failure = yield from once(attempt)
        if failure is None:
            return None
    return failure


def let_go(body: Body, steps: int = 3) -> Program:
    """Suction off, arm and base still."""
    target = body.sim.arm_target.copy()
    body.grip_wanted = False
    for _ in range(steps):
        action = body.action(target)
        action[GRIP] = -1.0
        yield action
    return None


def _pick_once(body: Body, index: int, pitches: tuple[float, ...], attempt: int) -> Program:
    sim = body.sim
    if sim.held_object != index:
        reach = plan_pick(body, index, pitches, attempt)
        if reach is None:  # perhaps from somewhere with more room
            yield from recover(body, attempt)
            reach = plan_pick(body, index, pitches, attempt)
        if reach is None:
            return "no reach"
        failure = yield from approach(body, reach)
        if failure is not None:
            return failure
        failure = yield from _touch(body, reach, index)
        if failure is not None:
            yield from back_off(body)
            return failure
        yield from back_off(body)
    return (yield from to_rest(body))


def plan_pick(
    body: Body, index: int, pitches: tuple[float, ...] = PITCHES, attempt: int = 0
) -> ReachPlan | None:
    """How to reach an object to grip it."""
    sim = body.sim
    touchable = body.world_obstacles((sim.object_geom(index),))
    return plan_reach(
        body, sim.floor_plan(), lambda heading: _pick_hands(sim, index, heading, pitches, attempt),
        body.world_obstacles(), touchable,
    )  # fmt: skip


def _pick_hands(
    sim: Simulation, index: int, heading: float, pitches: tuple[float, ...], attempt: int
) -> Iterable[HandPose]:
    """Approaches of an object from the heading's side.

    A standing object is gripped at its top, from however steep: the hand then stays clear of whatever the
    object is set down between. Something level with the hand, or fallen over, is gripped where the approach
    to its centre meets its surface.
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
        else:
            pos = centre - approach * (surface_distance(kind, rotation.T @ approach) - press)
        # Far from the centre a grip is a lever.
        if np.linalg.norm(pos - centre) < 0.145:
            yield HandPose(pos, approach, penalty=PITCH_PENALTY * number)


def approach(body: Body, reach: ReachPlan) -> Program:
    """Base and arm to the ready posture of a reach plan."""
    sim = body.sim
    body.phase = "driving there"
    journey = reach.journey
    is_ready = journey.motion.is_ready
    failure = yield from run_journey(body, journey)
    if failure is not None:
        return failure
    body.phase = "getting the arm ready"
    pre = reach.lower_rows[0]
    if not is_ready and np.abs(sim.arm_target - pre).max() > 0.01:
        failure = yield from body.move_arm(pre)
        if failure is not None:
            return failure
    body.phase = "moving in"
    gap = float(np.hypot(reach.base[0] - sim.base_pose[0], reach.base[1] - sim.base_pose[1]))
    if reach.base != reach.ready_base and gap > 0.02:
        failure = yield from body.reverse(-gap)
        if failure is not None:
            return failure
    yield from body.settle(3)
    return None


def _touch(body: Body, reach: ReachPlan, index: int) -> Program:
    """The last centimetres, with suction on, until something is held."""
    sim = body.sim
    corners = refine(body, reach.hand, reach.lower_rows)
    if corners is None:
        corners = np.concatenate([sim.arm_target[None], reach.lower_rows])
    body.phase = "reaching"
    body.grip_wanted = True

    def is_held() -> bool:
        return sim.is_holding

    yield from body.follow_arm(time_parametrise(corners), is_held)
    for _ in range(12):  # the arm lags its targets a little
        if sim.is_holding:
            break
        yield body.action(sim.arm_target)
    if not sim.is_holding:  # short of the surface: feel forward along the approach
        turn = sim.base_pose[2]
        c, s = np.cos(turn), np.sin(turn)
        forward = np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]]) @ reach.hand.approach
        line = straight_line(sim.arm_qpos, sim.ee_pos_b + 0.04 * forward, "position", step=0.005)
        if line is not None:
            yield from body.follow_arm(time_parametrise(np.concatenate([sim.arm_target[None], line])), is_held)
    body.grip_wanted = False
    if sim.held_object == index:
        return None
    if not sim.is_holding:
        return "no contact"
    yield from let_go(body)
    return "wrong object"


def back_off(body: Body, distance: float = 0.12) -> Program:
    """Takes the hand away from what it touched: back along its approach, else to where there is most room."""
    sim = body.sim
    body.phase = "backing off"
    now, here = sim.arm_target.copy(), sim.ee_pos_b
    c, s = np.cos(sim.base_pose[2]), np.sin(sim.base_pose[2])
    turn = np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])
    back = -(turn @ sim.ee_rot_w[:, 0])
    local, held = near(body.world_obstacles(), sim.base_pose), body.held_spheres()
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
        yield from body.follow_arm(time_parametrise(np.concatenate([now[None], best])))
    return None


def to_rest(body: Body) -> Program:
    """Brings the hand to the resting point, backing off from furniture where there is no room."""
    sim = body.sim
    body.phase = "to rest"
    for _ in range(3):
        if is_resting(sim.arm_qpos, REST_RADIUS) and is_resting(sim.arm_target, REST_RADIUS):
            return None
        world, held = body.world_obstacles(), body.held_spheres()
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
            together = back == 0.0 or is_clear(body, np.array(poses), rows, 0, world, 0.015)
            cost = max(len(rows), 45 * abs(back)) if together else len(rows) + 45 * abs(back)
            if cost < best_cost:
                best_cost = cost
                best = (back, rows, rows[:0]) if back == 0.0 or not together else (back, rows[:0], rows)
            if best_cost < QUICK:
                break
        if best is None:
            failure = yield from body.move_arm(ARM_REST, until=lambda: _at_rest(sim))
            if failure is not None:
                yield from free_up(body)
            continue
        back, rows, together = best
        if back:
            failure = yield from body.reverse(back, together if len(together) else None)
            if failure is not None and not sim.is_holding:
                return failure
        if len(rows):
            yield from body.follow_arm(rows, until=lambda: _at_rest(sim))
        yield from body.settle(3)
    return None if _at_rest(sim) else "no way to rest"


def _rest_rows(now: np.ndarray, local: Obstacles, held) -> np.ndarray | None:
    """The shortest clear arm motion [T, 7] to a posture with the hand at the resting point, or None."""
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


def place(body: Body, index: int, goal: np.ndarray, give_up: int = 2) -> Program:
    """Drives to where the held object's goal is within reach, sets it down upright and brings the hand to rest."""
    goal = np.asarray(goal, dtype=float)
    return (yield from persist(lambda attempt: _place_once(body, index, goal, attempt), give_up))


def _place_once(body: Body, index: int, goal: np.ndarray, attempt: int) -> Program:
    sim = body.sim
    if sim.held_object != index:
        return "object lost"
    reach = plan_place(body, index, goal, attempt)
    if reach is None:
        yield from recover(body, attempt)
        reach = plan_place(body, index, goal, attempt)
    if reach is None:
        return "no reach"
    failure = yield from approach(body, reach)
    if failure is not None:
        return failure
    corners = refine(body, reach.hand, reach.lower_rows)
    if corners is None:
        corners = np.concatenate([sim.arm_target[None], reach.lower_rows])
    yield from body.follow_arm(time_parametrise(corners))
    yield from body.settle(4)
    yield from let_go(body, 4)
    yield from back_off(body, 0.06)
    return (yield from to_rest(body))


def plan_place(body: Body, index: int, goal: np.ndarray, attempt: int = 0) -> ReachPlan | None:
    """How to reach a goal to set the held object down: from above, or else along the hand's approach."""
    sim = body.sim
    world = body.world_obstacles()
    from_above = np.array([0.0, 0.0, 0.05])
    for pre_offset in (None, from_above) if attempt % 2 else (from_above, None):
        reach = plan_reach(
            body, sim.floor_plan(), lambda heading: _place_hands(sim, index, goal, heading, attempt),
            world, world, pre_offset=pre_offset, pre_distance=0.08,
        )  # fmt: skip
        if reach is not None:
            return reach
    return None


def _place_hands(
    sim: Simulation, index: int, goal: np.ndarray, heading: float, attempt: int
) -> Iterable[HandPose]:
    """Hand poses that hold the object at its goal: upright where the arm can, tilted where it cannot.

    The object's turn about the vertical is free. A tilted object is let go just above the surface and lies
    down there, within its own height of the goal.
    """
    ee = sim.ee_rot_w
    in_hand = ee.T @ object_rotation(sim, index)  # the object's axes in the hand
    offset = sim.world_to_ee(sim.object_pos_w(index))
    kind = sim.object_kind(index)
    # Boxes and cylinders stand on either end: the one that lets the hand come from above.
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
        lean = np.array([np.sin(tilt) * np.cos(heading), np.sin(tilt) * np.sin(heading), -np.cos(tilt)])
        leaning = _rotation_between(np.array([0.0, 0.0, -1.0]), lean)
        for number, turn in enumerate(turns):
            rotation = leaning @ _about_z(turn) @ upright
            height = half_extent(kind, (rotation @ in_hand)[2]) + RELEASE_HEIGHT * (1 + attempt)
            centre = np.array([goal[0], goal[1], surface + height])
            pos = centre - rotation @ offset
            penalty = 1.5 * tilt + (0.05 * number if level > 0.2 else 0.0)
            yield HandPose(pos, rotation[:, 0], rotation, penalty)


def half_extent(kind: ObjectKind, up_o: np.ndarray) -> float:
    """How far an object reaches from its centre along a unit vector of its own frame, m."""
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
