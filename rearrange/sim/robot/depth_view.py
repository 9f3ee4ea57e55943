"""A geom's place in an image: the view in its frame, and the pixels it may cover.

Its box (itself, or the oriented box around a round solid) bounds the columns of every row: each
silhouette edge of the box and the eye span a half-plane of pixels, which holds without clipping
even when the box reaches behind the eye.

Legend: G geoms, H rows, W columns. What is affine is kept as constant, per column, per row.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

# What the compiler may assume: no number is NaN or infinite, the sign of zero does not matter.
# It may not reorder or fuse operations (numba's True): rounding would then depend on the processor
# and, as a function may be inlined or not, on whether it was just compiled or is from the cache.
SAME_EVERYWHERE = {"nnan", "ninf", "nsz"}

# Places in `view` ...
_EYE, _RIGHT, _UP, _FORWARD, _U0, _DU, _V0, _DV, _FAR = 0, 3, 6, 9, 12, 13, 14, 15, 16
VIEW_SIZE = 17
# ... and in the scratch `work`. "Affine": constant, per column, per row.
RAY = 0  # 3 x affine: D (perspective) or O (parallel) in the geom's frame
CENTRE = 9  # 3: from eye to geom (perspective) or forward (parallel), in the geom's frame
HALF = 12  # 3: half sizes of the box around the geom
SIGN = 15  # 3: -1, 0, 1, which face of each axis looks at the eye
_AXES = 18  # 3 x 3: half axes of that box along the camera's right, up, forward
FORM = 27  # up to 5 x affine: the surfaces of the geom being filled
WORK_SIZE = FORM + 18

# m: a box wholly beyond this is bounded by its corners, a nearer one by its edges alone
_NEAR = 1e-3
TINY = 1e-30
NEVER = 1e30  # a nearness that no surface reaches


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def place(view, is_parallel, width, positions, matrices, g, offset, spans, work):
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
        reach += work[HALF + k] * abs(
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
        half = work[HALF + k]
        r = view[_RIGHT] * ax + view[_RIGHT + 1] * ay + view[_RIGHT + 2] * az
        u = view[_UP] * ax + view[_UP + 1] * ay + view[_UP + 2] * az
        f = view[_FORWARD] * ax + view[_FORWARD + 1] * ay + view[_FORWARD + 2] * az
        eye = -(ax * x + ay * y + az * z)
        if is_parallel:
            work[RAY + 3 * k] = eye + u0 * r + v0 * u
            work[CENTRE + k] = f
            work[SIGN + k] = 1.0 if f < -1e-9 else (-1.0 if f > 1e-9 else 0.0)
        else:
            work[RAY + 3 * k] = f + u0 * r + v0 * u
            work[CENTRE + k] = -eye
            work[SIGN + k] = 1.0 if eye > half else (-1.0 if eye < -half else 0.0)
        work[RAY + 3 * k + 1] = du * r
        work[RAY + 3 * k + 2] = dv * u
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
    if work[SIGN] == 0.0 and work[SIGN + 1] == 0.0 and work[SIGN + 2] == 0.0:
        return  # the eye is inside
    for k in range(
        3
    ):  # the edges along axis k, where face `si` of axis i meets face `sj` of axis j
        i, j = (k + 1) % 3, (k + 2) % 3
        for corner in range(4):
            si = 1.0 if corner & 1 else -1.0
            sj = 1.0 if corner & 2 else -1.0
            if (work[SIGN + i] == si) == (work[SIGN + j] == sj):
                continue  # both faces look at the eye, or none: no outline
            # The outline's side of pixel (col, row) is a D_i + b D_j + e >= 0.
            if is_parallel:
                a, b = work[CENTRE + j], -work[CENTRE + i]
                e = -(si * work[HALF + i] * a + sj * work[HALF + j] * b)
                inside = e
            else:
                a = -(sj * work[HALF + j] + work[CENTRE + j])
                b = si * work[HALF + i] + work[CENTRE + i]
                e = 0.0
                inside = a * work[CENTRE + i] + b * work[CENTRE + j]
            if inside < 0.0:
                a, b, e = -a, -b, -e
            ray_i, ray_j = RAY + 3 * i, RAY + 3 * j
            constant = a * work[ray_i] + b * work[ray_j] + e
            per_column = a * work[ray_i + 1] + b * work[ray_j + 1]
            per_row = a * work[ray_i + 2] + b * work[ray_j + 2]
            if abs(per_column) < TINY:
                per_column = TINY
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
def columns(spans, row, width):
    """First and last column of a row.

    Clamped as integers: a pose that is not a number must not write outside the picture.
    """
    return max(int(math.ceil(spans[0, row])), 0), min(int(math.floor(spans[1, row])), width - 1)


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def set_face(is_parallel, k, sign, form, work):
    """Write the nearness of face `sign` of axis k, affine, to work[form:form + 3]."""
    ray, half = RAY + 3 * k, work[HALF + k]
    if is_parallel:
        factor = 1.0 / work[CENTRE + k]
        work[form] = (work[ray] - sign * half) * factor
    else:
        gap = half + sign * work[CENTRE + k]  # negative where the eye is before this face
        factor = sign / (gap if abs(gap) > TINY else TINY)
        work[form] = work[ray] * factor
    work[form + 1] = work[ray + 1] * factor
    work[form + 2] = work[ray + 2] * factor


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def affine(work, form, col, row):
    """Value of the affine form at work[form:form + 3], float32."""
    return np.float32(work[form] + work[form + 1] * col + work[form + 2] * row)
