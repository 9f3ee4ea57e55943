"""The floor as far as the head camera has seen it in an episode, and the way over it to a goal.

    depth picture, pose --> cells with an obstacle, and those around it --> A* --> way
                            cells barred to the arm, above the goal -------^          |
                            (what was never seen is free)         points ahead on it, base's frame

So the robot sets out straight for the goal, goes around what it comes to see, and does not forget
what it has turned its back on: the camera sees 90 degrees ahead. Where the arm is to get to the
goal, the way ends where nothing that was seen stands between, and rather where floor was seen:
before a fridge, not beside it or behind. Poses are in the frame of the first one, so whoever knows
how the base has moved can use it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rearrange.sim.robot.floor_search import (
    SIDE,
    SPREAD,
    cheapest_way,
    pixel_rays,
    point_along,
    take_in,
)

PIXELS = 64  # a side, of those that are looked at
AGAIN = 5  # looks after which the way is planned anew
AHEAD = (0.35, 1.0)  # m along the way, of the points that `numbers` tells of
SIZE = 2 * len(AHEAD) + 1

Pose = tuple[float, float, float]  # x, y, yaw: m, rad, in the frame of the first pose


class Ends(NamedTuple):
    """Where a way may end, m from its goal: `closest` at best, and no farther than `farthest`."""

    closest: float
    farthest: float
    scale: float
    """m of way left that count as 0.76 of far."""
    is_for_arm: bool
    """Whether the arm has to get to the goal from there."""


DRIVING = Ends(1.15, 1.15, 4.0, False)
REACHING = Ends(0.6, 1.5, 1.0, True)
ARM_OVER = (0.24, 0.36)  # m above the goal, where the arm goes: over what stands beside it, and
# under the next board of a shelf
NO_HEIGHT = np.inf


class SeenFloor:
    """What has been seen in one episode. Call `begin` before each."""

    def __init__(self, ends: Ends = DRIVING) -> None:
        self._ends = ends
        self._near = np.empty((SIDE, SIDE), np.float32)
        self._cost = np.empty((SIDE, SIDE), np.float32)
        self._bare, self._barred = np.empty((2, SIDE, SIDE), np.bool_)  # floor; to the arm
        self._spent, self._before = np.empty_like(self._near), np.empty((SIDE, SIDE), np.int32)
        self._rays: dict[int, tuple[int, np.ndarray]] = {}
        self.begin((0.0, 0.0))

    def begin(self, goal: tuple[float, float], height: float = NO_HEIGHT) -> None:
        """Forgets everything.

        Args:
            goal: where the robot has to get near to, m.
            height: of the goal above the floor, m, for ends that are for the arm.
        """
        self._goal = goal
        self._reach = np.full(2, NO_HEIGHT)
        if self._ends.is_for_arm:
            self._reach = height + np.array(ARM_OVER)
        self._near.fill(SPREAD + 1.0)
        self._cost.fill(1.0)
        self._bare.fill(not self._ends.is_for_arm)  # who only drives takes what was not seen for it
        self._barred.fill(False)
        self._pose: Pose = (0.0, 0.0, 0.0)
        self._way, self._age = np.zeros((1, 2)), AGAIN

    def look(self, depth: np.ndarray, pose: Pose, arm: np.ndarray) -> None:
        """Takes in a square depth picture [H, H, 1], m, and now and then plans anew.

        Args:
            arm: its joints and at last the hand, [K, 3] m, base's frame: not to be looked at.
        """
        stride, rays = self._rays_of(len(depth))
        self._pose = pose
        take_in(
            self._near, self._cost, self._bare, self._barred, self._reach, depth, stride, rays, arm,
            *pose,
        )  # fmt: skip
        if self._age >= AGAIN:
            self._age = 0
            self._way = cheapest_way(
                self._cost, self._bare, self._barred, self._spent, self._before, pose[0], pose[1],
                *self._goal, self._ends.closest, self._ends.farthest,
            )  # fmt: skip
        self._age += 1

    def ahead(self, distance: float) -> tuple[float, float]:
        """The point so many m ahead on the way, in the base's frame, m; beyond its end the goal."""
        x, y, _ = self._pose
        px, py, left = point_along(self._way, x, y, distance)
        if left < distance:
            px, py = self._goal
        return in_frame(self._pose, (px, py))

    def end(self) -> tuple[float, float]:
        """Where the way ends, in the base's frame, m."""
        x, y = self._way[-1].tolist()
        return in_frame(self._pose, (x, y))

    def left(self) -> float:
        """Length of the way that is left, m."""
        return point_along(self._way, *self._pose[:2], 0.0)[2]

    def numbers(self) -> np.ndarray:
        """What a policy is told, [5]: cosine and sine of where the points AHEAD lie, and how much
        of the way is left."""
        points = [self.ahead(distance) for distance in AHEAD]
        angles = np.array([math.atan2(y, x) for x, y in points])
        told = np.stack([np.cos(angles), np.sin(angles)], axis=1).ravel()
        return np.append(told, math.tanh(self.left() / self._ends.scale)).astype(np.float32)

    def state(self) -> tuple[np.ndarray, ...]:
        """A copy of all that has been seen, for `restore`."""
        numbers = np.array([*self._goal, *self._pose, self._age, *self._reach])
        seen = self._near.copy(), self._cost.copy(), self._bare.copy(), self._barred.copy()
        return *seen, self._way.copy(), numbers

    def restore(self, state: tuple[np.ndarray, ...]) -> None:
        """Goes on from what `state` returned."""
        near, cost, bare, barred, way, numbers = state
        self._near[:], self._cost[:], self._bare[:], self._barred[:] = near, cost, bare, barred
        self._way, self._reach = way.copy(), numbers[6:].copy()
        x, y, px, py, yaw, age = numbers[:6].tolist()
        self._goal, self._pose, self._age = (x, y), (px, py, yaw), int(age)

    def _rays_of(self, pixels: int) -> tuple[int, np.ndarray]:
        if pixels not in self._rays:
            stride = max(1, pixels // PIXELS)
            self._rays[pixels] = stride, pixel_rays(pixels, stride)
        return self._rays[pixels]


def in_frame(pose: Pose, point: tuple[float, float]) -> tuple[float, float]:
    """A point in the frame of a pose, m; both are given in the same frame."""
    dx, dy = point[0] - pose[0], point[1] - pose[1]
    cos, sin = math.cos(pose[2]), math.sin(pose[2])
    return cos * dx + sin * dy, cos * dy - sin * dx
