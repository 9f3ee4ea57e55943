"""Writes an apartment and its objects into the compiled model.

MuJoCo keeps derived quantities beside sizes and masses (bounding radii and boxes for the broad
phase, inverse weights for the constraint solver). They have closed forms for single boxes,
cylinders and spheres, so they are written here too; `mj_setConst` would give the same numbers at
fifty times the cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import mujoco
import numpy as np

from rearrange.sim.home import furniture as fur
from rearrange.sim.home.house import Layout
from rearrange.sim.home.objects import NUM_SLOTS, ObjectKind
from rearrange.sim.homes.kinds import NUM_EXTRAS
from rearrange.sim.homes.rooms import NUM_WALLS
from rearrange.sim.house_writer import HouseWriter
from rearrange.sim.model import CONDIM, PARKED_Z, SHAPES, WALL_HEIGHT, extra_body, object_body


class ApartmentWriter:
    """Knows where walls, furniture and objects live in the model's arrays."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self._model = model
        self._wall_bodies = np.array([model.body(f"wall_{i:02d}").id for i in range(NUM_WALLS)])
        self._wall_geoms = model.body_geomadr[self._wall_bodies]
        self._wall_nodes = model.body_bvhadr[self._wall_bodies]
        names = [*fur.PIECES, *(extra_body(i) for i in range(NUM_EXTRAS))]
        self._pieces = {name: model.body(name).id for name in names}
        self._house = HouseWriter(model)
        self._objects = np.array([model.body(object_body(slot)).id for slot in range(NUM_SLOTS)])
        self._parked_wall = model.geom_size[model.body_geomadr[self._wall_bodies[0]]].copy()

    def write_layout(self, layout: Layout) -> None:
        """Furniture and walls of `layout`; spare walls are parked below the floor."""
        model = self._model
        self._house.write(layout)
        bodies = np.array([self._pieces[name] for name in layout.pieces])
        _write_poses(model, bodies, np.array(list(layout.pieces.values())), 0.0)
        self._write_walls(layout.walls)

    def write_object(self, slot: int, kind: ObjectKind) -> None:
        """Turns the object of a slot into `kind`: shape, size, mass, colour and all that MuJoCo
        derives."""
        self.write_objects([slot], [kind])

    def write_objects(self, slots: Sequence[int], kinds: Sequence[ObjectKind]) -> None:
        """`write_object` for many slots, each array of the model written once."""
        if not len(slots):
            return
        model, bodies = self._model, self._objects[slots]
        rows = np.array([_object_numbers(kind) for kind in kinds])
        shapes = rows[:, 16:18].astype(np.int32)
        mass, inertia, inverse = rows[:, 6], rows[:, 7:10], rows[:, 10:12]
        geoms = model.body_geomadr[bodies]
        # MuJoCo's collision tables and the depth camera read a geom's type at every step: nothing
        # that depends on it is left over from compilation.
        model.geom_type[geoms], model.geom_condim[geoms] = shapes[:, 0], shapes[:, 1]
        model.geom_size[geoms] = rows[:, 0:3]
        model.geom_rgba[geoms, :3] = rows[:, 3:6]
        model.geom_rbound[geoms] = rows[:, 12]
        model.geom_aabb[geoms, 3:] = rows[:, 13:16]
        # A body of one geom has one node.
        model.bvh_aabb[model.body_bvhadr[bodies], 3:] = rows[:, 13:16]
        model.body_mass[bodies] = model.body_subtreemass[bodies] = mass
        # The principal axes need no sorting: body_iquat stays the identity, they are the geom's
        # own.
        model.body_inertia[bodies] = inertia
        model.body_invweight0[bodies] = inverse
        dofs = model.body_dofadr[bodies][:, None] + np.arange(3)
        model.dof_invweight0[dofs] = inverse[:, 0:1]
        model.dof_invweight0[dofs + 3] = inverse[:, 1:2]
        model.dof_M0[dofs] = mass[:, None]
        model.dof_M0[dofs + 3] = inertia

    def _write_walls(self, walls: np.ndarray) -> None:
        """Walls [N, 5] of a layout."""
        model, bodies, count = self._model, self._wall_bodies, len(walls)
        _write_poses(model, bodies[:count], walls[:, [0, 1, 4]], WALL_HEIGHT / 2)
        spare = np.arange(count, len(bodies))
        model.body_pos[bodies[spare]] = np.stack(
            [2.0 * spare, np.zeros(len(spare)), np.full(len(spare), PARKED_Z)], axis=1
        )
        sizes = np.tile(self._parked_wall, (len(bodies), 1))
        sizes[:count, :2], sizes[:count, 2] = walls[:, 2:4], WALL_HEIGHT / 2
        model.geom_size[self._wall_geoms] = sizes
        model.geom_rbound[self._wall_geoms] = np.linalg.norm(sizes, axis=1)
        model.geom_aabb[self._wall_geoms, 3:] = sizes
        model.bvh_aabb[self._wall_nodes, 3:] = sizes  # a body of one geom has one node


def _write_poses(
    model: mujoco.MjModel, bodies: np.ndarray, poses: np.ndarray, height: float
) -> None:
    """Bodies at poses [N, 3] of x, y (m) and yaw (rad)."""
    turn = np.zeros((len(bodies), 4))
    turn[:, 0], turn[:, 3] = np.cos(poses[:, 2] / 2), np.sin(poses[:, 2] / 2)
    model.body_pos[bodies, :2], model.body_pos[bodies, 2] = poses[:, :2], height
    model.body_quat[bodies] = turn


def _bounds(shape: str, size) -> tuple[float, tuple[float, ...]]:
    """Bounding radius and half sizes of the bounding box of a geom, m."""
    if shape == "box":
        return float(np.linalg.norm(size)), tuple(float(v) for v in size)
    if shape == "cylinder":
        return float(np.hypot(size[0], size[1])), (size[0], size[0], size[1])
    return float(size[0]), (size[0],) * 3


@lru_cache(maxsize=64)
def _object_numbers(kind: ObjectKind) -> tuple[float, ...]:
    """[18]: size 3, colour 3, mass, inertia 3, inverse weights 2, bounding radius and box 3,
    MuJoCo's geom type and contact dimension (condim)."""
    inertia = kind.inertia()
    radius, half = _bounds(kind.shape, kind.size)
    about = float(np.mean(1.0 / inertia))
    contact = (int(SHAPES[kind.shape]), CONDIM[kind.shape])
    mass = (kind.mass, *inertia, 1.0 / kind.mass, about)
    return (*kind.size, *kind.rgb, *mass, radius, *half, *contact)
