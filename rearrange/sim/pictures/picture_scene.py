"""What a picture shows: the geoms as arrays, without those that would hide the room, and free
cameras.

Legend: G geoms, marks included; N parts of visuals; O owners, geoms and then parts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from rearrange.sim.pictures.surface_kernel import Faces, Finish, Geoms
from rearrange.sim.pictures.triangles import Solids, Visuals
from rearrange.sim.robot.depth_kernel import BOX, CYLINDER, PARKED_Z, SPHERE, SUPPORTED_TYPES

PICTURE_GROUPS = (0, 1, 2, 3, 5)  # house, articulated parts, objects, robot, for people only
HOUSE_GROUPS = (0, 1)  # what may be cut or left out to show the room
GREY = (0.5, 0.5, 0.5, 1.0)  # MuJoCo's colour for geoms that were given none ...
GROUP_COLOURS = {  # ... and ours, by group
    0: (0.80, 0.77, 0.72),
    1: (0.66, 0.71, 0.76),
    2: (0.85, 0.52, 0.25),
    3: (0.55, 0.60, 0.68),
}
STUMP = 0.1  # m: of a wall that is cut away
_BARE = Solids((), ())
TALL = 1.3  # m: what stands between camera and target and is lower stays in the picture


@dataclass(frozen=True)
class FreeCamera:
    """A camera that is not part of the model; angles as MuJoCo's viewer has them."""

    lookat: tuple[float, float, float]
    distance: float = 3.0
    azimuth_deg: float = 90.0
    """Direction of view in the floor plane: 0 looks along +x, 90 along +y."""
    elevation_deg: float = -35.0
    """Below 0 it looks down."""
    fovy_deg: float = 45.0
    """Vertical field of view."""

    def pose(self) -> tuple[np.ndarray, np.ndarray]:
        """Position [3] and MuJoCo camera matrix [9] (its columns are right, up, backward)."""
        azimuth, elevation = math.radians(self.azimuth_deg), math.radians(self.elevation_deg)
        level = np.array([math.cos(azimuth), math.sin(azimuth), 0.0])
        forward = math.cos(elevation) * level + math.sin(elevation) * np.array([0.0, 0.0, 1.0])
        right = np.array([level[1], -level[0], 0.0])
        axes = np.stack([right, np.cross(right, forward), -forward], axis=1)
        return np.asarray(self.lookat, float) - self.distance * forward, axes.ravel()


@dataclass(frozen=True)
class Mark:
    """A coloured ball put into a picture, for example at a goal. Drawn by "plain" only."""

    pos: tuple[float, float, float]
    radius: float = 0.05
    """m"""
    rgb: tuple[float, float, float] = (0.15, 0.75, 0.30)


@dataclass
class Shapes:
    """The geoms of one picture, as the rasteriser takes them."""

    types: np.ndarray  # [G] int32
    sizes: np.ndarray  # [G, 3]
    positions: np.ndarray  # [G, 3]
    matrices: np.ndarray  # [G, 9]
    colours: np.ndarray  # [G, 3]
    drawn: np.ndarray  # [G] uint8
    is_cut: np.ndarray  # [G] uint8: cut open at the top
    solids: Solids
    alphas: np.ndarray  # [N]
    glow: np.ndarray  # [N, 3]

    def kernel_records(self) -> tuple[Geoms, Faces, Finish]:
        """The same as `paint` takes it."""
        count, solids = len(self.types), self.solids
        plain = np.zeros((count, 2))
        return (
            Geoms(self.types, self.sizes, self.positions, self.matrices),
            Faces(
                solids.points, solids.normals, solids.uvs, solids.faces, solids.part_of_face,
                solids.texels, solids.texture_table, solids.texels_a_metre,
            ),
            Finish(
                np.concatenate([self.colours, solids.colours]),
                np.concatenate([self.is_cut, np.zeros(len(self.alphas), np.uint8)]),
                np.concatenate([plain, solids.finish]),
                np.concatenate([np.full(count, -1, np.int32), solids.texture_of]),
                np.concatenate([np.zeros((count, 3)), self.glow]),
            ),
        )  # fmt: skip


