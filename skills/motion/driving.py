"""Path following with the base: turn on the spot at corners, drive along legs, stop at the end.

    pose --> progress along the path --> carrot ahead on the leg --> heading error --> turn
                                    \\-> distance to the leg's end -----------------> forward

The base answers a command with a lag of about 0.1 s. A loop x' = -k x through a lag of tau is
critically damped at k = 1 / (4 tau): the gain of the last centimetres, for driving and for turning.
"""

from __future__ import annotations

import math

import numpy as np

from rearrange.sim.robot import fetch

POSITION_TOLERANCE = 0.03  # m
YAW_TOLERANCE = 0.03  # rad
_LAG = 0.1  # s, from a velocity command to the velocity
_GAIN = 1.0 / (4.0 * _LAG)  # 1/s
_TURN_GAIN = 4.0  # 1/s; a slight overshoot in heading harms nothing and saves time
_LOOKAHEAD = 0.3  # m; nearer and the heading chatters, farther and curves are cut
_SHARP = 0.3  # rad; a corner beyond this is turned on the spot
_TURN_START, _TURN_END = 0.4, 0.12  # rad of heading error where turning on the spot begins and ends
_MAX_REVERSE = 0.5  # m
_STUCK_STEPS = 30


class PathFollower:
    """Base actions (forward, turn) in [-1, 1] that follow a path."""

    def __init__(
        self,
        path: np.ndarray,  # [n, 2] corner points in the world, m
        final_yaw: float | None = None,  # rad
        speed: float = 1.0,  # share of the full speeds
        reverse: bool | None = None,  # None: backwards if that is shorter and at most half a metre
    ) -> None:
        points = np.asarray(path, dtype=np.float64).reshape(-1, 2)
        if not len(points) or not np.isfinite(points).all():
            raise ValueError(f"a path needs at least one finite point, got {path!r}")
        keep = np.concatenate([[True], np.linalg.norm(np.diff(points, axis=0), axis=1) > 1e-6])
        self.path, self.final_yaw, self.speed = points[keep], final_yaw, float(speed)
        self.is_done = False
        self._leg = 0  # the robot is between path[leg] and path[leg + 1]
        self._is_turning = False
        self._has_arrived = False
        self._reverse = reverse  # None: decided on the first step
        self._best = np.inf  # of the progress measure, on this leg
        self._steps_since_progress = 0
        self._measure_path()

    def _measure_path(self) -> None:
        """Precomputes what depends on the path alone: predictions need it hundreds of times."""
        legs = np.diff(self.path, axis=0)
        self._lengths = [_norm(leg) for leg in legs]
        self._directions = [leg / length for leg, length in zip(legs, self._lengths, strict=True)]
        bearings = [float(np.arctan2(leg[1], leg[0])) for leg in legs]
        turns = zip(bearings[1:], bearings, strict=False)
        self._corners = [0.0, *(abs(wrapped(after - before)) for after, before in turns)]
        last = len(legs) - 1
        self._run_outs = [0.0] * max(last, 0)
        for leg in range(last):
            for index in range(leg + 1, last + 1):
                corner = self._corners[index]
                if corner > _SHARP:
                    break
                self._run_outs[leg] += self._lengths[index] * (1.0 - corner / _SHARP)
        # For each leg the way to its end, set when it is asked for, and the legs behind it.
        steps = np.linalg.norm(legs, axis=1)
        self._rests = [np.concatenate([[0.0], steps[leg + 1 :]]) for leg in range(max(last + 1, 1))]

    @property
    def is_stuck(self) -> bool:
        """No progress, neither in distance nor in heading, for a second."""
        return not self.is_done and self._steps_since_progress >= _STUCK_STEPS

    def remaining(self, base_pose: tuple[float, float, float]) -> float:
        """Remaining length of the path (m)."""
        x, y = self.path[min(self._leg + 1, len(self.path) - 1)].tolist()
        x, y = x - base_pose[0], y - base_pose[1]
        rest = self._rests[self._leg]
        rest[0] = math.sqrt(x * x + y * y)
        return float(rest.sum())

    def act(self, base_pose: tuple[float, float, float]) -> np.ndarray:
        """The base action [2] of this control step at (x, y, yaw)."""
        here, yaw = np.array(base_pose[:2], dtype=np.float64), float(base_pose[2])
        if self._reverse is None:
            self._reverse = self._should_reverse(here, yaw)
        self._advance(here)
        goal = self.path[-1]
        off = _norm(goal - here)
        ahead = abs(float(np.dot(goal - here, (np.cos(yaw), np.sin(yaw)))))
        # Abeam of the goal and within tolerance: driving on would not bring it nearer.
        is_near = off < 0.6 * POSITION_TOLERANCE or (
            off < 0.9 * POSITION_TOLERANCE and ahead < 0.006
        )
        # Leaving again takes the full tolerance: no dithering between driving and the last turn.
        stays = self._has_arrived and off < POSITION_TOLERANCE
        if (is_near or stays) != self._has_arrived:
            self._has_arrived, self._best = not self._has_arrived, np.inf
        if self._has_arrived:
            return self._settle(here, yaw)
        self.is_done = False
        is_last = self._leg >= len(self.path) - 2
        end = self.path[min(self._leg + 1, len(self.path) - 1)]
        carrot = self._carrot(here)
        if is_last and len(self.path) > 1 and np.dot(goal - here, goal - self.path[-2]) <= 0.0:
            carrot = goal  # driven past it
        if is_last and self._has_passed(here, yaw, goal):
            self._reverse, self._best = not self._reverse, np.inf
        heading = float(np.arctan2(carrot[1] - here[1], carrot[0] - here[0]))
        error = wrapped(heading + np.pi * self._reverse - yaw)
        self._note_progress(self.remaining(base_pose) + 0.3 * abs(error))
        turn = _TURN_GAIN * error / fetch.MAX_BASE_TURN
        threshold = _TURN_END if self._is_turning else _TURN_START
        self._is_turning = abs(error) > threshold
        if self._is_turning:
            return self._clipped(0.0, turn)
        pace = _GAIN * (_norm(end - here) + (0.0 if is_last else self._run_outs[self._leg]))
        forward = max(float(np.cos(2.5 * error)), 0.0) * min(pace, 1.0)
        return self._clipped(-forward if self._reverse else forward, turn)

    def _should_reverse(self, here: np.ndarray, yaw: float) -> bool:
        """Backwards, if the goal is near, straight behind, and less turning away."""
        to_goal = self.path[-1] - here
        distance = _norm(to_goal)
        if distance < POSITION_TOLERANCE or self.remaining((*here, yaw)) > _MAX_REVERSE:
            return False
        if self.remaining((*here, yaw)) > 1.1 * distance:
            return False
        heading = np.arctan2(to_goal[1], to_goal[0])
        ahead, behind = abs(wrapped(heading - yaw)), abs(wrapped(heading + np.pi - yaw))
        if self.final_yaw is not None:
            ahead += abs(wrapped(self.final_yaw - heading))
            behind += abs(wrapped(self.final_yaw - heading - np.pi))
        return behind < ahead

    def _has_passed(self, here: np.ndarray, yaw: float, goal: np.ndarray) -> bool:
        """Close to the goal and facing away from it: the other direction of travel is nearer."""
        to_goal = goal - here
        error = wrapped(np.arctan2(to_goal[1], to_goal[0]) + np.pi * bool(self._reverse) - yaw)
        return _norm(to_goal) < 0.15 and abs(error) > 0.6 * np.pi

    def _advance(self, here: np.ndarray) -> None:
        """Go on to the next leg once this one's end is reached or passed."""
        while self._leg < len(self.path) - 2:
            to_end = self.path[self._leg + 1] - here
            ahead = float(np.dot(to_end, self._directions[self._leg]))
            slack = 0.02 if self._corners[self._leg + 1] > _SHARP else 0.05
            if ahead > slack:
                return
            self._leg += 1
            self._best = np.inf

    def _carrot(self, here: np.ndarray) -> np.ndarray:
        """Point [2] ahead of the robot, beyond gentle corners but not beyond sharp ones."""
        if len(self.path) == 1:
            return self.path[0]
        leg = self._leg
        begin, along = self.path[leg], self._directions[leg]
        at = float(np.dot(here - begin, along)) + _LOOKAHEAD
        while at > self._lengths[leg]:
            if leg >= len(self.path) - 2 or self._corners[leg + 1] > _SHARP:
                # Along the leg beyond its end: heading stays defined when the end is close.
                return begin + along * at
            at -= self._lengths[leg]
            leg += 1
            begin, along = self.path[leg], self._directions[leg]
        return begin + along * max(at, 0.0)

    def _settle(self, here: np.ndarray, yaw: float) -> np.ndarray:
        """At the goal: turn to the final yaw, then be done."""
        error = 0.0 if self.final_yaw is None else wrapped(self.final_yaw - yaw)
        self.is_done = abs(error) < YAW_TOLERANCE
        self._note_progress(0.3 * abs(error))
        if self.is_done:
            return np.zeros(2)
        return self._clipped(0.0, _GAIN * error / fetch.MAX_BASE_TURN)

    def _note_progress(self, measure: float) -> None:
        if measure < self._best - 0.01:
            self._best = measure
            self._steps_since_progress = 0
        else:
            self._steps_since_progress += 1

    def _clipped(self, forward: float, turn: float) -> np.ndarray:
        shares = (forward / fetch.MAX_BASE_SPEED, turn)
        return np.array([self.speed * clipped(share, -1.0, 1.0) for share in shares])


def clipped(value: float, low: float, high: float) -> float:
    """The number, or the limit that it is beyond. `np.clip` takes ten times as long."""
    return float(min(max(value, low), high))


def wrapped(angle: float) -> float:
    """The angle in [-pi, pi)."""
    return float((angle + np.pi) % (2.0 * np.pi) - np.pi)


def _norm(vector: np.ndarray) -> float:
    """Its length, without the checks of `np.linalg.norm`, which dominate the time here."""
    return math.sqrt(vector.dot(vector))
