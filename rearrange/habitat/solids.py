"""Boxes, cylinders and spheres as triangles, z up, for files of other programs.

Legend: V vertices, T triangles. Triangles run counter-clockwise seen from outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rearrange.sim.home.furniture import Box
from rearrange.sim.home.objects import ObjectKind

CYLINDER_SIDES = 48  # the polygon's area is 0.3% below the circle's
SPHERE_RINGS, SPHERE_SIDES = 16, 32


@dataclass(frozen=True, eq=False)
class Solid:
    """A closed convex surface of one colour."""

    vertices: np.ndarray  # [V, 3] m
    normals: np.ndarray  # [V, 3]
    triangles: np.ndarray  # [T, 3] ints
    rgb: tuple[float, float, float]


def box(pos: Sequence[float], half: Sequence[float], rgb) -> Solid:
    """A box along the axes, centre and half sizes in m."""
    vertices, normals, triangles = [], [], []
    for axis in range(3):
        for sign in (-1.0, 1.0):
            normal = np.eye(3)[axis] * sign
            first, second = np.eye(3)[(axis + 1) % 3], np.eye(3)[(axis + 2) % 3] * sign
            begin = len(vertices)
            for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1)):
                vertices.append(normal + a * first + b * second)
                normals.append(normal)
            triangles += [(begin, begin + 1, begin + 2), (begin, begin + 2, begin + 3)]
    scaled = np.array(vertices) * np.asarray(half) + np.asarray(pos)
    return Solid(scaled, np.array(normals), np.array(triangles), tuple(rgb))


def cylinder(radius: float, half_height: float, rgb) -> Solid:
    """A cylinder around z, its centre at the origin, m."""
    count = CYLINDER_SIDES
    angle = 2 * np.pi * np.arange(count) / count
    out = np.column_stack([np.cos(angle), np.sin(angle), np.zeros(count)])
    up, ring = np.array([0.0, 0.0, half_height]), radius * out
    z = np.tile([0.0, 0.0, 1.0], (count, 1))
    vertices = np.concatenate([ring - up, ring + up, ring - up, ring + up])
    normals = np.concatenate([out, out, -z, z])
    here = np.arange(count)
    there = (here + 1) % count
    sides = np.concatenate(
        [np.column_stack([here, there, count + there]),
         np.column_stack([here, count + there, count + here])]
    )  # fmt: skip
    fan = np.column_stack([np.zeros(count - 2, int), here[1:-1], here[2:]])
    caps = [2 * count + fan[:, ::-1], 3 * count + fan]
    return Solid(vertices, normals, np.concatenate([sides, *caps]), tuple(rgb))


def sphere(radius: float, rgb) -> Solid:
    """A sphere around the origin, m; poles at both ends of z."""
    rings, sides = SPHERE_RINGS, SPHERE_SIDES
    polar = np.pi * np.arange(rings + 1) / rings
    angle = 2 * np.pi * np.arange(sides) / sides
    z, r = np.repeat(np.cos(polar), sides), np.repeat(np.sin(polar), sides)
    out = np.column_stack([r * np.tile(np.cos(angle), rings + 1),
                           r * np.tile(np.sin(angle), rings + 1), z])  # fmt: skip
    triangles = []
    for ring in range(rings):
        for side in range(sides):
            a, b = ring * sides + side, ring * sides + (side + 1) % sides
            c, d = a + sides, b + sides
            if ring > 0:  # at a pole one of the two has no area
                triangles.append((a, d, b))
            if ring < rings - 1:
                triangles.append((a, c, d))
    return Solid(radius * out, out, np.array(triangles), tuple(rgb))


def solids_of_boxes(boxes: Sequence[Box]) -> list[Solid]:
    """One solid for each box of a piece."""
    return [box(each.pos, each.half, each.rgb) for each in boxes]


def solid_of_kind(kind: ObjectKind) -> Solid:
    """A loose object around its centre."""
    if kind.shape == "box":
        return box((0.0, 0.0, 0.0), kind.size, kind.rgb)
    if kind.shape == "cylinder":
        return cylinder(kind.size[0], kind.size[1], kind.rgb)
    return sphere(kind.size[0], kind.rgb)
