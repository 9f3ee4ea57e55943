"""Rules for movable objects and for driving: navigate, pick, place. See `servo.py`."""

from __future__ import annotations

import numpy as np

from rearrange.sim.home.objects import HAB2_KINDS, KINDS
from rearrange.sim.robot.seen_floor import DRIVING, REACHING
from rearrange.skills.motion.driving import clipped
from rearrange.skills.motion.robot import Robot
from rearrange.skills.skill import GRIP, STOP
from rearrange.skills.teacher.servo import GAIN, HAND_SPEED
from rearrange.skills.teacher.servo_roaming import RoamingServo
from rearrange.skills.teacher.shelf import Shelf
from rearrange.skills.teacher.steering import shortened
from rearrange.skills.teacher.upright import Upright
from rearrange.tasks.rules.navigate import SUCCESS_ANGLE, SUCCESS_DISTANCE

HOVER_IN_SHELF = 0.05  # m
OUT_OF_SHELF = 0.4  # m from where it was, outwards
TALLEST = max(KINDS[name].half_height for name in HAB2_KINDS)  # m, above an object's centre


class PickServo(RoamingServo):
    """Over the object, straight down until it is held, up again, rest.

    Nothing depends on the object's height, which the student cannot see. It averaged labels that
    did: the hand stalled above flat objects and beside tall ones.
    """

    CLEAR = 0.04  # m above the tallest object's top, until the hand is over its centre
    STEEP = 6.0  # what it comes down in is nearly a shaft: a tall object's edge is 3 cm away
    INTO, INTO_IN_SHELF = 0.035, 0.0  # m below the centre, where the hand goes until it holds
    HOVER = 0.2  # m above the tallest top on the way there, clear of armrests and backs
    GRIP_BESIDE, GRIP_ABOVE = 0.06, 0.06  # m from the centre and above the tallest top

    def __init__(self, robot: Robot, index: int, shelf: Shelf | None = None) -> None:
        super().__init__(robot, shelf)
        self._index = index
        self._start = self.sim.object_pos_w(index).copy()
        self._begin_way(self._start, REACHING)

    def rules(self) -> np.ndarray:
        sim = self.sim
        if sim.held_object == self._index:
            return self._carry_home()
        if sim.is_holding:
            return self.rest()
        point = sim.object_pos_w(self._index)
        base, way = None, self._seen_way()
        if self._shelf is not None:
            aim, hover = self._shaft(point, self.INTO_IN_SHELF)
            action = self.into(aim, hover, self._shelf, slope=self.STEEP)
        else:
            base, is_near = self.stance(way, point)
            if not is_near:
                return self.get_ready(point[2] + TALLEST + self.HOVER, base)
            step = self.over(*self._shaft(point, self.INTO), slope=self.STEEP)
            action = self.move(step, preferred=self.pointing_down(), posture_gain=0.05)
        off = self.hand_w - point
        is_over = np.hypot(off[0], off[1]) < self.GRIP_BESIDE
        action[GRIP] = 1.0 if is_over and off[2] < TALLEST + self.GRIP_ABOVE else -1.0
        return self.with_base(action, base)

    def _shaft(self, point: np.ndarray, into: float) -> tuple[np.ndarray, float]:
        """Where it leads to, [3] m world, and from how far above."""
        return point - (0.0, 0.0, into), TALLEST + self.CLEAR + into

    def _carry_home(self) -> np.ndarray:
        hand = self.hand_w
        if self._shelf is not None:
            if float((hand - self._start) @ self._shelf.outward) < OUT_OF_SHELF:
                lift = GAIN * (self._start[2] + TALLEST + 0.04 - hand[2])
                return self.draw_out(self._shelf.outward, lift)
            return self.rest((-0.3, 0.0))
        return self.home(self._start, 0.14)


