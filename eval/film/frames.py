"""One picture of an episode: the robot from outside, its depth image, a map, and what it is about.

+--------------------------------+--------------+
|  third person                  |  head camera |
|  960 x 540                     |  320 x 320   |
|                                +--------------+
+--------------------------------+  map         |
|  task, plan, stages            |  and legend  |
+--------------------------------+--------------+
"""

from __future__ import annotations

from math import sin
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from rearrange.eval.film.floor_map import FloorMap, draw_legend
from rearrange.eval.film.follow import FollowCamera
from rearrange.eval.film.head_picture import HeadPicture
from rearrange.eval.film.lettering import INK, PAPER, Caption, badge, font, write, write_result
from rearrange.planner.home.descriptions import furniture, plain
from rearrange.sim.visuals.home_visuals import build_visuals
from rearrange.sim.pictures.pictures import FreeCamera, Mark, Painter
from rearrange.tasks.rules.names import HOME_TASKS

WIDTH, HEIGHT = 1280, 720
VIEW = (960, 540)  # third person
SIDE = 320  # width of the right column
GOAL = (0.20, 0.85, 0.42)
GLOW = np.array([0.75, 0.52, 0.10])
GHOST, FAINT_GHOST = 0.55, 0.28  # of goals in work, of the others
AT_GOAL = 0.10  # m: an object this near to its goal covers the ghost
PULSE = 0.25  # rad a frame, of what glows


