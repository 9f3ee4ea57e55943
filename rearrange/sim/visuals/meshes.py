"""Procedural meshes: boxes with rounded edges, surfaces of revolution, tubes, leaves.

Lengths in m. Places in textures (uv) are in repeats of the texture unless said.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from rearrange.sim.pictures.triangles import Mesh

ROUND = 28  # corners of a full circle


def rounded_box(half: Sequence[float], radius: float = 0.006, repeat: float = 0.6) -> Mesh:
    """A box whose edges are rounded; the texture's u runs along the longest side of each face.

    Args:
        repeat: m after which a texture begins again.
    """
    size = np.array(half, float)
    radius = min(radius, 0.98 * float(size.min()))
    points, normals, uvs, faces = [], [], [], []
    for axis in range(3):
        one, other = (a for a in range(3) if a != axis)
        if size[other] > size[one]:
            one, other = other, one
        grids = [
            np.array([-size[a], radius - size[a], size[a] - radius, size[a]]) for a in (one, other)
        ]
        for sign in (-1.0, 1.0):
            place = np.zeros((4, 4, 3))
            place[..., one], place[..., other] = np.meshgrid(*grids, indexing="ij")
            place[..., axis] = sign * size[axis]
            place = place.reshape(-1, 3)
            inner = np.clip(place, radius - size, size - radius)
            out = place - inner
            out /= np.linalg.norm(out, axis=1, keepdims=True)
            faces.append(_grid(4, 4) + 16 * len(points))
            points.append(inner + radius * out)
            normals.append(out)
            uvs.append(place[:, [one, other]] / repeat + 0.5)
    return Mesh(*(np.concatenate(rows) for rows in (points, normals, faces, uvs)))


def printed_box(half: Sequence[float], radius: float = 0.003) -> Mesh:
    """A box with a texture that has the pictures of its x, y and z faces side by side.

    The x faces take the first half of the width, the y faces then 3/10, the z faces the rest.
    """
    mesh = rounded_box(half, radius)
    size = np.array(half, float)
    uvs = np.empty_like(mesh.uvs)
    ranges = ((0.0, 0.5), (0.5, 0.8), (0.8, 1.0))
    for face in range(6):
        rows, axis, sign = slice(16 * face, 16 * face + 16), face // 2, face % 2 * 2 - 1
        place = mesh.points[rows] / size / 2 + 0.5
        u, v = ((1, 2), (0, 2), (1, 0))[axis]
        across = place[:, u] if (sign > 0) != (axis == 1) else 1.0 - place[:, u]
        start, end = ranges[axis]
        uvs[rows, 0] = start + (end - start) * np.clip(across, 0.01, 0.99)
        uvs[rows, 1] = np.clip(1.0 - place[:, v] if axis == 2 else place[:, v], 0.005, 0.995)
    return Mesh(mesh.points, mesh.normals, mesh.faces, uvs)


def turned(profile: ArrayLike, count: int = ROUND, is_smooth: bool = True) -> Mesh:
    """A profile of (radius, z) turned about z; u goes once around, v once along the profile."""
    line = np.array(profile, float)
    if not is_smooth:
        pieces = [turned(line[i : i + 2], count) for i in range(len(line) - 1)]
        return joined(pieces)
    step = np.gradient(line, axis=0)
    out = np.stack([step[:, 1], -step[:, 0]], axis=1)
    out /= np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-12)
    length = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(line, axis=0), axis=1))])
    around = np.linspace(0.0, 1.0, count + 1)
    c, s = np.cos(2 * np.pi * around), np.sin(2 * np.pi * around)
    points = np.stack(
        [np.outer(line[:, 0], c), np.outer(line[:, 0], s), np.outer(line[:, 1], np.ones_like(c))],
        axis=2,
    )
    normals = np.stack(
        [np.outer(out[:, 0], c), np.outer(out[:, 0], s), np.outer(out[:, 1], np.ones_like(c))],
        axis=2,
    )
    u, v = np.meshgrid(around, length / max(length[-1], 1e-9))
    return Mesh(
        points.reshape(-1, 3),
        normals.reshape(-1, 3),
        _grid(len(line), count + 1),
        np.stack([u, v], axis=2).reshape(-1, 2),
    )


def tube(centres: ArrayLike, radii: ArrayLike, count: int = 12) -> Mesh:
    """A tube around a line of points, its ends closed."""
    line = np.array(centres, float)
    wide = np.broadcast_to(np.asarray(radii, float), len(line))
    ahead = np.gradient(line, axis=0)
    ahead /= np.linalg.norm(ahead, axis=1, keepdims=True)
    # Both ends are drawn together to a point.
    line, ahead = (np.concatenate([a[:1], a, a[-1:]]) for a in (line, ahead))
    wide = np.concatenate([[1e-5], wide, [1e-5]])
    up = np.array([0.0, 0.0, 1.0]) if abs(ahead[:, 2]).max() < 0.9 else np.array([0.3, 0.95, 0.1])
    side = np.cross(ahead, up)
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    up = np.cross(side, ahead)
    turn = np.linspace(0.0, 2 * np.pi, count + 1)
    out = np.cos(turn)[None, :, None] * side[:, None] + np.sin(turn)[None, :, None] * up[:, None]
    points = line[:, None] + wide[:, None, None] * out
    out[0], out[-1] = -ahead[0], ahead[-1]
    u, v = np.meshgrid(turn / (2 * np.pi), np.linspace(0, 1, len(line)))
    return Mesh(
        points.reshape(-1, 3),
        out.reshape(-1, 3),
        _grid(len(line), count + 1),
        np.stack([u, v], axis=2).reshape(-1, 2),
    )


def ball(radii: ArrayLike, count: int = 20) -> Mesh:
    """An ellipsoid of three radii."""
    angle = np.linspace(-np.pi / 2, np.pi / 2, count // 2 + 1)
    unit = turned(np.stack([np.cos(angle), np.sin(angle)], axis=1), count)
    return scaled(unit, radii)


def leaf(length: float, width: float, droop: float) -> Mesh:
    """A pointed leaf along +x that rises and then droops."""
    along = np.linspace(0.0, 1.0, 6)
    half = width / 2 * np.sin(np.pi * np.clip(along, 0.03, 0.97)) ** 0.8
    rise = length * (0.9 * along - droop * along**2)
    points = np.stack(
        [
            np.stack([length * along * 0.6, side * half, rise - 0.3 * half * (side != 0)], axis=1)
            for side in (-1.0, 0.0, 1.0)
        ],
        axis=1,
    )
    grid = points.reshape(-1, 3)
    faces = _grid(6, 3)
    return Mesh(grid, _normals_of(grid, faces), faces, np.zeros((len(grid), 2)))


def sheet(corners: ArrayLike) -> Mesh:
    """A flat rectangle with a texture: corners lower left, lower right, upper right, upper left."""
    points = np.array(corners, float)
    normal = np.cross(points[1] - points[0], points[3] - points[0])
    normal /= np.linalg.norm(normal)
    return Mesh(
        points,
        np.tile(normal, (4, 1)),
        np.array([[0, 1, 2], [0, 2, 3]], np.int32),
        np.array([(0.002, 0.002), (0.998, 0.002), (0.998, 0.998), (0.002, 0.998)]),
    )


def flat_shaded(triangles: np.ndarray, crease_deg: float = 35.0) -> Mesh:
    """Triangles [F, 3, 3] as CAD gives them: smooth, with edges where faces turn sharply."""
    corners = triangles.reshape(-1, 3)
    _, same = np.unique(np.round(corners, 5), axis=0, return_inverse=True)
    same = same.ravel()
    across = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    unit = across / np.maximum(np.linalg.norm(across, axis=1, keepdims=True), 1e-15)
    own, weight = np.repeat(unit, 3, axis=0), np.repeat(across, 3, axis=0)
    # Each corner with every corner at its point, itself included.
    order = np.argsort(same, kind="stable")
    counts = np.bincount(same)
    size = counts[same[order]]
    one = np.repeat(np.arange(len(order)), size)
    starts = np.cumsum(counts) - counts
    within = np.arange(len(one)) - np.repeat(np.cumsum(size) - size, size)
    other = order[np.repeat(starts[same[order]], size) + within]
    one = order[one]
    alike = np.einsum("ij,ij->i", own[one], own[other]) > np.cos(np.radians(crease_deg))
    normals = np.stack(
        [np.bincount(one[alike], weight[other[alike], k], len(own)) for k in range(3)], axis=1
    )
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    normals = np.where(length > 1e-15, normals / np.maximum(length, 1e-15), own)
    faces = np.arange(len(corners), dtype=np.int32).reshape(-1, 3)
    return Mesh(corners.astype(float), normals, faces, np.zeros((len(corners), 2)))


def scaled(mesh: Mesh, by: ArrayLike) -> Mesh:
    """Stretched along its axes."""
    normals = mesh.normals / np.array(by, float)
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
    return Mesh(mesh.points * np.array(by, float), normals, mesh.faces, mesh.uvs)


def moved(mesh: Mesh, by: ArrayLike, turn: np.ndarray | None = None) -> Mesh:
    """Turned by [3, 3], then shifted."""
    turn = np.eye(3) if turn is None else turn
    return Mesh(
        mesh.points @ turn.T + np.array(by, float), mesh.normals @ turn.T, mesh.faces, mesh.uvs
    )


def joined(meshes: Sequence[Mesh]) -> Mesh:
    """Several as one."""
    firsts = np.cumsum([0, *(len(mesh.points) for mesh in meshes[:-1])])
    faces = [mesh.faces + first for mesh, first in zip(meshes, firsts, strict=True)]
    return Mesh(
        np.concatenate([m.points for m in meshes]),
        np.concatenate([m.normals for m in meshes]),
        np.concatenate(faces).astype(np.int32),
        np.concatenate([m.uvs for m in meshes]),
    )


def about(axis: int, angle: float) -> np.ndarray:
    """[3, 3]: a turn about x, y or z (0, 1, 2) by an angle, rad."""
    c, s = np.cos(angle), np.sin(angle)
    one, other = (axis + 1) % 3, (axis + 2) % 3
    turn = np.eye(3)
    turn[one, one], turn[one, other], turn[other, one], turn[other, other] = c, -s, s, c
    return turn


def _grid(rows: int, columns: int) -> np.ndarray:
    i, j = np.meshgrid(np.arange(rows - 1), np.arange(columns - 1), indexing="ij")
    a = (i * columns + j).ravel()
    one = np.stack([a, a + 1, a + columns + 1], axis=1)
    other = np.stack([a, a + columns + 1, a + columns], axis=1)
    return np.concatenate([one, other]).astype(np.int32)


def _normals_of(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
    corners = points[faces]
    across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals = np.zeros_like(points)
    for k in range(3):
        np.add.at(normals, faces[:, k], across)
    return normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
