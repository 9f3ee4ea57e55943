"""Rules for loose objects and for driving: navigate, pick, place. See `servo.py`."""

from __future__ import annotations

from collections import deque

import numpy as np

from rearrange.skills.body import Body
from rearrange.skills.driving import wrapped
from rearrange.skills.oracle_objects import PITCHES, PITCHES_LEVEL, pick_hands
from rearrange.skills.oracle_place import place_hands
from rearrange.skills.servo import Servo
from rearrange.skills.skill import GRIP, STOP
from rearrange.skills.steering import turn_for
from rearrange.tasks.navigate import SUCCESS_ANGLE, SUCCESS_DISTANCE


class PickServo(Servo):
    """Over the object, down to it, up again, rest."""

    HOVER = 0.12  # m above the object's top

    def __init__(self, body: Body, index: int, level_from: np.ndarray | None = None) -> None:
        super().__init__(body)
        self._index = index
        self._start = self.sim.object_pos_w(index).copy()
        self._level_from = level_from  # [3] unit, world: out of the shelf
        pitches = PITCHES if level_from is None else PITCHES_LEVEL
        touchable = body.world_obstacles((self.sim.object_geom(index),))
        self.choose(
            self._start, lambda heading: pick_hands(self.sim, index, heading, pitches, 0),
            touchable, pre_offset=None, pre_distance=0.1,
        )  # fmt: skip

    def act(self) -> np.ndarray:
        sim = self.sim
        if sim.held_object == self._index:
            return self._carry_home()
        if sim.is_holding:
            return self.rest()
        point = sim.object_pos_w(self._index)
        if self._level_from is not None:
            action, beside = self.into(point, self.hand_w, self._level_from)
            is_there = np.linalg.norm(self.hand_w - point) < 0.13 and beside < 0.06
            action[GRIP] = 1.0 if is_there else -1.0
            return action
        base, is_near = self.stance(point)
        top = point + (0.0, 0.0, sim.object_kind(self._index).half_height)
        if not is_near:
            return self.get_ready(top[2] + self.HOVER, base)
        action = self.move(self.over(top - (0.0, 0.0, 0.015), self.HOVER))
        action[GRIP] = 1.0 if np.linalg.norm(self.hand_w - top) < 0.08 else -1.0
        return self.with_base(action, base)

    def _carry_home(self) -> np.ndarray:
        hand = self.hand_w
        if self._level_from is not None:
            if float((hand - self._start) @ self._level_from) < 0.25:
                lift = 0.1 * (self._start[2] + 0.04 - hand[2])
                return self.draw_out(self._level_from, lift)
            return self.rest((-0.3, 0.0))
        return self.home(self._start, 0.14)


class PlaceServo(Servo):
    """Over the goal with what is held, down, let go, up, rest."""

    HOVER = 0.10  # m above the goal
    RELEASE = 0.035  # m above the goal

    def __init__(
        self, body: Body, index: int, goal: np.ndarray, level_from: np.ndarray | None = None
    ) -> None:
        super().__init__(body)
        self._index, self._target = index, np.asarray(goal, dtype=float)
        self._level_from = level_from
        self.choose(
            self._target, lambda heading: place_hands(self.sim, index, self._target, heading, 0),
            body.world_obstacles(), pre_offset=np.array([0.0, 0.0, 0.05]), pre_distance=0.08,
        )  # fmt: skip

    def act(self) -> np.ndarray:
        sim, goal = self.sim, self._target
        if not sim.is_holding:
            return self._carry_home()
        held = sim.object_pos_w(self._index) + self.hand_w - sim.ee_pos_w
        off = held - goal
        if self._level_from is not None:
            above = np.array([0.0, 0.0, 0.03])
            action, beside = self.into(goal + above, held, self._level_from)
            along = float(off @ self._level_from)
            return self._let_go() if along < 0.05 and beside < 0.08 else action
        base, is_near = self.stance(goal)
        if not is_near:
            return self.get_ready(goal[2] + self.HOVER + self.hand_w[2] - held[2], base)
        if off[2] < self.RELEASE + 0.03 and np.hypot(off[0], off[1]) < 0.07:
            return self._let_go()
        action = self.move(self.over(goal + (0.0, 0.0, self.RELEASE), self.HOVER, held))
        return self.with_base(action, base)

    def _let_go(self) -> np.ndarray:
        action = self.body.action(self.sim.arm_target)
        action[GRIP] = -1.0
        return action

    def _carry_home(self) -> np.ndarray:
        hand = self.hand_w
        if self._level_from is not None:
            if float((hand - self._target) @ self._level_from) < 0.25:
                return self.draw_out(self._level_from, 0.002)
            return self.rest((-0.3, 0.0) if not self.is_resting else (0.0, 0.0))
        return self.home(self._target, 0.2)


class NavigateServo(Servo):
    """The shortest way to where the target is near, then face it; stop once both are so.

    It stops by what the robot can tell, distance and bearing, in all of the region that counts but
    its rim, and goes on driving and turning there: who follows it slowly gets there too.
    """

    STANDOFF = (0.6, 1.3)
    STOP_DISTANCE, STOP_BEARING = SUCCESS_DISTANCE - 0.06, SUCCESS_ANGLE - 0.04
    STUCK_STEPS, BACK_STEPS = 12, 10
    STUCK = 0.015  # m and rad, moved less in STUCK_STEPS while it touches something

    def __init__(self, body: Body, point: np.ndarray) -> None:
        super().__init__(body)
        self._point = np.asarray(point, dtype=float)
        places = self.places_near(self._point, (self.STANDOFF, (0.3, 1.45), (0.0, 3.0)))
        self.place = places[0] if len(places) else np.array(self.sim.base_pose[:2])
        self._poses: deque[np.ndarray] = deque(maxlen=self.STUCK_STEPS)
        self._back = 0  # control steps that it still backs off

    def act(self) -> np.ndarray:
        x, y, yaw = self.sim.base_pose
        off = self._point[:2] - (x, y)
        away = float(np.hypot(*off))
        bearing = wrapped(np.arctan2(off[1], off[0]) - yaw)
        left = float(np.hypot(self.place[0] - x, self.place[1] - y))
        if self._is_stuck():
            self._back = self.BACK_STEPS
        if away < self.STANDOFF[1] or left < 0.06:
            base = (0.0, turn_for(bearing))
        elif self._back > 0:
            self._back -= 1
            base = (-0.5, 0.0)
        else:
            base = self.steer(self.carrot(self.place), left)
        action = self.body.action(None, base)
        is_done = away < self.STOP_DISTANCE and abs(bearing) < self.STOP_BEARING
        action[STOP] = 1.0 if is_done else -1.0
        return action

    def _is_stuck(self) -> bool:
        """Touches something and has not moved for a while: straight on it will not get any further.

        The carried arm catches on what is beside the way, for which the way leaves no room.
        """
        self._poses.append(np.array(self.sim.base_pose))
        is_still = np.abs(self._poses[-1] - self._poses[0]).max() < self.STUCK
        if len(self._poses) < self.STUCK_STEPS or not is_still or self.sim.force_instant <= 0.0:
            return False
        self._poses.clear()
        return True
