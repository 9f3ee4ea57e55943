"""Keeping what the hand holds upright while it moves.

What stands 21 or 25 cm tall on 6 cm topples when it is let go 15 degrees askew. To turn the hand
down is not enough: things are held as they were gripped, and who grips from aside holds them
askew. A student sees the angle of the hand, how it was when the thing stood upright, and the thing
itself, in the picture.
"""

from __future__ import annotations

import mujoco
import numpy as np

from rearrange.sim.robot import fetch
from rearrange.skills.motion.arm_kernel import pose_step
from rearrange.skills.motion.robot import Robot, world_to_base_axes
from rearrange.skills.teacher.steering import shortened

TURN_GAIN = 0.15  # of the angle a control step
TURN_SPEED = 0.04  # rad a control step, at most
# m per rad: the way matters more. About the vertical it turns freely.
TURN_WEIGHT = np.array([0.1, 0.1, 0.0])
POSTURE_GAIN, DAMPING = 0.05, 0.03


class Upright:
    """The axis of one held object that points up while it stands, as it did when this was made."""

    def __init__(self, robot: Robot, index: int) -> None:
        self._robot, self._index = robot, index
        vertical = self._axes()[2]
        self._axis = int(np.abs(vertical).argmax())
        self._sign = float(np.sign(vertical[self._axis]))

    @property
    def askew(self) -> np.ndarray:
        """The turn that would set it upright, [3] rad, world."""
        up = self._sign * self._axes()[:, self._axis]
        turn = np.array([up[1], -up[0], 0.0])  # its product with straight up
        sine = float(np.linalg.norm(turn))
        return turn * (np.arctan2(sine, up[2]) / max(sine, 1e-9))

    def arm_step(
        self, step_w: np.ndarray, pivot_w: np.ndarray, preferred: np.ndarray, share: float
    ) -> np.ndarray:
        """Motion of the arm [7] rad that moves the object by [3] m, world, and sets it upright.

        Args:
            pivot_w: from the hand to the point that is to move so, [3] m, world.
            preferred: posture [7] rad that the remaining freedom pulls the arm to.
            share: how far it matters that the object is upright, 0 to 1. High up it cannot be.
        """
        sim = self._robot.sim
        turn = shortened(share * TURN_GAIN * self.askew, TURN_SPEED)
        to_base = world_to_base_axes(sim.base_pose[2])
        return pose_step(
            sim.arm_qpos, to_base @ (step_w - np.cross(turn, pivot_w)), to_base @ turn,
            share * TURN_WEIGHT, fetch.MAX_ARM_STEP, preferred, POSTURE_GAIN, DAMPING,
        )  # fmt: skip

    def _axes(self) -> np.ndarray:
        """The object's axes as columns, [3, 3], world."""
        axes = np.empty(9)
        mujoco.mju_quat2Mat(axes, self._robot.sim.object_quat_w(self._index))
        return axes.reshape(3, 3)
