"""Writes an apartment and its objects into the compiled model, as numbers.

MuJoCo keeps derived quantities beside sizes and masses (bounding radii and boxes for the broad phase, inverse
weights for the constraint solver). They have closed forms for single boxes, cylinders and spheres, so they are
written here too; `mj_setConst` would give the same numbers at fifty times the cost.
"""

from __future__ import annotations

import mujoco
import numpy as np

from rearrange.sim import furniture as fur
from rearrange.sim.layout import Layout
from rearrange.sim.model import NUM_WALLS, PARKED_Z, WALL_HEIGHT, object_body
from rearrange.sim.objects import NUM_SLOTS, ObjectKind


class ApartmentWriter:
    """Knows where walls, furniture and objects live in the model's arrays."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self._model = model
        self._wall_bodies = [model.body(f"wall_{i:02d}").id for i in range(NUM_WALLS)]
        self._pieces = {name: model.body(name).id for name in fur.PIECES}
        self._objects = [model.body(object_body(slot)).id for slot in range(NUM_SLOTS)]
        self._parked_wall = model.geom_size[model.body_geomadr[self._wall_bodies[0]]].copy()

    def write_layout(self, layout: Layout) -> None:
        """Furniture and walls of `layout`; spare walls are parked below the floor."""
        model = self._model
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
        """Turns the object of a slot into `kind`: size, colour, mass and all that follows from them."""
        model, body = self._model, self._objects[slot]
        geom = model.body_geomadr[body]
        self._write_size(body, geom, kind.shape, kind.size)
        model.geom_rgba[geom, :3] = kind.rgb
        inertia = kind.inertia()
        model.body_mass[body] = model.body_subtreemass[body] = kind.mass
        model.body_inertia[body] = inertia
        # MuJoCo sorts nothing here: body_iquat stays the identity, the axes are the geom's own.
        across, about = 1.0 / kind.mass, float(np.mean(1.0 / inertia))
        model.body_invweight0[body] = (across, about)
        dof = model.body_dofadr[body]
        model.dof_invweight0[dof : dof + 3] = across
        model.dof_invweight0[dof + 3 : dof + 6] = about
        model.dof_M0[dof : dof + 3] = kind.mass
        model.dof_M0[dof + 3 : dof + 6] = inertia

    def _write_size(self, body: int, geom: int, shape: str, size) -> None:
        model = self._model
        model.geom_size[geom] = size
        if shape == "box":
            half, radius = np.asarray(size, dtype=float), float(np.linalg.norm(size))
        elif shape == "cylinder":
            half, radius = np.array([size[0], size[0], size[1]]), float(np.hypot(size[0], size[1]))
        else:
            half, radius = np.full(3, float(size[0])), float(size[0])
        model.geom_rbound[geom] = radius
        model.geom_aabb[geom, 3:] = half
        node = model.body_bvhadr[body]  # a body of one geom has one node
        model.bvh_aabb[node, 3:] = half
