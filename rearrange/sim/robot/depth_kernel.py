"""Rasteriser of MuJoCo primitives: which surface is nearest in each pixel, and how near. No OpenGL.

Each pixel holds a *nearness* w that every surface tries to raise; w is chosen so that flat faces
are affine in the pixel's column and row:

    perspective  ray = eye + t D(col, row)       w = 1 / t    (t: depth along the optical axis)
    parallel     ray = O(col, row) + t forward   w = -t

A convex solid is entered at w = min over its front surfaces and left at w = max over its back
surfaces. Its box (itself, or the oriented box around a round solid) bounds the columns of every
row: each silhouette edge of the box and the eye span a half-plane of pixels, which holds without
clipping even when the box reaches behind the eye. Inside those columns short loops without
branches, in float32, become SIMD code.

Round surfaces solve  A w^2 - 2 B w + E = 0  with A constant and B affine. The discriminant
B^2 - A E is written as  r^2 |D|^2 - |D x C|^2  (Lagrange's identity; C: from eye to centre), where
float32 loses little to cancellation.

Legend: G geoms, H rows, W columns (stored rows are padded to a multiple of BLOCK).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

PLANE, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX = 0, 2, 3, 4, 5, 6  # mjtGeom
SUPPORTED_TYPES = (PLANE, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX)
PARKED_Z = -5.0  # m: what lies below is a spare part, parked, and not drawn
# What the compiler may assume: no number is NaN or infinite, the sign of zero does not matter.
# It may not reorder or fuse operations (numba's True): rounding would then depend on the processor
# and, as a function may be inlined or not, on whether it was just compiled or is from the cache.
SAME_EVERYWHERE = {"nnan", "ninf", "nsz"}
BLOCK = 16  # pixels a SIMD loop treats at once: one AVX-512 register, two of AVX2

# Places in `view` ...
_EYE, _RIGHT, _UP, _FORWARD, _U0, _DU, _V0, _DV, _FAR = 0, 3, 6, 9, 12, 13, 14, 15, 16
VIEW_SIZE = 17
# ... and in the scratch `work`. "Affine": constant, per column, per row.
_RAY = 0  # 3 x affine: D (perspective) or O (parallel) in the geom's frame
_CENTRE = 9  # 3: from eye to geom (perspective) or forward (parallel), in the geom's frame
_HALF = 12  # 3: half sizes of the box around the geom
_SIGN = 15  # 3: -1, 0, 1, which face of each axis looks at the eye
_AXES = 18  # 3 x 3: half axes of that box along the camera's right, up, forward
_FORM = 27  # up to 5 x affine: the surfaces of the geom being filled
WORK_SIZE = _FORM + 18

_NEAR = (
    1e-3  # m: a box wholly beyond this is bounded by its corners, a nearer one by its edges alone
)
_TINY = 1e-30
_NEVER = 1e30  # a nearness that no surface reaches
_ZERO = np.float32(0.0)
_LOWEST = np.float32(-_NEVER)


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
            work[_HALF], work[_HALF + 1], work[_HALF + 2] = half_x, half_x, half_y + half_x
            first, last = _place(view, is_parallel, width, positions, matrices, g, 0.0, spans, work)
            if first > last:
                continue
            if not is_parallel and _is_in_capsule(half_x, half_y, work):
                _draw_capsule_from_inside(
                    width, first, last, half_x, half_y, g, nearness, ids, work
                )
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
            work[_HALF], work[_HALF + 1], work[_HALF + 2] = half_x, half_y, half_z
            first, last = _place(
                view, is_parallel, width, positions, matrices, g, offset, spans, work
            )
            if first > last:
                continue
            if kind == BOX:
                _draw_box(is_parallel, width, first, last, g, nearness, ids, spans, work)
            elif kind == PLANE:
                if work[_SIGN + 2] > 0.0:  # seen from above only
                    _draw_box(is_parallel, width, first, last, g, nearness, ids, spans, work)
            elif kind == CYLINDER:
                _draw_cylinder(is_parallel, width, first, last, g, nearness, ids, spans, work)
            else:
                _draw_ellipsoid(is_parallel, width, first, last, g, nearness, ids, spans, work)


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _place(view, is_parallel, width, positions, matrices, g, offset, spans, work):
    """Bring the view into the geom's frame (`work`) and bound the geom on the screen (`spans`).

    Returns:
        first and last row that it may touch; first > last when it is out of sight.
    """
    height = spans.shape[1]
    x = positions[g, 0] + offset * matrices[g, 2] - view[_EYE]
    y = positions[g, 1] + offset * matrices[g, 5] - view[_EYE + 1]
    z = positions[g, 2] + offset * matrices[g, 8] - view[_EYE + 2]
    right = view[_RIGHT] * x + view[_RIGHT + 1] * y + view[_RIGHT + 2] * z
    up = view[_UP] * x + view[_UP + 1] * y + view[_UP + 2] * z
    ahead = view[_FORWARD] * x + view[_FORWARD + 1] * y + view[_FORWARD + 2] * z

    reach = 0.0
    for k in range(3):
        reach += work[_HALF + k] * abs(
            view[_FORWARD] * matrices[g, k] + view[_FORWARD + 1] * matrices[g, 3 + k]
            + view[_FORWARD + 2] * matrices[g, 6 + k]
        )  # fmt: skip
    if ahead - reach > view[_FAR] or (not is_parallel and ahead + reach < 0.0):
        return 1, 0

    u0, du, v0, dv = view[_U0], view[_DU], view[_V0], view[_DV]
    u1, v1 = u0 + du * (width - 1), v0 + dv * (height - 1)
    slack_u0, slack_u1, slack_v0, slack_v1 = 0.0, 0.0, 0.0, 0.0
    for k in range(3):
        ax, ay, az = matrices[g, k], matrices[g, 3 + k], matrices[g, 6 + k]
        half = work[_HALF + k]
        r = view[_RIGHT] * ax + view[_RIGHT + 1] * ay + view[_RIGHT + 2] * az
        u = view[_UP] * ax + view[_UP + 1] * ay + view[_UP + 2] * az
        f = view[_FORWARD] * ax + view[_FORWARD + 1] * ay + view[_FORWARD + 2] * az
        eye = -(ax * x + ay * y + az * z)
        if is_parallel:
            work[_RAY + 3 * k] = eye + u0 * r + v0 * u
            work[_CENTRE + k] = f
            work[_SIGN + k] = 1.0 if f < -1e-9 else (-1.0 if f > 1e-9 else 0.0)
        else:
            work[_RAY + 3 * k] = f + u0 * r + v0 * u
            work[_CENTRE + k] = -eye
            work[_SIGN + k] = 1.0 if eye > half else (-1.0 if eye < -half else 0.0)
        work[_RAY + 3 * k + 1] = du * r
        work[_RAY + 3 * k + 2] = dv * u
        r, u, f = r * half, u * half, f * half
        work[_AXES + 3 * k], work[_AXES + 3 * k + 1], work[_AXES + 3 * k + 2] = r, u, f
        if is_parallel:
            f = 0.0
        slack_u0 += abs(r - u0 * f)
        slack_u1 += abs(r - u1 * f)
        slack_v0 += abs(u - v0 * f)
        slack_v1 += abs(u - v1 * f)
    # The box against the four sides of the frustum; u grows with the column, v falls with the row.
    scale = 1.0 if is_parallel else ahead
    if (right - u0 * scale < -slack_u0 or right - u1 * scale > slack_u1
            or up - v0 * scale > slack_v0 or up - v1 * scale < -slack_v1):  # fmt: skip
        return 1, 0

    first, last = 0, height - 1
    if is_parallel or ahead - reach > _NEAR:
        low, high = 1e30, -1e30
        for corner in range(8):
            a = 1.0 if corner & 1 else -1.0
            b = 1.0 if corner & 2 else -1.0
            c = 1.0 if corner & 4 else -1.0
            v = up + a * work[_AXES + 1] + b * work[_AXES + 4] + c * work[_AXES + 7]
            if not is_parallel:
                v /= ahead + a * work[_AXES + 2] + b * work[_AXES + 5] + c * work[_AXES + 8]
            low, high = min(low, v), max(high, v)
        top, bottom = (high - v0) / dv - 1e-9, (low - v0) / dv + 1e-9
        first = max(first, math.ceil(max(top, -1.0)))
        last = min(last, math.floor(min(bottom, height + 1.0)))
    if first <= last:
        _bound_columns(is_parallel, width, first, last, spans, work)
    return first, last


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _bound_columns(is_parallel, width, first, last, spans, work):
    """spans[0, row] .. spans[1, row]: the columns (as reals) between the box's silhouette edges."""
    left, right = spans[0], spans[1]
    for row in range(first, last + 1):
        left[row] = 0.0
        right[row] = width - 1.0
    if work[_SIGN] == 0.0 and work[_SIGN + 1] == 0.0 and work[_SIGN + 2] == 0.0:
        return  # the eye is inside
    for k in range(
        3
    ):  # the edges along axis k, where face `si` of axis i meets face `sj` of axis j
        i, j = (k + 1) % 3, (k + 2) % 3
        for corner in range(4):
            si = 1.0 if corner & 1 else -1.0
            sj = 1.0 if corner & 2 else -1.0
            if (work[_SIGN + i] == si) == (work[_SIGN + j] == sj):
                continue  # both faces look at the eye, or none: no outline
            # The outline's side of pixel (col, row) is a D_i + b D_j + e >= 0.
            if is_parallel:
                a, b = work[_CENTRE + j], -work[_CENTRE + i]
                e = -(si * work[_HALF + i] * a + sj * work[_HALF + j] * b)
                inside = e
            else:
                a = -(sj * work[_HALF + j] + work[_CENTRE + j])
                b = si * work[_HALF + i] + work[_CENTRE + i]
                e = 0.0
                inside = a * work[_CENTRE + i] + b * work[_CENTRE + j]
            if inside < 0.0:
                a, b, e = -a, -b, -e
            ray_i, ray_j = _RAY + 3 * i, _RAY + 3 * j
            constant = a * work[ray_i] + b * work[ray_j] + e
            per_column = a * work[ray_i + 1] + b * work[ray_j + 1]
            per_row = a * work[ray_i + 2] + b * work[ray_j + 2]
            if abs(per_column) < _TINY:
                per_column = _TINY
            start, slope = -constant / per_column, -per_row / per_column
            if per_column > 0.0:
                for row in range(first, last + 1):
                    left[row] = max(left[row], start + slope * row)
            else:
                for row in range(first, last + 1):
                    right[row] = min(right[row], start + slope * row)

    for row in range(first, last + 1):  # what lies far outside would not fit an integer
        left[row] = min(left[row], width + 1.0)
        right[row] = max(right[row], -1.0)


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _columns(spans, row, width):
    """First and last column of a row.

    Clamped as integers: a pose that is not a number must not write outside the picture.
    """
    return max(int(math.ceil(spans[0, row])), 0), min(int(math.floor(spans[1, row])), width - 1)


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _set_face(is_parallel, k, sign, form, work):
    """Write the nearness of face `sign` of axis k, affine, to work[form:form + 3]."""
    ray, half = _RAY + 3 * k, work[_HALF + k]
    if is_parallel:
        factor = 1.0 / work[_CENTRE + k]
        work[form] = (work[ray] - sign * half) * factor
    else:
        gap = half + sign * work[_CENTRE + k]  # negative where the eye is before this face
        factor = sign / (gap if abs(gap) > _TINY else _TINY)
        work[form] = work[ray] * factor
    work[form + 1] = work[ray + 1] * factor
    work[form + 2] = work[ray + 2] * factor


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _draw_box(is_parallel, width, first, last, g, nearness, ids, spans, work):
    """Nearness is the least of the one to three front faces; inside the outline rays do enter."""
    faces = 0
    for k in range(3):
        if work[_SIGN + k] != 0.0:
            _set_face(is_parallel, k, work[_SIGN + k], _FORM + 3 * faces, work)
            faces += 1
    if faces == 0:
        _draw_box_from_inside(width, first, last, g, nearness, ids, work)
        return
    for spare in range(faces, 3):
        for n in range(3):
            work[_FORM + 3 * spare + n] = work[_FORM + n]
    c0, x0, y0 = work[_FORM], work[_FORM + 1], work[_FORM + 2]
    c1, x1, y1 = work[_FORM + 3], work[_FORM + 4], work[_FORM + 5]
    c2, x2, y2 = work[_FORM + 6], work[_FORM + 7], work[_FORM + 8]
    slope0, slope1, slope2 = np.float32(x0), np.float32(x1), np.float32(x2)
    has_ids, name = ids.shape[0] > 0, np.int32(g)
    for row in range(first, last + 1):
        low, high = _columns(spans, row, width)
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
                w = w if (col >= begin) & (col <= end) else _LOWEST
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
                ray = (
                    work[_RAY + 3 * k] + work[_RAY + 3 * k + 1] * col + work[_RAY + 3 * k + 2] * row
                )
                gap = work[_HALF + k] + (work[_CENTRE + k] if ray > 0.0 else -work[_CENTRE + k])
                w = max(w, abs(ray) / max(gap, _TINY))
            if w > nearness[row, col]:
                nearness[row, col] = w
                if ids.shape[0] > 0:
                    ids[row, col] = g


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _draw_ellipsoid(is_parallel, width, first, last, g, nearness, ids, spans, work):
    """With axes divided by the half sizes, a ball: w = (B +- sqrt(|D|^2 - |D x C|^2)) / A."""
    centre_squared = 0.0
    for k in range(3):
        scale = 1.0 / max(work[_HALF + k], 1e-9)
        work[_CENTRE + k] *= scale
        centre_squared += work[_CENTRE + k] ** 2
        for n in range(3):
            work[_RAY + 3 * k + n] *= scale
    a = centre_squared if is_parallel else centre_squared - 1.0
    if abs(a) < 1e-12:
        a = 1e-12
    for n in range(3):  # D . C, then D x C, as affine forms
        work[_FORM + n] = 0.0
        for k in range(3):
            i, j = (k + 1) % 3, (k + 2) % 3
            work[_FORM + n] += work[_RAY + 3 * k + n] * work[_CENTRE + k]
            work[_FORM + 3 + 3 * k + n] = (
                work[_RAY + 3 * i + n] * work[_CENTRE + j]
                - work[_RAY + 3 * j + n] * work[_CENTRE + i]
            )
    sign = np.float32(1.0 if a > 0.0 else -1.0)  # from inside, the far root
    inverse = np.float32(1.0 / a)
    share = np.float32(0.0 if is_parallel else 1.0)
    constant = np.float32(centre_squared if is_parallel else 0.0)
    slope_x, slope_y = np.float32(work[_RAY + 1]), np.float32(work[_RAY + 4])
    slope_z, slope_b = np.float32(work[_RAY + 7]), np.float32(work[_FORM + 1])
    slope_0, slope_1 = np.float32(work[_FORM + 4]), np.float32(work[_FORM + 7])
    slope_2 = np.float32(work[_FORM + 10])
    has_ids, name = ids.shape[0] > 0, np.int32(g)
    for row in range(first, last + 1):
        low, high = _columns(spans, row, width)
        if low > high:
            continue
        for start in range(low // BLOCK * BLOCK, high + 1, BLOCK):
            base_x, base_y = _at(work, _RAY, start, row), _at(work, _RAY + 3, start, row)
            base_z, base_b = _at(work, _RAY + 6, start, row), _at(work, _FORM, start, row)
            base_0, base_1 = _at(work, _FORM + 3, start, row), _at(work, _FORM + 6, start, row)
            base_2 = _at(work, _FORM + 9, start, row)
            begin, end = np.float32(low - start), np.float32(high - start)
            for i in range(BLOCK):
                col, at = np.float32(i), np.uint64(start + i)
                x, y, z = base_x + slope_x * col, base_y + slope_y * col, base_z + slope_z * col
                c0, c1, c2 = base_0 + slope_0 * col, base_1 + slope_1 * col, base_2 + slope_2 * col
                under = share * (x * x + y * y + z * z) + constant - (c0 * c0 + c1 * c1 + c2 * c2)
                root = np.float32(math.sqrt(under if under > _ZERO else _ZERO))
                w = (base_b + slope_b * col + sign * root) * inverse
                w = w if (col >= begin) & (col <= end) & (under >= _ZERO) else _LOWEST
                old = nearness[row, at]
                nearness[row, at] = w if w > old else old
                if has_ids:
                    ids[row, at] = name if w > old else ids[row, at]


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _draw_cylinder(is_parallel, width, first, last, g, nearness, ids, spans, work):
    """An endless cylinder (as the ellipsoid, without z) cut with the slab between its two ends."""
    radius = max(work[_HALF], 1e-9)
    cx, cy = work[_CENTRE], work[_CENTRE + 1]
    centre_squared = cx * cx + cy * cy
    a = centre_squared if is_parallel else centre_squared - radius * radius
    if abs(a) < 1e-12:
        a = 1e-12
    for n in range(3):  # D . C and D x C
        work[_FORM + n] = work[_RAY + n] * cx + work[_RAY + 3 + n] * cy
        work[_FORM + 3 + n] = work[_RAY + n] * cy - work[_RAY + 3 + n] * cx
    # The ends: entered through `front` (or no condition), left through the greater of `back` and
    # `side`.
    sign = work[_SIGN + 2]
    front, back, side = _FORM + 6, _FORM + 9, _FORM + 12
    for n in range(9):
        work[front + n] = 0.0
    work[front], work[back], work[side] = _NEVER, -_NEVER, -_NEVER
    if sign != 0.0:
        _set_face(is_parallel, 2, sign, front, work)
        _set_face(is_parallel, 2, -sign, back, work)
    elif not is_parallel:
        _set_face(is_parallel, 2, 1.0, back, work)
        _set_face(is_parallel, 2, -1.0, side, work)
    in_tube = a < 0.0
    is_inside = in_tube and sign == 0.0
    share = 0.0 if is_parallel else 1.0
    constant = centre_squared if is_parallel else 0.0
    inverse, leave_offset = 1.0 / a, 0.0
    enter_inverse, enter_offset = (0.0, _NEVER) if in_tube else (inverse, 0.0)
    if is_parallel and centre_squared < 1e-9:  # rays along the axis: in the tube for good, or never
        share, constant = -1.0, radius * radius
        inverse, leave_offset, enter_inverse, enter_offset = 0.0, -_NEVER, 0.0, _NEVER
        for n in range(3):
            work[_FORM + 3 + n] = 0.0
    share, constant, radius_squared = (
        np.float32(share),
        np.float32(constant),
        np.float32(radius * radius),
    )
    inverse, leave_offset = np.float32(inverse), np.float32(leave_offset)
    enter_inverse, enter_offset = np.float32(enter_inverse), np.float32(enter_offset)
    slope_x, slope_y = np.float32(work[_RAY + 1]), np.float32(work[_RAY + 4])
    slope_b, slope_c = np.float32(work[_FORM + 1]), np.float32(work[_FORM + 4])
    slope_f, slope_k = np.float32(work[front + 1]), np.float32(work[back + 1])
    slope_s = np.float32(work[side + 1])
    has_ids, name = ids.shape[0] > 0, np.int32(g)
    for row in range(first, last + 1):
        low, high = _columns(spans, row, width)
        if low > high:
            continue
        for start in range(low // BLOCK * BLOCK, high + 1, BLOCK):
            base_x, base_y = _at(work, _RAY, start, row), _at(work, _RAY + 3, start, row)
            base_b, base_c = _at(work, _FORM, start, row), _at(work, _FORM + 3, start, row)
            base_f, base_k = _at(work, front, start, row), _at(work, back, start, row)
            base_s = _at(work, side, start, row)
            begin, end = np.float32(low - start), np.float32(high - start)
            for i in range(BLOCK):
                col, at = np.float32(i), np.uint64(start + i)
                x, y, c = base_x + slope_x * col, base_y + slope_y * col, base_c + slope_c * col
                under = radius_squared * (share * (x * x + y * y) + constant) - c * c
                root = np.float32(math.sqrt(under if under > _ZERO else _ZERO))
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
                is_hit = (col >= begin) & (col <= end) & (under >= _ZERO) & (enter >= leave)
                w = w if is_hit else _LOWEST
                old = nearness[row, at]
                nearness[row, at] = w if w > old else old
                if has_ids:
                    ids[row, at] = name if w > old else ids[row, at]


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _is_in_capsule(radius, half, work):
    """Whether the eye of a perspective view is inside."""
    x, y, z = work[_CENTRE], work[_CENTRE + 1], max(abs(work[_CENTRE + 2]) - half, 0.0)
    return x * x + y * y + z * z < radius * radius


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _draw_capsule_from_inside(width, first, last, radius, half, g, nearness, ids, work):
    """Each pixel sees where its ray leaves: the tube, or beyond its end the ball that closes it."""
    cx, cy, cz = work[_CENTRE], work[_CENTRE + 1], work[_CENTRE + 2]
    for row in range(first, last + 1):
        for col in range(width):
            x = work[_RAY] + work[_RAY + 1] * col + work[_RAY + 2] * row
            y = work[_RAY + 3] + work[_RAY + 4] * col + work[_RAY + 5] * row
            z = work[_RAY + 6] + work[_RAY + 7] * col + work[_RAY + 8] * row
            t = _NEVER
            if x * x + y * y > 1e-18:
                t = _far_root(x * x + y * y, x * cx + y * cy, cx * cx + cy * cy - radius * radius)
            end = t * z - cz
            if abs(end) > half:
                to = cz + (half if end > 0.0 else -half)  # the ball's centre
                constant = cx * cx + cy * cy + to * to - radius * radius
                t = _far_root(x * x + y * y + z * z, x * cx + y * cy + z * to, constant)
            w = 1.0 / max(t, _TINY)
            if w > nearness[row, col]:
                nearness[row, col] = w
                if ids.shape[0] > 0:
                    ids[row, col] = g


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _far_root(a, b, c):
    """Greater solution of a t^2 - 2 b t + c = 0."""
    return (b + math.sqrt(max(b * b - a * c, 0.0))) / a


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _at(work, form, col, row):
    """Value of the affine form at work[form:form + 3], float32."""
    return np.float32(work[form] + work[form + 1] * col + work[form + 2] * row)


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def to_depth(nearness, far, out):
    """out[row, col] = t / far, clipped to [0, 1]; `nearness` had been filled with 1 / far."""
    scale, one = np.float32(1.0 / far), np.float32(1.0)
    for row in range(out.shape[0]):
        for col in range(out.shape[1]):
            value = scale / nearness[row, col]
            out[row, col] = value if value < one else one
