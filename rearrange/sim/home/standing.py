"""Floor from which the robot reaches a place: near enough, connected, no wall in between."""

from __future__ import annotations

import numpy as np
from numba import njit

from rearrange.sim.home.navigation import FloorPlan


def floor_cells_near(
    plan: FloorPlan, points: np.ndarray, r_min: float, r_max: float, enough: int
) -> np.ndarray:
    """How many cells of the largest island lie between two distances (m) of each point [N, 2].

    Counts stop at `enough`: [N] ints.
    """
    return _count_near(
        points, plan.labels, plan.largest, plan.bounds, plan.cell, r_min, r_max, enough
    )


def is_cut_off(points: np.ndarray, target, walls: np.ndarray) -> np.ndarray:
    """Whether a wall stands between each point [N, 2] and `target` [2 or 3], seen from above: [N].

    An arm does not reach through it, however near the point is. `walls` are those of a `Layout`.
    """
    cos, sin = np.cos(walls[:, 4]), np.sin(walls[:, 4])
    return _any_between(np.asarray(points), float(target[0]), float(target[1]), walls, cos, sin)


def has_stands(
    plan: FloorPlan, point: tuple[float, float], ring: tuple[float, float], walls: np.ndarray,
    enough: int,
) -> bool:  # fmt: skip
    """Whether so many cells of the largest island lie within `ring` (m) of a point, with none of
    `walls` in between."""
    cos, sin = np.cos(walls[:, 4]), np.sin(walls[:, 4])
    return _has_stands(
        *point, *ring, plan.labels, plan.largest, plan.bounds, plan.cell, walls, cos, sin, enough
    )


@njit(cache=True, nogil=True)
def _any_between(points, x, y, walls, cos, sin):
    is_cut = np.zeros(len(points), dtype=np.bool_)
    for i in range(len(points)):
        is_cut[i] = _is_between(points[i, 0], points[i, 1], x, y, walls, cos, sin)
    return is_cut


@njit(cache=True, nogil=True)
def _is_between(from_x, from_y, x, y, walls, cos, sin):
    for j in range(len(walls)):
        # In the wall's own frame the part of the segment within its two pairs of sides, 0 to 1.
        first, last = 0.0, 1.0
        px, py = from_x - walls[j, 0], from_y - walls[j, 1]
        tx, ty = x - walls[j, 0], y - walls[j, 1]
        for side in range(2):
            along_x, along_y = (cos[j], sin[j]) if side == 0 else (-sin[j], cos[j])
            begin = px * along_x + py * along_y
            way = tx * along_x + ty * along_y - begin
            if abs(way) < 1e-9:
                way = 1e-9
            half = walls[j, 2 + side]
            enters, leaves = (-half - begin) / way, (half - begin) / way
            first, last = max(first, min(enters, leaves)), min(last, max(enters, leaves))
        if first < last:
            return True
    return False


@njit(cache=True, nogil=True)
def _window(middle, reach, begin, cell, count):
    """The cells along an axis that a circle may hold: first, and one past the last."""
    first, end = int((middle - reach - begin) / cell) - 1, int((middle + reach - begin) / cell) + 2
    return max(first, 0), min(end, count)


@njit(cache=True, nogil=True)
def _has_stands(
    x, y, r_min, r_max, labels, island, bounds, cell, walls, cos, sin, enough
):  # fmt: skip
    found = 0
    ix0, ix1 = _window(x, r_max, bounds[0], cell, labels.shape[1])
    iy0, iy1 = _window(y, r_max, bounds[1], cell, labels.shape[0])
    for iy in range(iy0, iy1):
        cell_y = bounds[1] + (iy + 0.5) * cell
        dy = cell_y - y
        for ix in range(ix0, ix1):
            cell_x = bounds[0] + (ix + 0.5) * cell
            dx = cell_x - x
            if labels[iy, ix] != island or not r_min**2 <= dx * dx + dy * dy <= r_max**2:
                continue
            if not _is_between(cell_x, cell_y, x, y, walls, cos, sin):
                found += 1
                if found >= enough:
                    return True
    return False


@njit(cache=True, nogil=True)
def _count_near(points, labels, island, bounds, cell, r_min, r_max, enough):
    ny, nx = labels.shape
    counts = np.zeros(len(points), dtype=np.int64)
    for i in range(len(points)):
        x, y = points[i, 0], points[i, 1]
        ix0, ix1 = _window(x, r_max, bounds[0], cell, nx)
        iy0, iy1 = _window(y, r_max, bounds[1], cell, ny)
        for iy in range(iy0, iy1):
            dy = bounds[1] + (iy + 0.5) * cell - y
            for ix in range(ix0, ix1):
                dx = bounds[0] + (ix + 0.5) * cell - x
                if labels[iy, ix] == island and r_min * r_min <= dx * dx + dy * dy <= r_max * r_max:
                    counts[i] += 1
            if counts[i] >= enough:
                counts[i] = enough
                break
    return counts
