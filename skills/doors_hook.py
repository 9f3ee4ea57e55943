"""The fridge's door with the arm held still: the hand as a hook at rest height, moved by the base alone.

    open    hook to the handle -> suction -> tow the handle along its arc -> let go
    close   hook around the door's free edge to its outside -> push along the arc

A point ahead of a base with two wheels can be led anywhere: velocity u of the point (base frame, point at
(px, py)) takes forward speed v = ux + w py and turn w = uy / px; the base follows like a trailer. As the hand is
at rest all along, the skill is done when the door is. Base drives are fast, arm motions are slow.

Door frame: r (m) from the hinge along the door, d (m) out of its back face, seen from above.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from rearrange.sim import fetch
from rearrange.sim import furniture as fur
from rearrange.sim.layout import piece_to_world
from rearrange.sim.simulation import Simulation
from rearrange.skills.body import Body
from rearrange.skills.doors_rehearsal import best_of
from rearrange.skills.driving import PathFollower
from rearrange.skills.motion import time_parametrise
from rearrange.skills.skill import GRIP, Program

JOINT = "fridge_top_door"
# The hand at (0.6, 0, 1.0) in the base frame, pointing down, ahead of wrist and elbow; near ARM_START.
HOOK = np.array([-0.255, -1.211, 0.327, 0.865, 0.034, 1.839, 0.005])  # rad
HAND_HALF = 0.07  # m, from the hand's axis to its sides
HANDLE_R, HANDLE_D = 0.61, 0.135  # m, the handle's middle along the door, its front out of the door
OPEN_ANGLE = 1.1708  # rad, counts as open
SHUT_ANGLE = 0.03  # rad
REST_RADIUS = 0.14  # m, within the 0.15 m that tasks ask for
LEAD_GAIN = 2.5  # 1/s, what the base's lag of 0.1 s allows
MAX_PHASE = 120  # control steps


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

    stage: tuple[float, float] | None  # base before it goes to the handle, fridge's frame, m; None: from here
    release: float  # rad where the handle is let go
    speed: float  # m/s of the handle
    leave: float  # m straight back at the end


SWEEPS = tuple(
    Sweep(back, gap, radius, speed)
    for speed, radius, gap, back in product((0.9, 0.6), (0.42, 0.55), (0.14, 0.24), (0.25, 0.0, 0.45))
)
STAGES = (None, (1.05, 0.25), (1.3, 0.3), (1.15, 0.0), (1.25, -0.45))
TOWS = tuple(
    Tow(stage, release, speed, leave)
    for leave, speed, release, stage in product((0.15, 0.0), (0.7, 0.45), (1.25, 1.4), STAGES)
)
RANGE = 2.0  # m from the fridge's middle within which a base may begin
MAX_STEPS, ENOUGH_STEPS = 190, 110  # control steps: of an episode; soon enough to look no further


def door_frame(sim: Simulation) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hinge, unit vector along the door from the hinge, unit vector out of its front: [2] each, world."""
    pose = sim.layout.pieces["fridge"]
    angle = pose[2] + sim.joint_position(JOINT)
    hinge = np.array(piece_to_world(pose, *fur.FRIDGE_HINGE))
    return hinge, np.array([np.sin(angle), -np.cos(angle)]), np.array([np.cos(angle), np.sin(angle)])


def lead(sim: Simulation, point_b: np.ndarray, velocity_w: np.ndarray) -> tuple[float, float]:
    """Base action that gives a point of the robot ([2] m, base frame) a velocity ([2] m/s, world)."""
    yaw = sim.base_pose[2]
    c, s = np.cos(yaw), np.sin(yaw)
    ux = c * velocity_w[0] + s * velocity_w[1]
    uy = -s * velocity_w[0] + c * velocity_w[1]
    turn = uy / max(point_b[0], 0.3)
    forward = ux + turn * point_b[1]
    # Both slow down together: the point keeps to its line.
    scale = max(1.0, abs(forward) / fetch.MAX_BASE_SPEED, abs(turn) / fetch.MAX_BASE_TURN)
    return forward / scale / fetch.MAX_BASE_SPEED, turn / scale / fetch.MAX_BASE_TURN


def plan_sweep(body: Body) -> Sweep | None:
    """The way to push the door shut from here that a rehearsal found good, or None."""
    if not _is_near(body.sim):
        return None
    return best_of(
        body, SWEEPS, sweep_shut, lambda sim: _at_rest(sim) and sim.joint_position(JOINT) < 0.045,
        MAX_STEPS, ENOUGH_STEPS,
    )  # fmt: skip


def plan_tow(body: Body, marker: str) -> Tow | None:
    """The way to pull the door open from here that a rehearsal found good, or None."""
    if not _is_near(body.sim):
        return None
    return best_of(
        body, TOWS, lambda other, way: tow_open(other, marker, way),
        lambda sim: _at_rest(sim) and sim.joint_position(JOINT) > OPEN_ANGLE + 0.02,
        MAX_STEPS, ENOUGH_STEPS,
    )  # fmt: skip


def _is_near(sim: Simulation) -> bool:
    x, y, _ = sim.layout.pieces["fridge"]
    return not sim.is_holding and bool(np.hypot(sim.base_pose[0] - x, sim.base_pose[1] - y) < RANGE)


def _at_rest(sim: Simulation) -> bool:
    return not sim.is_holding and bool(np.linalg.norm(sim.ee_pos_b - fetch.EE_REST_B) < REST_RADIUS)


