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
    polar = np.pi * np.arange(SPHERE_RINGS + 1) / SPHERE_RINGS
    return _turned(radius, polar, np.zeros(len(polar)), rgb)


def capsule(radius: float, half_length: float, rgb) -> Solid:
    """A cylinder around z with half a sphere at each end, its centre at the origin, m."""
    quarter = np.pi * np.arange(SPHERE_RINGS // 2 + 1) / SPHERE_RINGS
    polar = np.concatenate([quarter, quarter + np.pi / 2])
    return _turned(radius, polar, half_length * np.repeat([1.0, -1.0], len(quarter)), rgb)


def _turned(radius: float, polar: np.ndarray, shift: np.ndarray, rgb) -> Solid:
    """Rings around z at these angles from it, each moved along it, m."""
    sides, last = SPHERE_SIDES, len(polar) - 1
    angle = 2 * np.pi * np.arange(sides) / sides
    z, r = np.repeat(np.cos(polar), sides), np.repeat(np.sin(polar), sides)
    out = np.column_stack([r * np.tile(np.cos(angle), last + 1),
                           r * np.tile(np.sin(angle), last + 1), z])  # fmt: skip
    triangles = []
    for ring in range(last):
        for side in range(sides):
            a, b = ring * sides + side, ring * sides + (side + 1) % sides
            c, d = a + sides, b + sides
            if ring > 0:  # at a pole one of the two has no area
                triangles.append((a, d, b))
            if ring < last - 1:
                triangles.append((a, c, d))
    vertices = radius * out
    vertices[:, 2] += np.repeat(shift, sides)
    return Solid(vertices, out, np.array(triangles), tuple(rgb))


def inside_out(solid: Solid) -> Solid:
    """The same surface, seen from within."""
    return Solid(solid.vertices, -solid.normals, solid.triangles[:, ::-1], solid.rgb)


def turned_along(solid: Solid, start: Sequence[float], end: Sequence[float]) -> Solid:
    """What lies along z around the origin, put midway between two points, along their line."""
    way = np.subtract(end, start)
    z = way / np.linalg.norm(way)
    x = np.cross(np.eye(3)[int(np.argmin(np.abs(z)))], z)
    x /= np.linalg.norm(x)
    turn, middle = np.column_stack([x, np.cross(z, x), z]), np.add(start, end) / 2
    return Solid(
        solid.vertices @ turn.T + middle, solid.normals @ turn.T, solid.triangles, solid.rgb
    )


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
