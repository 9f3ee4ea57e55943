"""The robot's depth camera: planar depth of MuJoCo primitives, rendered on the CPU, without OpenGL.

A 128 x 128 image of a furnished apartment takes a fraction of a millisecond on one core. The value
is the distance along the optical axis (as Habitat's sensor and an OpenGL depth buffer have it), not
along the pixel's ray. What is seen equals MuJoCo's `mj_multiRay`, sampled at pixel centres: also
from inside a solid, whose far wall is then seen.
"""

from __future__ import annotations

import math

import mujoco
import numpy as np

from rearrange.sim.native.addresses import Table, address_of
from rearrange.sim.robot import depth_kernel as kernel
from rearrange.sim.robot.depth_kernel import (
    BLOCK,
    SUPPORTED_TYPES,
    VIEW_SIZE,
    WORK_SIZE,
    write_view,
)

_FLOAT32 = np.dtype(np.float32)
VISIBLE_GROUPS = (0, 1, 2, 3)  # geom groups: house, articulated parts, objects, robot


class DepthCamera:
    """A square depth image through one of the model's cameras.

    Args:
        camera: name or index; its vertical field of view is the model's `cam_fovy`.
        size: pixels per side.
        max_depth: m; what lies further counts as that far.
        geomgroups: the geom groups that are seen; transparency is ignored.

    Raises:
        ValueError: no such camera, a size or depth that is not positive, or a visible geom that is
        no primitive.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        camera: str | int = "head",
        size: int = 128,
        max_depth: float = 10.0,
        geomgroups: tuple[int, ...] = VISIBLE_GROUPS,
    ) -> None:
        if size < 1 or not max_depth > 0.0:
            raise ValueError(f"size and max_depth must be positive, got {size} and {max_depth}")
        self.camera = camera_index(model, camera)
        self.size, self.max_depth = size, max_depth
        self._is_seen = np.isin(np.arange(mujoco.mjNGROUP), geomgroups).astype(np.uint8)
        self._drawn = self._is_seen[model.geom_group]
        check_primitives(model, self._drawn)
        self._fovy, self._seen_fovy = model.cam_fovy, math.nan
        self._no_ids = np.empty((0, 0), np.int32)
        self._nearness = np.empty((size, padded(size)), np.float32)
        self._spans, self._work = np.empty((2, size)), np.empty(WORK_SIZE)
        self._view, self._numbers = np.empty(VIEW_SIZE), np.array([0.0, max_depth])
        self._model = model
        self._table = Table(kernel.TABLE_SIZE)

    def render(self, data: mujoco.MjData, out: np.ndarray | None = None) -> np.ndarray:
        """Depth divided by `max_depth`, [size, size, 1] float32 in [0, 1]; row 0 is the top, column
        0 the left.

        `data` needs current kinematics (`mj_kinematics` and `mj_camlight`, part of every step).
        `out`, if given, is a C-contiguous float32 array of that shape and is filled.
        """
        if out is None:
            out = np.empty((self.size, self.size, 1), np.float32)
        self.begin(data, out)
        kernel.draw_pictures(self._table.alone)
        return out

    def begin(self, data: mujoco.MjData, out: np.ndarray) -> int:
        """`render` but for the drawing itself, by `depth_kernel.draw_pictures`, of any number of
        pictures at once, to which goes what this returns.

        Raises ValueError for an `out` of another shape or type.
        """
        if out.shape != (self.size, self.size, 1) or out.dtype != _FLOAT32:
            raise ValueError(f"out must be [{self.size}, {self.size}, 1] float32, got {out.shape}")
        if data is not self._table.owner:
            self._look_at(data)
        fovy = self._fovy[self.camera]
        if fovy != self._seen_fovy:
            self._seen_fovy = fovy
            self._numbers[kernel.PIXEL] = pixel_side(fovy, self.size)
        self._table.values[kernel.OUT] = address_of(out)
        return self._table.address

    def _look_at(self, data: mujoco.MjData) -> None:
        """The table for other data. Its arrays are MuJoCo's own: all may change between two
        images."""
        model = self._model
        arrays = (
            self._numbers, data.cam_xpos[self.camera], data.cam_xmat[self.camera], model.geom_type,
            model.geom_size, data.geom_xpos, data.geom_xmat, model.geom_group, self._is_seen,
            self._drawn, self._nearness, self._no_ids, self._spans, self._work, self._view,
        )  # fmt: skip
        sizes = model.ngeom, len(self._is_seen), self.size, self._nearness.shape[1]
        self._table.values[: kernel.OUT] = (*sizes, *map(address_of, arrays))
        self._table.owner, self._fovy = data, model.cam_fovy


def camera_index(model: mujoco.MjModel, camera: str | int) -> int:
    """Index of the model's camera of that name (or the index itself, checked)."""
    index: int = (
        mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, camera)
        if isinstance(camera, str)
        else camera
    )
    if not 0 <= index < model.ncam:
        known = [model.cam(i).name for i in range(model.ncam)]
        raise ValueError(
            f"camera must be one of {known} or an index below {model.ncam}, got {camera!r}"
        )
    return index


def check_primitives(model: mujoco.MjModel, drawn: np.ndarray) -> None:
    """Refuse meshes and height fields, which the rasteriser cannot draw."""
    for index in np.flatnonzero(drawn):
        if model.geom_type[index] not in SUPPORTED_TYPES:
            kind = mujoco.mjtGeom(int(model.geom_type[index])).name
            name = model.geom(index).name
            raise ValueError(f"visible geoms must be primitives, got {kind} for {name!r}")


def fill_view(
    view: np.ndarray,
    eye: np.ndarray,
    axes: np.ndarray,
    fovy: float,
    width: int,
    height: int,
    far: float,
) -> None:
    """Write a perspective camera into `view`.

    Args:
        axes: [9], MuJoCo's camera matrix: its columns are right, up and backward in the world.
        fovy: vertical field of view, degrees.
        far: m, beyond it nothing is drawn.
    """
    write_view(view, eye, axes, pixel_side(fovy, height), width, height, far)


def pixel_side(fovy: float, height: int) -> float:
    """Side (m) of a pixel at 1 m, of a picture of `height` pixels and so many degrees."""
    return 2.0 * math.tan(math.radians(fovy) / 2.0) / height


def padded(width: int) -> int:
    """Columns to store for `width`: whole SIMD blocks."""
    return -(-width // BLOCK) * BLOCK
