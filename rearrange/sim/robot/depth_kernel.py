"""Rasteriser of MuJoCo primitives: the nearest surface per pixel and its nearness. No OpenGL.

Each pixel holds a *nearness* w that every surface tries to raise; w is chosen so that flat faces
are affine in the pixel's column and row:

    perspective  ray = eye + t D(col, row)       w = 1 / t    (t: depth along the optical axis)
    parallel     ray = O(col, row) + t forward   w = -t

    geom -- depth_view.py: rows and columns that it may touch -- depth_solids.py: raises w there

Legend: G geoms, H rows, W columns (stored rows are padded to a multiple of BLOCK).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rearrange.sim.native.addresses import (
    bytes_at,
    float_rows,
    floats,
    int_rows,
    ints,
    pixels,
    wholes,
)
from rearrange.sim.robot.depth_solids import (
    BLOCK,
    draw_box,
    draw_capsule_from_inside,
    draw_cylinder,
    draw_ellipsoid,
    is_in_capsule,
)
from rearrange.sim.robot.depth_view import HALF, SAME_EVERYWHERE, SIGN, VIEW_SIZE, WORK_SIZE, place

__all__ = [
    "BLOCK",
    "SAME_EVERYWHERE",
    "VIEW_SIZE",
    "WORK_SIZE",
    "draw_pictures",
    "rasterise",
    "write_view",
]

PLANE, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX = 0, 2, 3, 4, 5, 6  # mjtGeom
SUPPORTED_TYPES = (PLANE, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX)
PARKED_Z = -5.0  # m: what lies below is a spare part, parked, and not drawn


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def rasterise(
    view, is_parallel, width, types, sizes, positions, matrices, drawn, nearness, ids, spans, work
):
    """Draw the geoms with `drawn[g] != 0` into `nearness`.

    Args:
        view: [VIEW_SIZE] eye, right, up, forward (unit vectors), u = u0 + du col, v = v0 + dv row,
            far (m).
        types, sizes, positions, matrices: [G], [G, 3], [G, 3], [G, 9] as MuJoCo keeps them.
        nearness: [H, padded W] float32; the caller has filled it with the background's.
        ids: [H, padded W] int32, receives the index of the nearest geom; [0, 0] if nobody wants it.
        spans, work: scratch, [2, H] and [WORK_SIZE] float64.
    """
    for g in range(types.shape[0]):
        if drawn[g] == 0 or positions[g, 2] < PARKED_Z:
            continue
        kind = types[g]
        half_x, half_y, half_z = sizes[g, 0], sizes[g, 1], sizes[g, 2]
        parts = 1
        if kind == PLANE:  # a size of zero means endless
            half_x = half_x if half_x > 0.0 else 1e4
            half_y = half_y if half_y > 0.0 else 1e4
            half_z = 0.0
        elif kind == SPHERE:
            kind, half_y, half_z = ELLIPSOID, half_x, half_x
        elif kind == CYLINDER:
            half_y, half_z = half_x, half_y
        elif kind == CAPSULE:
            work[HALF], work[HALF + 1], work[HALF + 2] = half_x, half_x, half_y + half_x
            first, last = place(view, is_parallel, width, positions, matrices, g, 0.0, spans, work)
            if first > last:
                continue
            if not is_parallel and is_in_capsule(half_x, half_y, work):
                draw_capsule_from_inside(width, first, last, half_x, half_y, g, nearness, ids, work)
                continue
            parts = 3
        elif kind != BOX and kind != ELLIPSOID:
            continue
        offset = 0.0
        for part in range(parts):
            if parts == 3:  # a capsule: cylinder and two balls
                kind = CYLINDER if part == 0 else ELLIPSOID
                half_y = half_x
                half_z = sizes[g, 1] if part == 0 else half_x
                offset = 0.0 if part == 0 else (sizes[g, 1] if part == 1 else -sizes[g, 1])
            work[HALF], work[HALF + 1], work[HALF + 2] = half_x, half_y, half_z
            first, last = place(
                view, is_parallel, width, positions, matrices, g, offset, spans, work
            )
            if first > last:
                continue
            if kind == BOX:
                draw_box(is_parallel, width, first, last, g, nearness, ids, spans, work)
            elif kind == PLANE:
                if work[SIGN + 2] > 0.0:  # seen from above only
                    draw_box(is_parallel, width, first, last, g, nearness, ids, spans, work)
            elif kind == CYLINDER:
                draw_cylinder(is_parallel, width, first, last, g, nearness, ids, spans, work)
            else:
                draw_ellipsoid(is_parallel, width, first, last, g, nearness, ids, spans, work)


@njit(cache=True, nogil=True)
def write_view(view, eye, axes, pixel, width, height, far):
    """Writes a perspective camera into `view`.

    Args:
        axes: [9], MuJoCo's camera matrix: its columns are right, up and backward in the world.
        pixel: side of a pixel at 1 m, m.
        far: m, beyond it nothing is drawn.
    """
    for k in range(3):
        view[k] = eye[k]
        view[3 + k], view[6 + k], view[9 + k] = axes[3 * k], axes[3 * k + 1], -axes[3 * k + 2]
    view[12], view[13] = (0.5 - width / 2) * pixel, pixel
    view[14], view[15], view[16] = (height / 2 - 0.5) * pixel, -pixel, far


# Places in a picture's table, [TABLE_SIZE] int64: geoms, groups of geoms, pixels per side, columns
# stored; addresses of the arrays that `rasterise` takes, of the camera's pose, and of the picture.
COUNT, NUM_GROUPS, SIZE, COLUMNS, NUMBERS, EYE, AXES, TYPES, SIZES, POSITIONS, MATRICES = range(11)
GROUPS, IS_SEEN, DRAWN, NEARNESS, IDS, SPANS, WORK, VIEW, OUT, TABLE_SIZE = range(11, 21)
PIXEL, FAR = range(2)  # NUMBERS: see `write_view`


@njit(cache=True, nogil=True)
def draw_pictures(tables):
    """Depth images of several worlds: out[row, col] = t / far, clipped to [0, 1].

    Args:
        tables: [N] int64, addresses of their tables.
    """
    for i in range(len(tables)):
        at = wholes(tables[i], TABLE_SIZE)
        count, size, columns = at[COUNT], at[SIZE], at[COLUMNS]
        numbers, view = floats(at[NUMBERS], 2), floats(at[VIEW], VIEW_SIZE)
        eye, axes = floats(at[EYE], 3), floats(at[AXES], 9)
        nearness, out = pixels(at[NEARNESS], size, columns), pixels(at[OUT], size, size)
        groups, is_seen = ints(at[GROUPS], count), bytes_at(at[IS_SEEN], at[NUM_GROUPS])
        drawn, far = bytes_at(at[DRAWN], count), numbers[FAR]
        write_view(view, eye, axes, numbers[PIXEL], size, size, far)
        for g in range(count):
            drawn[g] = is_seen[min(max(groups[g], 0), len(is_seen) - 1)]
        _fill(nearness, np.float32(1.0 / far))
        is_parallel = far < 0.0  # never; a plain False would be compiled a second time, as a type
        rasterise(
            view, is_parallel, size, ints(at[TYPES], count), float_rows(at[SIZES], count, 3),
            float_rows(at[POSITIONS], count, 3), float_rows(at[MATRICES], count, 9), drawn,
            nearness, int_rows(at[IDS], 0, 0), float_rows(at[SPANS], 2, size),
            floats(at[WORK], WORK_SIZE),
        )  # fmt: skip
        _to_depth(nearness, np.float32(1.0 / far), out)


@njit(cache=True, nogil=True)
def _fill(nearness, value):
    for row in range(nearness.shape[0]):
        for col in range(nearness.shape[1]):
            nearness[row, col] = value


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _to_depth(nearness, scale, out):
    one = np.float32(1.0)
    for row in range(out.shape[0]):
        for col in range(out.shape[1]):
            value = scale / nearness[row, col]
            out[row, col] = value if value < one else one
