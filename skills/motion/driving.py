"""Follows a path with the base: turn on the spot at corners, drive along the legs, stop at the end.

    pose --> progress along the path --> carrot ahead on the leg --> heading error --> turn
                                    \\-> distance to the leg's end -----------------> forward

The base answers a command with a lag of about 0.1 s. A loop x' = -k x through a lag of tau is
critically damped at k = 1 / (4 tau): the gain of the last centimetres, for driving and for turning.
"""

from __future__ import annotations

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
    """Gives base actions (forward, turn) in [-1, 1] that take the base along a path."""

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

    @property
    def is_stuck(self) -> bool:
        """No progress, neither in distance nor in heading, for a second."""
        return not self.is_done and self._steps_since_progress >= _STUCK_STEPS

    def remaining(self, base_pose: tuple[float, float, float]) -> float:
        """Length of what is left of the path (m)."""
        corners = self.path[self._leg + 1 :] if len(self.path) > 1 else self.path
        ahead = np.concatenate([[base_pose[:2]], corners])
        return float(np.linalg.norm(np.diff(ahead, axis=0), axis=1).sum())

    def act(self, base_pose: tuple[float, float, float]) -> np.ndarray:
        """The base action [2] of this control step at (x, y, yaw)."""
        here, yaw = np.array(base_pose[:2], dtype=np.float64), float(base_pose[2])
        if self._reverse is None:
            self._reverse = self._should_reverse(here, yaw)
        self._advance(here)
        goal = self.path[-1]
        off = float(np.linalg.norm(goal - here))
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
        heading = np.arctan2(carrot[1] - here[1], carrot[0] - here[0]) + np.pi * self._reverse
        error = wrapped(heading - yaw)
        self._note_progress(self.remaining(base_pose) + 0.3 * abs(error))
        turn = _TURN_GAIN * error / fetch.MAX_BASE_TURN
        threshold = _TURN_END if self._is_turning else _TURN_START
        self._is_turning = abs(error) > threshold
        if self._is_turning:
            return self._clipped(0.0, turn)
        distance = float(np.linalg.norm(end - here))
        pace = _GAIN * (distance + (0.0 if is_last else self._run_out(here)))
        forward = max(np.cos(2.5 * error), 0.0) * min(pace, 1.0) * (-1.0 if self._reverse else 1.0)
        return self._clipped(forward, turn)

    def _should_reverse(self, here: np.ndarray, yaw: float) -> bool:
        """Backwards, if the goal is near, straight behind, and less turning away."""
        to_goal = self.path[-1] - here
        distance = float(np.linalg.norm(to_goal))
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
        return float(np.linalg.norm(to_goal)) < 0.15 and abs(error) > 0.6 * np.pi

    def _advance(self, here: np.ndarray) -> None:
        """Go on to the next leg once this one's end is reached or passed."""
        while self._leg < len(self.path) - 2:
            begin, end = self.path[self._leg], self.path[self._leg + 1]
            along = (end - begin) / np.linalg.norm(end - begin)
            ahead = float(np.dot(end - here, along))
            slack = 0.02 if self._corner(self._leg + 1) > _SHARP else 0.05
            if ahead > slack:
                return
            self._leg += 1
            self._best = np.inf

    def _corner(self, index: int) -> float:
        """Angle (rad) by which the path turns at one of its points."""
        before, after = (
            self.path[index] - self.path[index - 1],
            self.path[index + 1] - self.path[index],
        )
        return abs(wrapped(np.arctan2(after[1], after[0]) - np.arctan2(before[1], before[0])))

    def _run_out(self, here: np.ndarray) -> float:
        """Distance (m) past this leg's end that the pace may count on: more at gentle corners."""
        total = 0.0
        for index in range(self._leg + 1, len(self.path) - 1):
            corner = self._corner(index)
            if corner > _SHARP:
                break
            total += float(np.linalg.norm(self.path[index + 1] - self.path[index])) * (
                1.0 - corner / _SHARP
            )
        return total

    def _carrot(self, here: np.ndarray) -> np.ndarray:
        """Point [2] ahead of the robot; gentle corners are looked past, sharp ones are not."""
        if len(self.path) == 1:
            return self.path[0]
        begin, end = self.path[self._leg], self.path[self._leg + 1]
        length = float(np.linalg.norm(end - begin))
        along = (end - begin) / length
        at = float(np.dot(here - begin, along)) + _LOOKAHEAD
        leg = self._leg
        while at > length:
            if leg >= len(self.path) - 2 or self._corner(leg + 1) > _SHARP:
                # Along the leg beyond its end: heading stays defined when the end is close.
                return begin + along * at
            at -= length
            leg += 1
            begin, end = self.path[leg], self.path[leg + 1]
            length = float(np.linalg.norm(end - begin))
            along = (end - begin) / length
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
        return self.speed * np.clip([forward / fetch.MAX_BASE_SPEED, turn], -1.0, 1.0)


def wrapped(angle: float) -> float:
    """The angle in [-pi, pi)."""
    return float((angle + np.pi) % (2.0 * np.pi) - np.pi)
