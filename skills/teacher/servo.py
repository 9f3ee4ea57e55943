"""Servo: a simple teacher's next action, from the current state.

    state --> where the hand should go next --> one step of arm and base towards it

The oracle plans whole motions; these rules plan only the next step, so they give an action in every
state, however it was reached, and similar actions in similar states. A policy can learn from that
(`guided.py`). They fail where a detour is needed, which the policy has to learn by itself.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np

from rearrange.sim.robot import fetch
from rearrange.skills.motion.arm_kernel import jacobian_of
from rearrange.skills.motion.kinematics import (
    MAX_BASE_FORWARD,
    MAX_BASE_TURN,
    ee_pose,
    whole_body_step,
)
from rearrange.skills.motion.motion import ARM_REST
from rearrange.skills.motion.robot import Robot, world_to_base_axes
from rearrange.skills.oracle.still_fridge import JOINT as FRIDGE_DOOR
from rearrange.skills.skill import ACTION_SIZE, BASE
from rearrange.skills.teacher.shelf import Shelf
from rearrange.skills.teacher.steering import BACK, Steering, shortened

HAND_SPEED = 0.011  # m per control step; faster, the joints' limits would make it a zigzag
DAMPING = 0.04
GAIN = 0.12  # of an error a control step. Labels that are all full speed this way or that, down to
# the last millimetre, tell nothing of how far it is, and cannot be learned.
UPRIGHT_GAIN, REST_SHARE = 4.0, 0.3  # of turning the hand down, and of what the rest posture pulls
POSTURE_RANGE = 0.25  # rad, error of the worst joint below which the arm slows down
SLOPE = 1.6  # of the funnel that the hand comes down in
OVER_RIDGE = 0.12  # m that the hand keeps above what stands in its way
STUCK_STEPS, STALL_STEPS = 12, 40  # of standing still: in touch with something, and without
BACK_WAY, MAX_BACK_STEPS = 0.16, 60  # m to back off, and control steps until it is given up
LEAVE_STEPS = 90
BACKING = 0.1  # m/s that count as backing off
AWAY = (-1.0, 0.0)  # of backing away from a wall's outside
FROM_DOOR = (-1.0, -0.6)  # from the outside of an open door, hinged on the robot's right
STUCK = np.array([0.015] * 3 + [0.03] * 7)  # m and rad of the base, rad of the arm, in STUCK_STEPS
# The arm before a shelf: the hand 0.70 m ahead at 1.15 m, pointing down and a little forward. One
# posture for all, near to that of rest: what differs from episode to episode cannot be learned.
READY = np.array([-0.15, -1.12, 0.50, 0.54, -0.39, 1.30, -0.01])  # rad
MIRROR = np.array([-1.0, 1.0, -1.0, 1.0, -1.0, 1.0, -1.0])  # of a posture, left for right
NEARLY_READY = 0.12  # rad: the last of the way to a posture is slow
IN_SHELF = 0.87  # m, from the base to what lies in it while the hand is at it
RETREAT = 1.6  # m from what lies in a shelf, as far as it goes back from where it stood still
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
        self._poses: deque[np.ndarray] = deque(maxlen=STALL_STEPS)
        self._back = 0  # control steps left for backing off
        self._stuck_at = np.zeros(2)  # m, where the base was when it began to
        self._retreat = 0  # control steps left for backing off before a shelf
        self._leave = 0  # control steps left for leaving a shelf

    def act(self) -> np.ndarray:
        """The action [11] of this control step."""
        raise NotImplementedError

    @property
    def hand_w(self) -> np.ndarray:
        """Position of the hand, [3] m, world, from the arm's angles.

        The rules use these and not the motors' targets, which lead them: the student only sees the
        angles.
        """
        x, y, yaw = self.sim.base_pose
        turn = world_to_base_axes(yaw)
        return turn.T @ ee_pose(self.sim.arm_qpos)[0] + (x, y, 0.0)

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
        rise = off[2] + float(np.clip(slope * (beside - 0.02), 0.0, hover))
        aside = np.array([off[0], off[1], 0.0])
        step = aside * min(GAIN, 0.5 * HAND_SPEED / max(beside, 1e-9))
        if rise > 0.05:
            step *= 0.15  # up first
        return step + (0.0, 0.0, float(np.clip(GAIN * rise, -HAND_SPEED, HAND_SPEED)))

    def into(
        self, point: np.ndarray, hover: float, shelf: Shelf, tip: np.ndarray | None = None,
        slope: float = SLOPE,
    ) -> np.ndarray:  # fmt: skip
        """Into a shelf: faces it, the arm to READY, in with the base, down onto a point.

        From wherever that is possible, or straight back to there; otherwise it first drives to a
        place in front. All changes are gradual: where labels jump, the student stalls. A stalled
        student is told to back off a little, with unchanged arm labels: if those alternated too,
        it would do neither.

        Args:
            tip, slope: see `over`.
        """
        shelf = replace(shelf, angle=self.sim.joint_position(FRIDGE_DOOR))
        off = (self.hand_w if tip is None else tip) - point
        along = float(off @ shelf.outward)
        is_inside = along < 0.34 and float(np.linalg.norm(off - along * shelf.outward)) < 0.35
        base = self.sim.base_pose
        away, bearing = self.towards(point)
        if shelf.is_beside(self.hand_w) and self.has_room_behind():
            return self.rest(AWAY)
        is_backing = self.sim.base_speed < -BACKING
        faces_it = abs(bearing) < (1.0 if is_backing else 0.6)
        leads_in = shelf.leads_in(base, point, is_backing, faces_it)
        if not is_inside and not leads_in:
            if shelf.holds(self.hand_w):  # a turn would sweep the arm through what stands in it
                return self.draw_out(shelf.outward, 0.0)
            if faces_it and shelf.can_back_off(base, point) and self.has_room_behind():
                pace = AWAY[0] * np.cos(np.clip(bearing, -np.pi / 2, np.pi / 2))
                return self.past_door(shelf, self.rest((pace, 0.8 * self.turn(bearing))))
            self.place = self.sim.floor_plan().snap(*shelf.before(base, point))
            left = float(np.hypot(self.place[0] - base[0], self.place[1] - base[1]))
            return self.past_door(shelf, self.rest(self.steer(self.carrot(self.place), left)))
        if is_inside:
            step = self.over(point, hover, tip, has_ridge=False, slope=slope)
            preferred = READY if tip is None else self.pointing_down()
            action, room = self.move(step, preferred=preferred, posture_gain=0.05), 0.0
        else:  # the arm stays small while it turns: the door is near
            bearing = self.towards(shelf.aim(base, point))[1]
            ready = float(np.clip(1.4 - abs(bearing) / 0.5, 0.0, 1.0))
            ready = min(ready, shelf.readiness(base))
            action = self.pose(self.rest_posture + ready * (READY - self.rest_posture))
            left = float(np.abs(READY - self.sim.arm_qpos).max())
            room = 0.5 * float(np.clip((left - NEARLY_READY) / 0.4, 0.0, 1.0))
        wanted = IN_SHELF + room
        fastest = float(np.clip(away - 1.2, 0.5, 1.0))
        pace = float(np.clip(3.0 * (away - wanted), -0.5, fastest)) * max(
            np.cos(2.0 * bearing), 0.0
        )
        pace = 0.0 if abs(away - wanted) < 0.06 else pace
        if self._retreats(away):
            pace = BACK[0]
        action = self.with_base(action, (pace, 0.8 * self.turn(bearing)))
        return action if is_inside else self.past_door(shelf, action)

    def _retreats(self, away: float) -> bool:
        """Whether to keep backing off from where it stood still, `away` m from the object."""
        self._retreat = max(self._retreat - 1, 0) if away < RETREAT else 0
        return self._retreat > 0

    def past_door(self, shelf: Shelf, action: np.ndarray) -> np.ndarray:
        """The action, or backing away from the outside of the open door while the hand is at it.

        The arm, which may reach around the door, stays as it is, and the turn takes it off. Before
        the door's tip it is the action's turn: else the two would balance each other there.
        """
        share = shelf.before_tip(self.hand_w)
        if share == 0.0 or not self.has_room_behind():
            return action
        behind = shelf.behind_door(self.hand_w)
        turn = behind * shelf.fridge.side * FROM_DOOR[1] + (1.0 - behind) * float(action[BASE][1])
        away = self.robot.action(None, (FROM_DOOR[0], turn))
        return (1.0 - share) * action + share * away

    def draw_out(self, outward: np.ndarray, lift: float) -> np.ndarray:
        """Out of a shelf, the base backing off; the hand rises by `lift` m a control step."""
        step = HAND_SPEED * outward + (0.0, 0.0, lift)
        action = self.move(step, preferred=READY, posture_gain=0.05)
        return self.with_base(action, (-0.4, 0.0))

    def free_itself(self, shelf: Shelf | None) -> np.ndarray | None:
        """The action while the arm is caught on something, else None: back off, or leave a shelf.

        A shelf is left completely. A few steps back would only lead to the same place again, and
        labels that change while the robot stands still teach nothing: the student would stall.
        """
        is_caught = self.is_backing_off()
        if is_caught:
            self._leave = LEAVE_STEPS
        if self._stands_still(STALL_STEPS):
            self._poses.clear()
            self._retreat = MAX_BACK_STEPS
        is_inside = shelf is not None and shelf.holds(self.hand_w)
        self._leave = self._leave - 1 if is_inside else 0
        if shelf is not None and self._leave > 0:
            return self.draw_out(shelf.outward, 0.0)
        return self.rest(BACK) if is_caught else None

    def get_ready(self, height: float, base) -> np.ndarray:
        """While driving: the hand to a height above the floor, straight ahead."""
        x, y, yaw = self.sim.base_pose
        turn = world_to_base_axes(yaw)
        wanted = np.array([0.58, 0.0, float(np.clip(height, 0.55, 1.2))])
        action = self.reach(
            turn.T @ wanted + (x, y, 0.0), preferred=self.pointing_down(), posture_gain=0.05
        )
        return self.with_base(action, base)

    def with_base(self, action: np.ndarray, base) -> np.ndarray:
        if base is not None:
            action[BASE] = base
        return action

    def home(self, over: np.ndarray, room: float) -> np.ndarray:
        """The hand back to its place of rest: up first while it is low over a point [3] m."""
        hand = self.hand_w
        if hand[2] < over[2] + room and np.hypot(*(hand - over)[:2]) < 0.1:
            return self.move(np.array([0.0, 0.0, HAND_SPEED]))
        x, y, yaw = self.sim.base_pose
        wanted = world_to_base_axes(yaw).T @ fetch.EE_REST_B + (x, y, 0.0)
        return self.reach(wanted, preferred=self.rest_posture)

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

    def is_backing_off(self) -> bool:
        """Whether to back off, after it has touched something and not moved, until it is away.

        It cannot get further straight on: the arm has caught on something beside the path, or is
        pressed against the front of what it should be above. Until it is away, not just for some
        steps: to a robot that does not move, alternating labels would mean to stay. A robot that
        backed off without effect gives up.
        """
        base = np.array(self.sim.base_pose)
        if self.done[BASE][0] < 0.5 * BACK[0] or self._back <= 0:
            self._back -= 1
        if self._back >= 0:
            if np.hypot(*(base[:2] - self._stuck_at)) > BACK_WAY:
                self._back = -1
            return self._back >= 0
        self._poses.append(np.concatenate([base, self.sim.arm_qpos]))
        if self._stands_still(STUCK_STEPS) and self.sim.force_instant > 0.0:
            self._poses.clear()
            self._back, self._stuck_at = MAX_BACK_STEPS, base[:2]
        return self._back >= 0

    def _stands_still(self, steps: int) -> bool:
        if len(self._poses) < steps:
            return False
        return bool((np.abs(self._poses[-1] - self._poses[-steps]) < STUCK).all())

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
