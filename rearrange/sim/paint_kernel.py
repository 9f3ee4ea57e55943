"""Colours for the pixels of a rasterised picture: sun with soft shadows, ambient light, occlusion.

The rasteriser has left, for 2 x 2 samples of every pixel, the nearest geom and its nearness. A pixel whose samples
lie on one flat surface is shaded once, any other four times and averaged: smooth edges at the price of few.

    colour = base (ambient(normal) occlusion + sun max(0, normal . to_sun) lit)

`lit` reads a map of depths seen from the sun, `occlusion` one seen from straight above (how much of the sky the
surroundings hide). Both come from the same rasteriser, in parallel projection.

Legend: G geoms, H rows, W columns of the picture; samples are [2 H, padded 2 W].
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from rearrange.sim.depth_kernel import (
    BOX,
    CAPSULE,
    CYLINDER,
    PLANE,
)

AMBIENT, SUN = 0.66, 0.42  # shares of light: they add up to a little over one on a lit floor
SKY_TOP, SKY_HORIZON = (0.62, 0.71, 0.82), (0.90, 0.92, 0.94)  # RGB
CUT_COLOUR = (0.30, 0.31, 0.34)  # section of what was cut open, as in an architect's plan
FOG_START, FOG_END = 14.0, 40.0  # m, where the floor fades into the horizon
PLANK_LENGTH, PLANK_WIDTH = 1.4, 0.16  # m, the floor's boards
SHADOW_BIAS = 0.012  # m


@njit(cache=True, fastmath=True, nogil=True)
def paint(
    view, is_parallel, types, sizes, positions, matrices, colours, is_cut, nearness, ids,
    sun_view, sun_map, sky_view, sky_map, out,
):  # fmt: skip
    """Fill `out`, [H, W, 3] uint8, from the samples.

    Args:
        view: of the samples, as `rasterise` takes it; likewise `sun_view` and `sky_view` of their maps.
        colours: [G, 3] in [0, 1].
        is_cut: [G] uint8; the top of such a geom is a section.
        ids: geom of each sample, -1 for none.
    """
    light = np.empty(3)
    total = np.empty(3)
    for row in range(out.shape[0]):
        for col in range(out.shape[1]):
            r, c = 2 * row, 2 * col
            g = ids[r, c]
            w00, w01 = nearness[r, c], nearness[r, c + 1]
            w10, w11 = nearness[r + 1, c], nearness[r + 1, c + 1]
            is_same = g == ids[r, c + 1] and g == ids[r + 1, c] and g == ids[r + 1, c + 1]
            if is_same and g < 0:
                _sky(view, r, total)
            elif is_same and abs(w00 - w01 - w10 + w11) < 2e-4 * abs(w00):  # affine: one flat face
                w = 0.25 * (w00 + w01 + w10 + w11)
                _shade(view, is_parallel, types, sizes, positions, matrices, colours, is_cut, g, r + 0.5, c + 0.5, w,
                       sun_view, sun_map, sky_view, sky_map, total)  # fmt: skip
            else:
                total[:] = 0.0
                for n in range(4):
                    i, j = r + n // 2, c + n % 2
                    if ids[i, j] < 0:
                        _sky(view, i, light)
                    else:
                        _shade(view, is_parallel, types, sizes, positions, matrices, colours, is_cut, ids[i, j],
                               i, j, nearness[i, j], sun_view, sun_map, sky_view, sky_map, light)  # fmt: skip
                    for k in range(3):
                        total[k] += 0.25 * light[k]
            for k in range(3):
                out[row, col, k] = np.uint8(255.0 * min(max(total[k], 0.0), 1.0) + 0.5)


@njit(cache=True, fastmath=True, nogil=True)
def _sky(view, row, light):
    slope = view[14] + view[15] * row  # v of this row, at unit distance
    up = (view[11] + slope * view[8]) / math.sqrt(1.0 + slope * slope)
    share = min(max(3.0 * up, 0.0), 1.0)
    for k in range(3):
        light[k] = SKY_HORIZON[k] + share * (SKY_TOP[k] - SKY_HORIZON[k])


@njit(cache=True, fastmath=True, nogil=True)
def _shade(
    view, is_parallel, types, sizes, positions, matrices, colours, is_cut, g, row, col, w,
    sun_view, sun_map, sky_view, sky_map, light,
):  # fmt: skip
    """Colour of one sample into light[0:3]."""
    u, v = view[12] + view[13] * col, view[14] + view[15] * row
    if is_parallel:
        t, along = -w, 1.0
    else:
        t = 1.0 / w
        along, u, v = t, u * t, v * t
    along = t
    x = view[0] + u * view[3] + v * view[6] + along * view[9]
    y = view[1] + u * view[4] + v * view[7] + along * view[10]
    z = view[2] + u * view[5] + v * view[8] + along * view[11]
    nx, ny, nz = _normal(types, sizes, positions, matrices, g, x, y, z)

    red, green, blue = colours[g, 0], colours[g, 1], colours[g, 2]
    if types[g] == PLANE:
        board = _boards(x, y, abs(t * view[13]))
        red, green, blue = red * board, green * board, blue * board
    elif is_cut[g] != 0 and nz > 0.99:
        red, green, blue = CUT_COLOUR

    # Faces turned differently differ a little even in the shade.
    ambient = AMBIENT * (0.90 + 0.10 * nz + 0.07 * nx - 0.05 * ny)
    # Step off the surface, so that it does not shade itself.
    px, py, pz = x + 0.02 * nx, y + 0.02 * ny, z + 0.02 * nz
    if nz > 0.0:
        ambient *= 1.0 - nz * _sky_hidden(sky_view, sky_map, px, py, pz)
    facing = -(nx * sun_view[9] + ny * sun_view[10] + nz * sun_view[11])
    direct = 0.0
    if facing > 0.0:
        direct = SUN * facing * _lit(sun_view, sun_map, px, py, pz)
    red *= ambient + 1.03 * direct
    green *= ambient + direct
    blue *= 1.03 * ambient + 0.93 * direct
    fog = 0.0
    if types[g] == PLANE and not is_parallel:
        fog = min(max((t - FOG_START) / (FOG_END - FOG_START), 0.0), 1.0)
    light[0] = red + fog * (SKY_HORIZON[0] - red)
    light[1] = green + fog * (SKY_HORIZON[1] - green)
    light[2] = blue + fog * (SKY_HORIZON[2] - blue)


@njit(cache=True, fastmath=True, nogil=True)
def _normal(types, sizes, positions, matrices, g, x, y, z):
    """Outward unit normal, in the world, of geom g at a point on its surface."""
    dx, dy, dz = x - positions[g, 0], y - positions[g, 1], z - positions[g, 2]
    a = matrices[g, 0] * dx + matrices[g, 3] * dy + matrices[g, 6] * dz
    b = matrices[g, 1] * dx + matrices[g, 4] * dy + matrices[g, 7] * dz
    c = matrices[g, 2] * dx + matrices[g, 5] * dy + matrices[g, 8] * dz
    s0, s1, s2 = sizes[g, 0], sizes[g, 1], sizes[g, 2]
    kind = types[g]
    if kind == PLANE:
        a, b, c = 0.0, 0.0, 1.0
    elif kind == BOX:
        fa, fb, fc = abs(a) - s0, abs(b) - s1, abs(c) - s2  # the face that lies nearest
        if fa >= fb and fa >= fc:
            a, b, c = (1.0 if a > 0.0 else -1.0), 0.0, 0.0
        elif fb >= fc:
            a, b, c = 0.0, (1.0 if b > 0.0 else -1.0), 0.0
        else:
            a, b, c = 0.0, 0.0, (1.0 if c > 0.0 else -1.0)
    elif kind == CYLINDER:
        if abs(c) - s1 > math.sqrt(a * a + b * b) - s0:
            a, b, c = 0.0, 0.0, (1.0 if c > 0.0 else -1.0)
        else:
            c = 0.0
    elif kind == CAPSULE:
        c -= min(max(c, -s1), s1)
    else:  # ball and ellipsoid
        s1, s2 = (s1, s2) if s1 > 0.0 else (s0, s0)
        a, b, c = a / (s0 * s0), b / (s1 * s1), c / (s2 * s2)
    inverse = 1.0 / math.sqrt(max(a * a + b * b + c * c, 1e-30))
    a, b, c = a * inverse, b * inverse, c * inverse
    return (
        matrices[g, 0] * a + matrices[g, 1] * b + matrices[g, 2] * c,
        matrices[g, 3] * a + matrices[g, 4] * b + matrices[g, 5] * c,
        matrices[g, 6] * a + matrices[g, 7] * b + matrices[g, 8] * c,
    )


@njit(cache=True, fastmath=True, nogil=True)
def _boards(x, y, footprint):
    """Brightness of a floor of boards along x; fades to plain where a pixel covers `footprint` m and more."""
    lane = math.floor(y / PLANK_WIDTH)
    place = x / PLANK_LENGTH + 0.37 * lane
    number = math.floor(place)
    noise = math.sin(12.9898 * lane + 78.233 * number) * 43758.5453
    value = 0.97 + 0.06 * (noise - math.floor(noise))
    gap = min(y / PLANK_WIDTH - lane, lane + 1.0 - y / PLANK_WIDTH) * PLANK_WIDTH
    end = min(place - number, number + 1.0 - place) * PLANK_LENGTH
    width = 0.003 + footprint
    joint = max(0.0, 1.0 - min(gap, end) / width) * 0.003 / width
    fade = min(1.0, 0.5 * PLANK_WIDTH / max(footprint, 1e-6))
    return 1.0 + ((value - 0.30 * joint) - 1.0) * fade * fade


@njit(cache=True, fastmath=True, nogil=True)
def _lit(view, depth_map, x, y, z):
    """Share of the sun that reaches a point: 3 x 3 comparisons, weighted so that edges are smooth."""
    x, y, z = x - view[0], y - view[1], z - view[2]
    col = (view[3] * x + view[4] * y + view[5] * z - view[12]) / view[13]
    row = (view[6] * x + view[7] * y + view[8] * z - view[14]) / view[15]
    limit = -(view[9] * x + view[10] * y + view[11] * z) + SHADOW_BIAS
    i, j = int(math.floor(row)), int(math.floor(col))
    if i < 1 or j < 1 or i > depth_map.shape[0] - 3 or j > depth_map.shape[1] - 3:
        return 1.0
    fi, fj = row - i, col - j
    total = 0.0
    for a in range(-1, 3):  # a box of 3 x 3 texels centred at the point
        weight = 1.0 - fi if a == -1 else (fi if a == 2 else 1.0)
        part = 0.0
        part += (1.0 - fj) if depth_map[i + a, j - 1] <= limit else 0.0
        part += 1.0 if depth_map[i + a, j] <= limit else 0.0
        part += 1.0 if depth_map[i + a, j + 1] <= limit else 0.0
        part += fj if depth_map[i + a, j + 2] <= limit else 0.0
        total += weight * part
    return total / 9.0


@njit(cache=True, fastmath=True, nogil=True)
def _sky_hidden(view, height_map, x, y, z):
    """Share of the sky's light that the heights around a point keep from it, 0 to 0.45."""
    col = (x - view[0] - view[12]) / view[13]
    row = (y - view[1] - view[14]) / view[15]
    own = z - view[2] + 0.01  # heights are kept as the nearness of a view straight down
    rows, cols = height_map.shape
    hidden = 0.0
    for ring in range(2):
        radius = 2.5 if ring == 0 else 7.0
        for k in range(8):
            i = int(row + radius * _RING[k, 0] + 0.5)
            j = int(col + radius * _RING[k, 1] + 0.5)
            if 0 <= i < rows and 0 <= j < cols:
                rise = height_map[i, j] - own
                if rise > 0.0:
                    hidden += rise / (rise + 0.15 + 0.15 * ring)
    return 0.45 * hidden / 16.0


_RING = np.array(
    [[math.cos(angle), math.sin(angle)] for angle in (np.arange(8) + 0.5) * math.pi / 4], np.float64
)
