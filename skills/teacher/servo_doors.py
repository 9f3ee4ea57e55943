"""Rules for drawers and the fridge: open, close. See `servo.py`."""

from __future__ import annotations

import numpy as np

from rearrange.sim.home import furniture as fur
from rearrange.skills.motion.driving import clipped, wrapped
from rearrange.skills.motion.motion import ARM_REST
from rearrange.skills.motion.robot import Robot
from rearrange.skills.oracle import doors
from rearrange.skills.oracle import still_fridge as fridge
from rearrange.skills.skill import BASE, GRIP, STOP
from rearrange.skills.teacher.retreat import BACK, BACK_WAY, STUCK_STEPS, Standstill
from rearrange.skills.teacher.servo import MIRROR, Servo
from rearrange.skills.teacher.steering import shortened

FAR = 1.15  # m from the handle; from farther the base drives to a place before it
MAX_BACK_STEPS = 60  # control steps of backing off until it is given up


class OpenServo(Servo):
    """In front of the handle, to it, pull, let go, back off, rest, stop."""

    AWAY = 0.8  # m from the handle to where the base stands
    OTHER = 0.6  # rad, of a joint: the arm still has the posture of the other side
    ASIDE = (0.15, 0.8)  # m or rad that it is open, rad beside straight ahead
    SKEW = 0.6  # rad off the straight look at the front: it may stay
    SWING = 0.3  # rad/s of an open door: let go, it would hit the robot and swing shut again

    def __init__(self, robot: Robot, marker: str) -> None:
        super().__init__(robot)
        self._marker = marker
        self._joint = fur.MARKERS[marker]
        self._kind = doors.kind_of(self._joint)
        self._is_askew = False
        self._still = Standstill(self.sim)
        self._back = 0  # control steps left for backing off
        self._stuck_at = np.zeros(2)  # m, where the base was when it began to
        self._wanted = doors.IS_OPEN[self._kind] + (0.025 if self._kind == "drawer" else 0.25)
        self._is_mirrored = self._kind == "fridge" and self.sim.layout.fridge.side < 0.0
        if self._is_mirrored:
            # The wrist stands off the door that turns towards it, on whichever side its hinge is.
            self.rest_posture = MIRROR * ARM_REST

    def act(self) -> np.ndarray:
        action = self._act()
        is_open = self.sim.joint_position(self._joint) > doors.IS_OPEN[self._kind]
        is_done = is_open and self.is_resting and not self.sim.is_holding
        action[STOP] = 1.0 if is_done else -1.0
        return action

    def _act(self) -> np.ndarray:
        sim, joint = self.sim, self._joint
        handle, outward = self._handle(), doors.outward_of(sim, joint)
        value = sim.joint_position(joint)
        is_backing_off = self._is_backing_off()
        if sim.is_holding:
            is_pulled = sim.held_marker == self._marker and value < self._wanted
            if is_pulled and not self._is_shut_aside(value, handle):
                return self._pull(value)
            action = self.rest()
            action[:7], action[GRIP] = 0.0, 1.0 if self._is_swinging(value) else -1.0
            return action
        ee = sim.ee_pos_w
        if value > doors.IS_OPEN[self._kind]:
            off = ee - handle
            if self._kind == "drawer" and (np.linalg.norm(off) < 0.10 or off @ outward < 0.05):
                return self.reach(ee + 0.1 * outward + (0, 0, 0.05), base_allowed=True)
            near = np.linalg.norm(off[:2]) < 0.35
            if self._kind == "fridge" and near:
                return self._leave_door(off, outward)
            return self.rest((-0.3 if near else 0.0, 0.0))
        if is_backing_off:
            return self.rest(BACK)
        base = self._stand(handle, outward)
        is_skewed = self._kind == "fridge" and self._is_askew
        # A door that slipped out of the hand half open is gripped again from where the base is,
        # one that was left ajar only if the arm reaches it from there.
        is_begun = self._kind == "fridge" and value > 0.3 and self.towards(handle)[0] < FAR
        if base is not None and not is_begun and (np.linalg.norm(ee - handle) > 0.12 or is_skewed):
            return self.rest(base)
        along = float((ee - handle) @ outward)
        beside = float(np.linalg.norm(ee - handle - along * outward))
        is_other = np.abs(self.rest_posture - sim.arm_qpos).max() > self.OTHER
        if self._is_mirrored and along > 0.15 and not is_begun and is_other:
            return self.rest()
        if beside < 0.03 + 0.15 * max(along, 0.0) and along > -0.03:
            action = self.reach(handle - 0.02 * outward)
        else:
            action = self.reach(handle + 0.12 * outward)
        # Long before it touches: a label that is rare is hardly learned.
        action[GRIP] = 1.0 if along < 0.25 and beside < 0.12 else -1.0
        return action

    def _is_swinging(self, value: float) -> bool:
        """Whether it holds a fridge's door that is open and has not come to rest."""
        is_open = self._kind == "fridge" and value >= self._wanted
        is_held = self.sim.held_marker == self._marker
        return is_open and is_held and self.sim.joint_velocity(self._joint) > self.SWING

    def _is_shut_aside(self, value: float, handle: np.ndarray) -> bool:
        """Whether the robot has driven past what it holds and shut it again: from there no pull
        opens it, it has to let go and come from the front once more."""
        return value < self.ASIDE[0] and abs(self.towards(handle)[1]) > self.ASIDE[1]

    def _is_backing_off(self) -> bool:
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
        self._still.note()
        if self.sim.force_instant > 0.0 and self._still.lasts(STUCK_STEPS):
            self._still.clear()
            self._back, self._stuck_at = MAX_BACK_STEPS, base[:2]
        return self._back >= 0

    def _leave_door(self, off: np.ndarray, outward: np.ndarray) -> np.ndarray:
        """The hand away from the open fridge's handle, from which it is `off` [3] m, world.

        Straight back, unless that would lead into the door and shut it. The arm stays as it is at
        first: a hand that goes to rest takes the door along.
        """
        yaw = self.sim.base_pose[2]
        if np.cos(yaw) * outward[0] + np.sin(yaw) * outward[1] < 0.0:
            is_clear = np.linalg.norm(off[:2]) > 0.12
            return self.rest((-0.7, 0.0)) if is_clear else self.robot.action(None, (-1.0, 0.0))
        if np.linalg.norm(off) < 0.15 and off @ outward < 0.07:
            return self.reach(self.sim.ee_pos_w + 0.1 * outward, base_allowed=True)
        return self.robot.action(None, BACK)

    def _handle(self) -> np.ndarray:
        """Where to grip, [3] m world: the fridge's handle is long, and gripped at rest's height."""
        point = self.sim.marker_pos_w(self._marker)
        if self._kind == "fridge":
            point = np.array([point[0], point[1], 0.95])
        return point

    def _stand(self, handle: np.ndarray, outward: np.ndarray) -> np.ndarray | None:
        """Base action to where the handle is ahead at arm's length; None: it is there.

        As long as the robot looks about straight at the front it goes by distance and bearing,
        which is what a robot without eyes can tell.
        """
        yaw = self.sim.base_pose[2]
        facing = float(np.arctan2(-outward[1], -outward[0]))
        away, bearing = self.towards(handle)
        self._is_askew = abs(wrapped(facing - yaw)) > self.SKEW or abs(bearing) > self.SKEW
        is_aside = abs(wrapped(yaw + bearing - facing)) > self.SKEW
        if away > FAR or (self._is_askew and is_aside):
            return self.drive_to((handle + self.AWAY * outward)[:2], facing)
        if self._is_askew:  # not to the place first: a step to where it is might be a turn about
            return self.past_obstacles(np.array([0.0, self.turn(bearing)]), bearing)
        off = away - self.AWAY
        is_cornered = off < 0.0 and not self.has_room_behind()
        if (abs(off) < 0.14 or is_cornered) and abs(bearing) < 0.2:
            return None
        pace = 2.5 * np.sign(off) * max(abs(off) - 0.05, 0.0)  # no jump on the way there
        return np.array([clipped(pace, -0.5, 0.5), self.turn(bearing)])

    def _pull(self, value: float) -> np.ndarray:
        sim = self.sim
        radius = 1.0 if self._kind == "drawer" else sim.layout.fridge.door_width
        ahead = value + doors.HAND_SPEED / radius * 1.6
        step_w = doors.carried(sim, self._joint, sim.ee_pos_w, ahead) - sim.ee_pos_w
        return doors.hand_action(
            self.robot, sim.floor_plan(0.28), step_w, self._kind == "drawer", self.rest_posture
        )


