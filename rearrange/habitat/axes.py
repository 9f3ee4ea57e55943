"""Our axes and Habitat's, and receptacles, which are boxes in either.

    ours     x forward, y left, z up      x_h = x,  y_h = z,  z_h = -y
    Habitat  x forward, y up, z right

A turn by `yaw` about our z is one by `yaw` about its y. A fixed joint of roll -90 degrees leads
from a frame of Habitat's to one of ours (hab-spec 11, "the root is y-up").
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rearrange.sim.home.furniture import Surface

Vector = tuple[float, float, float]
TO_Z_UP_RPY: Vector = (-math.pi / 2, 0.0, 0.0)
"""Of a joint from a parent with Habitat's axes to a child with ours, rad."""
HALF_HEIGHT = 0.01  # m: objects are let go within this box


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


def receptacle_box(
    surface: Surface, origin: Sequence[float] = (0.0, 0.0, 0.0), is_y_up: bool = True
) -> dict[str, Any]:
    """The box above a surface, standing on it: `position` its centre, `scale` its half sizes.

    As in the `user_defined` part of a config (hab-spec 2.2).

    Args:
        origin: of the frame that the box is given in, in the piece's frame, m.
        is_y_up: whether that frame has Habitat's axes; ours otherwise.
    """
    x, y, z = (p - o for p, o in zip(surface.pos, origin, strict=True))
    pos, half, up = (x, y, z + HALF_HEIGHT), (*surface.half, HALF_HEIGHT), (0.0, 0.0, 1.0)
    if is_y_up:
        pos, half, up = to_habitat(pos), half_to_habitat(half), to_habitat(up)
    numbers = {"position": pos, "scale": half, "up": up}
    return {key: [round(v, 9) + 0.0 for v in value] for key, value in numbers.items()}


def user_defined(surfaces: Iterable[Surface]) -> dict[str, Any]:
    """The part of an object's config, by the receptacles' names."""
    return {surface.name: receptacle_box(surface) for surface in surfaces}
