"""Apartments as Habitat's scenes: a stage, a floor, furniture on it, counter and fridge.

    stage_<plan>       walls, and what lies below the floor; for collisions a ceiling too
    rearrange_floor_*  the floor, an object that does not move
    furniture          objects that do not move, with receptacles
    *_body             what counter and fridge cover of the floor, without collisions

A stage is a surface and not a solid, which an arm pushes things through: so the floor is an object.
The first navmesh of a scene is made of the stage alone, so there is ground below it.
habitat-lab takes a floor for indoors where a ray upwards meets something, so the stage collides as
if it had a ceiling, which is not drawn, as none is in our depth images. Its navmesh goes around
objects that do not move and not around articulated ones: hence the two bodies.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from rearrange.habitat.articulated import COUNTER, FRIDGE
from rearrange.habitat.axes import to_habitat, user_defined, yaw_to_habitat
from rearrange.habitat.contact import FRICTION, GRAVITY
from rearrange.habitat.solids import Solid, box
from rearrange.sim.home import furniture as fur
from rearrange.sim.home.furniture import Piece
from rearrange.sim.home.house import Layout
from rearrange.sim.model import WALL_HEIGHT

ARTICULATED = {"counter": COUNTER, "fridge": FRIDGE}
_CEILING = 0.1  # m, its thickness
# m, of the floor. A navmesh counts heights in cells of 0.2 m from the lowest point of the scene
# and rounds up: the robot drives 1 mm above this floor. What is driven into it finds its top nearer
# than its bottom.
_FLOOR_DEPTH = 1.999
_GROUND = -0.1  # m, of the stage: in the floor
_MARGIN = 0.1  # m, floor below the outer walls
_FLOOR_RGB, _WALL_RGB = (0.66, 0.58, 0.48), (0.85, 0.83, 0.79)


def stage_name(layout: Layout) -> str:
    """Apartments with the same walls have the same."""
    return f"stage_{_plan(layout)}"


def floor_name(layout: Layout) -> str:
    """Of the object; apartments with the same walls have the same."""
    return f"rearrange_floor_{_plan(layout)}"


def _plan(layout: Layout) -> str:
    numbers = repr((layout.bounds, layout.walls.tolist()))
    return hashlib.sha256(numbers.encode()).hexdigest()[:8]


def stage_solids(layout: Layout, has_ceiling: bool) -> list[Solid]:
    """Ground and walls in the world, z up; with a ceiling for collisions."""
    walls = [_turned_wall(*(float(v) for v in wall)) for wall in layout.walls]
    solids = [_slab(layout, _GROUND - _CEILING, _CEILING, _FLOOR_RGB), *walls]
    return [*solids, _slab(layout, WALL_HEIGHT, _CEILING, _WALL_RGB)] if has_ceiling else solids


def floor_solid(layout: Layout) -> Solid:
    """In the world, z up, its top at 0."""
    return _slab(layout, -_FLOOR_DEPTH, _FLOOR_DEPTH, _FLOOR_RGB)


def _slab(layout: Layout, bottom: float, depth: float, rgb: tuple[float, float, float]) -> Solid:
    x0, y0, x1, y1 = layout.bounds
    half = ((x1 - x0) / 2 + _MARGIN, (y1 - y0) / 2 + _MARGIN, depth / 2)
    return box(((x0 + x1) / 2, (y0 + y1) / 2, bottom + depth / 2), half, rgb)


def _turned_wall(x: float, y: float, hx: float, hy: float, yaw: float) -> Solid:
    wall = box((0.0, 0.0, WALL_HEIGHT / 2), (hx, hy, WALL_HEIGHT / 2), _WALL_RGB)
    c, s = np.cos(yaw), np.sin(yaw)
    turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    vertices = wall.vertices @ turn.T + np.array([x, y, 0.0])
    return Solid(vertices, wall.normals @ turn.T, wall.triangles, wall.rgb)


def stage_config(name: str) -> dict[str, Any]:
    """The `stage_config.json` in `configs/stages`."""
    return {
        "render_asset": f"../../stages/{name}.glb",
        "collision_asset": f"../../stages/{name}_collision.glb",
        "up": [0.0, 1.0, 0.0],
        "front": [0.0, 0.0, -1.0],
        "gravity": [0.0, -GRAVITY, 0.0],
        "origin": [0.0, 0.0, 0.0],
        "margin": 0.0,
        "friction_coefficient": FRICTION,
        "restitution_coefficient": 0.0,
    }


def template_name(piece: str) -> str:
    """Of a piece of furniture: HAB's where it has receptacles that HAB names."""
    if piece in fur.PARENTS:
        return fur.PARENTS[piece].partition("_:")[0]
    return f"rearrange_{piece}"


