"""One picture of an episode: the robot from outside, its depth image, a map, and what it is about.

+----------------------------+--------------+
|  third person              |  head camera |
|  640 x 480                 |  320 x 320   |
|                            +--------------+
+----------------------------+  map         |
|  task, plan, stages        |  320 x 280   |
+----------------------------+--------------+
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import cos, degrees, pi, sin
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from rearrange.planner.home.words import progress_words
from rearrange.sim.pictures.pictures import FreeCamera, Mark, Painter
from rearrange.sim.robot.depth import DepthCamera
from rearrange.tasks.rules.names import HOME_TASKS

WIDTH, HEIGHT = 960, 600
VIEW = (640, 480)  # third person
SIDE = 320  # width of the right column
INK, QUIET, PAPER = (235, 235, 235), (150, 150, 150), (24, 26, 30)
GOOD, BAD, GOAL = (90, 200, 120), (235, 100, 100), (0.15, 0.75, 0.30)
NUM_PLAN_LINES = 4
STAGES_LEFT = 400  # of the words: the plan is on their left
MIN_BARS = 4  # beside one another where a task has fewer stages, lest they get too wide


@dataclass
class Caption:
    """The words of a frame."""

    title: str
    status: str = ""
    """The running step, said by the agent."""
    plan: Sequence[str] = ()
    stages: dict[str, bool] = field(default_factory=dict)
    result: str = ""
    """Shown large at the end: "success" or what went wrong."""


class FrameMaker:
    """Draws frames [600, 960, 3] uint8 of the environment's world as it is now.

    Green: where something has to go; blue, on the map: the objects that the episode is about.

    Args:
        world: the unwrapped environment, reset.
        renderer: a name of `rearrange list renderers`.
    """

    def __init__(self, world: Any, renderer: str) -> None:
        self._world, self._sim = world, world.sim
        self._painter = Painter(self._sim.model, *VIEW, backend=renderer)
        self._depth = DepthCamera(self._sim.model, "head", size=SIDE)
        self._camera_yaw = self._sim.base_pose[2]
        self._path: list[tuple[float, float]] = []
        self._objects, goals = _aims(world)
        self._goals = [Mark(goal, radius=0.05, rgb=GOAL) for goal in goals]

    def draw(self, caption: Caption) -> np.ndarray:
        """The frame of this moment; call it regularly, since it also keeps the robot's path."""
        self._path.append(self._sim.base_pose[:2])
        page = Image.new("RGB", (WIDTH, HEIGHT), PAPER)
        page.paste(Image.fromarray(self.third_person()), (0, 0))
        page.paste(Image.fromarray(self.head_depth()), (VIEW[0], 0))
        plan = self.floor_map()
        page.paste(plan, (VIEW[0], SIDE + (HEIGHT - SIDE - plan.height) // 2))
        pen = ImageDraw.Draw(page)
        _label(pen, (VIEW[0] + 8, 6), "head camera, depth")
        self._write(pen, caption)
        return np.asarray(page)

    def third_person(self) -> np.ndarray:
        """The robot from its right, behind and above, [480, 640, 3] uint8."""
        x, y, yaw = self._sim.base_pose
        turn = (yaw - self._camera_yaw + pi) % (2 * pi) - pi
        self._camera_yaw += 0.1 * turn  # the camera comes round slowly, or a turn makes one dizzy
        lookat = (x + 0.35 * cos(yaw), y + 0.35 * sin(yaw), 0.75)
        azimuth = degrees(self._camera_yaw) + 45.0
        camera = FreeCamera(lookat, distance=3.1, azimuth_deg=azimuth, elevation_deg=-33.0)
        return self._painter.render(self._sim.data, camera, marks=self._goals)

    def head_depth(self) -> np.ndarray:
        """What the policy sees, near is bright, [320, 320, 3] uint8."""
        depth = self._depth.render(self._sim.data)  # [320, 320, 1], 1 is 10 m
        # The root spreads what is near, where the hand works; rooms end by 6 m.
        grey = (255 * (1.0 - np.sqrt(np.minimum(depth / 0.6, 1.0)))).astype(np.uint8)
        return np.repeat(grey, 3, axis=2)

    def floor_map(self) -> Image.Image:
        """The apartment from above with goals, path and robot."""
        xmin, ymin, xmax, ymax = self._sim.layout.bounds
        bounds = (xmin - 0.1, ymin - 0.1, xmax + 0.1, ymax + 0.1)
        picture = self._painter.top_down(self._sim.data, bounds, SIDE, marks=self._goals)
        image = Image.fromarray(picture)
        pen = ImageDraw.Draw(image)
        scale = image.width / (bounds[2] - bounds[0])  # pixels a metre

        def at(x: float, y: float) -> tuple[float, float]:
            return (x - bounds[0]) * scale, (bounds[3] - y) * scale

        if len(self._path) > 1:
            pen.line([at(*point) for point in self._path], fill=(230, 120, 30), width=2)
        for goal in self._goals:
            _ring(pen, at(*goal.pos[:2]), 5, (30, 150, 60))
        for index in self._objects:
            _ring(pen, at(*self._sim.object_pos_w(index)[:2]), 4, (40, 90, 220))
        x, y, yaw = self._sim.base_pose
        _ring(pen, at(x, y), 0.3 * scale, (200, 40, 40))
        pen.line(
            [at(x, y), at(x + 0.45 * cos(yaw), y + 0.45 * sin(yaw))], fill=(200, 40, 40), width=3
        )
        return image

    def _write(self, pen: ImageDraw.ImageDraw, caption: Caption) -> None:
        top = VIEW[1] + 8
        pen.text((12, top), caption.title, fill=INK, font=_font(16))
        doing = caption.status.rpartition(": ")[2]  # the plan shows the step itself
        pen.text((STAGES_LEFT, top), doing[:34], fill=INK, font=_font(14))
        lines, running = _around(caption.plan)
        for row, line in enumerate(lines):
            fill = INK if row == running else QUIET
            pen.text((12, top + 26 + 20 * row), line[:48], fill=fill, font=_font(14))
        pen.text((STAGES_LEFT, top + 26), progress_words(caption.stages), fill=INK, font=_font(14))
        width = (VIEW[0] - 12 - STAGES_LEFT) // max(MIN_BARS, len(caption.stages))
        for place, is_reached in enumerate(caption.stages.values()):
            left, fill = STAGES_LEFT + width * place, GOOD if is_reached else (70, 74, 80)
            pen.rectangle((left, top + 50, left + width - 4, top + 56), fill=fill)
        if caption.result:
            fill = GOOD if caption.result == "success" else BAD
            font = _font(30 if len(caption.result) < 36 else 16)
            width = pen.textlength(caption.result, font=font)
            left, upper = (VIEW[0] - width) / 2, 28
            pen.rectangle((left - 16, upper - 8, left + width + 16, upper + 44), fill=PAPER)
            pen.text((left, upper), caption.result, fill=fill, font=font)


def _aims(world: Any) -> tuple[list[int], list[tuple[float, float, float]]]:
    """The objects that the episode is about, and the places where something has to go."""
    episode = world.episode
    if episode.marker is not None:
        return [], [tuple(world.sim.marker_pos_w(episode.marker))]
    if episode.task in HOME_TASKS:
        return [t.object for t in episode.targets], [t.goal for t in episode.targets]
    target = episode.targets[episode.target_index]
    return [target.object], [target.goal] if episode.start_holding else []


def _around(plan: Sequence[str]) -> tuple[list[str], int | None]:
    """The lines of the plan near the running one, marked with `>`, and which of them it is."""
    running = next((i for i, line in enumerate(plan) if line.startswith(">")), None)
    here = running if running is not None else len(plan) if _is_done(plan) else 0
    first = max(0, min(here - 1, len(plan) - NUM_PLAN_LINES))
    lines = list(plan[first : first + NUM_PLAN_LINES])
    return lines, None if running is None else running - first


def _is_done(plan: Sequence[str]) -> bool:
    return bool(plan) and plan[-1].startswith("+")


def _label(pen: ImageDraw.ImageDraw, place: tuple[int, int], text: str) -> None:
    box = pen.textbbox(place, text, font=_font(12))
    pen.rectangle((box[0] - 3, box[1] - 2, box[2] + 3, box[3] + 2), fill=PAPER)
    pen.text(place, text, fill=INK, font=_font(12))


def _ring(
    pen: ImageDraw.ImageDraw, place: tuple[float, float], radius: float, colour: tuple
) -> None:
    x, y = place
    pen.ellipse((x - radius, y - radius, x + radius, y + radius), outline=colour, width=2)


@lru_cache
def _font(size: int) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    return ImageFont.load_default(size)
