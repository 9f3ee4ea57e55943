"""Randomly placed furniture for training, so that skills transfer to other rooms.

    kitchen unchanged --> each other piece in turn: back to an outer wall, or free in the room?
                          --> clear of everything placed before? otherwise another place

Furniture that always has its back to a wall would never teach a robot to drive around it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rearrange.sim.home import furniture as fur
from rearrange.sim.home.furniture import footprint, piece_to_world

Pose = tuple[float, float, float]  # x, y, yaw of a piece: m, rad, world
KITCHEN = ("counter", "fridge", "island")
WALL_SHARE = 0.5  # of the other pieces that stand at an outer wall
WALL_GAP = 0.06  # m behind these; walls keep GAP like all else
SLANT = 15.0  # degrees: at most, by which a piece is off the nearest right angle
GAP = 0.05  # m between pieces
TRIES = 40  # for each piece
# What stays free before fridge and counter, so that doors and drawers open: x0, x1, y0, y1 in the
# piece's frame, m.
KEPT_FREE = {"fridge": (0.0, 2.1, -0.8, 1.05), "counter": (0.0, 1.6, -1.2, 1.2)}


def arranged(
    kitchen: Mapping[str, Pose],
    walls: np.ndarray,
    bounds: tuple[float, float, float, float],
    rng: np.random.Generator,
) -> dict[str, Pose] | None:
    """Poses of all furniture; None if a piece found no place.

    Args:
        kitchen: those of `KITCHEN`, which stay.
        walls: [W, 5] centre x, y, half x, y, yaw: m, rad.
        bounds: of the room: x0, y0, x1, y1, m.
    """
    poses = dict(kitchen)
    taken = [*walls, *(footprint(name, pose) for name, pose in kitchen.items())]
    for name, (x0, x1, y0, y1) in KEPT_FREE.items():
        x, y = piece_to_world(kitchen[name], (x0 + x1) / 2, (y0 + y1) / 2)
        taken.append((x, y, (x1 - x0) / 2, (y1 - y0) / 2, kitchen[name][2]))
    others = [name for name in fur.PIECES if name not in kitchen]
    # Large ones first, while there is room.
    for name in sorted(others, key=lambda name: -fur.PIECES[name].half[1]):
        for _ in range(TRIES):
            pose = _drawn(name, bounds, rng)
            own = footprint(name, pose)
            if _is_inside(own, bounds) and not any(_overlap(own, other) for other in taken):
                poses[name] = pose
                taken.append(own)
                break
        else:
            return None
    return poses


def _drawn(name: str, bounds: tuple[float, float, float, float], rng: np.random.Generator) -> Pose:
    x0, y0, x1, y1 = bounds
    x, y = float(rng.uniform(x0, x1)), float(rng.uniform(y0, y1))
    quarter = int(rng.integers(4))
    yaw = quarter * np.pi / 2
    if rng.random() >= WALL_SHARE:
        return x, y, float(yaw + np.deg2rad(rng.uniform(-SLANT, SLANT)))
    off = fur.PIECES[name].half[0] + WALL_GAP  # looks away from the wall that it stands at
    return ((x0 + off, y, yaw), (x, y0 + off, yaw), (x1 - off, y, yaw), (x, y1 - off, yaw))[quarter]


def _corners(rectangle: Sequence[float]) -> np.ndarray:
    x, y, hx, hy, yaw = rectangle
    ends = [(hx, hy), (hx, -hy), (-hx, -hy), (-hx, hy)]
    return np.array([piece_to_world((x, y, yaw), *end) for end in ends])


def _is_inside(rectangle: Sequence[float], bounds: tuple[float, float, float, float]) -> bool:
    corners = _corners(rectangle)
    return bool((corners >= bounds[:2]).all() and (corners <= bounds[2:]).all())


def _overlap(a: Sequence[float], b: Sequence[float]) -> bool:
    """Whether two rectangles come nearer than GAP: no side's normal separates them."""
    corners = _corners(a), _corners(b)
    for yaw in (a[4], b[4]):
        c, s = np.cos(yaw), np.sin(yaw)
        for axis in ((c, s), (-s, c)):
            first, second = (points @ axis for points in corners)
            if first.min() - second.max() > GAP or second.min() - first.max() > GAP:
                return False
    return True
