"""Rectangles parallel to the walls, in whole millimetres: turned, moved, compared."""

from __future__ import annotations

from collections.abc import Iterable

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
    # A plain loop: most of the time for a home is spent here.
    for a, b, c, d in others:  # noqa: SIM110
        if x0 < c and a < x1 and y0 < d and b < y1:
            return True
    return False


def holds(rect: Rect, other: Rect) -> bool:
    """Whether a rectangle lies within another."""
    return (
        other[0] >= rect[0] and other[1] >= rect[1] and other[2] <= rect[2] and other[3] <= rect[3]
    )
