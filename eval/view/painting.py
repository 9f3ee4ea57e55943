"""The painter: a thread that shows the world as it is while it moves on.

    session --under a lock--> copy of the world, words --> picture --> server

The world is copied in a fraction of a millisecond and painted from the copy, so that a slow
painter makes fewer pictures and never a slower robot.
"""

from __future__ import annotations

import copy
import io
import threading
from collections.abc import Callable
from dataclasses import dataclass
from math import cos, degrees, exp, pi, sin
from typing import Any

import mujoco
import numpy as np
from PIL import Image, ImageDraw

from rearrange.eval.film.follow import SeeThrough
from rearrange.eval.film.third_person import ThirdPerson
from rearrange.eval.view.server import ViewServer
from rearrange.sim.pictures.pictures import FreeCamera

SIZE = (960, 540)  # of the picture as it is shown
EASE = 0.25  # share of the way that the camera goes to where it should be, a picture
BEHIND_DEG, DOWN_DEG = 30.0, -28.0  # at first: from behind, a little from the right
DISTANCE, NEAREST, FARTHEST = 2.4, 0.7, 8.0  # m
DEG_A_PIXEL = 0.3
STEEPEST, FLATTEST = -85.0, -3.0  # deg
HAND_M_A_PIXEL = 0.0012  # at a distance of 1 m; of the hand when it is dragged
HAND_M_A_NOTCH = 0.03  # of the wheel
MAP_WIDTH = 400  # pixels
LINGER = 12  # pictures after the last change: the camera eases and things fade
MOST_PICTURES = 20.0  # a second
QUALITY = 80  # of JPEG
SEEN = (  # of MuJoCo's data, all that pictures are made from
    "qpos", "xpos", "xquat", "xmat", "geom_xpos", "geom_xmat", "site_xpos", "site_xmat",
)  # fmt: skip


class OrbitCamera:
    """Around the robot and with it; a person turns it."""

    def __init__(self) -> None:
        self.azimuth_deg, self.elevation_deg, self.distance = BEHIND_DEG, DOWN_DEG, DISTANCE
        self._yaw, self._lookat = 0.0, np.zeros(3)

    def turn(self, orbit: tuple[float, float], zoom: float) -> None:
        """By pixels to the right and down; the distance by e to the zoom."""
        self.azimuth_deg -= DEG_A_PIXEL * orbit[0]
        lower = self.elevation_deg - DEG_A_PIXEL * orbit[1]
        self.elevation_deg = min(max(lower, STEEPEST), FLATTEST)
        self.distance = min(max(self.distance * exp(min(zoom, 3.0)), NEAREST), FARTHEST)

    def hand_way(self, drag: tuple[float, float, float]) -> np.ndarray:
        """A drag of the hand, pixels right and up, notches away, in the base's axes, [3] m.

        Up stays upright, however steeply the camera looks down.
        """
        angle = np.radians(self.azimuth_deg)
        ahead, right = np.array([cos(angle), sin(angle), 0]), np.array([sin(angle), -cos(angle), 0])
        scale = HAND_M_A_PIXEL * self.distance
        return (
            scale * drag[0] * right
            + scale * drag[1] * np.array([0.0, 0.0, 1.0])
            + HAND_M_A_NOTCH * drag[2] * ahead
        )

    def jump(self, sim: Any) -> None:
        """To where it should be, at once."""
        self._yaw, self._lookat = sim.base_pose[2], _between(sim)

    def step(self, sim: Any) -> FreeCamera:
        """The camera of this picture."""
        turn = (sim.base_pose[2] - self._yaw + pi) % (2 * pi) - pi
        self._yaw += EASE * turn
        self._lookat += EASE * (_between(sim) - self._lookat)
        a, b, c = (float(value) for value in self._lookat)
        azimuth = degrees(self._yaw) + self.azimuth_deg
        return FreeCamera((a, b, c), self.distance, azimuth, self.elevation_deg, 48.0)


