"""Colour and panoptic images of the robot's cameras, and `render` for people.

    head_rgb, arm_rgb            [S, S, 3] uint8  the home as films show it
    head_panoptic, arm_panoptic  [S, S, 1] uint8  ids of visible things, see `panoptic_names`

S is `camera_size`. The arm's camera sits on the gripper. Both are drawn on the CPU, without OpenGL.
Ids match the picture of the same camera: with rgb=true a banana's mask has its curved shape. With
rgb=plain, or without rgb, both show the collision shapes that `head_depth` sees, at a third of the
cost. Names are Habitat-lab's, and so is 100, where its ids of objects begin (`object_ids_start`);
the other ids are ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
from gymnasium.spaces import Box

from rearrange.errors import UserError
from rearrange.sim.home import furniture as fur
from rearrange.sim.house_writer import FRONTS
from rearrange.sim.model import object_body
from rearrange.sim.pictures.paint_plain import PlainRenderer
from rearrange.sim.pictures.picture_scene import Shapes, collect_shapes
from rearrange.sim.pictures.pictures import FreeCamera, Painter
from rearrange.sim.pictures.triangles import Visuals
from rearrange.sim.robot.depth import VISIBLE_GROUPS, camera_index
from rearrange.sim.simulation import Simulation
from rearrange.system.checked_json import quoted

CAMERAS = ("head", "arm")
COLOUR_SENSORS = ("head_rgb", "arm_rgb", "head_panoptic", "arm_panoptic")
PLAIN = "plain"  # `rgb=plain`: single-colour shapes, those that collide
NOTHING, ROBOT, FLOOR, WALL, FURNITURE_START, OBJECT_START = 0, 1, 2, 3, 10, 100  # ids
RENDER_CAMERAS = ("third_person", *CAMERAS)
MIN_RENDER, MAX_RENDER = 16, 4096  # pixels a side


class VisualsCache:
    """The visuals of a simulation's home, made on first use."""

    def __init__(self) -> None:
        self._visuals: Visuals | None = None

    def start(self) -> None:
        """A new episode, with another home and other objects."""
        self._visuals = None

    def visuals(self, sim: Simulation) -> Visuals:
        """The visuals of this episode."""
        if self._visuals is None:
            # Pillow: imported only if needed
            from rearrange.sim.visuals.home_visuals import build_visuals

            self._visuals = build_visuals(sim).visuals
        return self._visuals


