"""Normals and textures of visible surfaces at the points to be shaded.

Samples are columns of a table, a row of pixels at a time: see `paint_kernel`.

Legend: G geoms (marks included), F faces, N parts, O owners: G geoms, then N parts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from rearrange.sim.robot.depth_kernel import BOX, CAPSULE, CYLINDER, PLANE, SAME_EVERYWHERE

# Rows of the table of samples ([SAMPLE_ROWS, 4 W] float64) and of `owners` ([3, 4 W] int32).
X, Y, Z, NX, NY, NZ, T, WEIGHT, LIT, HIDDEN, RED, GREEN, BLUE = range(13)
SAMPLE_ROWS = 13
ID, OWNER, COLUMN = 0, 1, 2


class Geoms(NamedTuple):
    """MuJoCo's primitives."""

    types: np.ndarray  # [G] int32
    sizes: np.ndarray  # [G, 3]
    positions: np.ndarray  # [G, 3]
    matrices: np.ndarray  # [G, 9]


class Faces(NamedTuple):
    """Triangles of the parts, in the world."""

    points: np.ndarray  # [P, 3]
    normals: np.ndarray  # [P, 3]
    uvs: np.ndarray  # [P, 2]
    faces: np.ndarray  # [F, 3] int32
    part_of_face: np.ndarray  # [F] int32
    texels: np.ndarray  # [K, 3] uint8, of all textures and their coarser levels
    texture_table: np.ndarray  # [textures, levels, 3]: first texel, rows, columns
    texels_a_metre: np.ndarray  # [F]


class Finish(NamedTuple):
    """How owners look."""

    colours: np.ndarray  # [O, 3] in [0, 1]
    is_cut: np.ndarray  # [O] uint8; the top of such a geom is a section
    finish: np.ndarray  # [O, 2]: gloss, own light
    texture_of: np.ndarray  # [O] int32, -1 for none
    glow: np.ndarray  # [O, 3]: added, mostly along the outline


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def find_surfaces(view, is_parallel, geoms, mesh, finish, samples, owners, count):
    """Outward unit normals, turned to the eye, and the colours of the samples."""
    num_geoms = geoms.types.shape[0]
    for n in range(count):
        o, number = owners[OWNER, n], owners[ID, n]
        for k in range(3):
            samples[RED + k, n] = finish.colours[o, k]
        if number < num_geoms:
            _primitive_normal(geoms, number, samples, n)
            continue
        f = number - num_geoms
        b, c = _place_in_face(mesh, f, samples, n)
        a = 1.0 - b - c
        i, j, k = mesh.faces[f, 0], mesh.faces[f, 1], mesh.faces[f, 2]
        for axis in range(3):
            samples[NX + axis, n] = (
                a * mesh.normals[i, axis] + b * mesh.normals[j, axis] + c * mesh.normals[k, axis]
            )
        _face_the_eye(view, is_parallel, samples, n)
        texture = finish.texture_of[o]
        if texture >= 0:
            u = a * mesh.uvs[i, 0] + b * mesh.uvs[j, 0] + c * mesh.uvs[k, 0]
            v = a * mesh.uvs[i, 1] + b * mesh.uvs[j, 1] + c * mesh.uvs[k, 1]
            pixel = 2.0 * view[13] * (1.0 if is_parallel else samples[T, n])
            _paint_texel(mesh, texture, u, v, pixel * mesh.texels_a_metre[f], samples, n)


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _place_in_face(mesh, f, samples, n):
    """Shares of the second and third corner at a sample; the first has the rest."""
    i, j, k = mesh.faces[f, 0], mesh.faces[f, 1], mesh.faces[f, 2]
    aa, ab, bb, aq, bq = 0.0, 0.0, 0.0, 0.0, 0.0
    for axis in range(3):
        corner = mesh.points[i, axis]
        a, b = mesh.points[j, axis] - corner, mesh.points[k, axis] - corner
        q = samples[X + axis, n] - corner
        aa, ab, bb, aq, bq = aa + a * a, ab + a * b, bb + b * b, aq + a * q, bq + b * q
    size = aa * bb - ab * ab
    if size < 1e-24:
        return 0.0, 0.0
    b, c = (bb * aq - ab * bq) / size, (aa * bq - ab * aq) / size
    b, c = min(max(b, 0.0), 1.0), min(max(c, 0.0), 1.0)  # a mean of samples may lie outside
    return (b, c) if b + c <= 1.0 else (b / (b + c), c / (b + c))


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _face_the_eye(view, is_parallel, samples, n):
    """Makes the normal a unit vector on the side that is seen."""
    toward, length = 0.0, 0.0
    for axis in range(3):
        ray = view[9 + axis] if is_parallel else samples[X + axis, n] - view[axis]
        toward += ray * samples[NX + axis, n]
        length += samples[NX + axis, n] ** 2
    scale = 1.0 / math.sqrt(max(length, 1e-30))
    scale = -scale if toward > 0.0 else scale
    for axis in range(3):
        samples[NX + axis, n] *= scale


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _paint_texel(mesh, texture, u, v, texels_a_pixel, samples, n):
    """Multiplies the colour by the texture, between the four nearest texels of a fitting level."""
    last = mesh.texture_table.shape[1] - 1
    level = min(max(int(math.log2(max(texels_a_pixel, 1.0)) + 0.5), 0), last)
    first = mesh.texture_table[texture, level, 0]
    rows, columns = mesh.texture_table[texture, level, 1], mesh.texture_table[texture, level, 2]
    x, y = u * columns - 0.5, (1.0 - v) * rows - 0.5
    i, j = math.floor(y), math.floor(x)
    down, right = y - i, x - j
    top, bottom = int(i) % rows, int(i + 1) % rows
    left, far = int(j) % columns, int(j + 1) % columns
    for k in range(3):
        upper = (1.0 - right) * mesh.texels[first + top * columns + left, k]
        upper += right * mesh.texels[first + top * columns + far, k]
        lower = (1.0 - right) * mesh.texels[first + bottom * columns + left, k]
        lower += right * mesh.texels[first + bottom * columns + far, k]
        samples[RED + k, n] *= ((1.0 - down) * upper + down * lower) / 255.0


@njit(cache=True, fastmath=SAME_EVERYWHERE, nogil=True)
def _primitive_normal(geoms, g, samples, n):
    matrices = geoms.matrices
    dx = samples[X, n] - geoms.positions[g, 0]
    dy = samples[Y, n] - geoms.positions[g, 1]
    dz = samples[Z, n] - geoms.positions[g, 2]
    a = matrices[g, 0] * dx + matrices[g, 3] * dy + matrices[g, 6] * dz
    b = matrices[g, 1] * dx + matrices[g, 4] * dy + matrices[g, 7] * dz
    c = matrices[g, 2] * dx + matrices[g, 5] * dy + matrices[g, 8] * dz
    sizes = geoms.sizes
    a, b, c = _local_normal(geoms.types[g], sizes[g, 0], sizes[g, 1], sizes[g, 2], a, b, c)
    samples[NX, n] = matrices[g, 0] * a + matrices[g, 1] * b + matrices[g, 2] * c
    samples[NY, n] = matrices[g, 3] * a + matrices[g, 4] * b + matrices[g, 5] * c
    samples[NZ, n] = matrices[g, 6] * a + matrices[g, 7] * b + matrices[g, 8] * c


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
