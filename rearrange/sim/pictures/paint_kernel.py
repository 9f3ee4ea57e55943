"""Colours for the pixels of a rasterised picture: sun with soft shadows, ambient light, occlusion.

The rasteriser has left, for 2 x 2 samples of every pixel, the nearest geom and its nearness. A
pixel whose samples lie on one flat surface is shaded once, any other four times and averaged:
smooth edges at the price of few.

    colour = base (ambient(normal) (1 - hidden) + sun max(0, normal . to_sun) lit)

`lit` reads a map of depths seen from the sun, `hidden` one seen from straight above (how much of
the sky the surroundings keep away). Both come from the same rasteriser, in parallel projection.

A row of pixels goes through the stages below one after the other (numba counts references to every
array at every call, which per pixel would cost more than the shading).

Legend: G geoms, H rows, W columns of the picture; samples are [2 H, padded 2 W].
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from rearrange.sim.robot.depth_kernel import BOX, CAPSULE, CYLINDER, PLANE, SAME_EVERYWHERE

AMBIENT, SUN = 0.66, 0.42  # shares of light: together a little over one on a lit floor
SKY_TOP, SKY_HORIZON = (0.62, 0.71, 0.82), (0.90, 0.92, 0.94)  # RGB
CUT_COLOUR = (0.30, 0.31, 0.34)  # section of what was cut open, as in an architect's plan
FOG_START, FOG_END = 14.0, 40.0  # m, where the floor fades into the horizon
PLANK_LENGTH, PLANK_WIDTH = 1.4, 0.16  # m, the floor's boards
LIFT = 0.02  # m, a point steps off its surface before it looks for the sun
SHADOW_BIAS = 0.012  # m

# Rows of the scratch `samples` ([_SAMPLE_ROWS, 4 W] float64) and `owners` ([2, 4 W] int32).
_X, _Y, _Z, _NX, _NY, _NZ, _T, _WEIGHT, _LIT, _HIDDEN = range(10)
_SAMPLE_ROWS = 10
_GEOM, _COLUMN = 0, 1

# A spiral of 16 places (rows, columns; texels) whose heights may hide the sky.
_TURNS = np.arange(16) * 2.39996  # rad, the golden angle: no two in a line
_REACH = 1.5 + 0.5 * np.arange(16)
_SPIRAL = np.stack([_REACH * np.sin(_TURNS), _REACH * np.cos(_TURNS)], axis=1)
_EASE = 0.10 + 0.025 * np.arange(16)  # m: a rise of this much hides half of that direction


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def paint(
    view, is_parallel, types, sizes, positions, matrices, colours, is_cut, nearness, ids,
    sun_view, sun_map, sky_view, sky_map, out,
):  # fmt: skip
    """Fill `out`, [H, W, 3] uint8, from the samples.

    Args:
        view: of the samples, as `rasterise` takes it; likewise `sun_view` and `sky_view`, of maps.
        colours: [G, 3] in [0, 1].
        is_cut: [G] uint8; the top of such a geom is a section.
        ids: geom of each sample, -1 for none.
    """
    width = out.shape[1]
    samples = np.empty((_SAMPLE_ROWS, 4 * width))
    owners = np.empty((2, 4 * width), np.int32)
    line = np.empty((width, 3))
    for row in range(out.shape[0]):
        line[:] = 0.0
        count = _take_samples(view, is_parallel, row, nearness, ids, samples, owners, line)
        _find_normals(types, sizes, positions, matrices, samples, owners, count)
        _find_sun(sun_view, sun_map, samples, count)
        _find_sky(sky_view, sky_map, samples, count)
        _add_light(
            view, is_parallel, sun_view, types, colours, is_cut, samples, owners, count, line
        )
        for col in range(width):
            for k in range(3):
                out[row, col, k] = np.uint8(min(max(255.0 * line[col, k], 0.0), 255.0) + 0.5)


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _take_samples(view, is_parallel, row, nearness, ids, samples, owners, line):
    """Points to shade in a row, and how many; the background goes straight into `line`."""
    count = 0
    r = 2 * row
    for col in range(line.shape[0]):
        c = 2 * col
        g = ids[r, c]
        w00, w01 = nearness[r, c], nearness[r, c + 1]
        w10, w11 = nearness[r + 1, c], nearness[r + 1, c + 1]
        is_same = g == ids[r, c + 1] and g == ids[r + 1, c] and g == ids[r + 1, c + 1]
        # Affine nearness: one flat face.
        is_flat = is_same and abs(w00 - w01 - w10 + w11) < 2e-4 * abs(w00)
        number = 1 if is_flat else 4
        for n in range(number):
            i, j = r + n // 2, c + n % 2
            y, x, w = float(i), float(j), float(nearness[i, j])
            if is_flat:
                y, x, w = r + 0.5, c + 0.5, 0.25 * (w00 + w01 + w10 + w11)
            u, v = view[12] + view[13] * x, view[14] + view[15] * y
            if ids[i, j] < 0:
                up = (view[11] + v * view[8]) / math.sqrt(1.0 + v * v)
                share = min(max(3.0 * up, 0.0), 1.0)
                for k in range(3):
                    sky = SKY_HORIZON[k] + share * (SKY_TOP[k] - SKY_HORIZON[k])
                    line[col, k] += sky / number
                continue
            t = -w
            if not is_parallel:
                t = 1.0 / w
                u, v = u * t, v * t
            samples[_X, count] = view[0] + u * view[3] + v * view[6] + t * view[9]
            samples[_Y, count] = view[1] + u * view[4] + v * view[7] + t * view[10]
            samples[_Z, count] = view[2] + u * view[5] + v * view[8] + t * view[11]
            samples[_T, count], samples[_WEIGHT, count] = t, 1.0 / number
            owners[_GEOM, count], owners[_COLUMN, count] = ids[i, j], col
            count += 1
    return count


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _find_normals(types, sizes, positions, matrices, samples, owners, count):
    """Outward unit normals, in the world, at points on the surfaces of geoms."""
    for n in range(count):
        g = owners[_GEOM, n]
        dx = samples[_X, n] - positions[g, 0]
        dy = samples[_Y, n] - positions[g, 1]
        dz = samples[_Z, n] - positions[g, 2]
        a = matrices[g, 0] * dx + matrices[g, 3] * dy + matrices[g, 6] * dz
        b = matrices[g, 1] * dx + matrices[g, 4] * dy + matrices[g, 7] * dz
        c = matrices[g, 2] * dx + matrices[g, 5] * dy + matrices[g, 8] * dz
        a, b, c = _local_normal(types[g], sizes[g, 0], sizes[g, 1], sizes[g, 2], a, b, c)
        samples[_NX, n] = matrices[g, 0] * a + matrices[g, 1] * b + matrices[g, 2] * c
        samples[_NY, n] = matrices[g, 3] * a + matrices[g, 4] * b + matrices[g, 5] * c
        samples[_NZ, n] = matrices[g, 6] * a + matrices[g, 7] * b + matrices[g, 8] * c


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _local_normal(kind, s0, s1, s2, a, b, c):
    """Normal at (a, b, c) of a geom with sizes s0, s1, s2, all in its own frame."""
    if kind == PLANE:
        return 0.0, 0.0, 1.0
    if kind == BOX:
        fa, fb, fc = abs(a) - s0, abs(b) - s1, abs(c) - s2  # the face that lies nearest
        if fa >= fb and fa >= fc:
            return math.copysign(1.0, a), 0.0, 0.0
        if fb >= fc:
            return 0.0, math.copysign(1.0, b), 0.0
        return 0.0, 0.0, math.copysign(1.0, c)
    if kind == CYLINDER:
        if abs(c) - s1 > math.sqrt(a * a + b * b) - s0:
            return 0.0, 0.0, math.copysign(1.0, c)
        c = 0.0
    elif kind == CAPSULE:
        c -= min(max(c, -s1), s1)
    else:  # ball (one size) and ellipsoid
        if s1 <= 0.0:
            s1, s2 = s0, s0
        a, b, c = a / (s0 * s0), b / (s1 * s1), c / (s2 * s2)
    inverse = 1.0 / math.sqrt(max(a * a + b * b + c * c, 1e-30))
    return a * inverse, b * inverse, c * inverse


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _find_sun(view, depths, samples, count):
    """Share of the sun that reaches each point: the mean of 3 x 3 texels centred on it."""
    rows, cols = depths.shape
    for n in range(count):
        nx, ny, nz = samples[_NX, n], samples[_NY, n], samples[_NZ, n]
        samples[_LIT, n] = 0.0
        if nx * view[9] + ny * view[10] + nz * view[11] > 0.0:
            continue  # turned away
        samples[_LIT, n] = 1.0
        x = samples[_X, n] + LIFT * nx - view[0]
        y = samples[_Y, n] + LIFT * ny - view[1]
        z = samples[_Z, n] + LIFT * nz - view[2]
        col = (view[3] * x + view[4] * y + view[5] * z - view[12]) / view[13]
        row = (view[6] * x + view[7] * y + view[8] * z - view[14]) / view[15]
        limit = -(view[9] * x + view[10] * y + view[11] * z) + SHADOW_BIAS
        if not (1.0 <= row < rows - 3.0 and 1.0 <= col < cols - 3.0):
            continue
        i, j = int(row), int(col)
        fi, fj = row - i, col - j
        total = 0.0
        for a in range(4):
            weight = 1.0 - fi if a == 0 else (fi if a == 3 else 1.0)
            part = 0.0
            for b in range(4):
                share = 1.0 - fj if b == 0 else (fj if b == 3 else 1.0)
                part += share if depths[i + a - 1, j + b - 1] <= limit else 0.0
            total += weight * part
        samples[_LIT, n] = total / 9.0


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _find_sky(view, heights, samples, count):
    """Share of the sky's light (0 to 0.45) that the heights around each point keep from it."""
    rows, cols = heights.shape
    for n in range(count):
        samples[_HIDDEN, n] = 0.0
        nz = samples[_NZ, n]
        if nz <= 0.0:
            continue  # walls have their own ambient light
        col = (samples[_X, n] - view[0] - view[12]) / view[13]
        row = (samples[_Y, n] - view[1] - view[14]) / view[15]
        if not (10.0 <= row < rows - 11.0 and 10.0 <= col < cols - 11.0):
            continue
        # Heights are kept as the nearness of a view straight down.
        own = samples[_Z, n] + LIFT - view[2] + 0.01
        hidden = 0.0
        for k in range(16):
            i, j = int(row + _SPIRAL[k, 0] + 0.5), int(col + _SPIRAL[k, 1] + 0.5)
            rise = max(heights[i, j] - own, 0.0)
            hidden += rise / (rise + _EASE[k])
        samples[_HIDDEN, n] = 0.45 * nz * hidden / 16.0


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _add_light(
    view, is_parallel, sun_view, types, colours, is_cut, samples, owners, count, line
):  # fmt: skip
    """Colour every sample and add it to its pixel in `line`, [W, 3]."""
    for n in range(count):
        g, t = owners[_GEOM, n], samples[_T, n]
        nx, ny, nz = samples[_NX, n], samples[_NY, n], samples[_NZ, n]
        red, green, blue = colours[g, 0], colours[g, 1], colours[g, 2]
        fog = 0.0
        if types[g] == PLANE:
            pixel = view[13] * (1.0 if is_parallel else t)
            board = _boards(samples[_X, n], samples[_Y, n], pixel)
            red, green, blue = red * board, green * board, blue * board
            if not is_parallel:
                fog = min(max((t - FOG_START) / (FOG_END - FOG_START), 0.0), 1.0)
        elif is_cut[g] != 0 and nz > 0.99:
            red, green, blue = CUT_COLOUR
        # Faces turned differently differ a little even in the shade.
        ambient = AMBIENT * (0.90 + 0.10 * nz + 0.07 * nx - 0.05 * ny) * (1.0 - samples[_HIDDEN, n])
        facing = -(nx * sun_view[9] + ny * sun_view[10] + nz * sun_view[11])
        direct = SUN * max(facing, 0.0) * samples[_LIT, n]
        red *= ambient + 1.03 * direct  # the sun warm, the shade cool
        green *= ambient + direct
        blue *= 1.03 * ambient + 0.93 * direct
        col, weight = owners[_COLUMN, n], samples[_WEIGHT, n]
        line[col, 0] += weight * (red + fog * (SKY_HORIZON[0] - red))
        line[col, 1] += weight * (green + fog * (SKY_HORIZON[1] - green))
        line[col, 2] += weight * (blue + fog * (SKY_HORIZON[2] - blue))


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _boards(x, y, footprint):
    """Brightness of a floor of boards along x; plain where a pixel covers many (`footprint`, m)."""
    lane = math.floor(y / PLANK_WIDTH)
    place = x / PLANK_LENGTH + 0.37 * lane
    number = math.floor(place)
    noise = math.sin(12.9898 * lane + 78.233 * number) * 43758.5453
    value = 0.97 + 0.06 * (noise - math.floor(noise))
    across = y / PLANK_WIDTH - lane
    gap = min(across, 1.0 - across) * PLANK_WIDTH
    end = min(place - number, number + 1.0 - place) * PLANK_LENGTH
    width = 0.003 + footprint
    joint = max(0.0, 1.0 - min(gap, end) / width) * 0.003 / width
    fade = min(1.0, 0.5 * PLANK_WIDTH / max(footprint, 1e-6))
    return 1.0 + (value - 0.30 * joint - 1.0) * fade * fade


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def soften(heights, scratch):
    """Blur a map of heights in place (weights 1 2 3 2 1, both ways): no steps in `hidden`."""
    rows, cols = heights.shape
    for i in range(rows):
        for j in range(cols):
            scratch[i, j] = heights[i, j]
        for j in range(2, cols - 2):
            near, far = heights[i, j - 1] + heights[i, j + 1], heights[i, j - 2] + heights[i, j + 2]
            scratch[i, j] = (3.0 * heights[i, j] + 2.0 * near + far) / 9.0
    for i in range(2, rows - 2):
        for j in range(cols):
            near, far = scratch[i - 1, j] + scratch[i + 1, j], scratch[i - 2, j] + scratch[i + 2, j]
            heights[i, j] = (3.0 * scratch[i, j] + 2.0 * near + far) / 9.0