class FrameMaker:
    """Draws frames [720, 1280, 3] uint8 of the environment's world as it is now.

    What is to be moved glows; a translucent copy stands where it has to go.

    Args:
        world: the unwrapped environment, reset.
        renderer: a name of `rearrange list renderers`.
        seconds: of the episode between two frames.
        detail: size of the third person's picture as it is drawn, before it is shown; below 1 it is
            faster.
    """

    def __init__(
        self, world: Any, renderer: str, seconds: float = 0.1, detail: float = 1.0
    ) -> None:
        self._world, self._sim = world, world.sim
        self._goals, places = _aims(world)
        self._home_visuals = build_visuals(self._sim, self._goals)
        size = int(VIEW[0] * detail), int(VIEW[1] * detail)
        self._painter = Painter(
            self._sim.model, *size, renderer, visuals=self._home_visuals.visuals
        )
        map_painter = (
            self._painter
            if renderer in ("auto", "plain")
            else Painter(self._sim.model, 64, 64, visuals=self._home_visuals.visuals)
        )
        self._camera = FollowCamera(self._sim, self._home_visuals, seconds)
        self._head = HeadPicture(self._sim, SIDE)
        self._map = FloorMap(self._sim, map_painter, SIDE, list(self._goals), places)
        self._bare = [p for i, p in self._goals.items() if p and i not in self._home_visuals.ghosts]
        self._bare += [p for p in places if p not in self._goals.values()]
        self._number = 0

    def draw(self, caption: Caption) -> np.ndarray:
        """The frame of this moment; call it regularly, since it also keeps the robot's path."""
        page = Image.new("RGB", (WIDTH, HEIGHT), PAPER)
        camera = self._camera.step()
        view = Image.fromarray(self.third_person(camera, caption.focus))
        page.paste(
            view.resize(VIEW, Image.Resampling.BICUBIC) if view.size != VIEW else view, (0, 0)
        )
        page.paste(Image.fromarray(self._head.draw()), (VIEW[0], 0))
        plan = self._map.draw(caption.focus)
        plan.thumbnail((SIDE, HEIGHT - SIDE - 40))
        page.paste(plan, (VIEW[0] + (SIDE - plan.width) // 2, SIDE + 8))
        pen = ImageDraw.Draw(page)
        draw_legend(pen, VIEW[0] + 6, SIDE + 14 + plan.height)
        badge(pen, (VIEW[0] + 8, 8), "head camera: depth, arm dimmed", 13)
        if caption.speed:
            badge(pen, (12, 12), caption.speed, 20)
        if caption.clock:
            pen.text((VIEW[0] + 8, SIDE + plan.height + 50), caption.clock, fill=INK, font=font(30))
        self._name(pen, camera, caption)
        write(pen, (0, VIEW[1], VIEW[0], HEIGHT), caption)
        if caption.result:
            write_result(pen, (0, 0, *VIEW), caption.result)
        return np.asarray(page)

    def third_person(self, camera: FreeCamera, focus: int | None = None) -> np.ndarray:
        """The robot and its surroundings; the object `focus` glows."""
        visuals = self._home_visuals.visuals
        visuals.glow[:] = 0.0
        self._number += 1
        for index, goal in self._goals.items():
            if index == focus and index in self._home_visuals.objects:
                share = 0.65 + 0.35 * sin(PULSE * self._number)
                visuals.glow[self._home_visuals.objects[index]] = share * GLOW
            for part in self._home_visuals.ghosts.get(index, ()):
                is_there = np.linalg.norm(self._sim.object_pos_w(index) - goal) < AT_GOAL
                alpha = GHOST if index == focus else FAINT_GHOST
                visuals.alphas[part] = 0.0 if is_there else alpha
        marks = [Mark(place, radius=0.04, rgb=GOAL) for place in self._bare]
        return self._painter.render(self._sim.data, camera, marks=marks)

    def floor_map(self) -> Image.Image:
        """The home from above with goals, path and robot."""
        return self._map.draw()

    def head_depth(self) -> np.ndarray:
        """What the policy sees, near is bright, [320, 320, 3] uint8."""
        return self._head.draw()

    def _name(self, pen: ImageDraw.ImageDraw, camera: FreeCamera, caption: Caption) -> None:
        """The object in work by its name, above it."""
        if caption.focus is None:
            return
        episode = self._world.episode
        target = next((t for t in episode.targets if t.object == caption.focus), None)
        if target is None:
            return
        kind = self._sim.object_kind(caption.focus)
        top = self._sim.object_pos_w(caption.focus) + [0, 0, kind.half_height + 0.05]
        _flag(pen, camera, top, plain(kind.name))
        goal = self._goals.get(caption.focus)
        if goal is not None and np.linalg.norm(np.array(goal) - top) > 0.4:
            place = np.array(goal) + [0, 0, kind.half_height + 0.05]
            _flag(pen, camera, place, f"goal: {furniture(target.goal_receptacle)}")


def _flag(pen: ImageDraw.ImageDraw, camera: FreeCamera, point: np.ndarray, text: str) -> None:
    eye, axes = camera.pose()
    right, up, back = np.asarray(axes).reshape(3, 3).T
    away = point - eye
    depth = float(-(away @ back))
    if depth < 0.3:
        return
    scale = VIEW[1] / 2 / np.tan(np.radians(camera.fovy_deg) / 2) / depth
    x, y = VIEW[0] / 2 + scale * float(away @ right), VIEW[1] / 2 - scale * float(away @ up)
    half = pen.textlength(text, font=font(14)) / 2 + 8
    if not (half < x < VIEW[0] - half and 44 < y < VIEW[1]):
        return
    pen.rounded_rectangle((x - half, y - 36, x + half, y - 14), 6, fill=PAPER)
    pen.polygon(((x - 5, y - 14), (x + 5, y - 14), (x, y - 7)), fill=PAPER)
    pen.text((x, y - 25), text, fill=INK, font=font(14), anchor="mm")


def _aims(world: Any) -> tuple[dict[int, Any], list[tuple[float, float, float]]]:
    """Object -> its goal (None: has none) of what the episode is about; places to go to."""
    episode = world.episode
    if episode.marker is not None:
        return {}, [tuple(world.sim.marker_pos_w(episode.marker))]
    targets = episode.targets
    if episode.task not in HOME_TASKS:
        targets = targets[episode.target_index : episode.target_index + 1]
        if not episode.start_holding:
            return {t.object: None for t in targets}, []
    return {t.object: t.goal for t in targets}, [t.goal for t in targets]
