"""Walls and floor: skirting, windows, pictures, a carpet."""

from __future__ import annotations

import mujoco
import numpy as np

from rearrange.sim.home.house import Layout
from rearrange.sim.visuals import prints
from rearrange.sim.visuals.meshes import sheet
from rearrange.sim.visuals.visual_builder import VisualBuilder

SKIRTING, FRAME = (0.96, 0.95, 0.92), (0.95, 0.94, 0.91)
WINDOW_HALF, WINDOW_Z = (0.60, 0.55), 1.50  # m
PICTURE_HALF, PICTURE_Z = (0.36, 0.27), 1.45
HIGH = {"fridge", "shelf", "plant", "wardrobe"}  # what would stand before a window


def add_room(visual_builder: VisualBuilder, model: mujoco.MjModel, layout: Layout) -> None:
    """What hangs on the walls of a home and lies on its floor."""
    for number, wall in enumerate(layout.walls):
        x, y, hx, hy, _ = wall
        body = model.body(f"wall_{number:02d}").id
        geom = int(model.body_geomadr[body])
        low = -float(model.geom_size[geom, 2])  # of the floor, in the wall's frame
        visual_builder.box(
            body, (0, 0, low + 0.045), (hx + 0.012, hy + 0.012, 0.045), SKIRTING, 0.004
        )
        _add_wall(visual_builder, body, geom, layout, number, low)
    _carpet(visual_builder, layout)


def _add_wall(
    visual_builder, body: int, geom: int, layout: Layout, number: int, low: float
) -> None:
    """Windows in outer walls, pictures on inner ones, where nothing high stands before them."""
    x, y, hx, hy, yaw = layout.walls[number]
    if abs(np.sin(2 * yaw)) > 1e-6:
        return
    axis = 0 if hx >= hy else 1  # along the wall, in its frame
    half, thick = max(hx, hy), min(hx, hy)
    along = (
        np.array([np.cos(yaw), np.sin(yaw)]) if axis == 0 else np.array([-np.sin(yaw), np.cos(yaw)])
    )
    across = np.array([-along[1], along[0]])
    middle = np.array(
        [(layout.bounds[0] + layout.bounds[2]) / 2, (layout.bounds[1] + layout.bounds[3]) / 2]
    )
    away = float((middle - (x, y)) @ across)
    edge = _distance_to_bounds(layout, x, y, axis, yaw)
    is_outer = edge < 0.2
    size, z = (WINDOW_HALF, WINDOW_Z) if is_outer else (PICTURE_HALF, PICTURE_Z)
    gap = 2.6 if is_outer else 2.2
    count = max(int(2 * half / gap), 0)
    for k in range(count):
        place = -half + (2 * k + 1) * half / count
        spot = np.array([x, y]) + place * along
        for side in (np.sign(away) or 1.0,) if is_outer else (-1.0, 1.0):
            if not _is_free(layout, spot + side * 0.3 * across, size[0] + 0.15):
                continue
            sign = side * (1.0 if axis == 0 else -1.0)  # along the wall's own thin axis
            hang = _Hanger(visual_builder, body, geom, axis, place, sign * thick, sign, low + z)
            if is_outer:
                hang.window(*size)
            else:
                hang.picture(*size, number + k)


def _distance_to_bounds(layout: Layout, x: float, y: float, axis: int, yaw: float) -> float:
    xmin, ymin, xmax, ymax = layout.bounds
    is_along_x = (axis == 0) == (abs(np.cos(yaw)) > 0.5)
    return min(abs(y - ymin), abs(y - ymax)) if is_along_x else min(abs(x - xmin), abs(x - xmax))


def _is_free(layout: Layout, spot: np.ndarray, reach: float) -> bool:
    for name, pose in layout.pieces.items():
        piece = layout.shapes[name]
        top = max(box.pos[2] + box.half[2] for box in piece.boxes)
        if top > 0.95 and np.hypot(*(spot - pose[:2])) < reach + max(piece.half):
            return False
    return True


class _Hanger:
    """Puts things on one side of a wall, around a place along it."""

    def __init__(self, visual_builder, body, geom, axis, place, face, sign, z) -> None:
        self._visual_builder, self._body, self._geom, self._axis = visual_builder, body, geom, axis
        self._place, self._face, self._sign, self._z = place, face, sign, z

    def _at(self, along: float, out: float, up: float) -> tuple[float, float, float]:
        a, b = self._place + along, self._face + self._sign * out
        return (a, b, self._z + up) if self._axis == 0 else (b, a, self._z + up)

    def _box(self, along, out, up, half, rgb, **how) -> None:
        size = half if self._axis == 0 else (half[1], half[0], half[2])
        self._visual_builder.box(
            self._body, self._at(along, out, up), size, rgb, 0.004, wall=self._geom, **how
        )

    def _sheet(self, hx: float, hz: float, out: float, texture: int, **how) -> None:
        turn = -self._sign if self._axis == 0 else self._sign  # read from the room
        corners = [
            self._at(turn * a * hx, out, b * hz) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))
        ]
        self._visual_builder.add(
            self._body, sheet(corners), texture=texture, wall=self._geom, **how
        )

    def window(self, hx: float, hz: float) -> None:
        self._sheet(hx, hz, 0.006, self._visual_builder.texture("window", prints.window), light=1.0)
        for along, up, half in (
            (0, hz, (hx + 0.05, 0.022, 0.04)),
            (0, -hz, (hx + 0.05, 0.022, 0.03)),
            (hx, 0, (0.04, 0.022, hz)),
            (-hx, 0, (0.04, 0.022, hz)),
            (0, 0, (0.022, 0.014, hz)),
            (0, 0.2, (hx, 0.014, 0.016)),
        ):
            self._box(along, 0.01, up, half, FRAME)
        self._box(0, 0.04, -hz - 0.03, (hx + 0.09, 0.06, 0.014), FRAME)

    def picture(self, hx: float, hz: float, number: int) -> None:
        name = f"painting_{number % 2}"
        self._sheet(
            hx, hz, 0.026, self._visual_builder.texture(name, lambda: prints.painting(number))
        )
        self._box(0, 0.01, 0, (hx + 0.025, 0.0145, hz + 0.025), (0.24, 0.17, 0.12))


def _carpet(visual_builder: VisualBuilder, layout: Layout) -> None:
    """Under the low table before the sofa."""
    if "table_02" not in layout.pieces:
        return
    x, y, yaw = layout.pieces["table_02"]
    hx, hy = 0.80, 1.15
    c, s = np.cos(yaw), np.sin(yaw)
    z = 0.006
    corners = [
        (x + c * a * hx - s * b * hy, y + s * a * hx + c * b * hy, z)
        for a, b in ((1, -1), (1, 1), (-1, 1), (-1, -1))
    ]
    visual_builder.add(0, sheet(corners), texture=visual_builder.texture("carpet", prints.carpet))
