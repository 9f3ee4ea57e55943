"""The fridge's door with the arm held still: the hand is a hook that the base moves.

    open    hook to the handle -> suction -> tow the handle along its arc -> let go
    close   hook around the door's free edge to its outside -> push along the arc

As the hand is at its resting place all the time, the skill is done when the door is.

Door frame: r (m) from the hinge along the door, d (m) out of its back face, seen from above.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from rearrange.sim.home import furniture as fur
from rearrange.sim.home.furniture import piece_to_world
from rearrange.sim.simulation import Simulation
from rearrange.skills.motion.driving import PathFollower
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
    turned,
)
from rearrange.skills.oracle.rehearsal import best_of
from rearrange.skills.skill import Program

JOINT = "fridge_top_door"
# The hand at (0.6, 0, 1.0) in the base frame, pointing down, ahead of wrist and elbow; near
# ARM_START.
HOOK = np.array([-0.255, -1.211, 0.327, 0.865, 0.034, 1.839, 0.005])  # rad
HANDLE_D = 0.135  # m, the front of the handle out of the door
OPEN_ANGLE = 1.1708  # rad, counts as open
SHUT_ANGLE = 0.03  # rad
END_SPEED, SLOWING = (
    0.15,
    1.2,
)  # m/s of the hand as the door shuts, and m/s more per radian before that
COAST = 3  # control steps that the hand moves on beside the released door
FAST = 0.4  # m; at larger distances the hand's speed is constant


@dataclass(frozen=True)
class Sweep:
    """One way to push the door shut."""

    back: float  # m straight back before the hand goes around the edge
    gap: float  # m between edge and hand on the way around
    radius: float  # m from the hinge where the hand pushes
    speed: float  # m/s of the hand


@dataclass(frozen=True)
class Tow:
    """One way to pull the door open."""

    stage: (
        tuple[float, float] | None
    )  # where the base starts towards the handle, fridge's frame, m; None: here
    release: float  # rad at which the handle is released
    speed: float  # m/s of the handle
    leave: float  # m straight back at the end
    aside: float  # m from the handle towards the door's edge; the hand passes it on that side


SWEEPS = tuple(
    Sweep(back, gap, radius, speed)
    for speed, radius, gap, back in product(
        (0.9, 0.6), (0.42, 0.55), (0.14, 0.24), (0.25, 0.0, 0.45)
    )
)
STAGES = (None, (1.05, 0.25), (1.3, 0.3), (1.15, 0.0), (1.25, -0.45))
ASIDES = (0.04, 0.06, 0.0)
TOWS = tuple(
    Tow(stage, release, speed, leave, aside)
    for leave, speed, release, stage, aside in product(
        (0.15, 0.0), (0.7, 0.45), (1.25, 1.4), STAGES, ASIDES
    )
)


def plan_sweep(robot: Robot) -> Sweep | None:
    """The best rehearsed variant of pushing the door shut from here, or None."""
    if not may_begin(robot.sim, "fridge"):
        return None
    return best_of(
        robot, SWEEPS, sweep_shut,
        lambda sim: is_at_rest(sim) and sim.joint_position(JOINT) < 0.045,
        MAX_STEPS, ENOUGH_STEPS,
    )  # fmt: skip


def plan_tow(robot: Robot, marker: str) -> Tow | None:
    """The best rehearsed variant of pulling the door open from here, or None."""
    if not may_begin(robot.sim, "fridge"):
        return None
    return best_of(
        robot, TOWS, lambda other, way: tow_open(other, marker, way),
        lambda sim: is_at_rest(sim) and sim.joint_position(JOINT) > OPEN_ANGLE + 0.02,
        MAX_STEPS, ENOUGH_STEPS,
    )  # fmt: skip


def door_axes(sim: Simulation) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hinge, unit vectors along the door from the hinge and out of its front: [2] each, world."""
    return sim.layout.door_frame(sim.joint_position(JOINT))


