"""One video frame: the robot from outside, its depth image, a map, and captions.

+--------------------------------+--------------+
|  third person                  |  head camera |
|  960 x 540                     |  320 x 320   |
|                                +--------------+
+--------------------------------+  map         |
|  task, plan, stages            |  and legend  |
+--------------------------------+--------------+
"""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from rearrange.eval.film.floor_map import FloorMap, draw_legend
from rearrange.eval.film.follow import FollowCamera
from rearrange.eval.film.head_picture import HeadPicture
from rearrange.eval.film.lettering import INK, PAPER, Caption, badge, font, write, write_result
from rearrange.eval.film.third_person import ThirdPerson
from rearrange.sim.pictures.pictures import FreeCamera

WIDTH, HEIGHT = 1280, 720
VIEW = (960, 540)  # third person
SIDE = 320  # width of the right column


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
        self._sim = world.sim
        size = int(VIEW[0] * detail), int(VIEW[1] * detail)
        self._outside = ThirdPerson(world.sim, world.episode, renderer, size)
        self._camera = FollowCamera(self._sim, self._outside.home_visuals, seconds)
        self._head = HeadPicture(self._sim, SIDE)
        objects, places = list(self._outside.goals), self._outside.places
        self._map = FloorMap(self._sim, self._outside.map_painter, SIDE, objects, places)

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
        self._outside.name(pen, VIEW, camera, caption.focus)
        write(pen, (0, VIEW[1], VIEW[0], HEIGHT), caption)
        if caption.result:
            write_result(pen, (0, 0, *VIEW), caption.result)
        return np.asarray(page)

    def third_person(self, camera: FreeCamera, focus: int | None = None) -> np.ndarray:
        """The robot and its surroundings; the object `focus` glows."""
        return self._outside.draw(camera, focus)

    def floor_map(self) -> Image.Image:
        """The home from above with goals, path and robot."""
        return self._map.draw()

    def head_depth(self) -> np.ndarray:
        """What the policy sees, near is bright, [320, 320, 3] uint8."""
        return self._head.draw()
