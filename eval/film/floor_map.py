"""The map in a video: the home from above, with robot, path, objects and goals."""

from __future__ import annotations

from math import cos, sin
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from rearrange.eval.film.lettering import QUIET, font
from rearrange.sim.pictures.pictures import Painter

ROBOT, PATH, THING, PLACE = (226, 60, 48), (240, 140, 40), (40, 110, 235), (36, 165, 80)
EVERY = 10  # frames after which the home itself is drawn anew: objects move little on a map
_SMOOTH = 2  # drawn that many times larger, then made small


class FloorMap:
    """Draws maps `width` pixels wide.

    Args:
        painter: draws the home itself.
        objects, goals: what the episode is about, and where it has to go (m, world).
    """

    def __init__(self, sim: Any, painter: Painter, width: int, objects, goals) -> None:
        self._sim, self._painter, self._width = sim, painter, width
        self._objects, self._goals = objects, goals
        self._path: list[tuple[float, float]] = []
        self._home: Image.Image | None = None
        self._age = 0

    def draw(self, focus: int | None = None) -> Image.Image:
        """The map of this moment; keeps the robot's path. `focus`: the object in work."""
        x, y, yaw = self._sim.base_pose
        self._path.append((x, y))
        xmin, ymin, xmax, ymax = self._sim.layout.bounds
        bounds = (xmin - 0.1, ymin - 0.1, xmax + 0.1, ymax + 0.1)
        wide = _SMOOTH * self._width
        home = self._home
        if home is None or self._age % EVERY == 0:
            picture = self._painter.top_down(self._sim.data, bounds, wide)
            home = self._home = Image.fromarray(picture)
        self._age += 1
        image = home.copy()
        pen = ImageDraw.Draw(image)
        scale = wide / (bounds[2] - bounds[0])  # pixels a metre

        def at(x: float, y: float) -> tuple[float, float]:
            return (x - bounds[0]) * scale, (bounds[3] - y) * scale

        if len(self._path) > 1:
            pen.line([at(*point) for point in self._path], fill=PATH, width=4, joint="curve")
        for goal in self._goals:
            _ring(pen, at(*goal[:2]), 11, PLACE)
        for index in self._objects:
            radius = 10 if index == focus else 6
            _dot(pen, at(*self._sim.object_pos_w(index)[:2]), radius, THING)
        self._robot(pen, at, scale, (x, y, yaw))
        return image.resize((self._width, image.height // _SMOOTH), Image.Resampling.BOX)

    def _robot(self, pen: ImageDraw.ImageDraw, at, scale: float, pose) -> None:
        x, y, yaw = pose
        _dot(pen, at(x, y), 0.3 * scale, ROBOT)
        tip = [
            at(x + r * cos(yaw + a), y + r * sin(yaw + a))
            for r, a in ((0.42, 0), (0.26, 0.7), (0.26, -0.7))
        ]
        pen.polygon(tip, fill=(255, 255, 255))


def draw_legend(pen: ImageDraw.ImageDraw, left: int, top: int) -> None:
    """What the signs of the map mean, in a row."""
    legend = ((ROBOT, "robot"), (PATH, "path"), (THING, "object"), (PLACE, "goal"))
    for place, (ink, label) in enumerate(legend):
        x = left + 78 * place
        if label == "path":
            pen.line((x, top + 8, x + 14, top + 8), fill=ink, width=3)
        elif label == "goal":
            pen.ellipse((x + 2, top + 3, x + 12, top + 13), outline=ink, width=2)
        else:
            pen.ellipse((x + 2, top + 3, x + 12, top + 13), fill=ink)
        pen.text((x + 19, top), label, fill=QUIET, font=font(13))


def _ring(pen: ImageDraw.ImageDraw, place, radius: float, ink) -> None:
    x, y = place
    pen.ellipse((x - radius, y - radius, x + radius, y + radius), outline=ink, width=4)


def _dot(pen: ImageDraw.ImageDraw, place, radius: float, ink) -> None:
    x, y = place
    pen.ellipse(
        (x - radius, y - radius, x + radius, y + radius), fill=ink, outline=(255, 255, 255), width=2
    )


def height_of(bounds: tuple[float, float, float, float], width: int) -> int:
    """Rows of such a map."""
    return int(np.ceil(width * (bounds[3] - bounds[1]) / (bounds[2] - bounds[0])))