def sweep_shut(robot: Robot, way: Sweep) -> Program:
    """Pushes the fridge's door shut; the hand ends at rest."""
    sim, hook = robot.sim, Posture(robot, HOOK)
    clear = fur.FRIDGE_DOOR_THICKNESS + HAND_HALF
    over = HANDLE_D + HAND_HALF  # clear of the handle, too
    fridge = sim.layout.fridge
    robot.phase = "around the door"
    hinge, _, out = door_axes(sim)
    if way.back and float((sim.ee_pos_w[:2] - hinge) @ out) < clear:
        yield from reverse(sim, hook, way.back)
    for _ in range(MAX_PHASE):
        hinge, along, out = door_axes(sim)
        hand = sim.ee_pos_w[:2] - hinge
        r, d = float(hand @ along), float(hand @ out)
        if d > clear - 0.01 and r < fridge.handle_r + 0.01:
            break
        if d > over:  # outside: over the handle to where it pushes
            wanted = (way.radius, over + 0.04)
        elif r < fridge.door_width + 0.6 * way.gap:  # inside: out along the door
            wanted = (fridge.door_width + 1.3 * way.gap, min(d, -HAND_HALF))
        else:  # past the edge
            wanted = (fridge.door_width + way.gap, over + 0.1)
        error = (wanted[0] - r) * along + (wanted[1] - d) * out
        error *= min(1.0, FAST / max(float(np.linalg.norm(error)), 1e-6))
        yield hook.action(lead_hand(sim, LEAD_GAIN * error))
    else:
        return "no way around the door"
    robot.phase = "closing"
    for _ in range(MAX_PHASE):
        if sim.joint_position(JOINT) < SHUT_ANGLE and not hook.steps_left:
            break
        hinge, along, out = door_axes(sim)
        r = float((sim.ee_pos_w[:2] - hinge) @ along)
        correction = np.clip(LEAD_GAIN * (way.radius - r), -0.5, 0.5)
        # Slowly at the end, where door and robot stop abruptly.
        speed = min(way.speed, END_SPEED + SLOWING * sim.joint_position(JOINT))
        yield hook.action(lead_hand(sim, -speed * out + correction * along))
    else:
        return "the front moves too slowly"
    yield hook.action()
    return None


def tow_open(robot: Robot, marker: str, way: Tow) -> Program:
    """Pulls the fridge's door open by its handle; the hand ends at rest, holding nothing."""
    sim, hook = robot.sim, Posture(robot, HOOK)
    robot.phase = "driving there"
    if way.stage is not None:
        failure = yield from _stage(sim, hook, marker, way.stage)
        if failure is not None:
            return failure
    robot.phase = "reaching the handle"
    hinge, along, _ = door_axes(sim)
    failure = yield from reach_for_handle(robot, marker, hook, way.aside * along)
    if failure is not None:
        return failure
    robot.phase = "opening"
    hitch = sim.world_to_base(sim.marker_pos_w(marker))[:2]
    radius = float(np.linalg.norm(sim.marker_pos_w(marker)[:2] - hinge))
    base = (0.0, 0.0)
    for _ in range(MAX_PHASE):
        if sim.joint_position(JOINT) >= way.release:
            break
        if not sim.is_holding:
            return "the handle slipped"
        handle = sim.marker_pos_w(marker)[:2] - hinge
        hand = np.array(sim.base_pose[:2]) + turned(hitch, sim.base_pose[2]) - hinge
        tangent = sim.layout.fridge.side * np.array([-handle[1], handle[0]]) / radius
        off = radius - float(np.linalg.norm(hand))  # the hand stays on the arc as well
        velocity = way.speed * tangent + LEAD_GAIN * off * hand / np.linalg.norm(hand)
        base = lead(sim, hitch, velocity)
        yield hook.action(base)
    else:
        return "the handle moves too slowly"
    yield from let_go(hook, base)  # the door would run into a hand that brakes
    for _ in range(COAST):
        yield hook.action(base)
    if way.leave:
        yield from reverse(sim, hook, way.leave)
    return None


def _stage(sim: Simulation, hook: Posture, marker: str, place: tuple[float, float]) -> Program:
    """Drives to a place in front of the fridge and faces the handle."""
    ahead, aside = place
    aside *= sim.layout.fridge.side
    stage = np.array(piece_to_world(sim.layout.pieces["fridge"], ahead, aside))
    to_handle = sim.marker_pos_w(marker)[:2] - stage
    follower = PathFollower(stage[None], float(np.arctan2(to_handle[1], to_handle[0])))
    for _ in range(MAX_PHASE):
        base = follower.act(sim.base_pose)
        if follower.is_done:
            return None
        yield hook.action(base)
    return "the base is stuck"
