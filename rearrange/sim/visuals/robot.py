"""Fetch's own meshes, from the package gymnasium-robotics (MIT), on our model's bodies.

Which mesh goes where, and its colour, is that package's `envs/assets/fetch/robot.xml`; wheels and
bellows, which it leaves out, stand as in Fetch's URDF (fetch_description). The suction tip is ours.
"""

from __future__ import annotations

import logging
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import mujoco
import numpy as np

from rearrange.sim.pictures.triangles import Mesh
from rearrange.sim.robot import fetch
from rearrange.sim.visuals.meshes import about, flat_shaded, joined, moved, turned
from rearrange.sim.visuals.visual_builder import Colour, VisualBuilder

MISSING = "the robot is shown in plain shapes: its meshes come with pip install gymnasium-robotics"
GREY, WHITE, BLUE = (0.30, 0.31, 0.34), (0.90, 0.90, 0.89), (0.07, 0.42, 0.72)
RED, DARK, RUBBER = (0.80, 0.05, 0.05), (0.13, 0.13, 0.15), (0.10, 0.10, 0.11)
TORSO = (-0.0869, 0.0, 0.3774)
LIFTED = (-0.0869, 0.0, 0.3774 + 0.15)  # as the arm's origin has it, see `fetch`
HEAD = (LIFTED[0] + 0.0531, 0.0, LIFTED[2] + 0.603)
# Down to where HAB's camera looks: 21.8 degrees.
_DOWN = float(np.arctan2(0.2, 0.5))

# file, body, place in it (m), turn, colour
_MESHES: tuple[
    tuple[str, str, tuple[float, float, float], tuple[int, float] | None, Colour], ...
] = (
    ("base_link_collision", "base_link", (0, 0, 0), None, GREY),
    ("r_wheel_link_collision", "base_link", (0.0013, -0.1874, 0.0553), None, DARK),
    ("l_wheel_link_collision", "base_link", (0.0013, 0.1874, 0.0553), None, DARK),
    ("torso_fixed_link", "base_link", TORSO, None, BLUE),
    ("bellows_link_collision", "base_link", LIFTED, None, DARK),
    ("torso_lift_link_collision", "base_link", LIFTED, None, WHITE),
    ("head_pan_link_collision", "base_link", HEAD, None, GREY),
    (
        "head_tilt_link_collision",
        "base_link",
        (HEAD[0] + 0.1425, 0, HEAD[2] + 0.058),
        (1, _DOWN),
        BLUE,
    ),
    ("estop_link", "base_link", (-0.1246, 0.2389, 0.3113), (0, np.pi / 2), RED),
    ("laser_link", "base_link", (0.235, 0.0, 0.2878), (0, np.pi), (0.60, 0.63, 0.70)),
    ("shoulder_pan_link_collision", "shoulder_pan_link", (0, 0, 0), None, WHITE),
    ("shoulder_lift_link_collision", "shoulder_lift_link", (0, 0, 0), None, BLUE),
    ("upperarm_roll_link_collision", "upperarm_roll_link", (0, 0, 0), None, WHITE),
    ("elbow_flex_link_collision", "elbow_flex_link", (0, 0, 0), None, BLUE),
    ("forearm_roll_link_collision", "forearm_roll_link", (0, 0, 0), None, WHITE),
    ("wrist_flex_link_collision", "wrist_flex_link", (0, 0, 0), None, BLUE),
    ("wrist_roll_link_collision", "wrist_roll_link", (0, 0, 0), None, WHITE),
    ("gripper_link", "gripper_link", (0, 0, 0), None, GREY),
)


def add_robot(visual_builder: VisualBuilder, model: mujoco.MjModel) -> list[int]:
    """Puts Fetch's meshes on; the geoms they replace: none, and one line said, without them."""
    folder = mesh_folder()
    if folder is None:
        logging.getLogger(__name__).warning(MISSING)
        return []
    for file, body, pos, turn, rgb in _MESHES:
        mesh = _load(folder / f"{file}.stl")
        how = {} if turn is None else {"turn": about(*turn)}
        visual_builder.add(model.body(body).id, mesh, rgb, pos=pos, gloss=0.35, **how)
    hand = model.body("gripper_link").id
    for side in (-1.0, 1.0):
        visual_builder.box(hand, (-0.005, side * 0.022, 0), (0.032, 0.007, 0.0135), DARK, 0.004)
    visual_builder.add(hand, _suction_tip(), RUBBER, gloss=0.3)
    visual_builder.add(hand, _suction_mount(), (0.72, 0.74, 0.77), gloss=0.8)
    base = model.body("base_link").id
    robot = np.flatnonzero(model.body_rootid == base)
    return [int(g) for g in np.flatnonzero(np.isin(model.geom_bodyid, robot))]


def mesh_folder() -> Path | None:
    """Where the meshes lie; None if the package is not there, or without them."""
    try:
        spec = find_spec("gymnasium_robotics")  # found, not imported: that would take a second
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent / "envs" / "assets" / "stls" / "fetch"
    complete = all((folder / f"{file}.stl").is_file() for file, *_ in _MESHES)
    return folder if complete else None


@cache
def _load(path: Path) -> Mesh:
    """A binary STL file: 80 bytes, the number of triangles, 50 bytes for each."""
    content = path.read_bytes()
    row = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("spare", "<u2")])
    count = int.from_bytes(content[80:84], "little")
    triangles = np.frombuffer(content, row, count, 84)["corners"].astype(float)
    return flat_shaded(triangles)


def _suction_mount() -> Mesh:
    tip = fetch.EE_OFFSET[0]
    profile = [
        (0.001, -0.02),
        (0.017, -0.02),
        (0.017, tip - 0.038),
        (0.009, tip - 0.034),
        (0.009, tip - 0.02),
        (0.001, tip - 0.02),
    ]
    return moved(turned(profile, 20, is_smooth=False), (0, 0, 0), about(1, np.pi / 2))


def _suction_tip() -> Mesh:
    """A bellows cup that ends where the simulated nozzle does."""
    tip, wide = fetch.EE_OFFSET[0], fetch.NOZZLE_RADIUS
    profile = [
        (0.006, tip - 0.030),
        (0.7 * wide, tip - 0.026),
        (0.5 * wide, tip - 0.021),
        (0.85 * wide, tip - 0.016),
        (0.55 * wide, tip - 0.010),
        (wide, tip),
        (0.5 * wide, tip - 0.006),
    ]
    return moved(joined([turned(profile, 20)]), (0, 0, 0), about(1, np.pi / 2))
