"""Cartesian control of the hand: a person's command becomes a step of the arm's motors.

    forward, left, up (m/s), tilt, turn (rad/s)  -->  dq [7] of one control step

While it moves, the hand keeps its orientation as far as the joints allow; the remaining freedom
pulls the arm towards its rest posture, from which it reaches most. The base frame's axes: x
forward, y left, z up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rearrange.sim.robot import fetch
from rearrange.skills.motion.arm_kernel import pose_step
from rearrange.skills.motion.kinematics import ee_pose
from rearrange.skills.motion.motion import ARM_REST

CONTROL_HZ = 30.0
HAND_SPEED = 0.25  # m/s; faster, the joints' limits would bend the path
HAND_TURN = 0.8  # rad/s
TURN_WEIGHT = np.full(3, 0.06)  # m per rad: the path matters far more than the hand's orientation
POSTURE_GAIN = 0.01  # of the way to rest, a control step, in the one direction that is free
DAMPING = 0.03
LENIENCE = 4.0  # beyond this excess of a joint's speed the hand slows down: a bent path is worse
POSTURE_RANGE = 0.25  # rad, error of the worst joint below which the arm slows down


class HandMotion(NamedTuple):
    """Commanded hand motion, each as a share of full speed, in [-1, 1]."""

    forward: float = 0.0
    left: float = 0.0
    up: float = 0.0
    tilt: float = 0.0
    """The approach upwards."""
    turn: float = 0.0
    """To the left, about the vertical."""


def hand_step(q: np.ndarray, motion: HandMotion) -> np.ndarray:
    """Change of the motors' targets `q` [7] rad within a control step, [7] rad.

    Each is at most `fetch.MAX_ARM_STEP`, for which the hand slows down, and within the joint's
    limits. Without a command nothing moves.
    """
    move = np.array([motion.forward, motion.left, motion.up]) * (HAND_SPEED / CONTROL_HZ)
    tilt, turn = motion.tilt * HAND_TURN / CONTROL_HZ, motion.turn * HAND_TURN / CONTROL_HZ
    if not (move.any() or tilt or turn):
        return np.zeros(7)
    q = np.asarray(q, dtype=np.float64)
    approach = ee_pose(q)[1][:, 0]
    level = np.hypot(approach[0], approach[1])
    # About the horizontal axis to the left of the approach, downwards; straight down has none.
    left = np.array([-approach[1], approach[0], 0.0]) / level if level > 1e-3 else np.eye(3)[1]
    rotation = -tilt * left + (0.0, 0.0, turn)
    limit = LENIENCE * fetch.MAX_ARM_STEP
    step = pose_step(q, move, rotation, TURN_WEIGHT, limit, ARM_REST, POSTURE_GAIN, DAMPING)
    return step * min(1.0, fetch.MAX_ARM_STEP / float(np.abs(step).max()))


def step_to_rest(arm_qpos: np.ndarray) -> np.ndarray:
    """The same towards the rest posture, all joints arriving together."""
    left = ARM_REST - np.asarray(arm_qpos)
    return left * (fetch.MAX_ARM_STEP / max(float(np.abs(left).max()), POSTURE_RANGE))