def floor_config(name: str) -> dict[str, Any]:
    """The floor's `object_config.json`, in `configs/objects`."""
    return _furniture(name) | {"is_collidable": True}


def body_name(piece: str) -> str:
    """Of what counter and fridge cover of the floor."""
    return f"rearrange_{piece}_body"


def furniture_config(name: str, piece: Piece) -> dict[str, Any]:
    """The `object_config.json` of furniture, in `configs/objects`."""
    config = _furniture(name) | {"is_collidable": True}
    if piece.surfaces:
        config["user_defined"] = user_defined(piece.surfaces)
    return config


def body_config(name: str) -> dict[str, Any]:
    """The `object_config.json` of what counter or fridge covers; the URDF has the collisions."""
    return _furniture(name) | {"is_collidable": False}


def _furniture(name: str) -> dict[str, Any]:
    return {
        "render_asset": f"../../objects/{name}.glb",
        "collision_asset": f"../../objects/{name}.glb",
        "join_collision_meshes": False,
        "margin": 0.0,
        "mass": 50.0,
        "COM": [0.0, 0.0, 0.0],
        "friction_coefficient": FRICTION,
        "restitution_coefficient": 0.0,
    }


def _place(x: float, y: float, yaw: float) -> dict[str, Any]:
    """Of an instance on the floor, m and rad in our axes."""
    return {
        "translation_origin": "asset_local",
        "translation": [round(v, 9) for v in to_habitat((x, y, 0.0))],
        "rotation": [round(v, 12) for v in yaw_to_habitat(yaw)],
    }


def scene_instance(layout: Layout) -> dict[str, Any]:
    """The `scene_instance.json` of an apartment."""
    floor = {"template_name": floor_name(layout), "motion_type": "STATIC"}
    objects, articulated = [floor | _place(0.0, 0.0, 0.0)], []
    for piece, (x, y, yaw) in layout.pieces.items():
        place = _place(x, y, yaw)
        is_articulated = piece in ARTICULATED
        name = body_name(piece) if is_articulated else template_name(piece)
        objects.append({"template_name": name, "motion_type": "STATIC"} | place)
        if is_articulated:
            name = ARTICULATED[piece]
            kind = {"template_name": name, "fixed_base": True, "auto_clamp_joint_limits": True}
            articulated.append(kind | {"motion_type": "DYNAMIC"} | place)
    return {
        "translation_origin": "asset_local",
        "stage_instance": {"template_name": stage_name(layout)},
        "object_instances": objects,
        "articulated_object_instances": articulated,
        "default_lighting": "",
        "navmesh_instance": "",
    }


def dataset_config() -> dict[str, Any]:
    """The `scene_dataset_config.json`."""
    return {
        "stages": {"paths": {".json": ["configs/stages"]}},
        "objects": {"paths": {".json": ["configs/objects"]}},
        "articulated_objects": {"paths": {".json": [f"urdf/{name}" for name in (COUNTER, FRIDGE)]}},
        "scene_instances": {"paths": {".json": ["configs/scenes"]}},
    }
