"""Where a teacher's robot has to be to reach into the fridge."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rearrange.sim.home import furniture as fur
from rearrange.sim.home.furniture import piece_to_world
from rearrange.skills.motion.driving import clipped

# All in the fridge's frame, x out of its front, m.
LINE, LINE_SHARE = -0.12, 0.2  # to the side: the line it comes in on; and of the thing's own offset
BESIDE_TIP, FREE = 0.15, -0.3  # past a door pushed partly shut: beside its tip, at most out there
FRONT, OPENING = 0.34, (-0.27, 0.26)  # its front, what is led through
FREE_SIDE = 0.2  # further to the side the open door is in the way
OBLIQUE = 0.9  # slope up to which it may come in
NEAREST, FARTHEST = 0.9, 3.5  # from where it comes in
BACK_SLOPE, BACK_TO = (0.5, 0.38), 2.5  # within which it may back off, straight from the thing
TURN_IN = (1.3, 1.6)  # where it should be on the line, coming from the door's side further out
EARLY, MILD, STEEP = (
    0.9,
    1.2,
    1.6,
)  # slopes of the ways there: who faces elsewhere, backs off, comes
AIM_AHEAD, FACING_FROM = 0.7, 0.5  # of the point on the line that it drives to; it faces the thing
INSIDE = (0.44, 0.4)  # how far forward and to the side a hand is that the shelf holds
BESIDE_PANEL = 0.45  # a hand nearer to the open door's outside may push it shut
NEAR_TIP, BEYOND_TIP = 0.15, 0.2  # up to where, by a turn and by a step ahead
BEYOND_HINGE = 0.2  # a hand farther back is at the wall, not at the door
GRADUAL = 0.1  # over which that comes and goes
BEHIND = 0.1  # a hand farther behind it is at no wall of its
BESIDE_WALL = 0.3  # a hand nearer to a wall's outside is in the way of a turn
READY_FROM, NEARER = 2.4, 0.35  # from where, and over what way, the arm is got ready
SLACK = 0.12  # by which a base that is on its way straight in may be off


@dataclass(frozen=True)
class Shelf:
    """The fridge's shelf, which is reached into from its front, past its open door."""

    pose: tuple[float, float, float]  # x, y, yaw of the fridge: m, rad, world
    fridge: fur.Fridge = fur.FRIDGE
    angle: float = np.pi / 2  # rad, of its door

    @property
    def outward(self) -> np.ndarray:
        """[3] unit, world: out of it."""
        return np.array([np.cos(self.pose[2]), np.sin(self.pose[2]), 0.0])

    def leads_in(
        self,
        base: tuple[float, float, float],
        point: np.ndarray,
        is_backing: bool = False,
        faces_it: bool = True,
    ) -> bool:
        """Whether the base gets to a point by driving forward from where it is.

        It does if the straight way goes in through the opening, or if there is way enough left to
        turn in to the line that leads there. A base that backs off goes on until there is more
        than enough: it does not stall between the two. Nor does one that faces elsewhere
        while it drives around turn to the point too early.
        """
        x, y = self._from_it(base)
        px, py = self._from_it(point)
        slack = -SLACK if is_backing else SLACK
        if not NEAREST - slack < x < FARTHEST + slack:
            return False
        beside = y - self._line(point)
        slope = MILD if is_backing else STEEP if faces_it else EARLY
        if abs(beside) < slope * (x - TURN_IN[int(beside > 0.0)]):
            return True
        if not faces_it:
            return False
        slope = (y - py) / max(x - px, 0.1)
        if y > FREE_SIDE + slack or abs(slope) > OBLIQUE + slack:
            return False
        at_front = py + slope * (FRONT - px)
        return OPENING[0] - slack / 4 < at_front < OPENING[1] + slack / 4

    def can_back_off(self, base: tuple[float, float, float], point: np.ndarray) -> bool:
        """Whether straight back, away from the point, leads to where it can turn in."""
        x, y = self._from_it(base)
        px, py = self._from_it(point)
        slope = BACK_SLOPE[int(y > self._line(point))]
        return NEAREST - SLACK < x < BACK_TO and abs(y - py) < slope * (x - px)

    def aim(self, base: tuple[float, float, float], point: np.ndarray) -> np.ndarray:
        """Where a base that drives in heads for, [2] m, world: the line, near the shelf the point.

        It moves with the base without a jump.
        """
        x, _ = self._from_it(base)
        px, py = self._from_it(point)
        far = clipped((x - TURN_IN[0]) / FACING_FROM, 0.0, 1.0)
        ahead = far * (x - AIM_AHEAD) + (1.0 - far) * px
        return self._to_world(ahead, far * self._line(point) + (1.0 - far) * py)

    def readiness(self, base: tuple[float, float, float]) -> float:
        """How far the arm should be ready to reach in, from 0 by degrees to 1.

        Where a limit lies is hard to see. The arm's labels have to be the same on both sides of
        it, else the student stalls there.
        """
        return clipped((READY_FROM - self._from_it(base)[0]) / NEARER, 0.0, 1.0)

    def holds(self, hand_w: np.ndarray) -> bool:
        """Whether a hand at [3] m, world, reaches into it."""
        x, y = self._from_it(hand_w)
        return bool(-self.fridge.half[0] < x < INSIDE[0] and abs(y) < INSIDE[1])

    def is_beside(self, hand_w: np.ndarray) -> bool:
        """Whether a hand at [3] m, world, is at the outside of one of its walls."""
        x, y = self._from_it(hand_w)
        is_along = -self.fridge.half[0] - BEHIND < x < FRONT
        return bool(is_along and INSIDE[1] <= abs(y) < self.fridge.half[1] + BESIDE_WALL)

    def behind_door(self, hand_w: np.ndarray) -> float:
        """How much a hand at [3] m, world, is at the outside of the open door, 0 to 1.

        A turn towards it would push it shut.
        """
        return self._share_behind(hand_w, NEAR_TIP)

    def before_tip(self, hand_w: np.ndarray) -> float:
        """How much a hand is there, or so near to its tip that a step ahead would push it shut."""
        beside = float(self._from_it(hand_w)[1]) - self._tip + GRADUAL
        share = self._share_behind(hand_w, BEYOND_TIP)
        return min(share, clipped(beside / GRADUAL, 0.0, 1.0))

    def _share_behind(self, hand_w: np.ndarray, beyond_tip: float) -> float:
        hand = self._from_it(hand_w) - (self.fridge.hinge[0], abs(self.fridge.hinge[1]))
        along = float(hand @ (np.sin(self.angle), -np.cos(self.angle)))
        outside = float(hand @ (np.cos(self.angle), np.sin(self.angle)))
        beyond = self.fridge.door_width + beyond_tip - along
        beside = min(outside + GRADUAL, BESIDE_PANEL - outside)
        share = min(beyond, along + BEYOND_HINGE, beside) / GRADUAL
        return clipped(share, 0.0, 1.0)

    @property
    def _tip(self) -> float:
        """How far to the side the door's tip is, m."""
        return abs(self.fridge.hinge[1]) - self.fridge.door_width * float(np.cos(self.angle))

    def _line(self, point: np.ndarray) -> float:
        """How far to the side the line is that leads in to a point, m.

        It is away from the side that the open door is on, and from its tip.
        """
        line = LINE + LINE_SHARE * float(self._from_it(point)[1])
        return min(line, max(self._tip - BESIDE_TIP, FREE))

    def _from_it(self, point) -> np.ndarray:
        """Where a point of the world lies in the fridge's frame, [2] m; heights are left out.

        Of a fridge with its hinge on the other side: in the mirror image's.
        """
        x, y, yaw = self.pose
        c, s = math.cos(yaw), math.sin(yaw)
        dx, dy = float(point[0]) - x, float(point[1]) - y
        return np.array([c * dx + s * dy, self.fridge.side * (c * dy - s * dx)])

    def _to_world(self, ahead: float, side: float) -> np.ndarray:
        return np.array(piece_to_world(self.pose, ahead, self.fridge.side * side))
