"""Drawers below the counter's top with the arm held still: the base moves the hand.

    open    hand down to the handle's height -> handle -> suction -> straight out -> let go
                -> hand up
    close   hand down in front of the front  -> straight in -> hand up

Every variant is rehearsed first; cases that it cannot handle (a drawer too low, no room to back
off) are left to other programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from rearrange.sim.home import furniture as fur
from rearrange.sim.simulation import Simulation
from rearrange.skills.motion.robot import Robot
from rearrange.skills.oracle.lead import (
    ENOUGH_STEPS,
    HAND_HALF,
    LEAD_GAIN,
    MAX_PHASE,
    MAX_STEPS,
    Posture,
    is_at_rest,
    lead,
    lead_hand,
    let_go,
    may_begin,
    reach_for_handle,
    reverse,
)
from rearrange.skills.oracle.rehearsal import best_of
from rearrange.skills.skill import Program

HANDLE_HEIGHTS = (0.70, 0.80)  # m, of drawers for which the postures below are worth a rehearsal
# Hand pointing down at (0.64, -0.12) in the base frame, 0.735 m and 0.80 m high, and straight above
# at rest.
GRIP_LOW = np.array([-0.399, -0.931, 0.416, 1.295, -0.256, 1.259, 0.005])  # rad
GRIP_HIGH = np.array([-0.5, -1.219, 0.626, 1.262, -0.113, 1.59, 0.005])
PUSH_LOW = np.array([-0.267, -1.014, 0.151, 1.176, -0.08, 1.415, 0.005])
PUSH_HIGH = np.array([-0.233, -1.221, 0.201, 1.169, -0.041, 1.669, 0.005])
OPEN = 0.40  # m, counts as open
SHUT = 0.03  # m
HANDLE_HALF = 0.015  # m
REST_GAP = 0.04  # m between a descending hand and the drawer


@dataclass(frozen=True)
class Pull:
    """One way to pull a drawer open."""

    back: float  # m straight back first, where the hand would come down behind the handle
    release: float  # m of opening at which the handle is released
    speed: float  # m/s


@dataclass(frozen=True)
class Push:
    """One way to push a drawer shut."""

    back: float  # m straight back at first
    side: float | None  # m, position along the front; None: where the hand is
    speed: float  # m/s


PULLS = tuple(
    Pull(back, release, speed)
    for speed, release, back in product((0.7, 0.4), (0.44, 0.48), (0.2, 0.0, 0.35))
)
PUSHES = tuple(
    Push(back, side, speed)
    for speed, side, back in product((0.7, 0.4), (None, 0.0), (0.2, 0.0, 0.35))
)


def plan_pull(robot: Robot, marker: str) -> Pull | None:
    """The best rehearsed variant of pulling the drawer open from here, or None."""
    if not _fits(robot.sim, marker):
        return None
    joint = fur.MARKERS[marker]
    return best_of(
        robot, PULLS, lambda other, way: pull_open(other, marker, way),
        lambda sim: is_at_rest(sim) and sim.joint_position(joint) > OPEN + 0.01,
        MAX_STEPS, ENOUGH_STEPS,
    )  # fmt: skip


def plan_push(robot: Robot, marker: str) -> Push | None:
    """The best rehearsed variant of pushing the drawer shut from here, or None."""
    if not _fits(robot.sim, marker):
        return None
    joint = fur.MARKERS[marker]
    return best_of(
        robot, PUSHES, lambda other, way: push_shut(other, marker, way),
        lambda sim: is_at_rest(sim) and sim.joint_position(joint) < 0.04,
        MAX_STEPS, ENOUGH_STEPS,
    )  # fmt: skip


def _fits(sim: Simulation, marker: str) -> bool:
    low, high = HANDLE_HEIGHTS
    return may_begin(sim, "counter") and low < sim.marker_pos_w(marker)[2] < high


def _axes(sim: Simulation) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors out of the counter's front and along it, [2] each, world."""
    yaw = sim.layout.pieces["counter"][2]
    return np.array([np.cos(yaw), np.sin(yaw)]), np.array([-np.sin(yaw), np.cos(yaw)])


def pull_open(robot: Robot, marker: str, way: Pull) -> Program:
    """Pulls a drawer open by its handle; the hand ends at rest, holding nothing."""
    sim, joint = robot.sim, fur.MARKERS[marker]
    posture = Posture(robot, GRIP_LOW)
    robot.phase = "reaching the handle"
    if way.back:
        yield from reverse(sim, posture, way.back)
    failure = yield from _in_front(sim, marker, posture, 0.0)
    if failure is None:
        failure = yield from reach_for_handle(robot, marker, posture)
    if failure is not None:
        return failure
    robot.phase = "opening"
    hitch = sim.world_to_base(sim.marker_pos_w(marker))[:2]
    out, side = _axes(sim)
    start = sim.marker_pos_w(marker)[:2]
    for _ in range(MAX_PHASE):
        if sim.joint_position(joint) >= way.release:
            break
        if not sim.is_holding:
            return "the handle slipped"
        off = float((sim.marker_pos_w(marker)[:2] - start) @ side)
        yield posture.action(lead(sim, hitch, way.speed * out - LEAD_GAIN * off * side))
    else:
        return "the handle moves too slowly"
    yield from let_go(posture)
    return (yield from _raise(robot, GRIP_HIGH))


def push_shut(robot: Robot, marker: str, way: Push) -> Program:
    """Pushes a drawer shut; the hand ends at rest."""
    sim, joint = robot.sim, fur.MARKERS[marker]
    posture = Posture(robot, PUSH_LOW)
    robot.phase = "reaching the front"
    if way.back:
        yield from reverse(sim, posture, way.back)
    out, side = _axes(sim)
    along = way.side
    if along is None:
        now = float((sim.ee_pos_w[:2] - sim.marker_pos_w(marker)[:2]) @ side)
        along = float(np.clip(now, -0.25, 0.25))
    failure = yield from _in_front(sim, marker, posture, along)
    if failure is not None:
        return failure
    robot.phase = "closing"
    for _ in range(MAX_PHASE):
        if sim.joint_position(joint) < SHUT:
            break
        now = float((sim.ee_pos_w[:2] - sim.marker_pos_w(marker)[:2]) @ side)
        correction = np.clip(LEAD_GAIN * (along - now), -0.3, 0.3)
        yield posture.action(lead_hand(sim, -way.speed * out + correction * side))
    else:
        return "the front moves too slowly"
    return (yield from _raise(robot, PUSH_HIGH))


def _in_front(sim: Simulation, marker: str, posture: Posture, along: float) -> Program:
    """Waits in front of the drawer until the hand is down."""
    out, side = _axes(sim)
    clear = HANDLE_HALF + HAND_HALF + REST_GAP
    for _ in range(MAX_PHASE):
        if posture.steps_left < 3:
            return None
        hand = sim.ee_pos_w[:2] - sim.marker_pos_w(marker)[:2]
        error = (clear - float(hand @ out)) * out + (along - float(hand @ side)) * side
        yield posture.action(lead_hand(sim, LEAD_GAIN * error))
    return "the hand does not get down"


def _raise(robot: Robot, goal: np.ndarray) -> Program:
    """Hand up to rest."""
    sim = robot.sim
    robot.phase = "to rest"
    posture = Posture(robot, goal)
    for _ in range(60):
        if is_at_rest(sim):
            return None
        yield posture.action()
    return "no way to rest"
