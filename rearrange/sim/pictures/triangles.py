"""Triangle meshes for images: shapes that primitives cannot show, and their current poses.

    Mesh (points, faces) --Part--> on a body, in a colour or texture --Solids--> arrays for kernels

Legend: P points, F faces, N parts, T textures. Lengths in m, colours in [0, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import mujoco
import numpy as np

from rearrange.sim.pictures.triangle_kernel import move_points

LEVELS = 8  # of a texture, each half as fine as the one before
_ORIGIN = (0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Mesh:
    """Triangles in a frame of their own; faces are seen from both sides."""

    points: np.ndarray  # [P, 3]
    normals: np.ndarray  # [P, 3], unit vectors
    faces: np.ndarray  # [F, 3] int32, indices of points
    uvs: np.ndarray  # [P, 2], place in the texture, (0, 0) its lower left corner; it repeats


@dataclass(frozen=True)
class Part:
    """A mesh on a body of the model, which it follows."""

    mesh: Mesh
    body: int = 0
    """Index in the model; 0 is the world."""
    pos: tuple[float, float, float] = _ORIGIN
    """In the body's frame, m."""
    turn: np.ndarray = field(default_factory=lambda: np.eye(3))
    """[3, 3], the mesh's axes in the body's frame."""
    rgb: tuple[float, float, float] = (1.0, 1.0, 1.0)
    """Times the texture, if there is one."""
    texture: int = -1
    """Place in the list of textures; -1: none."""
    gloss: float = 0.0
    """0 is matt, 1 a mirror of sun and sky."""
    light: float = 0.0
    """Share of the colour that shines by itself, as a window or a screen does."""
    wall: int = -1
    """A geom that it hangs on: where that is cut away, it is too."""


class Solids:
    """Parts as the kernels take them. `place` moves them; all else stays as it was built."""

    def __init__(self, parts: Sequence[Part], textures: Sequence[np.ndarray]) -> None:
        """`textures`: images [h, w, 3] uint8."""
        self.parts, self.textures = tuple(parts), tuple(textures)
        counts = [len(part.mesh.points) for part in self.parts]
        self.firsts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        meshes = [part.mesh for part in self.parts]
        self._points = _joined([m.points for m in meshes], 3)
        self._normals = _joined([m.normals for m in meshes], 3)
        self.uvs = _joined([m.uvs for m in meshes], 2)
        shifted = [m.faces + first for m, first in zip(meshes, self.firsts, strict=False)]
        self.faces = np.concatenate([np.zeros((0, 3), np.int32), *shifted]).astype(np.int32)
        numbers = [np.full(len(m.faces), i, np.int32) for i, m in enumerate(meshes)]
        self.part_of_face = np.concatenate([np.zeros(0, np.int32), *numbers])
        self.colours = np.array([p.rgb for p in self.parts], float).reshape(-1, 3)
        self.finish = np.array([(p.gloss, p.light) for p in self.parts], float).reshape(-1, 2)
        self.bodies = np.array([p.body for p in self.parts], int)
        self._pos = np.array([p.pos for p in self.parts], float).reshape(-1, 3)
        self._turn = np.array([p.turn for p in self.parts], float).reshape(-1, 3, 3)
        # In the world, after `place`:
        self.turns, self.places = self._turn.copy(), self._pos.copy()
        self.points = np.zeros_like(self._points)
        self.normals = np.zeros_like(self._normals)
        self.texture_of = np.array([p.texture for p in self.parts], np.int32)
        self.texels, self.texture_table = _pyramids(textures)
        self.texels_a_metre = self._density()

    def place(self, data: mujoco.MjData) -> None:
        """Puts every part to where its body is now."""
        turns = data.xmat[self.bodies].reshape(-1, 3, 3)
        self.places = data.xpos[self.bodies] + np.einsum("nij,nj->ni", turns, self._pos)
        self.turns = turns @ self._turn
        move_points(
            self._points, self._normals, self.firsts, self.turns, self.places, self.points,
            self.normals,
        )  # fmt: skip

    def boxes(self) -> np.ndarray:
        """Box around each part in the world, [N, 2, 3]: lowest and highest corner."""
        if not self.parts:
            return np.zeros((0, 2, 3))
        low = np.minimum.reduceat(self.points, self.firsts[:-1])
        return np.stack([low, np.maximum.reduceat(self.points, self.firsts[:-1])], axis=1)

    def _density(self) -> np.ndarray:
        """Texels along a metre of each face, [F]; 0 without a texture."""
        corners, places = self._points[self.faces], self.uvs[self.faces]
        area = np.linalg.norm(
            np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1
        )
        a, b = places[:, 1] - places[:, 0], places[:, 2] - places[:, 0]
        share = np.abs(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0])
        texture = self.texture_of[self.part_of_face]
        texels = np.where(texture >= 0, self.texture_table[texture, 0, 1:].prod(axis=1), 0)
        return np.sqrt(share * texels / np.maximum(area, 1e-12))


class Visuals:
    """Parts that a picture shows in place of geoms; what a film changes from frame to frame.

    Args:
        replaced: indices of the geoms.
    """

    def __init__(self, solids: Solids, replaced: Sequence[int]) -> None:
        self.solids, self.replaced = solids, np.array(replaced, int)
        self.alphas = np.ones(len(solids.parts))
        """[N]; 0 is not there, below 1 translucent, and then it casts no shadow."""
        self.glow = np.zeros((len(solids.parts), 3))
        self.walls = np.array([part.wall for part in solids.parts], int)


def _joined(arrays: Sequence[np.ndarray], width: int) -> np.ndarray:
    return np.concatenate([np.zeros((0, width)), *arrays]).astype(np.float64)


def _pyramids(textures: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """All texels, [K, 3] uint8, and where each level lies, [T, LEVELS, 3]: first, rows, columns."""
    texels, table, first = [np.zeros((1, 3), np.uint8)], [], 1
    for image in textures:
        rows = []
        for _ in range(LEVELS):
            height, width, _ = image.shape
            rows.append((first, height, width))
            texels.append(image.reshape(-1, 3))
            first += height * width
            if min(height, width) > 1:
                even = image[: height // 2 * 2, : width // 2 * 2].astype(np.uint16)
                sums = even[0::2, 0::2] + even[1::2, 0::2] + even[0::2, 1::2] + even[1::2, 1::2]
                image = (sums // 4).astype(np.uint8)
        table.append(rows)
    shape = (max(len(table), 1), LEVELS, 3)
    return np.concatenate(texels), np.array(table or np.zeros(shape), np.int64).reshape(shape)
