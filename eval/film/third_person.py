"""The robot and its surroundings from outside: what is to be moved glows, where to stands a ghost.

The painter, the visuals of the home and the marks of one episode; whose camera it is does not
matter.
"""

from __future__ import annotations

from math import sin
from typing import Any

import numpy as np
from PIL import ImageDraw

from rearrange.eval.film.lettering import INK, PAPER, font
from rearrange.planner.home.descriptions import furniture, plain
from rearrange.sim.pictures.pictures import FreeCamera, Mark, Painter
from rearrange.sim.visuals.home_visuals import build_visuals
from rearrange.tasks.rules.episode import EpisodeSpec
from rearrange.tasks.rules.names import HOME_TASKS

GOAL = (0.20, 0.85, 0.42)
GLOW = np.array([0.75, 0.52, 0.10])
GHOST, FAINT_GHOST = 0.55, 0.28  # of goals in work, of the others
AT_GOAL = 0.10  # m: an object this near to its goal covers the ghost
PULSE = 0.25  # rad a frame, of what glows
TOP_MARGIN, LABEL_GAP = 44, 0.05  # pixels kept free of labels; m above the thing itself


class ThirdPerson:
    """Draws pictures [height, width, 3] uint8 of a simulation as it is now.

    Args:
        sim: reset to the episode.
        renderer: a name of `rearrange list renderers`.
        size: width and height, pixels.

    Attributes:
        goals: object -> where it has to go (m, world), None for what has to be taken only.
        places: where to go or to take hold, m, world.
    """

    def __init__(
        self, sim: Any, episode: EpisodeSpec, renderer: str, size: tuple[int, int]
    ) -> None:
        self._sim, self._episode = sim, episode
        self.goals, self.places = _aims(sim, episode)
        self.home_visuals = build_visuals(sim, self.goals)
        self._painter = Painter(sim.model, *size, renderer, visuals=self.home_visuals.visuals)
        self.map_painter = (
            self._painter
            if renderer in ("auto", "plain")
            else Painter(sim.model, 64, 64, visuals=self.home_visuals.visuals)
        )
        self._bare = [p for i, p in self.goals.items() if p and i not in self.home_visuals.ghosts]
        self._bare += [p for p in self.places if p not in self.goals.values()]
        self._number = 0

    def draw(self, camera: FreeCamera, focus: int | None = None) -> np.ndarray:
        """The picture of this moment; the object `focus` glows."""
        visuals = self.home_visuals.visuals
        visuals.glow[:] = 0.0
        self._number += 1
        for index, goal in self.goals.items():
            if index == focus and index in self.home_visuals.objects:
                share = 0.65 + 0.35 * sin(PULSE * self._number)
                visuals.glow[self.home_visuals.objects[index]] = share * GLOW
            for part in self.home_visuals.ghosts.get(index, ()):
                is_there = np.linalg.norm(self._sim.object_pos_w(index) - goal) < AT_GOAL
                alpha = GHOST if index == focus else FAINT_GHOST
                visuals.alphas[part] = 0.0 if is_there else alpha
        marks = [Mark(place, radius=0.04, rgb=GOAL) for place in self._bare]
        return self._painter.render(self._sim.data, camera, marks=marks)

    def name(
        self,
        pen: ImageDraw.ImageDraw,
        size: tuple[int, int],
        camera: FreeCamera,
        focus: int | None,
    ) -> None:
        """The object in work by its name above it, and its goal; on a picture of `size`."""
        target = next((t for t in self._episode.targets if t.object == focus), None)
        if focus is None or target is None:
            return
        kind = self._sim.object_kind(focus)
        top = self._sim.object_pos_w(focus) + [0, 0, kind.half_height + LABEL_GAP]
        _flag(pen, size, camera, top, plain(kind.name))
        goal = self.goals.get(focus)
        if goal is not None and np.linalg.norm(np.array(goal) - top) > 0.4:
            place = np.array(goal) + [0, 0, kind.half_height + LABEL_GAP]
            _flag(pen, size, camera, place, f"goal: {furniture(target.goal_receptacle)}")


def _flag(
    pen: ImageDraw.ImageDraw,
    size: tuple[int, int],
    camera: FreeCamera,
    point: np.ndarray,
    text: str,
) -> None:
    eye, axes = camera.pose()
    right, up, back = np.asarray(axes).reshape(3, 3).T
    away = point - eye
    depth = float(-(away @ back))
    if depth < 0.3:
        return
    width, height = size
    scale = height / 2 / np.tan(np.radians(camera.fovy_deg) / 2) / depth
    x, y = width / 2 + scale * float(away @ right), height / 2 - scale * float(away @ up)
    half = pen.textlength(text, font=font(14)) / 2 + 8
    if not (half < x < width - half and TOP_MARGIN < y < height):
        return
    pen.rounded_rectangle((x - half, y - 36, x + half, y - 14), 6, fill=PAPER)
    pen.polygon(((x - 5, y - 14), (x + 5, y - 14), (x, y - 7)), fill=PAPER)
    pen.text((x, y - 25), text, fill=INK, font=font(14), anchor="mm")


def _aims(
    sim: Any, episode: EpisodeSpec
) -> tuple[dict[int, Any], list[tuple[float, float, float]]]:
    """Object -> its goal (None: has none) of what the episode is about; places to go to."""
    if episode.marker is not None:
        return {}, [tuple(sim.marker_pos_w(episode.marker))]
    targets = episode.targets
    if episode.task not in HOME_TASKS:
        targets = targets[episode.target_index : episode.target_index + 1]
        if not episode.start_holding:
            return {t.object: None for t in targets}, []
    return {t.object: t.goal for t in targets}, [t.goal for t in targets]
