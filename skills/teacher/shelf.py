"""Where a teacher's robot has to be to reach into the fridge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rearrange.sim.home import furniture as fur
from rearrange.sim.home.furniture import piece_to_world
from rearrange.skills.motion.body import world_to_base_axes

# All in the fridge's frame, x out of its front, m.
BEFORE, BEFORE_SIDE = 1.4, -0.1  # where the base goes if it does not stand well, ...
BEFORE_SHARE = 0.2  # ... and by how much of the thing's own offset it goes to the side with it
BESIDE_DOOR, AROUND_DOOR = 0.1, 1.8  # where the open door's side begins, where its tip ends
FREE_SIDE = 0.2  # further to the side the open door is in the way
FRONT, OPENING = 0.34, (-0.27, 0.26)  # its front, what is led through
INSIDE = (0.44, 0.4)  # how far forward and to the side a hand is that the shelf holds
BESIDE_PANEL, BEYOND_TIP = 0.45, 0.2  # a hand nearer to the open door's outside may push it shut
GRADUAL = 0.1  # over which that comes and goes
BESIDE_WALL = 0.3  # a hand nearer to a wall's outside is in the way of a turn
AHEAD, OBLIQUE = (0.9, 1.9), 0.6  # from where it leads straight in, and at what slope
NEARER = 0.35  # within the far limit of this, from where on the arm is got ready all the way
SLACK = 0.12  # by which a base that is on its way straight in may be off all of these


@dataclass(frozen=True)
class Shelf:
    """The fridge's shelf, which is reached into from its front, past its open door."""

    pose: tuple[float, float, float]  # x, y, yaw of the fridge: m, rad, world
    fridge: fur.Fridge = fur.FRIDGE

    @property
    def outward(self) -> np.ndarray:
        """[3] unit, world: out of it."""
        return np.array([np.cos(self.pose[2]), np.sin(self.pose[2]), 0.0])

    def is_ahead(
        self, base: tuple[float, float, float], point: np.ndarray, is_coming: bool = False
    ) -> bool:
        """Whether the straight way from the base to a point goes in through the opening.

        Args:
            is_coming: whether it was so a step ago; then it stays so for a little longer.
        """
        slack = SLACK if is_coming else 0.0
        x, y = self._from_it(base)
        px, py = self._from_it(point)
        slope = (y - py) / max(x - px, 0.1)
        if not AHEAD[0] - slack < x < AHEAD[1] + slack or y > FREE_SIDE + slack:
            return False
        if abs(slope) > OBLIQUE + slack:
            return False
        at_front = py + slope * (FRONT - px)
        return OPENING[0] - slack / 4 < at_front < OPENING[1] + slack / 4

    def readiness(self, base: tuple[float, float, float]) -> float:
        """How far the arm should be ready to reach in, 0 at the far limit of `is_ahead` to 1.

        Where that limit is is hard to see. What the arm is told on both sides of it has to be the
        same, else who learns it comes to a stand there.
        """
        return float(np.clip((AHEAD[1] - self._from_it(base)[0]) / NEARER, 0.0, 1.0))

    def holds(self, hand_w: np.ndarray) -> bool:
        """Whether a hand at [3] m, world, reaches into it."""
        x, y = self._from_it(hand_w)
        return bool(x < INSIDE[0] and abs(y) < INSIDE[1])

    def is_beside(self, hand_w: np.ndarray) -> bool:
        """Whether a hand at [3] m, world, is at the outside of one of its walls."""
        x, y = self._from_it(hand_w)
        return bool(x < FRONT and INSIDE[1] <= abs(y) < self.fridge.half[1] + BESIDE_WALL)

    def before(self, base: tuple[float, float, float], point: np.ndarray) -> np.ndarray:
        """Where the base has to go before the arm reaches in to a point, [2] m, world.

        It is away from the side that the open door is on; from that side it leads around the door,
        which the arm would push shut.
        """
        ahead, side = self._from_it(base)
        if side > BESIDE_DOOR:
            # Gradually, for where the way out is not free it would turn to and fro at a limit.
            around = np.clip((ahead - AROUND_DOOR) / 0.3 + 1.0, 0.0, 1.0)
            beyond = (1.0 - around) * side - around * BESIDE_DOOR
            return self._to_world(AROUND_DOOR + 0.2, float(beyond))
        _, offset = self._from_it(point)
        beside = BEFORE_SIDE + BEFORE_SHARE * float(offset)
        return self._to_world(BEFORE, beside)

    def behind_door(self, hand_w: np.ndarray, angle: float) -> float:
        """How much a hand is where a turn or a step ahead would push the open door shut, 0 to 1.

        Args:
            hand_w: [3] m, world.
            angle: of the door, rad.
        """
        hand = self._from_it(hand_w) - (self.fridge.hinge[0], abs(self.fridge.hinge[1]))
        along = float(hand @ (np.sin(angle), -np.cos(angle)))
        outside = float(hand @ (np.cos(angle), np.sin(angle)))
        beyond = self.fridge.door_width + BEYOND_TIP - along
        share = min(beyond, outside + GRADUAL, BESIDE_PANEL - outside) / GRADUAL
        return float(np.clip(share, 0.0, 1.0))

    def _from_it(self, point) -> np.ndarray:
        """Where a point of the world lies in the fridge's frame, [2] m; heights are left out.

        Of a fridge with its hinge on the other side: in the mirror image's.
        """
        turn = world_to_base_axes(self.pose[2])[:2, :2]
        return turn @ (np.asarray(point[:2]) - self.pose[:2]) * (1.0, self.fridge.side)

    def _to_world(self, ahead: float, side: float) -> np.ndarray:
        return np.array(piece_to_world(self.pose, ahead, self.fridge.side * side))