class CloseDrawerServo(OpenServo):
    """In front of the handle, push, let go, back off, rest, stop."""

    SHUT, STAYS = 0.03, 0.07  # m, to which it is pushed; to which the hand may draw it out again
    OVER = 0.2  # m above the handle, over the front
    PUSHED = 0.05  # m/s inwards: it is being pushed
    LEAVE = (-0.6, 0.0)  # base action

    def act(self) -> np.ndarray:
        action = self._act()
        is_shut = self.sim.joint_position(self._joint) < self.STAYS
        action[STOP] = 1.0 if is_shut and self.is_resting else -1.0
        return action

    def _act(self) -> np.ndarray:
        sim = self.sim
        handle, outward = sim.marker_pos_w(self._marker), doors.outward_of(sim, self._joint)
        ee = sim.ee_pos_w
        along = float((ee - handle) @ outward)
        if self._is_shut():
            return self._leave(along, outward)
        beside = float(np.linalg.norm(ee - handle - along * outward))
        base = self._stand(handle, outward)
        if base is not None and (beside > 0.1 or along > 0.3 or along < 0):
            return self.rest(base)
        if beside < 0.05 + 0.15 * max(along, 0.0) and along > -0.02:
            step = -doors.HAND_SPEED * outward + 0.2 * (handle + along * outward - ee)
            down = (
                self.pointing_down()
            )  # bent back over the front, the hand would stay caught on it
            return doors.hand_action(self.robot, sim.floor_plan(0.28), step, True, down)
        return self.reach_down(self._way_to(handle, along, outward))

    def _way_to(self, handle: np.ndarray, along: float, outward: np.ndarray) -> np.ndarray:
        """Where the hand goes next, [3] m world: before the handle, from above the drawer up first.

        Straight on, it would be caught behind the front.
        """
        before, ee = handle + 0.12 * outward, self.sim.ee_pos_w
        if along > 0.03:
            return before
        is_over = ee[2] > handle[2] + self.OVER
        return before + (0.0, 0.0, self.OVER) if is_over else ee + (0.0, 0.0, 0.1)

    def _is_shut(self) -> bool:
        """Whether it is shut, or was and the hand that leaves has drawn it out a little.

        Pushed again for that, it would be drawn out again, and the hand go to and fro.
        """
        value = self.sim.joint_position(self._joint)
        is_pushed = self.sim.joint_velocity(self._joint) < -self.PUSHED
        return value < self.SHUT or (value < self.STAYS and not is_pushed)

    def _leave(self, along: float, outward: np.ndarray) -> np.ndarray:
        """Up off the handle, back, and only then to rest: lowered before, the wrist gets caught on
        the counter."""
        if along < 0.08:
            return self.reach_down(self.sim.ee_pos_w + 0.1 * outward + (0, 0, 0.04))
        if along < 0.2:
            return self.with_base(self.reach(self.sim.ee_pos_w + (0, 0, 0.02)), self.LEAVE)
        return self.rest((-0.2, 0.0))