class PlaceServo(RoamingServo):
    """Over the goal with what is held, upright, down until it stands, let go, up, rest.

    What is let go while it still comes down goes on falling and turning, and topples if it is tall.
    """

    # m above the goal and above what is in the way, of the tallest thing; the hand is as high with
    # any other, since the student does not see how far it hangs down.
    HOVER, OVER = 0.10, 0.08
    HIGHEST = 1.28  # m, of the hand
    ON_ITS_WAY, NEAR_EDGE = 0.65, 0.45  # m beside the goal: the hand goes straight there; what is
    # still low may meet an edge
    LOWEST, LOWEST_IN_SHELF = -0.005, 0.01  # m above the goal: aimed at
    CLOSE, SLOW = 0.045, 0.002  # m above the goal and m a control step, below which it lets go
    LEAN, UPRIGHT = 0.3, 0.15  # m above the goal, below which it is set upright, and it is wholly

    def __init__(
        self, robot: Robot, index: int, goal: np.ndarray, shelf: Shelf | None = None
    ) -> None:
        super().__init__(robot, shelf)
        self._index, self._target = index, np.asarray(goal, dtype=float)
        self._upright = Upright(robot, index)
        self._last = self.sim.object_pos_w(index)  # [3] m, where it was a control step ago
        self._begin_way(self._target, REACHING)

    def rules(self) -> np.ndarray:
        sim, goal, last = self.sim, self._target, self._last
        self._last = sim.object_pos_w(self._index)
        if not sim.is_holding:
            return self._carry_home()
        held = self._last + self.hand_w - sim.ee_pos_w
        off = held - goal
        is_over = off[2] < self.CLOSE and np.hypot(off[0], off[1]) < 0.07
        way = self._seen_way()
        if self._shelf is not None:
            aim = goal + (0.0, 0.0, self.LOWEST_IN_SHELF)
            action = self.into(aim, HOVER_IN_SHELF, self._shelf, held)
            return self._let_go() if is_over else action
        base, is_near = self.stance(way, goal)
        beside = float(np.hypot(off[0], off[1]))
        height = self._hand_height(
            held if beside < self.ON_ITS_WAY else self._to_world([*way.end(), 0.0])
        )
        base[0] = min(base[0], self._pace(beside, height))
        if not is_near:
            return self.get_ready(height, base)
        if is_over and float(np.linalg.norm(self._last - last)) < self.SLOW:
            return self._let_go()
        return self.with_base(self._lower(held), base)

    def _lower(self, held: np.ndarray) -> np.ndarray:
        """Moves what is held, now at `held` [3] m, world, to the goal, and sets it upright."""
        self._turns_hand = True
        hangs = float(self.hand_w[2] - held[2])
        hover = self._hand_height(held) - hangs - float(self._target[2])
        aim = self._target + (0.0, 0.0, self.LOWEST)
        step = self.over(aim, max(hover, self.HOVER), held, has_ridge=False)
        share = (self.LEAN - float(held[2] - self._target[2])) / self.UPRIGHT
        dq = self._upright.arm_step(
            shortened(step, HAND_SPEED), held - self.hand_w, self.pointing_down(),
            clipped(share, 0.0, 1.0),
        )  # fmt: skip
        return self.robot.action(self.sim.arm_target + dq)

    def _pace(self, beside: float, height: float) -> float:
        """Share of its speed at which the base may drive on: a thing that is still low would meet
        the edge of what it is to go on."""
        far = clipped((beside - self.NEAR_EDGE) / 0.2, 0.0, 1.0)
        return max(far, clipped(1.4 - (height - float(self.hand_w[2])) / 0.05, 0.0, 1.0))

    def _hand_height(self, start: np.ndarray) -> float:
        """How high the hand is, m, on the way from there to above the goal."""
        over_ridge = self.ridge(start, self._target) + self.OVER + 2.0 * TALLEST
        return min(max(float(self._target[2]) + self.HOVER + TALLEST, over_ridge), self.HIGHEST)

    def _let_go(self) -> np.ndarray:
        action = self.robot.action(self.sim.arm_target)
        action[GRIP] = -1.0
        return action

    def _carry_home(self) -> np.ndarray:
        hand = self.hand_w
        if self._shelf is not None:
            if float((hand - self._target) @ self._shelf.outward) < OUT_OF_SHELF:
                return self.draw_out(self._shelf.outward, 0.002)
            return self.rest((-0.3, 0.0) if not self.is_resting else (0.0, 0.0))
        return self.home(self._target, 0.2)


class NavigateServo(RoamingServo):
    """The way over the floor as far as the camera has seen it, then face the target; stop once both
    are so.

    It could ask the floor plan, and did: then its student, who cannot see where that way leads,
    circled. It stops by what the robot can tell, distance and bearing, in all of the region that
    counts but its rim, and goes on driving and turning there: who follows it slowly gets there too.
    """

    rests_on_way_back = False
    STANDOFF = 1.3  # m
    STOP_DISTANCE, STOP_BEARING = SUCCESS_DISTANCE - 0.06, SUCCESS_ANGLE - 0.04

    def __init__(self, robot: Robot, point: np.ndarray) -> None:
        super().__init__(robot)
        self._point = np.asarray(point, dtype=float)
        self._begin_way(self._point, DRIVING)

    def rules(self) -> np.ndarray:
        way = self._seen_way()
        away, bearing = self.towards(self._point)
        if away < self.STANDOFF:
            base = (0.0, self.turn(bearing))
        else:
            base = self.follow(way, away - self.STANDOFF + 0.2)
        action = self.robot.action(None, base)
        is_done = away < self.STOP_DISTANCE and abs(bearing) < self.STOP_BEARING
        action[STOP] = 1.0 if is_done else -1.0
        return action
