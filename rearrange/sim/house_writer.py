"""Writes furniture of other sizes into the compiled model.

What MuJoCo derives from sizes at compile time (bounding boxes and their trees, inertia of doors,
inverse weights) has closed forms for boxes that are axis-aligned in their body, and is written
along with them. HAB's homes get back exactly the numbers that were compiled.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import mujoco
import numpy as np

from rearrange.sim.home import furniture as fur
from rearrange.sim.home.furniture import Box
from rearrange.sim.home.house import Layout
from rearrange.sim.homes.kinds import NUM_EXTRAS
from rearrange.sim.model import PARKED_Z, extra_body

_BURIED = (0.0, 0.0, PARKED_Z), (0.01, 0.01, 0.01)  # a box that a piece does not need
_NONE = mujoco.mjtSameFrame.mjSAMEFRAME_NONE
_GEOM = ("geom_pos", "geom_size", "geom_rgba", "geom_rbound", "geom_aabb", "geom_sameframe")
_BODY = ("body_pos", "body_quat", "body_ipos", "body_iquat", "body_inertia", "body_invweight0",
         "body_sameframe")  # fmt: skip
_SITE, _DOF = ("site_pos", "site_sameframe"), ("dof_invweight0", "dof_M0")
FRONTS = extra_body(NUM_EXTRAS - 1)  # the body of the counter's plain fronts


class HouseWriter:
    """Knows the bodies of the house and what was compiled for them."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self._model = model
        names = [*fur.PIECES, *fur.ARTICULATED_JOINTS]
        names += [extra_body(i) for i in range(NUM_EXTRAS)]
        self._body = {name: model.body(name).id for name in names}
        bodies = np.array(list(self._body.values()))
        geoms = np.flatnonzero(np.isin(model.geom_bodyid, bodies))
        joints = [model.joint(name) for name in fur.ARTICULATED_JOINTS]
        dofs = [int(joint.dofadr[0]) for joint in joints]
        self._site = {j: model.site(f"{j}_marker").id for j in fur.MARKER_OF_JOINT}
        trees = [model.body_bvhadr[b] + np.arange(model.body_bvhnum[b]) for b in bodies]
        self._where: dict[str, Any] = dict.fromkeys(_GEOM, geoms) | dict.fromkeys(_BODY, bodies)
        self._where |= dict.fromkeys(_SITE, list(self._site.values()))
        self._where |= dict.fromkeys(_DOF, dofs)
        self._where |= {"bvh_aabb": np.concatenate(trees), "jnt_axis": [j.id for j in joints]}
        self._trees = {name: _tree(model, body) for name, body in self._body.items()}
        self._compiled = {name: getattr(model, name).copy() for name in self._where}
        self._is_compiled = True

    def write(self, layout: Layout) -> None:
        """Boxes and colours of all furniture; what a home does not have is parked below the
        floor."""
        is_hab = layout.shapes is fur.PIECES
        if is_hab and self._is_compiled:
            return
        numbers = self._compiled if is_hab else _numbers(self, layout)
        for name, where in self._where.items():
            getattr(self._model, name)[where] = numbers[name][where]
        self._is_compiled = is_hab

    def numbers(self, layout: Layout) -> dict[str, np.ndarray]:
        """The complete arrays of the model for a home, by name."""
        arrays = {name: array.copy() for name, array in self._compiled.items()}
        draft = _Draft(self._model, self._body, self._site, self._trees, arrays)
        missing = [name for name in fur.PIECES if name not in layout.pieces]
        for number, name in enumerate(missing):
            arrays["body_pos"][self._body[name]] = (3.0 * number, 10.0, PARKED_Z)
        for name in layout.pieces:
            draft.write_boxes(name, layout.shapes[name].boxes)
        draft.write_counter(layout)
        draft.write_fridge(layout)
        return arrays


def _tree(model: mujoco.MjModel, body: int) -> tuple[int, list[tuple[int, int, int]]]:
    """A body's tree of boxes: address of its first node; of each its box, or its two children."""
    first, count = int(model.body_bvhadr[body]), int(model.body_bvhnum[body])
    geom = int(model.body_geomadr[body])
    nodes = []
    for node in range(first, first + count):
        leaf = int(model.bvh_nodeid[node])
        one, other = (int(child) for child in model.bvh_child[node])
        nodes.append((leaf - geom if leaf >= 0 else -1, one, other))
    return first, nodes


@lru_cache(maxsize=8)  # some 60 KB each; the worlds of a process are alike
def _numbers_of(layout: Layout) -> list[dict[str, np.ndarray]]:
    return []


def _numbers(writer: HouseWriter, layout: Layout) -> dict[str, np.ndarray]:
    """`writer.numbers`, made once for the worlds of a process, whose models are all alike."""
    found = _numbers_of(layout)
    if not found:
        found.append(writer.numbers(layout))
    return found[0]


