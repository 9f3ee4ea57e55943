"""Moves the hand with the base while the arm is still: shared by quick opening and closing.

A point ahead of a two-wheeled base can be moved in any direction: velocity u of the point (base
frame, point at (px, py)) needs the turn rate w = uy / px and the forward speed v = ux + w py; the
base follows like a trailer. Base motions are fast, arm motions are slow.
"""

from __future__ import annotations

import numpy as np

from rearrange.sim.robot import fetch
from rearrange.sim.simulation import Simulation
from rearrange.skills.motion.motion import time_parametrise
from rearrange.skills.motion.robot import Robot
from rearrange.skills.skill import GRIP, Program

HAND_HALF = 0.07  # m, from the hand's axis to its sides
LEAD_GAIN = 2.5  # 1/s, gain that the base's lag of 0.1 s allows
MAX_PHASE = 120  # control steps
REST_RADIUS = 0.14  # m, within the 0.15 m that tasks ask for
MAX_STEPS, ENOUGH_STEPS = 190, 110  # control steps of an episode: fast enough to stop searching
RANGE = 2.0  # m between base and furniture up to which a quick motion may begin
_MIN_LEVER = 0.3  # m: a point beside the base cannot be moved sideways


class Posture:
    """Actions that bring the arm to a posture [7], whatever the base does."""

    def __init__(self, robot: Robot, goal: np.ndarray) -> None:
        self._robot, self._goal = robot, goal
        self._rows = list(time_parametrise(np.stack([robot.sim.arm_target, goal])))

    @property
    def steps_left(self) -> int:
        """Control steps until the motor targets have arrived."""
        return len(self._rows)

    def action(self, base=(0.0, 0.0)) -> np.ndarray:
        """The next action, [11]."""
        return self._robot.action(self._rows.pop(0) if self._rows else self._goal, base)


def lead(sim: Simulation, point_b: np.ndarray, velocity_w: np.ndarray) -> tuple[float, float]:
    """Base action that gives a point of the robot ([2] m, base) a velocity ([2] m/s, world)."""
    ux, uy = turned(velocity_w, -sim.base_pose[2])
    turn = uy / max(point_b[0], _MIN_LEVER)
    forward = ux + turn * point_b[1]
    # Both slow down together, so that the point stays on its line.
    scale = max(1.0, abs(forward) / fetch.MAX_BASE_SPEED, abs(turn) / fetch.MAX_BASE_TURN)
    return forward / scale / fetch.MAX_BASE_SPEED, turn / scale / fetch.MAX_BASE_TURN


def lead_hand(sim: Simulation, velocity_w: np.ndarray) -> tuple[float, float]:
    """Base action that gives the hand a velocity ([2] m/s, world)."""
    return lead(sim, sim.ee_pos_b[:2], velocity_w)


def turned(vector: np.ndarray, angle: float) -> np.ndarray:
    """A vector [2] rotated by an angle, rad."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([c * vector[0] - s * vector[1], s * vector[0] + c * vector[1]])


def reach_for_handle(
    robot: Robot,
    marker: str,
    posture: Posture,
    offset_w: tuple[float, float] | np.ndarray = (0.0, 0.0),
) -> Program:
    """Moves the hand to a handle, or an offset ([2] m, world) from it, until suction holds it."""
    sim = robot.sim
    try:
        for _ in range(MAX_PHASE):
            if sim.is_holding:
                break
            error = sim.marker_pos_w(marker)[:2] + offset_w - sim.ee_pos_w[:2]
            distance = float(np.linalg.norm(error))
            robot.grip_wanted = posture.steps_left < 8 and distance < 0.2
            # Arrives no earlier than the arm, and slowly at the handle.
            speed = float(np.clip(2.0 * (distance - 0.08), 0.25, 0.9))
            if posture.steps_left and distance < 0.15:
                speed = 0.0
            yield posture.action(lead_hand(sim, speed * error / max(distance, 1e-6)))
    finally:  # also when the generator is closed by a time limit
        robot.grip_wanted = False
    return None if sim.held_marker == marker else "no grip on the handle"


def let_go(posture: Posture, base=(0.0, 0.0)) -> Program:
    """Suction off."""
    action = posture.action(base)
    action[GRIP] = -1.0
    yield action


def reverse(sim: Simulation, posture: Posture, distance: float) -> Program:
    """Drives straight back by a distance, m, without stopping at the end."""
    x, y, _ = sim.base_pose
    for _ in range(40):
        bx, by, _ = sim.base_pose
        if np.hypot(bx - x, by - y) > distance - 0.05:
            break
        yield posture.action((-1.0, 0.0))


def is_at_rest(sim: Simulation) -> bool:
    """Whether the hand is at the resting point and holds nothing."""
    return not sim.is_holding and bool(np.linalg.norm(sim.ee_pos_b - fetch.EE_REST_B) < REST_RADIUS)


def may_begin(sim: Simulation, piece: str) -> bool:
    """Whether the robot, with nothing in its hand, is near a piece of furniture."""
    x, y, _ = sim.layout.pieces[piece]
    return not sim.is_holding and bool(np.hypot(sim.base_pose[0] - x, sim.base_pose[1] - y) < RANGE)
