"""Triangle rasteriser with the same nearness and ids as for primitives, see `depth_kernel`.

Nearness is affine over a flat triangle, in perspective too, so that a row of one is a line.

Legend: P points, F faces, N parts; H rows, W columns.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from rearrange.sim.robot.depth_view import SAME_EVERYWHERE

NEAR = 0.02  # m: what lies nearer to the eye is cut off
_SLACK = 1e-7  # pixels: triangles that share an edge leave no gap


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def move_points(points, normals, firsts, turns, places, out_points, out_normals):
    """Points and normals [P, 3] of each part by its turn [N, 3, 3] and place [N, 3]."""
    for n in range(turns.shape[0]):
        r, t = turns[n], places[n]
        for i in range(firsts[n], firsts[n + 1]):
            x, y, z = points[i, 0], points[i, 1], points[i, 2]
            a, b, c = normals[i, 0], normals[i, 1], normals[i, 2]
            for k in range(3):
                out_points[i, k] = r[k, 0] * x + r[k, 1] * y + r[k, 2] * z + t[k]
                out_normals[i, k] = r[k, 0] * a + r[k, 1] * b + r[k, 2] * c


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def draw_triangles(
    view, is_parallel, width, points, firsts, faces, part_of_face, drawn, first_id, nearness, ids
):
    """Raise `nearness` where a face of a part with `drawn[part] != 0` is nearest.

    Args:
        view, is_parallel, width, nearness, ids: as `rasterise` takes them.
        firsts: [N + 1], of each part its first point.
        first_id: face f writes the id first_id + f.
    """
    camera = np.empty((points.shape[0], 3))
    for n in range(drawn.shape[0]):
        if drawn[n] == 0:
            continue
        for i in range(firsts[n], firsts[n + 1]):
            x, y, z = points[i, 0] - view[0], points[i, 1] - view[1], points[i, 2] - view[2]
            camera[i, 0] = view[3] * x + view[4] * y + view[5] * z
            camera[i, 1] = view[6] * x + view[7] * y + view[8] * z
            camera[i, 2] = view[9] * x + view[10] * y + view[11] * z
    corner = np.empty((4, 3))
    screen = np.empty((4, 3))  # column, row, nearness
    for f in range(faces.shape[0]):
        if drawn[part_of_face[f]] == 0:
            continue
        count = 0
        if is_parallel:
            count = 3
            for k in range(3):
                i = faces[f, k]
                screen[k, 0] = (camera[i, 0] - view[12]) / view[13]
                screen[k, 1] = (camera[i, 1] - view[14]) / view[15]
                screen[k, 2] = -camera[i, 2]
        else:
            for k in range(3):  # cut at the plane t = NEAR
                i, j = faces[f, k], faces[f, (k + 1) % 3]
                t, next_t = camera[i, 2], camera[j, 2]
                if t >= NEAR:
                    for a in range(3):
                        corner[count, a] = camera[i, a]
                    count += 1
                if (t >= NEAR) != (next_t >= NEAR):
                    share = (NEAR - t) / (next_t - t)
                    for a in range(3):
                        corner[count, a] = camera[i, a] + share * (camera[j, a] - camera[i, a])
                    count += 1
            for k in range(count):
                nearest = 1.0 / corner[k, 2]
                screen[k, 0] = (corner[k, 0] * nearest - view[12]) / view[13]
                screen[k, 1] = (corner[k, 1] * nearest - view[14]) / view[15]
                screen[k, 2] = nearest
        for k in range(1, count - 1):
            _fill(screen, k, width, first_id + f, nearness, ids)


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _fill(screen, k, width, number, nearness, ids):
    """The triangle of the corners 0, k, k + 1."""
    x0, y0, w0 = screen[0, 0], screen[0, 1], screen[0, 2]
    x1, y1, w1 = screen[k, 0], screen[k, 1], screen[k, 2]
    x2, y2, w2 = screen[k + 1, 0], screen[k + 1, 1], screen[k + 1, 2]
    low, high = min(x0, x1, x2), max(x0, x1, x2)
    if high < 0.0 or low > width - 1.0:
        return
    low, high = max(low, 0.0), min(high, width - 1.0)
    first = int(math.ceil(max(min(y0, y1, y2), 0.0) - _SLACK))
    last = int(math.floor(min(max(y0, y1, y2), nearness.shape[0] - 1.0) + _SLACK))
    area = (x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0)
    if first > last or abs(area) < 1e-9:
        return
    per_column = ((w1 - w0) * (y2 - y0) - (w2 - w0) * (y1 - y0)) / area
    per_row = ((w2 - w0) * (x1 - x0) - (w1 - w0) * (x2 - x0)) / area
    keeps_ids = ids.shape[0] > 0
    for row in range(first, last + 1):
        left, right = low, high
        for edge in range(3):
            if edge == 0:
                ax, ay, bx, by = x0, y0, x1, y1
            elif edge == 1:
                ax, ay, bx, by = x1, y1, x2, y2
            else:
                ax, ay, bx, by = x2, y2, x0, y0
            dy = by - ay if area > 0.0 else ay - by
            if abs(dy) < 1e-12:
                continue  # the rows bound it
            crossing = ax + (bx - ax) * (row - ay) / (by - ay)
            if dy < 0.0:
                left = max(left, crossing)
            else:
                right = min(right, crossing)
        start, end = int(math.ceil(left - _SLACK)), int(math.floor(right + _SLACK))
        base = w0 + per_row * (row - y0) - per_column * x0
        if keeps_ids:
            for col in range(start, end + 1):
                w = np.float32(base + per_column * col)
                if w > nearness[row, col]:
                    nearness[row, col], ids[row, col] = w, number
        else:
            for col in range(start, end + 1):
                w = np.float32(base + per_column * col)
                nearness[row, col] = max(nearness[row, col], w)