class ColourSensors:
    """Reads those of `head_rgb`, `arm_rgb`, `head_panoptic` and `arm_panoptic` that are wanted.

    Args:
        size: pixels a side.
        rgb: True, "plain" or False, see above.

    Raises UserError for another value of rgb or panoptic.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        size: int,
        rgb: bool | str,
        panoptic: bool,
        cache: VisualsCache,
    ) -> None:
        if not isinstance(rgb, bool) and rgb != PLAIN:
            raise UserError(f"rgb must be false, true or {PLAIN!r}, got {quoted(rgb)}")
        if not isinstance(panoptic, bool):
            raise UserError(f"panoptic must be true or false, got {quoted(panoptic)}")
        self._model, self._size, self._cache = model, size, cache
        self._rgb, self._has_ids = rgb, panoptic
        self._cameras = [camera_index(model, name) for name in CAMERAS]
        self._renderer = PlainRenderer(size, size) if rgb or panoptic else None

    def spaces(self) -> dict[str, Box]:
        size, spaces = self._size, {}
        for kind, depth in (("rgb", 3 if self._rgb else 0), ("panoptic", int(self._has_ids))):
            for name in CAMERAS if depth else ():
                spaces[f"{name}_{kind}"] = Box(0, 255, (size, size, depth), np.uint8)
        return spaces

    def read(
        self, sim: Simulation, out: dict[str, np.ndarray] | None = None
    ) -> dict[str, np.ndarray]:
        """All current pictures, in new arrays or in those of `out`."""
        renderer = self._renderer
        if renderer is None:
            return {}
        visuals = self._cache.visuals(sim) if self._rgb is True else None
        shapes = collect_shapes(self._model, sim.data, geomgroups=VISIBLE_GROUPS, visuals=visuals)
        data, fovy = sim.data, self._model.cam_fovy
        views = [(data.cam_xpos[c], data.cam_xmat[c], float(fovy[c])) for c in self._cameras]
        found = {}
        if self._rgb:
            pictures = renderer.perspectives(shapes, views)
            found = {f"{name}_rgb": p for name, p in zip(CAMERAS, pictures, strict=True)}
        if self._has_ids:
            of_owner = _ids_of_owners(sim, shapes)
            for name, view in zip(CAMERAS, views, strict=True):
                found[f"{name}_panoptic"] = of_owner[renderer.owners(shapes, *view)][:, :, None]
        if out is None:
            return found
        for name, values in found.items():
            out[name][:] = values
        return {name: out[name] for name in found}


def panoptic_names(sim: Simulation) -> dict[int, str]:
    """Meaning of the ids in `head_panoptic` and `arm_panoptic` in this episode's home.

    0: nothing (the sky), 1: the robot, 2: the floor and rugs on it, 3: walls and pictures on them;
    from 10: pieces of furniture with their drawers and doors, from 100: the episode's objects,
    100 + i for object i.
    """
    assert sim.scene is not None, "an episode has begun"
    names = {NOTHING: "nothing", ROBOT: "robot", FLOOR: "floor", WALL: "wall"}
    names |= {FURNITURE_START + i: name for i, name in enumerate(_pieces(sim))}
    return names | {OBJECT_START + i: o.kind for i, o in enumerate(sim.scene.objects)}


def _pieces(sim: Simulation) -> list[str]:
    return [name for name in sim.layout.shapes if name in sim.layout.pieces]


def _ids_of_owners(sim: Simulation, shapes: Shapes) -> np.ndarray:
    """The id of each geom, then of each part of the visuals; the last one is for nothing."""
    model, scene = sim.model, sim.scene
    assert scene is not None, "an episode has begun"
    ids = np.full(model.nbody, WALL, np.uint8)
    ids[0] = FLOOR
    ids[model.body_rootid == model.body("base_link").id] = ROBOT
    for number, name in enumerate(_pieces(sim), start=FURNITURE_START):
        parts = {"counter": (FRONTS, *fur.DRAWERS), "fridge": tuple(fur.FRIDGE_DOORS)}
        for body in (name, *parts.get(name, ())):
            ids[model.body(body).id] = number
    for slot in range(len(scene.objects)):
        ids[model.body(object_body(slot)).id] = OBJECT_START + slot
    return np.concatenate([ids[model.geom_bodyid], ids[shapes.solids.bodies], [NOTHING]]).astype(
        np.uint8
    )


class Window:
    """Images for people: `RearrangeEnv.render`.

    Args:
        size: width and height, pixels.
        camera: one of RENDER_CAMERAS; third_person: from above and behind the robot.

    Raises UserError for an unavailable size or camera.
    """

    def __init__(self, size: Sequence[int], camera: str, cache: VisualsCache) -> None:
        is_row = isinstance(size, Sequence) or (isinstance(size, np.ndarray) and size.ndim == 1)
        is_pair = is_row and not isinstance(size, str) and len(size) == 2
        if not is_pair or not all(_is_side(value) for value in size):
            room = f"two whole numbers from {MIN_RENDER} to {MAX_RENDER}, width and height"
            raise UserError(f"render_size must be {room}, got {quoted(size)}")
        if camera not in RENDER_CAMERAS:
            known = ", ".join(RENDER_CAMERAS)
            raise UserError(f"render_camera must be one of {known}; got {quoted(camera)}")
        self._width, self._height = int(size[0]), int(size[1])
        self._camera, self._cache = camera, cache
        self._painter: Painter | None = None

    def draw(self, sim: Simulation) -> np.ndarray:
        """The current picture, [height, width, 3] uint8."""
        if self._painter is None:
            self._painter = Painter(sim.model, self._width, self._height)
        self._painter.visuals = self._cache.visuals(sim)
        if self._camera in CAMERAS:
            return self._painter.render(sim.data, self._camera)
        x, y, yaw = sim.base_pose
        camera = FreeCamera(
            lookat=(x + 0.5 * math.cos(yaw), y + 0.5 * math.sin(yaw), 0.8), distance=3.2,
            azimuth_deg=math.degrees(yaw) + 35.0,
        )  # fmt: skip
        return self._painter.render(sim.data, camera)

    def close(self) -> None:
        """Releases the renderer. May be called again."""
        self._painter = None


def _is_side(value: Any) -> bool:
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return is_whole and MIN_RENDER <= int(value) <= MAX_RENDER
