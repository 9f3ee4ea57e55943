"""What the head camera has seen around the robot in this episode: a scan that remembers.

    depth picture --> points in the world --> nearest of each direction, seen now or before
                                                |
                     distances around the base <+--> the points, until nearer ones are seen

    192 directions in two turns of 96, from behind by the right to behind by the left: what stands
    low, in the way of the base, then what stands high, in the way of the arm

The camera sees 90 degrees ahead. What the robot turns into, or backs into, it has mostly driven
past. `skills/network/seen.py` makes the same numbers of pictures and HAB's other sensors.
"""

from __future__ import annotations

import math

import mujoco
import numpy as np
from numba import njit

from rearrange.sim.robot import fetch

SEEN_SCAN = "seen_scan"
BINS = 96  # directions of a turn
LOW, HIGH, TOP = 0.05, 0.40, 1.40  # m above the floor, where the turns' heights begin and end
FARTHEST = 6.0  # m: what is farther is taken in later
ARM = (1.05, 0.45)  # m ahead and aside: what stands high there may be the arm, or what it holds
UNSEEN = 10.0  # m


class SeenScan:
    """The memory of one home's camera."""

    size = 2 * BINS

    def __init__(self) -> None:
        self._points = np.empty((2, BINS, 2))  # m, world; nan: none
        self._before = np.empty_like(self._points)
        self._nearest = np.empty((2, BINS))  # m
        self.forget()

    def forget(self) -> None:
        """Call when an episode begins."""
        self._points.fill(np.nan)

    def state(self) -> np.ndarray:
        """A copy of the points, [2, 96, 2] m, world."""
        return self._points.copy()

    def restore(self, points: np.ndarray) -> None:
        """Goes on from what `state` returned."""
        self._points[:] = points

    def add(
        self, data: mujoco.MjData, base: tuple[float, float, float], camera: int, depth: np.ndarray
    ) -> None:
        """Takes in a picture of that camera, square, [H, H, 1] m along its axis.

        Args:
            base: x, y, yaw: m, rad, world.
        """
        self._points, self._before = self._before, self._points
        pixel = 2.0 * math.tan(math.radians(fetch.HEAD_CAMERA_FOV_DEG) / 2.0) / len(depth)
        _remember(
            self._before, self._points, self._nearest, depth, pixel, data.cam_xpos[camera],
            data.cam_xmat[camera], *base,
        )  # fmt: skip

    def distances(self) -> np.ndarray:
        """From the base's centre, as the last `add` found them, [192] m."""
        return _joined(self._nearest).ravel()


@njit(cache=True, nogil=True)
def _remember(before, points, nearest, depth, pixel, eye, axes, x0, y0, yaw):
    nearest[:] = UNSEEN
    points[:] = np.nan
    cos, sin = math.cos(yaw), math.sin(yaw)
    height, width = depth.shape[0], depth.shape[1]
    for iy in range(height):
        up = (height / 2 - iy - 0.5) * pixel
        for ix in range(width):
            d = depth[iy, ix, 0]
            if d > FARTHEST:
                continue
            right = (ix + 0.5 - width / 2) * pixel
            z = eye[2] + d * (right * axes[6] + up * axes[7] - axes[8])
            if z < LOW or z > TOP:
                continue
            x = eye[0] + d * (right * axes[0] + up * axes[1] - axes[2])
            y = eye[1] + d * (right * axes[3] + up * axes[4] - axes[5])
            ahead = cos * (x - x0) + sin * (y - y0)
            aside = cos * (y - y0) - sin * (x - x0)
            turn = 0 if z < HIGH else 1
            if turn == 1 and ahead < ARM[0] and abs(aside) < ARM[1]:
                continue
            _take(points[turn], nearest[turn], x, y, ahead, aside)
    for turn in range(2):
        for i in range(BINS):
            x, y = before[turn, i]
            if not math.isnan(x):
                ahead = cos * (x - x0) + sin * (y - y0)
                aside = cos * (y - y0) - sin * (x - x0)
                _take(points[turn], nearest[turn], x, y, ahead, aside)


@njit(cache=True, nogil=True)
def _take(points, nearest, x, y, ahead, aside):
    distance = math.sqrt(ahead * ahead + aside * aside)
    i = int((math.atan2(aside, ahead) / (2.0 * math.pi) + 0.5) * BINS) % BINS
    if distance < nearest[i]:
        nearest[i] = distance
        points[i, 0], points[i, 1] = x, y


@njit(cache=True, nogil=True)
def _joined(nearest):
    """The nearest of each direction and the two beside it.

    A point of one direction may come to lie in the next one's, where it hides the next one's own
    and leaves what is behind it.
    """
    out = nearest.copy()
    for turn in range(2):
        for i in range(BINS):
            beside = min(nearest[turn, i - 1], nearest[turn, (i + 1) % BINS])
            out[turn, i] = min(nearest[turn, i], beside)
    return out
