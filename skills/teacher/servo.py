"""Servo: a simple teacher's next action, from the current state.

    state --> where the hand should go next --> one step of arm and base towards it

The oracle plans whole motions; these rules plan only the next step, so they give an action in every
state, however it was reached, and similar actions in similar states. A policy can learn from that
(`guided.py`). They fail where a detour is needed, which the policy has to learn by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rearrange.sim.robot import fetch
from rearrange.skills.motion.arm_kernel import jacobian_of
from rearrange.skills.motion.driving import clipped
from rearrange.skills.motion.kinematics import (
    MAX_BASE_FORWARD,
    MAX_BASE_TURN,
    ee_pose,
    whole_body_step,
)
from rearrange.skills.motion.motion import ARM_REST
from rearrange.skills.motion.robot import Robot, world_to_base_axes
from rearrange.skills.skill import ACTION_SIZE, BASE
from rearrange.skills.teacher.steering import Steering, shortened

HAND_SPEED = 0.011  # m per control step; faster, the joints' limits would make it a zigzag
DAMPING = 0.04
GAIN = 0.12  # of an error a control step. Labels that are all full speed this way or that, down to
# the last millimetre, tell nothing of how far it is, and cannot be learned.
UPRIGHT_GAIN, REST_SHARE = 4.0, 0.3  # of turning the hand down, and of what the rest posture pulls
POSTURE_RANGE = 0.25  # rad, error of the worst joint below which the arm slows down
SLOPE = 1.6  # of the funnel that the hand comes down in
OVER_RIDGE = 0.12  # m that the hand keeps above what stands in its way
MIRROR = np.array([-1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0])  # of a posture, left for right
NEAR_REST = 0.11  # m, well within the 0.15 m that tasks ask for


class Servo(Steering):
    """Shared by the rules of all skills.

    Attributes:
        done: the action [11] that was carried out last, the teacher's or the policy's.
        rest_posture: [7] rad, of the arm at rest; all bring the hand to its place of rest.
    """

    def __init__(self, robot: Robot) -> None:
        super().__init__(robot)
        self.done = np.full(ACTION_SIZE, -1.0)
        self.rest_posture = ARM_REST

    def act(self) -> np.ndarray:
        """The action [11] of this control step."""
        raise NotImplementedError

    @property
    def is_turning_back(self) -> bool:
        """Whether its last action begins to back off, which shows in the hand's roll."""
        return False

    @property
    def hand_w(self) -> np.ndarray:
        """Position of the hand, [3] m, world, from the arm's angles.

        The rules use these and not the motors' targets, which lead them: the student only sees the
        angles.
        """
        return self._to_world(ee_pose(self.sim.arm_qpos)[0].tolist())

    def move(
        self, step_w: np.ndarray, base_allowed: bool = False, preferred: np.ndarray | None = None,
        weights: np.ndarray | None = None, posture_gain: float = 0.02,
    ) -> np.ndarray:  # fmt: skip
        """Moves the hand by [3] m, world, with the arm, and the base if allowed."""
        step_w = shortened(step_w, HAND_SPEED)
        dq, base = whole_body_step(
            self.sim.arm_qpos, world_to_base_axes(self.sim.base_pose[2]) @ step_w, base_allowed,
            q_preferred=self.rest_posture if preferred is None else preferred, weights=weights,
            posture_gain=posture_gain, damping=DAMPING,
        )  # fmt: skip
        return self.robot.action(self.sim.arm_target + dq, self._allowed(base))

    def pointing_down(self) -> np.ndarray:
        """A posture [7] to go towards: the hand points down, so what it holds stays upright."""
        q = self.sim.arm_qpos
        _, rotation, jacobian = jacobian_of(q)
        forward, left, _ = rotation[:, 0]
        askew = np.array([-left, forward, 0.0])  # axis and sine of the turn: its product with down
        return q + UPRIGHT_GAIN * jacobian[3:].T @ askew + REST_SHARE * (self.rest_posture - q)

    def reach(self, target_w: np.ndarray, gain: float = GAIN, **how) -> np.ndarray:
        """Moves the hand a step towards a point [3] m, world."""
        return self.move(gain * (target_w - self.hand_w), **how)

    def reach_down(self, target_w: np.ndarray) -> np.ndarray:
        """The same, and turns it to point down on the way."""
        return self.reach(target_w, preferred=self.pointing_down(), posture_gain=0.05)

    def over(
        self, point: np.ndarray, hover: float, tip: np.ndarray | None = None, has_ridge=True,
        slope: float = SLOPE,
    ) -> np.ndarray:  # fmt: skip
        """The hand down onto a point in a funnel: the farther beside it the higher, [3] m step.

        Args:
            tip: the point to bring there, instead of the hand.
            has_ridge: whether to stay above obstacles in between.
            slope: of the funnel, m up per m to the side.
        """
        off = point - (self.hand_w if tip is None else tip)
        beside = float(np.hypot(off[0], off[1]))
        if has_ridge and beside > 0.1:  # over a chair's back
            hover = max(hover, self.ridge(point - off, point) + OVER_RIDGE - float(point[2]))
        rise = off[2] + clipped(slope * (beside - 0.02), 0.0, hover)
        aside = np.array([off[0], off[1], 0.0])
        step = aside * min(GAIN, 0.5 * HAND_SPEED / max(beside, 1e-9))
        if rise > 0.05:
            step *= 0.15  # up first
        return step + (0.0, 0.0, clipped(GAIN * rise, -HAND_SPEED, HAND_SPEED))

    def get_ready(self, height: float, base) -> np.ndarray:
        """While driving: the hand to a height above the floor, straight ahead."""
        wanted = self._to_world((0.58, 0.0, clipped(height, 0.55, 1.3)))
        return self.with_base(self.reach_down(wanted), base)

    def with_base(self, action: np.ndarray, base) -> np.ndarray:
        if base is not None:
            action[BASE] = base
        return action

    def home(self, over: np.ndarray, room: float) -> np.ndarray:
        """The hand back to its place of rest: up first while it is low over a point [3] m."""
        hand = self.hand_w
        if hand[2] < over[2] + room and np.hypot(*(hand - over)[:2]) < 0.1:
            return self.move(np.array([0.0, 0.0, HAND_SPEED]))
        return self.reach(self._to_world(fetch.EE_REST_B), preferred=self.rest_posture)

    def rest(self, base=(0.0, 0.0)) -> np.ndarray:
        """The arm goes to its place of rest."""
        return self.pose(self.rest_posture, base)

    def pose(self, posture: np.ndarray, base=(0.0, 0.0)) -> np.ndarray:
        """The arm goes to a posture [7] rad on a straight line through joint space."""
        left = posture - self.sim.arm_qpos
        pace = fetch.MAX_ARM_STEP / max(float(np.abs(left).max()), POSTURE_RANGE)
        return self.robot.action(self.sim.arm_target + pace * left, base)

    @property
    def is_resting(self) -> bool:
        return float(np.linalg.norm(self.sim.ee_pos_b - fetch.EE_REST_B)) < NEAR_REST

    def _to_world(self, point_b: Sequence[float] | np.ndarray) -> np.ndarray:
        """A point of the base's frame, [3] m, in the world."""
        x, y, yaw = self.sim.base_pose
        ahead, left, up = point_b
        c, s = math.cos(yaw), math.sin(yaw)
        return np.array([x + c * ahead - s * left, y + s * ahead + c * left, up])

    def _allowed(self, motion: np.ndarray) -> tuple[float, float]:
        """Base action of a motion (m, rad a control step), without driving into furniture."""
        x, y, yaw = self.sim.base_pose
        plan = self.sim.floor_plan()
        forward = float(motion[0])
        ahead = np.sign(forward) * 0.08
        if plan.is_free(x, y) and not plan.is_free(
            x + ahead * np.cos(yaw), y + ahead * np.sin(yaw)
        ):
            forward = 0.0
        return forward / MAX_BASE_FORWARD, float(motion[1]) / MAX_BASE_TURN