class CloseFridgeServo(Servo):
    """The hand as a hook, moved by the base: around the door's edge, push it shut, stop."""

    GAP, RADIUS, SPEED = 0.14, 0.36, 0.9  # m from the edge, m from the hinge, m/s
    SHUT = 0.04  # rad, within the 0.05 that the task asks for
    CLEAR, LEAVE = 0.25, 0.4  # m off the door, m/s

    def __init__(self, robot: Robot) -> None:
        super().__init__(robot)
        is_mirrored = self.sim.layout.fridge.side < 0.0
        self._hook = MIRROR * fridge.HOOK if is_mirrored else fridge.HOOK

    def act(self) -> np.ndarray:
        sim = self.sim
        value = sim.joint_position(fridge.JOINT)
        if value >= self.SHUT:
            base = self._push(value) if self._is_outside() else self._go_around()
        elif self._hand()[1] < self.CLEAR:  # straight out: aside it would take the handle along
            base = fridge.lead_hand(sim, self.LEAVE * self._hand()[3])
        else:
            base = (0.0, 0.0) if self.is_resting else (-0.4, 0.0)
        action = self.pose(self._hook, base)
        action[STOP] = 1.0 if value < 0.045 and self.is_resting else -1.0
        return action

    def _hand(self) -> tuple[float, float, np.ndarray, np.ndarray]:
        """The hand in the door's frame (r, d), m, and the frame's axes, [2] each."""
        hinge, along, out = fridge.door_axes(self.sim)
        hand = self.sim.ee_pos_w[:2] - hinge
        return float(hand @ along), float(hand @ out), along, out

    def _is_outside(self) -> bool:
        r, d, _, _ = self._hand()
        clear = fur.FRIDGE_DOOR_THICKNESS + fridge.HAND_HALF
        return d > clear - 0.04 and r < self.sim.layout.fridge.handle_r + 0.01

    def _go_around(self) -> tuple[float, float]:
        r, d, along, out = self._hand()
        over, width = fridge.HANDLE_D + fridge.HAND_HALF, self.sim.layout.fridge.door_width
        if d > over:
            wanted = (self.RADIUS, over + 0.04)
        elif r < width + 0.6 * self.GAP:
            wanted = (width + 1.3 * self.GAP, min(d, -fridge.HAND_HALF))
        else:
            wanted = (width + self.GAP, over + 0.1)
        error = (wanted[0] - r) * along + (wanted[1] - d) * out
        error = shortened(error, fridge.FAST)
        return fridge.lead_hand(self.sim, fridge.LEAD_GAIN * error)

    def _push(self, value: float) -> tuple[float, float]:
        r, _, along, out = self._hand()
        aside = clipped(fridge.LEAD_GAIN * (self.RADIUS - r), -0.5, 0.5)
        speed = min(self.SPEED, fridge.END_SPEED + fridge.SLOWING * value)
        return fridge.lead_hand(self.sim, -speed * out + aside * along)
