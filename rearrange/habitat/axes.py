"""Our axes and Habitat's.

    ours     x forward, y left, z up      x_h = x,  y_h = z,  z_h = -y
    Habitat  x forward, y up, z right

A turn by `yaw` about our z is one by `yaw` about its y. A fixed joint of roll -90 degrees leads
from a frame of Habitat's to one of ours (hab-spec 11, "the root is y-up").
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Vector = tuple[float, float, float]
TO_Z_UP_RPY: Vector = (-math.pi / 2, 0.0, 0.0)
"""Of a joint from a parent with Habitat's axes to a child with ours, rad."""


def to_habitat(point: Sequence[float]) -> Vector:
    """A point or direction of ours in Habitat's axes."""
    x, y, z = (float(v) for v in point)
    return x, z, 0.0 - y  # 0.0 - y, not -y: no zero gets a minus


def from_habitat(point: Sequence[float]) -> Vector:
    """A point or direction of Habitat's in our axes."""
    x, y, z = (float(v) for v in point)
    return x, 0.0 - z, y


def half_to_habitat(half: Sequence[float]) -> Vector:
    """Half sizes of a box of ours in Habitat's axes."""
    x, y, z = (float(v) for v in half)
    return x, z, y


def points_to_habitat(points: np.ndarray) -> np.ndarray:
    """`to_habitat` of each row, [N, 3]."""
    return np.stack([points[:, 0], points[:, 2], 0.0 - points[:, 1]], axis=1)


def yaw_to_habitat(yaw: float) -> tuple[float, float, float, float]:
    """A turn about the vertical as Habitat's scene files have it, (w, x, y, z)."""
    return math.cos(yaw / 2), 0.0, math.sin(yaw / 2), 0.0