class _Draft:
    """The model's arrays while they are filled in."""

    def __init__(self, model, body: dict[str, int], site: dict[str, int], trees, arrays) -> None:
        self._model, self._body, self._site, self._arrays = model, body, site, arrays
        self._trees = trees

    def _geoms(self, name: str) -> slice:
        body = self._body[name]
        first = int(self._model.body_geomadr[body])
        return slice(first, first + int(self._model.body_geomnum[body]))

    def write_boxes(self, name: str, boxes: tuple[Box, ...]) -> None:
        """A body's boxes in its frame; those that are left over go below the floor."""
        geoms = self._geoms(name)
        spare = geoms.stop - geoms.start - len(boxes)
        rows = [(box.pos, box.half) for box in boxes] + [_BURIED] * spare
        self._arrays["geom_rgba"][geoms.start : geoms.stop - spare, :3] = [b.rgb for b in boxes]
        self._write_geoms(name, geoms, rows)

    def _write_geoms(self, name: str, geoms: slice, rows) -> None:
        """Centres and half sizes, N pairs of three, of all boxes of a body."""
        arrays, body = self._arrays, self._body[name]
        rows = np.array(rows)
        centres, halves = rows[:, 0], rows[:, 1]
        arrays["geom_pos"][geoms], arrays["geom_size"][geoms] = centres, halves
        arrays["geom_rbound"][geoms] = np.sqrt((halves**2).sum(axis=1))
        arrays["geom_aabb"][geoms, 3:] = halves
        arrays["geom_sameframe"][geoms] = _NONE
        # The tree of boxes is in the body's inertial frame.
        centres = centres - arrays["body_ipos"][body]
        if arrays["body_iquat"][body, 0] != 1.0:
            turn = np.zeros(9)
            mujoco.mju_quat2Mat(turn, arrays["body_iquat"][body])
            turn = turn.reshape(3, 3)
            centres, halves = centres @ turn, halves @ np.abs(turn)
        first, nodes = self._trees[name]
        ends = np.concatenate([centres - halves, centres + halves], axis=1).tolist()
        boxes: list = [None] * len(nodes)
        for node in range(len(nodes) - 1, -1, -1):  # children come after their parents
            leaf, one, other = nodes[node]
            if leaf >= 0:
                boxes[node] = ends[leaf]
            else:
                a, b, c, d, e, f = boxes[one]
                u, v, w, x, y, z = boxes[other]
                boxes[node] = (
                    a if a < u else u, b if b < v else v, c if c < w else w,
                    d if d > x else x, e if e > y else y, f if f > z else z,
                )  # fmt: skip
        found = np.array(boxes)
        tree = arrays["bvh_aabb"][first : first + len(nodes)]
        tree[:, :3], tree[:, 3:] = (
            (found[:, :3] + found[:, 3:]) / 2,
            (found[:, 3:] - found[:, :3]) / 2,
        )

    def _write_parts(self, joint: str, boxes, rgb) -> None:
        geoms = self._geoms(joint)
        self._arrays["geom_rgba"][geoms.start, :3] = rgb  # the front comes first
        self._write_geoms(joint, geoms, list(boxes.values()))
        if joint in self._site:
            site = self._site[joint]
            self._arrays["site_pos"][site] = boxes["handle"][0]
            self._arrays["site_sameframe"][site] = _NONE

    def write_counter(self, layout: Layout) -> None:
        """Its drawers, and plain fronts where it has none."""
        arrays, counter = self._arrays, layout.counter
        for number, joint in enumerate(fur.DRAWERS):
            body = self._body[joint]
            if joint not in counter.drawers:
                arrays["body_pos"][body] = (0.0, 2.0 * number, PARKED_Z)
                continue
            y, bottom, top = counter.drawers[joint]
            arrays["body_pos"][body] = (0.0, y, (bottom + top) / 2)
            boxes = fur.drawer_boxes(bottom, top, counter.half_widths[joint])
            self._write_parts(joint, boxes, counter.rgb)
        if counter.fronts:
            x, y, yaw = layout.pieces["counter"]
            self.write_boxes(FRONTS, counter.fronts)
            arrays["body_pos"][self._body[FRONTS]] = (x, y, 0.0)
            arrays["body_quat"][self._body[FRONTS]] = (np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2))

    def write_fridge(self, layout: Layout) -> None:
        """Its doors, with what they weigh and how they turn."""
        model, arrays, fridge = self._model, self._arrays, layout.fridge
        for joint, (bottom, top, mass) in fridge.doors.items():
            body, boxes = self._body[joint], fur.door_boxes(joint, fridge)
            arrays["body_pos"][body] = (*fridge.hinge, (bottom + top) / 2)
            arrays["jnt_axis"][model.body_jntadr[body]] = (0.0, 0.0, fridge.side)
            # A door only turns about its hinge, so products of inertia do not matter.
            parts = [(np.array(pos), np.array(half)) for pos, half in boxes.values()]
            masses = [mass, fur.HANDLE_MASS][: len(parts)]
            total = sum(masses)
            moments = (m * pos for m, (pos, _) in zip(masses, parts, strict=True))
            middle = sum(moments, np.zeros(3)) / total
            inertia = np.zeros(3)
            for m, (pos, half) in zip(masses, parts, strict=True):
                away = pos - middle
                inertia += m * ((half @ half - half**2) / 3 + away @ away - away**2)
            arrays["body_ipos"][body], arrays["body_iquat"][body] = middle, (1.0, 0.0, 0.0, 0.0)
            arrays["body_inertia"][body], arrays["body_sameframe"][body] = inertia, _NONE
            lever = middle[0] ** 2 + middle[1] ** 2
            about = inertia[2] + total * lever
            dof = model.body_dofadr[body]
            arrays["dof_M0"][dof], arrays["dof_invweight0"][dof] = about, 1.0 / about
            arrays["body_invweight0"][body] = lever / about / 3, 1.0 / about / 3
            self._write_parts(joint, boxes, fridge.rgb)