class _Hook:
    """Actions that bring the arm into the hook's posture while the base does whatever it does."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._rows = list(time_parametrise(np.stack([body.sim.arm_target, HOOK])))

    @property
    def steps_left(self) -> int:
        return len(self._rows)

    def action(self, base=(0.0, 0.0)) -> np.ndarray:
        return self._body.action(self._rows.pop(0) if self._rows else HOOK, base)


def sweep_shut(body: Body, way: Sweep) -> Program:
    """Pushes the fridge's door shut; the hand ends at rest."""
    sim, hook = body.sim, _Hook(body)
    body.phase = "around the door"
    if way.back and _is_inside(sim):
        yield from _reverse(body, hook, way.back)
    for _ in range(MAX_PHASE):
        hinge, along, out = door_frame(sim)
        hand = sim.ee_pos_w[:2] - hinge
        r, d = float(hand @ along), float(hand @ out)
        clear = fur.FRIDGE_DOOR_THICKNESS + HAND_HALF
        if d > clear - 0.01 and r < HANDLE_R + 0.01:
            break
        if d > HANDLE_D + HAND_HALF:  # outside: over the handle to where it pushes
            wanted = (way.radius, HANDLE_D + HAND_HALF + 0.04)
        elif r < fur.FRIDGE_DOOR_WIDTH + 0.6 * way.gap:  # inside: out along the door
            wanted = (fur.FRIDGE_DOOR_WIDTH + 1.3 * way.gap, min(d, -HAND_HALF))
        else:  # past the edge
            wanted = (fur.FRIDGE_DOOR_WIDTH + way.gap, HANDLE_D + HAND_HALF + 0.1)
        error = (wanted[0] - r) * along + (wanted[1] - d) * out
        error *= min(1.0, 0.4 / max(float(np.linalg.norm(error)), 1e-6))
        yield hook.action(lead(sim, sim.ee_pos_b[:2], LEAD_GAIN * error))
    else:
        return "no way around the door"
    body.phase = "closing"
    for _ in range(MAX_PHASE):
        if sim.joint_position(JOINT) < SHUT_ANGLE and not hook.steps_left:
            break
        hinge, along, out = door_frame(sim)
        r = float((sim.ee_pos_w[:2] - hinge) @ along)
        velocity = -way.speed * out + np.clip(LEAD_GAIN * (way.radius - r), -0.5, 0.5) * along
        yield hook.action(lead(sim, sim.ee_pos_b[:2], velocity))
    else:
        return "the front moves too slowly"
    yield hook.action()
    return None


def _is_inside(sim: Simulation) -> bool:
    hinge, _, out = door_frame(sim)
    return bool((sim.ee_pos_w[:2] - hinge) @ out < fur.FRIDGE_DOOR_THICKNESS + HAND_HALF)


def tow_open(body: Body, marker: str, way: Tow) -> Program:
    """Pulls the fridge's door open by its handle; the hand ends at rest, holding nothing."""
    sim, hook = body.sim, _Hook(body)
    body.phase = "driving there"
    if way.stage is not None:
        stage = np.array(piece_to_world(sim.layout.pieces["fridge"], *way.stage))
        to_handle = sim.marker_pos_w(marker)[:2] - stage
        follower = PathFollower(stage[None], float(np.arctan2(to_handle[1], to_handle[0])))
        for _ in range(MAX_PHASE):
            base = follower.act(sim.base_pose)
            if follower.is_done:
                break
            yield hook.action(base)
        else:
            return "the base is stuck"
    body.phase = "reaching the handle"
    for _ in range(MAX_PHASE):
        if sim.is_holding:
            break
        error = sim.marker_pos_w(marker)[:2] - sim.ee_pos_w[:2]
        distance = float(np.linalg.norm(error))
        body.grip_wanted = hook.steps_left < 8 and distance < 0.2
        # Not there before the arm is; at the handle no faster than a gentle push.
        speed = float(np.clip(2.0 * (distance - 0.08), 0.25, 0.9))
        if hook.steps_left and distance < 0.15:
            speed = 0.0
        yield hook.action(lead(sim, sim.ee_pos_b[:2], speed * error / max(distance, 1e-6)))
    body.grip_wanted = False
    if sim.held_marker != marker:
        return "no grip on the handle"
    body.phase = "opening"
    hitch = sim.world_to_base(sim.marker_pos_w(marker))[:2]
    hinge, along, out = door_frame(sim)
    radius = float(np.linalg.norm(sim.marker_pos_w(marker)[:2] - hinge))
    for _ in range(MAX_PHASE):
        if sim.joint_position(JOINT) >= way.release:
            break
        if not sim.is_holding:
            return "the handle slipped"
        arm = sim.marker_pos_w(marker)[:2] - hinge
        # Where the hand is now is where the handle should be: hold the hand to the arc, too.
        hand = sim.base_pose[:2] + _turned(hitch, sim.base_pose[2]) - hinge
        tangent = np.array([-arm[1], arm[0]]) / radius
        off = radius - float(np.linalg.norm(hand))
        velocity = way.speed * tangent + LEAD_GAIN * off * hand / np.linalg.norm(hand)
        yield hook.action(lead(sim, hitch, velocity))
    else:
        return "the handle moves too slowly"
    action = hook.action()
    action[GRIP] = -1.0
    yield action
    if way.leave:
        yield from _reverse(body, hook, way.leave)
    return None


def _turned(vector: np.ndarray, yaw: float) -> np.ndarray:
    c, s = np.cos(yaw), np.sin(yaw)
    return np.array([c * vector[0] - s * vector[1], s * vector[0] + c * vector[1]])


def _reverse(body: Body, hook: _Hook, distance: float) -> Program:
    """Straight back by a distance, m, without stopping at its end."""
    x, y, _ = body.sim.base_pose
    for _ in range(40):
        bx, by, _ = body.sim.base_pose
        if np.hypot(bx - x, by - y) > distance - 0.05:
            break
        yield hook.action((-1.0, 0.0))