def collect_shapes(
    model: mujoco.MjModel,
    data: mujoco.MjData,
    *,
    geomgroups: Sequence[int] = PICTURE_GROUPS,
    hidden: Sequence[int] = (),
    cut_height: float | None = None,
    marks: Sequence[Mark] = (),
    visuals: Visuals | None = None,
) -> Shapes:
    """Copy the geoms that a picture shows.

    Args:
        hidden: indices of geoms to leave out.
        cut_height: m; upright parts of the house end there, others above it are left out.
        visuals: put on what they replace, as it stands now.
    """
    count, extra = model.ngeom, len(marks)
    shapes = Shapes(
        types=np.concatenate([model.geom_type, np.full(extra, SPHERE, np.int32)]),
        sizes=np.concatenate([model.geom_size, np.zeros((extra, 3))]),
        positions=np.concatenate([data.geom_xpos, np.zeros((extra, 3))]),
        matrices=np.concatenate([data.geom_xmat, np.zeros((extra, 9))]),
        colours=np.concatenate([_colours(model), np.zeros((extra, 3))]),
        drawn=np.ones(count + extra, np.uint8),
        is_cut=np.zeros(count + extra, np.uint8),
        solids=_BARE if visuals is None else visuals.solids,
        alphas=np.ones(0) if visuals is None else visuals.alphas.copy(),
        glow=np.zeros((0, 3)) if visuals is None else visuals.glow,
    )
    shapes.drawn[:count] = (
        np.isin(model.geom_group, geomgroups)
        & np.isin(model.geom_type, SUPPORTED_TYPES)
        & (model.geom_rgba[:, 3] > 0.0)
        & (data.geom_xpos[:, 2] > PARKED_Z)
    )
    shapes.drawn[list(hidden)] = 0
    if visuals is not None:
        shapes.drawn[visuals.replaced] = 0
        visuals.solids.place(data)
    for index, mark in enumerate(marks, start=count):
        shapes.sizes[index, 0], shapes.positions[index] = mark.radius, mark.pos
        shapes.matrices[index], shapes.colours[index] = np.eye(3).ravel(), mark.rgb
    if cut_height is not None:
        _cut(shapes, np.flatnonzero(np.isin(model.geom_group, HOUSE_GROUPS)), cut_height)
    return shapes


def hide_between(
    shapes: Shapes, house: np.ndarray, eye: np.ndarray, lookat: np.ndarray, reach: float = 0.35
) -> list[int]:
    """Leave out tall boxes of the house (indices `house`) between `eye` and about `lookat`; which.

    With visuals on, a stump of each stays, as of a wall in a doll's house.
    """
    hidden = []
    axis = (lookat - eye) / max(float(np.linalg.norm(lookat - eye)), 1e-9)
    side = np.cross(axis, [0.0, 0.0, 1.0])
    length = np.linalg.norm(side)
    side = side / length if length > 1e-6 else np.array([1.0, 0.0, 0.0])
    targets = [lookat + reach * a * side + [0.0, 0.0, b] for a in (-1, 0, 1) for b in (-0.2, 0.4)]
    for g in house:
        if shapes.types[g] != BOX or not shapes.drawn[g]:
            continue
        matrix = shapes.matrices[g].reshape(3, 3)
        top = shapes.positions[g, 2] + np.abs(matrix[2]) @ shapes.sizes[g]
        if top < TALL:
            continue
        start = (eye - shapes.positions[g]) @ matrix
        for target in targets:
            step = (target - eye) @ matrix
            step = np.where(np.abs(step) < 1e-9, 1e-9, step)
            near, far = (-shapes.sizes[g] - start) / step, (shapes.sizes[g] - start) / step
            enter, leave = np.minimum(near, far).max(), np.maximum(near, far).min()
            if max(enter, 0.0) < min(leave, 0.97):
                hidden.append(int(g))
                break
    shapes.drawn[hidden] = 0
    if len(shapes.alphas):
        shapes.drawn[hidden] = 1
        _cut(shapes, np.array(hidden, int), STUMP)
    return hidden


def _cut(shapes: Shapes, house: np.ndarray, height: float) -> None:
    for g in house:
        z, matrix, size = shapes.positions[g, 2], shapes.matrices[g].reshape(3, 3), shapes.sizes[g]
        axis = int(np.argmax(np.abs(matrix[2])))
        is_upright = abs(matrix[2, axis]) > 0.999
        place = axis
        if shapes.types[g] == CYLINDER:
            is_upright, place = is_upright and axis == 2, 1
        elif shapes.types[g] != BOX:
            is_upright = False
        if not is_upright:
            shapes.drawn[g] &= z <= height
        elif z - size[place] >= height:
            shapes.drawn[g] = 0
        elif z + size[place] > height:
            half = (height - (z - size[place])) / 2
            shapes.positions[g, 2], size[place], shapes.is_cut[g] = height - half, half, 1


def _colours(model: mujoco.MjModel) -> np.ndarray:
    """[ngeom, 3]: a geom's own colour, else its material's, else its group's."""
    colours = model.geom_rgba[:, :3].astype(np.float64)
    is_plain = np.all(np.abs(model.geom_rgba - GREY) < 1e-6, axis=1)
    for g in np.flatnonzero(is_plain):
        material = model.geom_matid[g]
        if material >= 0:
            colours[g] = model.mat_rgba[material, :3]
        else:
            colours[g] = GROUP_COLOURS.get(int(model.geom_group[g]), GREY[:3])
    return colours
