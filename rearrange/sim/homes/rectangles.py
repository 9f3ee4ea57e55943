"""Rectangles parallel to the walls, in whole millimetres: turned, moved, compared, and placed at a
wall where there is room."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numba import njit

from rearrange.sim.homes.rooms import Rect


def turned(rect: Rect, quarter: int) -> Rect:
    """A rectangle rotated by multiples of 90 degrees about the origin."""
    for _ in range(quarter % 4):
        x0, y0, x1, y1 = rect
        rect = (-y1, x0, -y0, x1)
    return rect


def moved(rect: Rect, x: int, y: int) -> Rect:
    """A rectangle shifted by x and y."""
    return (x + rect[0], y + rect[1], x + rect[2], y + rect[3])


def placed(rect: Rect, pose: tuple[int, int, int]) -> Rect:
    """A rectangle of a piece's frame in the home; for a slanted piece, its bounding rectangle."""
    x, y, yaw = pose
    quarter, slant = divmod(yaw + 45, 90)
    slant -= 45
    x0, y0, x1, y1 = turned(rect, quarter)
    if slant:  # chairs only, which are centred: the sine of up to 15 degrees is below 0.26
        more = max(x1, y1) * 26 // 100
        x0, y0, x1, y1 = x0 - more, y0 - more, x1 + more, y1 + more
    return moved((x0, y0, x1, y1), x, y)


def hits(rect: Rect, others: Iterable[Rect], gap: int = 0) -> bool:
    """Whether a rectangle comes closer than `gap` to any of the others."""
    x0, y0, x1, y1 = rect[0] - gap, rect[1] - gap, rect[2] + gap, rect[3] + gap
    for a, b, c, d in others:  # noqa: SIM110 - a plain loop is the fastest
        if x0 < c and a < x1 and y0 < d and b < y1:
            return True
    return False


def holds(rect: Rect, other: Rect) -> bool:
    """Whether a rectangle lies within another."""
    return (
        other[0] >= rect[0] and other[1] >= rect[1] and other[2] <= rect[2] and other[3] <= rect[3]
    )


def rows_of(rects: Sequence[Rect]) -> np.ndarray:
    """[N, 4] int64."""
    return np.array(rects, dtype=np.int64).reshape(-1, 4)


def place_at_wall(
    rng: np.random.Generator, quarter: int, inside: np.ndarray, shapes: np.ndarray,
    has_front: bool, half: tuple[int, int], wall_gap: tuple[int, int], taken: np.ndarray,
    kept: np.ndarray, gap: int, tries: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Somewhere with the back to a wall; now and then in a corner.

    Args:
        rng: draws as NumPy's own calls would, one after the other.
        quarter: of the turn, which names the wall; -1: any.
        inside: [4], the room between the faces of its walls.
        shapes: [2, 4, 4], body and front of the piece, turned by each quarter.
        has_front: whether the front must be free.
        half: half sizes of the piece along its x and y.
        wall_gap: least and most space behind it.
        taken, kept: [N, 4], what stands there, and floor that must stay free.
        gap: between pieces.

    Returns quarter, x and y; a quarter of -1: there was no room.
    """
    q, x, y = _place_at_wall(
        rng, quarter, inside, shapes, has_front, *half, *wall_gap, taken, kept, gap, tries
    )
    return int(q), int(x), int(y)


@njit(cache=True)
def _place_at_wall(
    rng, quarter, inside, shapes, has_front, hx, hy, least, most, taken, kept, gap, tries
):
    own, zone = np.empty(4, np.int64), np.empty(4, np.int64)
    for _ in range(tries):
        q = rng.integers(0, 4) if quarter < 0 else quarter
        off = hx + least + 10 * rng.integers(0, (most - least) // 10 + 1)
        side = 1 - q % 2  # the axis along the wall
        low, high = inside[side] + hy + 20, inside[side + 2] - hy - 20
        if high < low:
            continue
        along = low + 10 * rng.integers(0, (high - low) // 10 + 1)
        if rng.integers(0, 100) < 35:
            along = low if rng.integers(0, 2) == 0 else high
        out = inside[1 - side] + off if q < 2 else inside[3 - side] - off
        x, y = (out, along) if side == 1 else (along, out)
        for i in range(4):
            own[i] = shapes[0, q, i] + (x if i % 2 == 0 else y)
            zone[i] = shapes[1, q, i] + (x if i % 2 == 0 else y)
        if not _holds(inside, own) or _hits(own, taken, gap) or _hits(own, kept, 0):
            continue
        if not has_front or (_holds(inside, zone) and not _hits(zone, taken, 0)):
            return q, x, y
    return -1, 0, 0


@njit(cache=True)
def _holds(rect, other):
    return (
        other[0] >= rect[0] and other[1] >= rect[1] and other[2] <= rect[2] and other[3] <= rect[3]
    )


@njit(cache=True)
def _hits(rect, others, gap):
    for k in range(len(others)):
        if (
            rect[0] - gap < others[k, 2] and others[k, 0] < rect[2] + gap
            and rect[1] - gap < others[k, 3] and others[k, 1] < rect[3] + gap
        ):  # fmt: skip
            return True
    return False
