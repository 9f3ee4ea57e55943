"""Rules of those who drive about among things: backing off, and reaching into a shelf.

    rules --> action --+--> mixed by how far the hand is rolled --> action; its roll by `Retreat`
    the way back ------+

Whether it backs off the student sees too; that it is caught it does not.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rearrange.sim.robot.seen_floor import Ends
from rearrange.skills.motion.driving import clipped
from rearrange.skills.motion.robot import Robot
from rearrange.skills.oracle.still_fridge import JOINT as FRIDGE_DOOR
from rearrange.skills.skill import BASE, GRIP, STOP
from rearrange.skills.teacher.retreat import BACK, ROLL, Base, Retreat
from rearrange.skills.teacher.servo import HAND_SPEED, SLOPE, Servo
from rearrange.skills.teacher.shelf import Shelf
from rearrange.tasks.floor_way import FloorWay

AWAY = (-1.0, 0.0)  # of backing away from a wall's outside
FROM_DOOR = (-1.0, -0.6)  # from the outside of an open door, hinged on the robot's right
# The arm before a shelf: the hand 0.70 m ahead at 1.15 m, pointing down and a little forward. One
# posture for all, near to that of rest: what differs from episode to episode cannot be learned.
READY = np.array([-0.15, -1.12, 0.50, 0.54, -0.39, 1.30, -0.01])  # rad
NEARLY_READY = 0.12  # rad: the last of the way to a posture is slow
AT_END, FACING_END = 0.15, 0.4  # m of the way left, rad: it is at its end and faces the thing
IN_SHELF = 0.87  # m, from the base to what lies in it while the hand is at it


class RoamingServo(Servo):
    """Shared by the rules of Navigate, Pick and Place.

    Args:
        shelf: that is reached into, or None.
    """

    rests_on_way_back = True
    """Whether the arm goes to rest while it backs off, where there is no shelf."""

    def __init__(self, robot: Robot, shelf: Shelf | None = None) -> None:
        super().__init__(robot)
        self.retreat = Retreat(self.sim)
        self._shelf = shelf
        self._reaches_in = False  # into the shelf, in this control step
        self._turns_hand = False  # it needs the hand's roll itself, in this control step

    def _begin_way(self, goal: np.ndarray, ends: Ends) -> None:
        """The way to a goal [3] m, world, of which nothing has been seen yet."""
        self._way = FloorWay(self.sim.model, ends)
        self._way.begin(self.sim, goal)

    def _seen_way(self) -> FloorWay:
        """The way, after a look at what the camera sees now. Call once in a control step."""
        self._way.look(self.sim)
        return self._way

    def rules(self) -> np.ndarray:
        """The action [11] of a control step in which it does not back off."""
        raise NotImplementedError

    def act(self) -> np.ndarray:
        retreat, self._reaches_in, self._turns_hand = self.retreat, False, False
        retreat.wish = None
        action = self.rules()
        retreat.notice(self._reaches_in)
        if self._turns_hand and retreat.wish is None:
            return action
        share = retreat.share
        if share > 0.0 and (retreat.is_caught or self.has_room_behind()):
            mixed = (1.0 - share) * action + share * self._way_back(action)
            mixed[[GRIP, STOP]] = action[[GRIP, STOP]]
            action = mixed
        action[ROLL] = retreat.roll()
        return action

    @property
    def is_backing(self) -> bool:
        return self.retreat.share > 0.5

    @property
    def is_turning_back(self) -> bool:
        return self.retreat.wish is not None and self.retreat.share < 1.0

    def backed(self, base: Base) -> Base:
        return self.retreat.ask(base)

    def _way_back(self, action: np.ndarray) -> np.ndarray:
        """Backing off instead of an action; out of a shelf with the hand first."""
        base = self.retreat.wish or BACK
        if self._shelf is not None and self._shelf.holds(self.hand_w):
            return self.draw_out(self._shelf.outward, 0.0)
        if self._shelf is not None or not self.rests_on_way_back:
            return self.with_base(np.array(action), base)
        return self.rest(base)

    def into(
        self, point: np.ndarray, hover: float, shelf: Shelf, tip: np.ndarray | None = None,
        slope: float = SLOPE,
    ) -> np.ndarray:  # fmt: skip
        """Into a shelf: faces it, the arm to READY, in with the base, down onto a point.

        From wherever that is possible, or straight back to there; otherwise it first drives to a
        place in front. All changes are gradual: where labels jump, the student stalls.

        Args:
            tip, slope: see `over`.
        """
        self._reaches_in = True
        shelf = replace(shelf, angle=self.sim.joint_position(FRIDGE_DOOR))
        off = (self.hand_w if tip is None else tip) - point
        along = float(off @ shelf.outward)
        is_inside = (
            -0.3 < along < 0.34 and float(np.linalg.norm(off - along * shelf.outward)) < 0.35
        )
        base = self.sim.base_pose
        away, bearing = self.towards(point)
        if shelf.is_beside(self.hand_w) and self.has_room_behind():
            return self.rest(self.backed(AWAY))
        faces_it = abs(bearing) < (1.0 if self.is_backing else 0.6)
        leads_in = shelf.leads_in(base, point, self.is_backing, faces_it)
        if not is_inside and not leads_in:
            if shelf.holds(self.hand_w):  # a turn would sweep the arm through what stands in it
                return self.draw_out(shelf.outward, 0.0)
            if faces_it and shelf.can_back_off(base, point) and self.has_room_behind():
                pace = AWAY[0] * np.cos(clipped(bearing, -np.pi / 2, np.pi / 2))
                away_base = self.backed((pace, 0.8 * self.turn(bearing)))
                return self.past_door(shelf, self.rest(away_base))
            return self.past_door(shelf, self.rest(self._around(point)))
        if is_inside:
            step = self.over(point, hover, tip, has_ridge=False, slope=slope)
            preferred = READY if tip is None else self.pointing_down()
            action, room = self.move(step, preferred=preferred, posture_gain=0.05), 0.0
        else:  # the arm stays small while it turns: the door is near
            bearing = self.towards(shelf.aim(base, point))[1]
            ready = clipped(1.4 - abs(bearing) / 0.5, 0.0, 1.0)
            ready = min(ready, shelf.readiness(base))
            action = self.pose(self.rest_posture + ready * (READY - self.rest_posture))
            left = float(np.abs(READY - self.sim.arm_qpos).max())
            room = 0.5 * clipped((left - NEARLY_READY) / 0.4, 0.0, 1.0)
        wanted = IN_SHELF + room
        fastest = clipped(away - 1.2, 0.5, 1.0)
        pace = clipped(3.0 * (away - wanted), -0.5, fastest) * max(np.cos(2.0 * bearing), 0.0)
        pace = 0.0 if abs(away - wanted) < 0.06 else pace
        action = self.with_base(action, (pace, 0.8 * self.turn(bearing)))
        return action if is_inside else self.past_door(shelf, action)

    def _around(self, point: np.ndarray) -> np.ndarray:
        """Base action [2] to where it can go in: by the way as far as it has been seen, to its end,
        where it faces the point; if that does not do, back from there, whence more is seen.
        """
        left, bearing = self._way.left(), self.towards(point)[1]
        if left > AT_END:
            return self.follow(self._way, left)
        if abs(bearing) < FACING_END and self.has_room_behind():
            return np.array(self.backed(BACK))
        return self.past_obstacles(np.array([0.0, self.turn(bearing)]), bearing)

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
