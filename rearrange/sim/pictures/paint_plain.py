"""The "plain" renderer: rasteriser and shading of our own, on one core, with numba and nothing
else.

A picture takes three passes of the rasteriser: the sun's view of the house and the view from
straight above (for the shadows), then the picture itself with 2 x 2 samples a pixel.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rearrange.sim.pictures.paint_kernel import add_ghosts, paint, soften
from rearrange.sim.pictures.picture_scene import Shapes
from rearrange.sim.pictures.triangle_kernel import draw_triangles
from rearrange.sim.robot.depth import fill_view, padded
from rearrange.sim.robot.depth_kernel import PARKED_Z, PLANE, VIEW_SIZE, WORK_SIZE, rasterise

FAR = 60.0  # m
TO_SUN = np.array([0.40, -0.28, 0.87]) / np.linalg.norm([0.40, -0.28, 0.87])  # high: short shadows
MAX_HOUSE = 40.0  # m: parts further than half of this from the house's middle cast no shadow
SUN_TEXELS, SKY_TEXELS = 1024, 320  # per side of the two maps
_NO_IDS = np.empty((0, 0), np.int32)


class PlainRenderer:
    """Draws `Shapes` in perspective or in parallel projection, [height, width, 3] uint8."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._nearness = np.empty((2 * height, padded(2 * width)), np.float32)
        self._ids = np.empty(self._nearness.shape, np.int32)
        self._sun_map = np.empty((SUN_TEXELS, SUN_TEXELS), np.float32)
        self._sky_map = np.empty((SKY_TEXELS, SKY_TEXELS), np.float32)
        self._scratch = np.empty(self._sky_map.shape, np.float32)
        self._spans = np.empty(2 * max(2 * height, SUN_TEXELS))
        self._work = np.empty(WORK_SIZE)

    def perspective(
        self, shapes: Shapes, eye: np.ndarray, axes: np.ndarray, fovy_deg: float
    ) -> np.ndarray:
        """Picture of a camera at `eye` [3] with MuJoCo camera matrix `axes` [9]."""
        return self.perspectives(shapes, [(eye, axes, fovy_deg)])[0]

    def perspectives(
        self, shapes: Shapes, cameras: Sequence[tuple[np.ndarray, np.ndarray, float]]
    ) -> list[np.ndarray]:
        """Pictures of several cameras, (eye, axes, fovy_deg) each, which share their shadows."""
        maps, pictures, view = self._draw_maps(shapes), [], np.empty(VIEW_SIZE)
        for eye, axes, fovy_deg in cameras:
            fill_view(view, eye, axes, fovy_deg, 2 * self.width, 2 * self.height, FAR)
            pictures.append(self._draw(shapes, view, False, maps))
        return pictures

    def owners(
        self, shapes: Shapes, eye: np.ndarray, axes: np.ndarray, fovy_deg: float
    ) -> np.ndarray:
        """What each pixel's centre shows, [height, width]: geoms first, then parts; -1: nothing."""
        view = np.empty(VIEW_SIZE)
        fill_view(view, eye, axes, fovy_deg, self.width, self.height, FAR)
        nearness = np.full((self.height, padded(self.width)), 1.0 / FAR, np.float32)
        ids = np.full(nearness.shape, -1, np.int32)
        self._rasterise(shapes, shapes.drawn, view, False, self.width, nearness, ids)
        self._triangles(shapes, shapes.alphas >= 1.0, view, False, self.width, nearness, ids)
        ids, count = ids[:, : self.width], len(shapes.types)
        is_face = ids >= count
        ids[is_face] = count + shapes.solids.part_of_face[ids[is_face] - count]
        return ids

    def from_above(
        self, shapes: Shapes, bounds: tuple[float, float, float, float], height: float
    ) -> np.ndarray:
        """Map of `bounds` (xmin, ymin, xmax, ymax), m, seen from `height`; +x right, +y up."""
        centre = np.array([(bounds[0] + bounds[2]) / 2, (bounds[1] + bounds[3]) / 2, height])
        view = _parallel_view(
            centre, np.array([0.0, 0.0, -1.0]), np.array([1.0, 0.0, 0.0]),
            bounds[2] - bounds[0], bounds[3] - bounds[1], 2 * self.width, 2 * self.height,
        )  # fmt: skip
        return self._draw(shapes, view, True, self._draw_maps(shapes))

    def _draw(
        self,
        shapes: Shapes,
        view: np.ndarray,
        is_parallel: bool,
        maps: tuple[np.ndarray, np.ndarray],
    ) -> np.ndarray:
        sun_view, sky_view = maps
        self._nearness.fill(-FAR if is_parallel else 1.0 / FAR)
        self._ids.fill(-1)
        self._rasterise(
            shapes, shapes.drawn, view, is_parallel, 2 * self.width, self._nearness, self._ids
        )
        self._triangles(
            shapes, shapes.alphas >= 1.0, view, is_parallel, 2 * self.width, self._nearness,
            self._ids,
        )  # fmt: skip
        picture = np.empty((self.height, self.width, 3), np.uint8)
        geoms, mesh, finish = shapes.kernel_records()
        paint(
            view, is_parallel, geoms, mesh, finish, self._nearness, self._ids, sun_view,
            self._sun_map, sky_view, self._sky_map, picture,
        )  # fmt: skip
        is_ghost = (shapes.alphas > 0.0) & (shapes.alphas < 1.0)
        if is_ghost.any() and not is_parallel:
            self._ids.fill(-1)
            self._triangles(shapes, is_ghost, view, False, 2 * self.width, self._nearness,
                            self._ids)  # fmt: skip
            add_ghosts(
                view, mesh, finish, shapes.alphas, len(shapes.types), self._nearness, self._ids,
                picture,
            )  # fmt: skip
        return picture

    def _draw_maps(self, shapes: Shapes) -> tuple[np.ndarray, np.ndarray]:
        """What the sun and the sky see; returns their views."""
        casts = (shapes.drawn != 0) & (shapes.types != PLANE)
        positions = shapes.positions[casts] if casts.any() else np.zeros((1, 3))
        reach = np.linalg.norm(shapes.sizes[casts], axis=1) if casts.any() else np.ones(1)
        middle = np.median(positions, axis=0)
        is_near = np.abs(positions - middle).max(axis=1) < MAX_HOUSE / 2
        low = (positions - reach[:, None])[is_near].min(axis=0)
        high = (positions + reach[:, None])[is_near].max(axis=0)
        if len(shapes.alphas):
            boxes = shapes.solids.boxes()[shapes.alphas >= 1.0]
            boxes = boxes[boxes[:, 0, 2] > PARKED_Z]
            low = np.minimum(low, boxes[:, 0].min(axis=0, initial=np.inf))
            high = np.maximum(high, boxes[:, 1].max(axis=0, initial=-np.inf))
        low = np.maximum(low, middle - MAX_HOUSE / 2)
        high = np.minimum(high, middle + MAX_HOUSE / 2)
        centre, corners = (low + high) / 2, (high - low) / 2

        # The rectangle across the sun's rays that holds the house's box.
        right = np.cross(-TO_SUN, [0.0, 0.0, 1.0])
        right /= np.linalg.norm(right)
        up = np.cross(right, -TO_SUN)
        sun_view = _parallel_view(
            centre + 0.5 * MAX_HOUSE * TO_SUN, -TO_SUN, right,
            2 * float(np.abs(right) @ corners) + 0.2, 2 * float(np.abs(up) @ corners) + 0.2,
            SUN_TEXELS, SUN_TEXELS,
        )  # fmt: skip
        sky_view = _parallel_view(
            np.array([centre[0], centre[1], high[2] + 1.0]), np.array([0.0, 0.0, -1.0]),
            np.array([1.0, 0.0, 0.0]), 2 * corners[0] + 0.2, 2 * corners[1] + 0.2, SKY_TEXELS,
            SKY_TEXELS,
        )  # fmt: skip
        drawn = casts.astype(np.uint8)
        for view, texels, depths in (
            (sun_view, SUN_TEXELS, self._sun_map),
            (sky_view, SKY_TEXELS, self._sky_map),
        ):
            depths.fill(-FAR)
            self._rasterise(shapes, drawn, view, True, texels, depths, _NO_IDS)
            self._triangles(shapes, shapes.alphas >= 1.0, view, True, texels, depths, _NO_IDS)
        # Where nothing stands: as low as the floor, not endlessly deep, before it is blurred.
        np.maximum(self._sky_map, -sky_view[2], out=self._sky_map)
        soften(self._sky_map, self._scratch)
        return sun_view, sky_view

    def _rasterise(self, shapes, drawn, view, is_parallel, width, nearness, ids) -> None:
        # always contiguous: numba would compile the kernels again for a strided part of an array
        spans = self._spans[: 2 * nearness.shape[0]].reshape(2, -1)
        rasterise(
            view, is_parallel, width, shapes.types, shapes.sizes, shapes.positions, shapes.matrices,
            drawn, nearness, ids, spans, self._work,
        )  # fmt: skip

    def _triangles(self, shapes, drawn, view, is_parallel, width, nearness, ids) -> None:
        solids = shapes.solids
        if drawn.any():
            draw_triangles(
                view, is_parallel, width, solids.points, solids.firsts, solids.faces,
                solids.part_of_face, drawn.astype(np.uint8), len(shapes.types), nearness, ids,
            )  # fmt: skip


def _parallel_view(
    eye: np.ndarray,
    forward: np.ndarray,
    right: np.ndarray,
    width: float,
    height: float,
    columns: int,
    rows: int,
) -> np.ndarray:
    """View of a rectangle of width x height (m) centred on `eye`."""
    view = np.empty(VIEW_SIZE)
    view[0:3], view[3:6], view[6:9], view[9:12] = eye, right, np.cross(right, forward), forward
    du, dv = width / columns, height / rows
    view[12:] = (0.5 - columns / 2) * du, du, (rows / 2 - 0.5) * dv, -dv, FAR
    return view


def map_height(bounds: tuple[float, float, float, float], width: int) -> int:
    """Rows of a map of `width` columns, even, as video encoders want it."""
    return max(2, 2 * round(width * (bounds[3] - bounds[1]) / (bounds[2] - bounds[0]) / 2))
