"""Draws boxes, balls, tubes and capsules: each raises the nearness of the pixels it covers.

A convex solid is entered at w = min over its front surfaces and left at w = max over its back
surfaces. Inside the columns that bound it (`depth_view.py`) short loops without branches, in
float32, become SIMD code.

Round surfaces solve  A w^2 - 2 B w + E = 0  with A constant and B affine. The discriminant
B^2 - A E is written as  r^2 |D|^2 - |D x C|^2  (Lagrange's identity; C: from eye to centre), where
float32 loses little to cancellation.

Legend: H rows, W columns (stored rows are padded to a multiple of BLOCK), g the geom's number.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from rearrange.sim.robot.depth_view import (
    CENTRE,
    FORM,
    HALF,
    NEVER,
    RAY,
    SAME_EVERYWHERE,
    SIGN,
    TINY,
    affine,
    columns,
    set_face,
)

BLOCK = 16  # pixels a SIMD loop treats at once: one AVX-512 register, two of AVX2

ZERO = np.float32(0.0)
LOWEST = np.float32(-NEVER)


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def draw_box(is_parallel, width, first, last, g, nearness, ids, spans, work):
    """Nearness is the least of the one to three front faces; inside the outline rays do enter."""
    faces = 0
    for k in range(3):
        if work[SIGN + k] != 0.0:
            set_face(is_parallel, k, work[SIGN + k], FORM + 3 * faces, work)
            faces += 1
    if faces == 0:
        _draw_box_from_inside(width, first, last, g, nearness, ids, work)
        return
    for spare in range(faces, 3):
        for n in range(3):
            work[FORM + 3 * spare + n] = work[FORM + n]
    c0, x0, y0 = work[FORM], work[FORM + 1], work[FORM + 2]
    c1, x1, y1 = work[FORM + 3], work[FORM + 4], work[FORM + 5]
    c2, x2, y2 = work[FORM + 6], work[FORM + 7], work[FORM + 8]
    slope0, slope1, slope2 = np.float32(x0), np.float32(x1), np.float32(x2)
    has_ids, name = ids.shape[0] > 0, np.int32(g)
    for row in range(first, last + 1):
        low, high = columns(spans, row, width)
        if low > high:
            continue
        for start in range(low // BLOCK * BLOCK, high + 1, BLOCK):
            base0 = np.float32(c0 + y0 * row + x0 * start)
            base1 = np.float32(c1 + y1 * row + x1 * start)
            base2 = np.float32(c2 + y2 * row + x2 * start)
            begin, end = np.float32(low - start), np.float32(high - start)
            for i in range(BLOCK):
                col, at = np.float32(i), np.uint64(start + i)
                w0, w1, w2 = base0 + slope0 * col, base1 + slope1 * col, base2 + slope2 * col
                w = w0 if w0 < w1 else w1
                w = w if w < w2 else w2
                w = w if (col >= begin) & (col <= end) else LOWEST
                old = nearness[row, at]
                nearness[row, at] = w if w > old else old
                if has_ids:
                    ids[row, at] = name if w > old else ids[row, at]


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _draw_box_from_inside(width, first, last, g, nearness, ids, work):
    """The eye is in the box: each pixel sees the face through which its ray leaves."""
    for row in range(first, last + 1):
        for col in range(width):
            w = 0.0
            for k in range(3):
                ray = work[RAY + 3 * k] + work[RAY + 3 * k + 1] * col + work[RAY + 3 * k + 2] * row
                gap = work[HALF + k] + (work[CENTRE + k] if ray > 0.0 else -work[CENTRE + k])
                w = max(w, abs(ray) / max(gap, TINY))
            if w > nearness[row, col]:
                nearness[row, col] = w
                if ids.shape[0] > 0:
                    ids[row, col] = g


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def draw_ellipsoid(is_parallel, width, first, last, g, nearness, ids, spans, work):
    """With axes divided by the half sizes, a ball: w = (B +- sqrt(|D|^2 - |D x C|^2)) / A."""
    centre_squared = 0.0
    for k in range(3):
        scale = 1.0 / max(work[HALF + k], 1e-9)
        work[CENTRE + k] *= scale
        centre_squared += work[CENTRE + k] ** 2
        for n in range(3):
            work[RAY + 3 * k + n] *= scale
    a = centre_squared if is_parallel else centre_squared - 1.0
    if abs(a) < 1e-12:
        a = 1e-12
    for n in range(3):  # D . C, then D x C, as affine forms
        work[FORM + n] = 0.0
        for k in range(3):
            i, j = (k + 1) % 3, (k + 2) % 3
            work[FORM + n] += work[RAY + 3 * k + n] * work[CENTRE + k]
            work[FORM + 3 + 3 * k + n] = (
                work[RAY + 3 * i + n] * work[CENTRE + j] - work[RAY + 3 * j + n] * work[CENTRE + i]
            )
    sign = np.float32(1.0 if a > 0.0 else -1.0)  # from inside, the far root
    inverse = np.float32(1.0 / a)
    share = np.float32(0.0 if is_parallel else 1.0)
    constant = np.float32(centre_squared if is_parallel else 0.0)
    slope_x, slope_y = np.float32(work[RAY + 1]), np.float32(work[RAY + 4])
    slope_z, slope_b = np.float32(work[RAY + 7]), np.float32(work[FORM + 1])
    slope_0, slope_1 = np.float32(work[FORM + 4]), np.float32(work[FORM + 7])
    slope_2 = np.float32(work[FORM + 10])
    has_ids, name = ids.shape[0] > 0, np.int32(g)
    for row in range(first, last + 1):
        low, high = columns(spans, row, width)
        if low > high:
            continue
        for start in range(low // BLOCK * BLOCK, high + 1, BLOCK):
            base_x, base_y = affine(work, RAY, start, row), affine(work, RAY + 3, start, row)
            base_z, base_b = affine(work, RAY + 6, start, row), affine(work, FORM, start, row)
            base_0, base_1 = (
                affine(work, FORM + 3, start, row),
                affine(work, FORM + 6, start, row),
            )
            base_2 = affine(work, FORM + 9, start, row)
            begin, end = np.float32(low - start), np.float32(high - start)
            for i in range(BLOCK):
                col, at = np.float32(i), np.uint64(start + i)
                x, y, z = base_x + slope_x * col, base_y + slope_y * col, base_z + slope_z * col
                c0, c1, c2 = base_0 + slope_0 * col, base_1 + slope_1 * col, base_2 + slope_2 * col
                under = share * (x * x + y * y + z * z) + constant - (c0 * c0 + c1 * c1 + c2 * c2)
                root = np.float32(math.sqrt(under if under > ZERO else ZERO))
                w = (base_b + slope_b * col + sign * root) * inverse
                w = w if (col >= begin) & (col <= end) & (under >= ZERO) else LOWEST
                old = nearness[row, at]
                nearness[row, at] = w if w > old else old
                if has_ids:
                    ids[row, at] = name if w > old else ids[row, at]


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def draw_cylinder(is_parallel, width, first, last, g, nearness, ids, spans, work):
    """An endless cylinder (as the ellipsoid, without z) cut with the slab between its two ends."""
    radius = max(work[HALF], 1e-9)
    cx, cy = work[CENTRE], work[CENTRE + 1]
    centre_squared = cx * cx + cy * cy
    a = centre_squared if is_parallel else centre_squared - radius * radius
    if abs(a) < 1e-12:
        a = 1e-12
    for n in range(3):  # D . C and D x C
        work[FORM + n] = work[RAY + n] * cx + work[RAY + 3 + n] * cy
        work[FORM + 3 + n] = work[RAY + n] * cy - work[RAY + 3 + n] * cx
    # The ends: entered through `front` (or no condition), left through the greater of `back` and
    # `side`.
    sign = work[SIGN + 2]
    front, back, side = FORM + 6, FORM + 9, FORM + 12
    for n in range(9):
        work[front + n] = 0.0
    work[front], work[back], work[side] = NEVER, -NEVER, -NEVER
    if sign != 0.0:
        set_face(is_parallel, 2, sign, front, work)
        set_face(is_parallel, 2, -sign, back, work)
    elif not is_parallel:
        set_face(is_parallel, 2, 1.0, back, work)
        set_face(is_parallel, 2, -1.0, side, work)
    in_tube = a < 0.0
    is_inside = in_tube and sign == 0.0
    share = 0.0 if is_parallel else 1.0
    constant = centre_squared if is_parallel else 0.0
    inverse, leave_offset = 1.0 / a, 0.0
    enter_inverse, enter_offset = (0.0, NEVER) if in_tube else (inverse, 0.0)
    if is_parallel and centre_squared < 1e-9:  # rays along the axis: in the tube for good, or never
        share, constant = -1.0, radius * radius
        inverse, leave_offset, enter_inverse, enter_offset = 0.0, -NEVER, 0.0, NEVER
        for n in range(3):
            work[FORM + 3 + n] = 0.0
    share, constant, radius_squared = (
        np.float32(share),
        np.float32(constant),
        np.float32(radius * radius),
    )
    inverse, leave_offset = np.float32(inverse), np.float32(leave_offset)
    enter_inverse, enter_offset = np.float32(enter_inverse), np.float32(enter_offset)
    slope_x, slope_y = np.float32(work[RAY + 1]), np.float32(work[RAY + 4])
    slope_b, slope_c = np.float32(work[FORM + 1]), np.float32(work[FORM + 4])
    slope_f, slope_k = np.float32(work[front + 1]), np.float32(work[back + 1])
    slope_s = np.float32(work[side + 1])
    has_ids, name = ids.shape[0] > 0, np.int32(g)
    for row in range(first, last + 1):
        low, high = columns(spans, row, width)
        if low > high:
            continue
        for start in range(low // BLOCK * BLOCK, high + 1, BLOCK):
            base_x, base_y = affine(work, RAY, start, row), affine(work, RAY + 3, start, row)
            base_b, base_c = affine(work, FORM, start, row), affine(work, FORM + 3, start, row)
            base_f, base_k = affine(work, front, start, row), affine(work, back, start, row)
            base_s = affine(work, side, start, row)
            begin, end = np.float32(low - start), np.float32(high - start)
            for i in range(BLOCK):
                col, at = np.float32(i), np.uint64(start + i)
                x, y, c = base_x + slope_x * col, base_y + slope_y * col, base_c + slope_c * col
                under = radius_squared * (share * (x * x + y * y) + constant) - c * c
                root = np.float32(math.sqrt(under if under > ZERO else ZERO))
                b = base_b + slope_b * col
                enter = (b + root) * enter_inverse + enter_offset
                leave = (b - root) * inverse + leave_offset
                face, end_k, end_s = (
                    base_f + slope_f * col,
                    base_k + slope_k * col,
                    base_s + slope_s * col,
                )
                enter = enter if enter < face else face
                leave = leave if leave > end_k else end_k
                leave = leave if leave > end_s else end_s
                w = leave if is_inside else enter
                is_hit = (col >= begin) & (col <= end) & (under >= ZERO) & (enter >= leave)
                w = w if is_hit else LOWEST
                old = nearness[row, at]
                nearness[row, at] = w if w > old else old
                if has_ids:
                    ids[row, at] = name if w > old else ids[row, at]


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def is_in_capsule(radius, half, work):
    """Whether the eye of a perspective view is inside."""
    x, y, z = work[CENTRE], work[CENTRE + 1], max(abs(work[CENTRE + 2]) - half, 0.0)
    return x * x + y * y + z * z < radius * radius


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def draw_capsule_from_inside(width, first, last, radius, half, g, nearness, ids, work):
    """Each pixel sees where its ray leaves: the tube, or beyond its end the ball that closes it."""
    cx, cy, cz = work[CENTRE], work[CENTRE + 1], work[CENTRE + 2]
    for row in range(first, last + 1):
        for col in range(width):
            x = work[RAY] + work[RAY + 1] * col + work[RAY + 2] * row
            y = work[RAY + 3] + work[RAY + 4] * col + work[RAY + 5] * row
            z = work[RAY + 6] + work[RAY + 7] * col + work[RAY + 8] * row
            t = NEVER
            if x * x + y * y > 1e-18:
                t = _far_root(x * x + y * y, x * cx + y * cy, cx * cx + cy * cy - radius * radius)
            end = t * z - cz
            if abs(end) > half:
                to = cz + (half if end > 0.0 else -half)  # the ball's centre
                constant = cx * cx + cy * cy + to * to - radius * radius
                t = _far_root(x * x + y * y + z * z, x * cx + y * cy + z * to, constant)
            w = 1.0 / max(t, TINY)
            if w > nearness[row, col]:
                nearness[row, col] = w
                if ids.shape[0] > 0:
                    ids[row, col] = g


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _far_root(a, b, c):
    """Greater solution of a t^2 - 2 b t + c = 0."""
    return (b + math.sqrt(max(b * b - a * c, 0.0))) / a
