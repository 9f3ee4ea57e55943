"""Shading of a rasterised image: sun with soft shadows, ambient light, occlusion.

The rasteriser has left, for 2 x 2 samples of every pixel, the nearest geom and its nearness. A
pixel whose samples lie on one flat surface is shaded once, any other four times and averaged:
smooth edges at the price of few.

    colour = base (ambient(normal) (1 - hidden) + sun max(0, normal . to_sun) lit)

`lit` reads a map of depths seen from the sun, `hidden` one seen from straight above (how much of
the sky the surroundings keep away). Both come from the same rasteriser, in parallel projection.

A row of pixels goes through the stages below one after the other (numba counts references to every
array at every call, which per pixel would cost more than the shading).

Legend: H rows, W columns of the picture; samples are [2 H, padded 2 W].
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from rearrange.sim.pictures.surface_kernel import (
    BLUE,
    COLUMN,
    GREEN,
    HIDDEN,
    ID,
    LIT,
    NX,
    NY,
    NZ,
    OWNER,
    RED,
    SAMPLE_ROWS,
    WEIGHT,
    T,
    X,
    Y,
    Z,
    find_surfaces,
)
from rearrange.sim.robot.depth_kernel import PLANE, SAME_EVERYWHERE

AMBIENT, SUN = 0.74, 0.38  # shares of light: together a little over one on a lit floor
SKY_TOP, SKY_HORIZON = (0.62, 0.71, 0.82), (0.90, 0.92, 0.94)  # RGB
CUT_COLOUR = (0.30, 0.31, 0.34)  # section of what was cut open, as in an architect's plan
FOG_START, FOG_END = 14.0, 40.0  # m, where the floor fades into the horizon
PLANK_LENGTH, PLANK_WIDTH = 1.4, 0.16  # m, the floor's boards
LIFT = 0.02  # m, a point steps off its surface before it looks for the sun
BENDS = 3e-3  # of nearness across a pixel: how much a surface of triangles still counts as flat
SHADOW_BIAS = 0.012  # m
CORNER_REACH, CORNER_DARK = 0.12, 1.0  # m, how far away and how much corners darken

# A spiral of 16 places (rows, columns; texels) whose heights may hide the sky.
_TURNS = np.arange(16) * 2.39996  # rad, the golden angle: no two in a line
_REACH = 1.5 + 0.5 * np.arange(16)
_SPIRAL = np.stack([_REACH * np.sin(_TURNS), _REACH * np.cos(_TURNS)], axis=1)
_EASE = 0.10 + 0.025 * np.arange(16)  # m: a rise of this much hides half of that direction


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def paint(
    view, is_parallel, geoms, mesh, finish, nearness, ids, sun_view, sun_map, sky_view, sky_map,
    out,
):  # fmt: skip
    """Fill `out`, [H, W, 3] uint8, from the samples.

    Args:
        view: of the samples, as `rasterise` takes it; likewise `sun_view` and `sky_view`, of maps.
        geoms, mesh, finish: see `surface_kernel`.
        ids: of each sample, geoms first, then faces; -1 for none.
    """
    width = out.shape[1]
    samples = np.empty((SAMPLE_ROWS, 4 * width))
    owners = np.empty((3, 4 * width), np.int32)
    line = np.empty((width, 3))
    for row in range(out.shape[0]):
        line[:] = 0.0
        count = _take_samples(
            view, is_parallel, row, nearness, ids, geoms.types.shape[0], mesh.part_of_face,
            samples, owners, line,
        )  # fmt: skip
        find_surfaces(view, is_parallel, geoms, mesh, finish, samples, owners, count)
        _find_sun(sun_view, sun_map, samples, count)
        _find_sky(sky_view, sky_map, samples, count)
        if not is_parallel:
            _find_corners(view, row, nearness, samples, owners, count)
        _add_light(view, is_parallel, sun_view, geoms, finish, samples, owners, count, line)
        for col in range(width):
            for k in range(3):
                out[row, col, k] = np.uint8(min(max(255.0 * line[col, k], 0.0), 255.0) + 0.5)


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def owner_of(number, num_geoms, part_of_face):
    """Geom or, behind the geoms, part of an id."""
    return number if number < num_geoms else num_geoms + part_of_face[number - num_geoms]


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _take_samples(
    view, is_parallel, row, nearness, ids, num_geoms, part_of_face, samples, owners, line
):
    """Points to shade in a row, and how many; the background goes straight into `line`."""
    count = 0
    r = 2 * row
    for col in range(line.shape[0]):
        c = 2 * col
        first = ids[r, c]
        g = owner_of(first, num_geoms, part_of_face)
        w00, w01 = nearness[r, c], nearness[r, c + 1]
        w10, w11 = nearness[r + 1, c], nearness[r + 1, c + 1]
        is_same = True
        for n in range(1, 4):
            number = ids[r + n // 2, c + n % 2]
            if number != first and owner_of(number, num_geoms, part_of_face) != g:
                is_same = False
        # Affine nearness: one flat face.
        bend = BENDS if g >= num_geoms else 2e-4
        is_flat = is_same and abs(w00 - w01 - w10 + w11) < bend * abs(w00)
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
            samples[X, count] = view[0] + u * view[3] + v * view[6] + t * view[9]
            samples[Y, count] = view[1] + u * view[4] + v * view[7] + t * view[10]
            samples[Z, count] = view[2] + u * view[5] + v * view[8] + t * view[11]
            samples[T, count], samples[WEIGHT, count] = t, 1.0 / number
            owners[ID, count], owners[COLUMN, count] = ids[i, j], col
            owners[OWNER, count] = owner_of(ids[i, j], num_geoms, part_of_face)
            count += 1
    return count


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _find_sun(view, depths, samples, count):
    """Share of the sun that reaches each point: the mean of 3 x 3 texels centred on it."""
    rows, cols = depths.shape
    for n in range(count):
        nx, ny, nz = samples[NX, n], samples[NY, n], samples[NZ, n]
        samples[LIT, n] = 0.0
        if nx * view[9] + ny * view[10] + nz * view[11] > 0.0:
            continue  # turned away
        samples[LIT, n] = 1.0
        x = samples[X, n] + LIFT * nx - view[0]
        y = samples[Y, n] + LIFT * ny - view[1]
        z = samples[Z, n] + LIFT * nz - view[2]
        col = (view[3] * x + view[4] * y + view[5] * z - view[12]) / view[13]
        row = (view[6] * x + view[7] * y + view[8] * z - view[14]) / view[15]
        limit = -(view[9] * x + view[10] * y + view[11] * z) + SHADOW_BIAS
        if not (1.0 <= row < rows - 3.0 and 1.0 <= col < cols - 3.0):
            continue
        i, j = int(row), int(col)
        corners = 0  # most points have all around them lit, or none
        for a in range(-1, 3, 3):
            for b in range(-1, 3, 3):
                corners += 1 if depths[i + a, j + b] <= limit else 0
        if corners == 0 or corners == 4:
            samples[LIT, n] = corners / 4.0
            continue
        fi, fj = row - i, col - j
        total = 0.0
        for a in range(4):
            weight = 1.0 - fi if a == 0 else (fi if a == 3 else 1.0)
            part = 0.0
            for b in range(4):
                share = 1.0 - fj if b == 0 else (fj if b == 3 else 1.0)
                part += share if depths[i + a - 1, j + b - 1] <= limit else 0.0
            total += weight * part
        samples[LIT, n] = total / 9.0


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _find_sky(view, heights, samples, count):
    """Share of the sky's light (0 to 0.45) that the heights around each point keep from it."""
    rows, cols = heights.shape
    for n in range(count):
        samples[HIDDEN, n] = 0.0
        nz = samples[NZ, n]
        if nz <= 0.0:
            continue  # walls have their own ambient light
        col = (samples[X, n] - view[0] - view[12]) / view[13]
        row = (samples[Y, n] - view[1] - view[14]) / view[15]
        if not (10.0 <= row < rows - 11.0 and 10.0 <= col < cols - 11.0):
            continue
        # Heights are kept as the nearness of a view straight down.
        own = samples[Z, n] + LIFT - view[2] + 0.01
        hidden = 0.0
        for k in range(0, 16, 2):
            i, j = int(row + _SPIRAL[k, 0] + 0.5), int(col + _SPIRAL[k, 1] + 0.5)
            rise = max(heights[i, j] - own, 0.0)
            hidden += rise / (rise + _EASE[k])
        samples[HIDDEN, n] = 0.45 * nz * hidden / 8.0


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _find_corners(view, row, nearness, samples, owners, count):
    """Adds to the hidden share what stands close before a sample on the screen: corners darken.

    How far a place on the screen stands above a sample's surface is linear in row and column, times
    its depth: most places are done with after that.
    """
    rows, columns = nearness.shape
    for n in range(count):
        t = samples[T, n]
        nx, ny, nz = samples[NX, n], samples[NY, n], samples[NZ, n]
        to_x, to_y, to_z = samples[X, n] - view[0], samples[Y, n] - view[1], samples[Z, n] - view[2]
        own = nx * to_x + ny * to_y + nz * to_z
        along_u = nx * view[3] + ny * view[4] + nz * view[5]
        along_v = nx * view[6] + ny * view[7] + nz * view[8]
        a_row, a_column = along_v * view[15], along_u * view[13]
        ahead = nx * view[9] + ny * view[10] + nz * view[11]
        ahead += along_u * view[12] + along_v * view[14]
        scale = CORNER_REACH / (view[13] * t) / _REACH[15]
        y, x, hidden = 2 * row, 2 * owners[COLUMN, n], 0.0
        for k in range(1, 16, 2):
            i, j = int(y + scale * _SPIRAL[k, 0]), int(x + scale * _SPIRAL[k, 1])
            if not (0 <= i < rows and 0 <= j < columns):
                continue
            depth = 1.0 / nearness[i, j]
            above = depth * (ahead + a_row * i + a_column * j) - own
            if above <= 0.004:
                continue
            u, v = (view[12] + view[13] * j) * depth, (view[14] + view[15] * i) * depth
            dx = u * view[3] + v * view[6] + depth * view[9] - to_x
            dy = u * view[4] + v * view[7] + depth * view[10] - to_y
            dz = u * view[5] + v * view[8] + depth * view[11] - to_z
            away = dx * dx + dy * dy + dz * dz
            if away < 4.0 * CORNER_REACH**2:
                steep = above / math.sqrt(away) - 0.15  # flat surfaces must not hide themselves
                hidden += max(steep, 0.0) * max(1.0 - 0.25 * away / CORNER_REACH**2, 0.0)
        samples[HIDDEN, n] = min(samples[HIDDEN, n] + CORNER_DARK * hidden / 8.0, 0.75)


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _add_light(view, is_parallel, sun_view, geoms, finish, samples, owners, count, line):
    """Light every sample and add it to its pixel in `line`, [W, 3]."""
    # Taken out of their records once: numba counts references at every access.
    num_geoms, types = geoms.types.shape[0], geoms.types
    is_cut, surface, glowing = finish.is_cut, finish.finish, finish.glow
    for n in range(count):
        number, o, t = owners[ID, n], owners[OWNER, n], samples[T, n]
        nx, ny, nz = samples[NX, n], samples[NY, n], samples[NZ, n]
        red, green, blue = samples[RED, n], samples[GREEN, n], samples[BLUE, n]
        fog = 0.0
        if number < num_geoms and types[number] == PLANE:
            pixel = view[13] * (1.0 if is_parallel else t)
            board = _boards(samples[X, n], samples[Y, n], pixel)
            red, green, blue = red * board, green * board, blue * board
            if not is_parallel:
                fog = min(max((t - FOG_START) / (FOG_END - FOG_START), 0.0), 1.0)
        elif is_cut[o] != 0 and nz > 0.99:
            red, green, blue = CUT_COLOUR
        # Faces turned differently differ a little even in the shade.
        ambient = AMBIENT * (0.90 + 0.10 * nz + 0.07 * nx - 0.05 * ny) * (1.0 - samples[HIDDEN, n])
        facing = -(nx * sun_view[9] + ny * sun_view[10] + nz * sun_view[11])
        direct = SUN * max(facing, 0.0) * samples[LIT, n]
        gloss, own = surface[o, 0], surface[o, 1]
        ex, ey, ez = -view[9], -view[10], -view[11]
        if not is_parallel:
            ex, ey, ez = view[0] - samples[X, n], view[1] - samples[Y, n], view[2] - samples[Z, n]
        edge, shine = _shine((ex, ey, ez), (nx, ny, nz), (sun_view[9], sun_view[10], sun_view[11]))
        mirror = gloss * (0.55 * shine * samples[LIT, n] + 0.22 * edge * (1.0 - samples[HIDDEN, n]))
        glow = 0.15 + 0.85 * edge
        # The sun is warm, the shade cool.
        red = red * max(ambient + 1.03 * direct, own) + mirror + glow * glowing[o, 0]
        green = green * max(ambient + direct, own) + mirror + glow * glowing[o, 1]
        blue = blue * max(1.03 * ambient + 0.93 * direct, own) + mirror + glow * glowing[o, 2]
        col, weight = owners[COLUMN, n], samples[WEIGHT, n]
        line[col, 0] += weight * (red + fog * (SKY_HORIZON[0] - red))
        line[col, 1] += weight * (green + fog * (SKY_HORIZON[1] - green))
        line[col, 2] += weight * (blue + fog * (SKY_HORIZON[2] - blue))


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _shine(to_eye, normal, sun):
    """How far a surface is seen edge-on, and how nearly it mirrors the sun; both in [0, 1].

    Vectors of three; `to_eye` of any length, the others of one; `sun` as its rays go.
    """
    (ex, ey, ez), (nx, ny, nz) = to_eye, normal
    scale = 1.0 / math.sqrt(max(ex * ex + ey * ey + ez * ez, 1e-12))
    ex, ey, ez = ex * scale, ey * scale, ez * scale
    edge = 1.0 - min(max(nx * ex + ny * ey + nz * ez, 0.0), 1.0)
    hx, hy, hz = ex - sun[0], ey - sun[1], ez - sun[2]
    scale = 1.0 / math.sqrt(max(hx * hx + hy * hy + hz * hz, 1e-12))
    half = max(nx * hx + ny * hy + nz * hz, 0.0) * scale
    half2 = half * half
    half4 = half2 * half2
    half16 = half4 * half4 * half4 * half4
    return edge * edge, half16 * half16


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def add_ghosts(view, mesh, finish, alphas, num_geoms, nearness, ids, out):
    """Blend what is translucent over a picture: faces of parts, brighter along their outline.

    Args:
        alphas: [N] in [0, 1], of each part.
        nearness, ids: samples of the translucent parts alone, where nothing is before them.
    """
    for row in range(out.shape[0]):
        for col in range(out.shape[1]):
            for n in range(4):
                i, j = 2 * row + n // 2, 2 * col + n % 2
                if ids[i, j] < 0:
                    continue
                f = ids[i, j] - num_geoms
                part = mesh.part_of_face[f]
                t = 1.0 / nearness[i, j]
                u, v = (view[12] + view[13] * j) * t, (view[14] + view[15] * i) * t
                facing, normal2, ray2 = 0.0, 0.0, 0.0
                for k in range(3):
                    ray = u * view[3 + k] + v * view[6 + k] + t * view[9 + k]
                    normal = mesh.normals[mesh.faces[f, 0], k]
                    facing += ray * normal
                    normal2, ray2 = normal2 + normal * normal, ray2 + ray * ray
                edge = 1.0 - abs(facing) / math.sqrt(max(normal2 * ray2, 1e-20))
                alpha = 0.25 * min(alphas[part] * (0.7 + 0.9 * edge * edge), 1.0)
                for k in range(3):
                    colour = 255.0 * finish.colours[num_geoms + part, k]
                    out[row, col, k] = np.uint8(out[row, col, k] * (1.0 - alpha) + alpha * colour)


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
