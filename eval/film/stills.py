"""Five stills, each with and without visuals, and a page that shows them side by side.

    python -m rearrange.eval.film.stills FOLDER        # index.html, sheet.jpg, ten pictures

A film that lies in the folder as film.mp4 is shown too, beside an older one called before.mp4.
"""

from __future__ import annotations

import sys
from html import escape
from math import cos, degrees, sin
from pathlib import Path

import numpy as np
from PIL import Image

from rearrange.sim.home.furniture import piece_to_world
from rearrange.sim.home.objects import KINDS, YCB_KINDS
from rearrange.sim.homes.layout import layout_ids, make_layout
from rearrange.sim.pictures.pictures import FreeCamera, Painter
from rearrange.sim.robot import fetch
from rearrange.sim.scene import ObjectPlacement, Scene
from rearrange.sim.simulation import Simulation
from rearrange.sim.visuals.home_visuals import build_visuals
from rearrange.system.html import page

SIZE = (960, 540)
SHEET_WIDTH = 480  # of each picture on the sheet
HOME = "v3_sc3_staging_03"
DRAWERS = {"drawer_right_top": 0.45, "fridge_top_door": 1.6}


def stills() -> list[tuple[str, Scene, FreeCamera]]:
    """What each shows, its scene, its camera."""
    layout = make_layout(HOME)
    table, counter, sofa = (layout.pieces[name] for name in ("table_01", "counter", "sofa"))
    things = _things_on(HOME)
    robot = (4.3, 4.4, 2.6)
    close = piece_to_world(table, 0.1, 0.0)
    kitchen = piece_to_world(counter, 0.9, 0.9)
    at_counter = (*piece_to_world(counter, 1.15, 0.5), counter[2] + np.pi)
    other = layout_ids("val", "procedural")[3]
    bounds = make_layout(other).bounds
    middle = ((bounds[0] + bounds[2]) / 2, (bounds[1] + bounds[3]) / 2)
    wide = max(bounds[2] - bounds[0], bounds[3] - bounds[1])
    arm = tuple(fetch.ARM_START)
    return [
        ("Fetch", Scene(HOME, things, robot, arm), _toward(robot, 2.4, -14.0)),
        ("Twenty things", Scene(HOME, things, robot, arm),
         FreeCamera((*close, 0.80), 1.45, degrees(table[2]) + 180.0, -34.0, 42.0)),
        ("Kitchen", Scene(HOME, things, at_counter, arm, DRAWERS),
         FreeCamera((*kitchen, 0.8), 2.9, degrees(counter[2]) + 150.0, -22.0, 48.0)),
        ("A home of HAB", Scene(HOME, things, robot, arm),
         FreeCamera((sofa[0] - 1.4, sofa[1] - 2.6, 0.4), 6.8, 62.0, -36.0, 48.0)),
        ("A procedural home", Scene(other, (), (*middle, 0.5), arm),
         FreeCamera((*middle, 0.0), 1.25 * wide, 60.0, -48.0, 48.0)),
    ]  # fmt: skip


def main(folder: Path) -> None:
    """Writes everything into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    sim, rows, parts = Simulation(), [], ["<h1>What people see</h1>"]
    for number, (title, scene, camera) in enumerate(stills(), start=1):
        sim.reset(scene)
        pair = []
        for name, visuals in (("before", None), ("after", build_visuals(sim).visuals)):
            picture = Painter(sim.model, *SIZE, visuals=visuals).render(sim.data, camera)
            pair.append(Image.fromarray(picture))
            pair[-1].save(folder / f"{name}_{number}.jpg", quality=88)
        rows.append(pair)
        shown = "".join(
            f'<img width=470 src="{name}_{number}.jpg"> ' for name in ("before", "after")
        )
        parts += [f"<h2>{escape(title)}</h2>", f"<p>{shown}</p>"]
    for name in ("before", "film"):
        if (folder / f"{name}.mp4").is_file():
            parts.append(f'<h2>{name}</h2><video controls width=960 src="{name}.mp4"></video>')
    (folder / "index.html").write_text(page("What people see", parts))
    _sheet(rows).save(folder / "sheet.jpg", quality=82)


def _things_on(home: str) -> tuple[ObjectPlacement, ...]:
    """One of each of YCB's kinds in two rows on the dining table."""
    pose, placed = make_layout(home).pieces["table_01"], []
    for number, name in enumerate(YCB_KINDS):
        row, column = divmod(number, 10)
        x, y = piece_to_world(pose, 0.2 - 0.3 * row, 0.138 * column - 0.62)
        half = (pose[2] + (1.2 if name == "011_banana" else 0.35)) / 2
        place = (x, y, 0.75 + KINDS[name].half_height)
        placed.append(ObjectPlacement(name, place, (cos(half), 0.0, 0.0, sin(half))))
    return tuple(placed)


def _toward(robot: tuple[float, float, float], distance: float, elevation: float) -> FreeCamera:
    """At the robot, from its front and side."""
    x, y, yaw = robot
    lookat = (x + 0.15 * cos(yaw), y + 0.15 * sin(yaw), 0.62)
    return FreeCamera(lookat, distance, degrees(yaw) + 128.0, elevation, 42.0)


def _sheet(rows: list[list[Image.Image]]) -> Image.Image:
    height = SHEET_WIDTH * SIZE[1] // SIZE[0]
    sheet = Image.new("RGB", (2 * SHEET_WIDTH + 6, (height + 6) * len(rows) - 6), "white")
    for row, pair in enumerate(rows):
        for column, picture in enumerate(pair):
            small = picture.resize((SHEET_WIDTH, height), Image.Resampling.LANCZOS)
            sheet.paste(small, (column * (SHEET_WIDTH + 6), row * (height + 6)))
    return sheet


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "outputs/look"))
