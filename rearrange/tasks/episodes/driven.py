"""Starts to which the robot has driven by itself, its arm against whatever was in the way.

    some way before --> up to the thing --> turned towards it --> arm back to its start posture

Episodes are drawn clear of everything. In a plan Navigate comes before, whose arm may have caught
on something by then: on the fridge's open door, from either side. Pick, whose training had next to
no such starts, failed in 36 of 92 plans that led to the fridge; in all of the 24 failures right in
front of it the hand was behind the door. So places are preferred where the arm, were it put there,
would touch something. For training only.
"""

from __future__ import annotations

import math

import numpy as np

from rearrange.sim.contacts import ForceMeter
from rearrange.sim.home.furniture import ARTICULATED_JOINTS
from rearrange.sim.robot import fetch
from rearrange.sim.simulation import Simulation
from rearrange.tasks.episodes.placing import Pose, touches_nothing
from rearrange.tasks.rules.definition import TASKS
from rearrange.tasks.rules.episode import EpisodeSpec
from rearrange.tasks.rules.names import HOME_TASKS
from rearrange.tasks.rules.navigate import NavigateTask

STARTS_AWAY, STARTS_ASKEW = (1.05, 1.9), 0.5  # m, rad: elsewhere Navigate has not just ended
STOPS = (1.15, 1.44)  # m from the thing, where it stops
AROUND, COURSE, YAW = 0.6, 1.0, 0.15  # rad: spread about the thing, of the way there, of headings
WAY = (0.4, 1.3)  # m driven
TRIES = 40
DRIVE_STEPS, RESET_STEPS, RESET_DONE = 110, 60, 0.05  # control steps, rad
DRIFT, DRIFT_SPEED = 0.2, 0.25  # of the arm on the way: rad, share of its speed
MOVED, OPEN = 0.03, 0.8  # m of the target, share of an opening that is left: else it is spoilt


def drive_up(sim: Simulation, episode: EpisodeSpec) -> bool:
    """Drives to where the episode begins; False: it begins as it was drawn.

    It does where Navigate has not come before: farther away, nearer or turned elsewhere; where
    nothing near would touch the arm; and where the drive has moved the target, lost it, or
    partly shut what was open.

    Args:
        sim: just reset to the episode, its target in hand if it begins so.
    """
    rng = np.random.default_rng([episode.seed, episode.index, 31])
    target = episode.targets[episode.target_index]
    point = np.array(target.goal if episode.start_holding else target.start)
    away, bearing = _towards(point, episode.scene.base)
    is_arrival = STARTS_AWAY[0] < away < STARTS_AWAY[1] and abs(bearing) < STARTS_ASKEW
    if not is_arrival or episode.task in HOME_TASKS or _is_navigation(episode.task):
        return False
    was, openings = sim.object_pos_w(target.object), _openings(sim)
    way = _find_way(sim, episode, point, rng)
    if way is not None:
        _put(sim, episode, way[0])
        _drive(sim, point, way[1], rng)
        _reset_arm(sim, np.array(episode.scene.arm))
        moved = float(np.linalg.norm(sim.object_pos_w(target.object) - was))
        is_held = sim.held_object == target.object
        is_whole = is_held if episode.start_holding else moved < MOVED
        if is_whole and (_openings(sim) > OPEN * openings - 0.01).all():
            forces = sim.stateful_parts()["forces"]
            assert isinstance(forces, ForceMeter)
            forces.reset(sim.force_instant)  # what counts begins now
            return True
    sim.reset(episode.scene)
    _take(sim, episode)
    return False


def _is_navigation(task: str) -> bool:
    """Whether driving there is the task: Navigate, or one of somebody else's by its rules."""
    return isinstance(TASKS[task].make_rules(), NavigateTask)


