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
        self._wall_bodies = [model.body(f"wall_{i:02d}").id for i in range(NUM_WALLS)]
        names = [*fur.PIECES, *(extra_body(i) for i in range(NUM_EXTRAS))]
        self._pieces = {name: model.body(name).id for name in names}
        self._house = HouseWriter(model)
        self._objects = np.array([model.body(object_body(slot)).id for slot in range(NUM_SLOTS)])
        self._parked_wall = model.geom_size[model.body_geomadr[self._wall_bodies[0]]].copy()

    def write_layout(self, layout: Layout) -> None:
        """Furniture and walls of `layout`; spare walls are parked below the floor."""
        model = self._model
        self._house.write(layout)
        for name, (x, y, yaw) in layout.pieces.items():
            body = self._pieces[name]
            model.body_pos[body] = (x, y, 0.0)
            model.body_quat[body] = (np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2))
        for i, body in enumerate(self._wall_bodies):
            geom = model.body_geomadr[body]
            if i < len(layout.walls):
                x, y, hx, hy, yaw = layout.walls[i]
                model.body_pos[body] = (x, y, WALL_HEIGHT / 2)
                model.body_quat[body] = (np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2))
                self._write_size(body, geom, "box", (hx, hy, WALL_HEIGHT / 2))
            else:
                model.body_pos[body] = (2.0 * i, 0.0, PARKED_Z)
                self._write_size(body, geom, "box", self._parked_wall)

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

    def _write_size(self, body: int, geom: int, shape: str, size) -> None:
        model = self._model
        radius, half = _bounds(shape, size)
        model.geom_size[geom] = size
        model.geom_rbound[geom] = radius
        model.geom_aabb[geom, 3:] = half
        model.bvh_aabb[model.body_bvhadr[body], 3:] = half  # a body of one geom has one node


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
