"""What the head camera has seen around the robot in this episode: a scan that remembers.

    depth picture --> points in the world --> nearest of each direction, seen now or before
                                                |
                      nearness around the base <-+-> points, kept until they are nearer no more

    seen_scan  192  two turns of 96 directions, from behind by the right to behind by the left:
                    what stands low, in the way of the base, and what stands high, in the way of
                    the arm

The camera sees 90 degrees ahead. What the robot turns into, or backs into, it has mostly driven
past. Nearness as `ranges` has it, of the distance from the base's centre; what has not been seen
counts as far away.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from rearrange.tasks.ranges import nearness

SEEN_SCAN = "seen_scan"
BINS = 96  # directions
LOW, HIGH, TOP = 0.05, 0.40, 1.40  # m, where the two bands begin and the higher one ends
FARTHEST = 6.0  # m: what is farther is taken in later
ARM = (1.05, 0.45)  # m ahead and aside where what stands high may be the arm, or what it holds
UNSEEN = 10.0  # m


class SeenScan:
    """The memory of one home's camera. Call `forget` when an episode begins."""

    def __init__(self) -> None:
        self._points = np.empty((2, BINS, 2))  # world, m
        self._others = np.empty_like(self._points)
        self._nearest = np.empty((2, BINS))
        self.forget()

    def forget(self) -> None:
        self._points.fill(np.nan)

    def read(self, data, camera: int, base: tuple[float, float, float], depth, pixel: float):
        """[192] float32, of a picture [H, W, 1] of depths in m."""
        _remember(
            self._points, self._others, self._nearest, depth, pixel, data.cam_xpos[camera],
            data.cam_xmat[camera], *base,
        )  # fmt: skip
        self._points, self._others = self._others, self._points
        return nearness(_joined(self._nearest).ravel())


@njit(cache=True, nogil=True)
def _remember(points, after, nearest, depth, pixel, eye, axes, x0, y0, yaw):
    nearest[:] = UNSEEN
    after[:] = np.nan
    cos, sin = math.cos(yaw), math.sin(yaw)
    height, width = depth.shape[0], depth.shape[1]
    for iy in range(height):
        up = (height / 2 - iy - 0.5) * pixel
        for ix in range(width):
            d = depth[iy, ix, 0]
            if d > FARTHEST:
                continue
            right = (ix + 0.5 - width / 2) * pixel
            x = eye[0] + d * (right * axes[0] + up * axes[1] - axes[2])
            y = eye[1] + d * (right * axes[3] + up * axes[4] - axes[5])
            z = eye[2] + d * (right * axes[6] + up * axes[7] - axes[8])
            if z < LOW or z > TOP:
                continue
            band = 0 if z < HIGH else 1
            ahead = cos * (x - x0) + sin * (y - y0)
            aside = cos * (y - y0) - sin * (x - x0)
            if band == 1 and ahead < ARM[0] and abs(aside) < ARM[1]:
                continue
            _take(after[band], nearest[band], x, y, ahead, aside)
    for band in range(2):
        for i in range(BINS):
            x, y = points[band, i]
            if not math.isnan(x):
                ahead = cos * (x - x0) + sin * (y - y0)
                aside = cos * (y - y0) - sin * (x - x0)
                _take(after[band], nearest[band], x, y, ahead, aside)


@njit(cache=True, nogil=True)
def _take(points, nearest, x, y, ahead, aside):
    distance = math.sqrt(ahead * ahead + aside * aside)
    i = int((math.atan2(aside, ahead) / (2.0 * math.pi) + 0.5) * BINS) % BINS
    if distance < nearest[i]:
        nearest[i] = distance
        points[i, 0], points[i, 1] = x, y


@njit(cache=True, nogil=True)
def _joined(nearest):
    """Holes, of directions whose point has come to lie in the next one's, closed."""
    out = nearest.copy()
    for band in range(2):
        for i in range(BINS):
            if nearest[band, i] == UNSEEN:
                left, right = nearest[band, i - 1], nearest[band, (i + 1) % BINS]
                if left != UNSEEN and right != UNSEEN:
                    out[band, i] = max(left, right)
    return out