def _between(sim: Any) -> np.ndarray:
    """Between body and hand."""
    x, y, yaw = sim.base_pose
    body = np.array([x + 0.2 * cos(yaw), y + 0.2 * sin(yaw), 0.8])
    return 0.5 * body + 0.5 * sim.ee_pos_w


@dataclass
class Moment:
    """What the session hands over under its lock."""

    version: int
    """Changes with whatever can be seen."""
    scene: int
    """Changes with the episode and the environment."""
    env: Any
    """Unwrapped; None before the first reset."""
    focus: int | None
    state: dict[str, Any]
    """For the page."""


class Painter:
    """Paints in a thread of its own until `close`.

    Args:
        look: gives the newest moment; called under `lock`.
        detail: size of the picture as it is painted; below 1 it is faster.
    """

    def __init__(
        self,
        server: ViewServer,
        camera: OrbitCamera,
        lock: Any,
        look: Callable[[], Moment],
        renderer: str,
        detail: float,
    ) -> None:
        self._server, self.camera, self._lock, self._look = server, camera, lock, look
        self._renderer, self._size = renderer, (int(SIZE[0] * detail), int(SIZE[1] * detail))
        self._scene, self._version, self._rest = -1, -1, LINGER
        self._mirror: Any = None
        self._outside: ThirdPerson | None = None
        self._see_through: SeeThrough | None = None
        self._is_closed = threading.Event()
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the painting."""
        self._is_closed.set()
        self._thread.join(timeout=10.0)

    def _run(self) -> None:
        try:
            while not self._is_closed.wait(1.0 / MOST_PICTURES):
                self.paint()
        except BaseException as error:  # noqa: BLE001, the session raises it in the main thread
            self.error = error

    def paint(self) -> bool:
        """One picture, if there is something new to see."""
        with self._lock:
            moment = self._look()
            self._rest = 0 if moment.version != self._version else self._rest + 1
            if self._rest > LINGER:
                return False
            self._version = moment.version
            if moment.env is not None:
                self._copy(moment)
        if moment.env is None:
            self._server.publish(moment.state, b"")
            return True
        if moment.scene != self._scene:
            self._set_up(moment)
        assert self._outside is not None and self._see_through is not None
        camera = self.camera.step(self._mirror)
        self._see_through.step(camera.pose()[0])
        picture = Image.fromarray(self._outside.draw(camera, moment.focus))
        if picture.size != SIZE:
            picture = picture.resize(SIZE, Image.Resampling.BILINEAR)
        self._outside.name(ImageDraw.Draw(picture), SIZE, camera, moment.focus)
        self._server.publish(moment.state, _encoded(picture, "JPEG", quality=QUALITY))
        return True

    def _copy(self, moment: Moment) -> None:
        """The world as it is now, for this thread alone."""
        sim = moment.env.sim
        if moment.scene != self._scene:
            # Data for each episode anew would leave gaps in memory that nothing else fills.
            known, self._mirror = self._mirror, copy.copy(sim)
            if known is not None and known.model is sim.model:
                self._mirror.data = known.data
            else:
                self._mirror.data = mujoco.MjData(sim.model)
        for name in SEEN:
            getattr(self._mirror.data, name)[:] = getattr(sim.data, name)

    def _set_up(self, moment: Moment) -> None:
        self._scene = moment.scene
        self._outside = self._see_through = None  # not two of them in memory
        self._outside = ThirdPerson(self._mirror, moment.env.episode, self._renderer, self._size)
        self._see_through = SeeThrough(self._mirror, self._outside.home_visuals)
        self.camera.jump(self._mirror)
        plan = self._outside.map_painter.top_down(
            self._mirror.data, map_bounds(self._mirror), MAP_WIDTH
        )
        self._server.publish_map(_encoded(Image.fromarray(plan), "PNG"))


def map_bounds(sim: Any) -> tuple[float, float, float, float]:
    """What the map shows: xmin, ymin, xmax, ymax, m."""
    xmin, ymin, xmax, ymax = sim.layout.bounds
    return xmin - 0.1, ymin - 0.1, xmax + 0.1, ymax + 0.1


def _encoded(picture: Image.Image, form: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, form, **options)
    return buffer.getvalue()