def _find_way(
    sim: Simulation, episode: EpisodeSpec, point: np.ndarray, rng: np.random.Generator
) -> tuple[Pose, tuple[float, float]] | None:
    """Where to set off, and the place [2] to drive to; None if none is found."""
    plan = sim.floor_plan()
    about = math.atan2(episode.scene.base[1] - point[1], episode.scene.base[0] - point[0])
    for _ in range(TRIES):
        around, off = about + rng.normal(0.0, AROUND), rng.uniform(*STOPS)
        x, y = point[0] + off * math.cos(around), point[1] + off * math.sin(around)
        if not plan.is_free(x, y):
            continue
        ahead = around + math.pi
        _put(sim, episode, (x, y, ahead + rng.normal(0.0, YAW)))
        if not sim.has_robot_contact():
            continue
        course, length = ahead + rng.uniform(-COURSE, COURSE), rng.uniform(*WAY)
        back = np.arange(0.1, length, 0.1)[:, None] * (math.cos(course), math.sin(course))
        spots = np.array([x, y]) - back
        if not all(plan.is_free(*spot) for spot in spots):
            continue
        first = (float(spots[-1, 0]), float(spots[-1, 1]), course + rng.normal(0.0, YAW))
        _put(sim, episode, first)
        if touches_nothing(sim, None):  # what is held is in the hand already
            return first, (x, y)
    return None


def _put(sim: Simulation, episode: EpisodeSpec, base: Pose) -> None:
    sim.set_robot(base, episode.scene.arm)
    _take(sim, episode)


def _take(sim: Simulation, episode: EpisodeSpec) -> None:
    """The target into the hand, if the episode begins so."""
    if episode.start_holding:
        sim.snap_object(episode.targets[episode.target_index].object)


def _drive(
    sim: Simulation, point: np.ndarray, place: tuple[float, float], rng: np.random.Generator
) -> None:
    """Up to the place, then about until it more or less faces the point, as Navigate does.

    Its policy also moves the arm, by a little and to no end.
    """
    drifted = sim.arm_target + rng.normal(0.0, DRIFT, 7)
    stop, facing = math.dist(place, point[:2]), rng.uniform(0.05, 0.4)
    for _ in range(DRIVE_STEPS):
        away, bearing = _towards(point, sim.base_pose)
        left, error = _towards(place, sim.base_pose)
        if left < 0.08 or away < stop:
            if abs(bearing) < facing:
                return
            base = (0.0, _turn(bearing))
        else:
            pace = max(math.cos(1.6 * min(abs(error), 0.98)), 0.0)
            base = (min(1.0, 2.5 * left) * pace, _turn(error))
        delta = (drifted - sim.arm_target) / fetch.MAX_ARM_STEP
        sim.step(np.clip(delta, -DRIFT_SPEED, DRIFT_SPEED), None, base)


def _reset_arm(sim: Simulation, arm: np.ndarray) -> None:
    """As `deployment.reset_arm`: all joints [7] together, whatever is in the way."""
    for _ in range(RESET_STEPS):
        if np.abs(sim.arm_qpos - arm).max() < RESET_DONE:
            return
        way = arm - sim.arm_target
        sim.step(way / max(float(np.abs(way).max()), fetch.MAX_ARM_STEP), None, (0.0, 0.0))


def _openings(sim: Simulation) -> np.ndarray:
    """Of all drawers and doors, m and rad."""
    return np.array([sim.joint_position(name) for name in ARTICULATED_JOINTS])


def _towards(place, base: Pose) -> tuple[float, float]:
    """How far a place [2 or 3] is from the base, m, and how far beside straight ahead, rad."""
    dx, dy = place[0] - base[0], place[1] - base[1]
    bearing = math.atan2(dy, dx) - base[2]
    return math.hypot(dx, dy), (bearing + math.pi) % (2.0 * math.pi) - math.pi


def _turn(error: float) -> float:
    return float(np.clip(3.0 * error / fetch.MAX_BASE_TURN, -1.0, 1.0))
