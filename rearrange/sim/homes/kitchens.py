"""Kitchens of procedural homes: counters and fridges of many sizes, and their placement.

    line     fridge and counter along a wall         galley  a second run opposite
    corner   the run goes on around a corner         apart   the fridge at another wall
    each with or without an island

The counter has three columns, one with the sink, in any order; of its seven drawers up to three
are plain fronts. The fridge's doors are hinged on either side. All kitchens share the dimensions
that the robot's arm depends on: the depth of the counter, how far drawers and doors open, the
height of the fridge's handle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rearrange.sim.home import furniture as fur
from rearrange.sim.home.furniture import Counter, Fridge, Piece, Surface
from rearrange.sim.homes.kinds import PLAIN, WOODS, Colour, box, colour, drawn

COLUMNS: tuple[str, ...] = ("left", "middle", "right")  # the middle one has the sink
DROPPABLE = ("drawer_left_bottom", "drawer_middle_middle", "drawer_middle_bottom")
STONES = (fur.STONE, (0.30, 0.30, 0.32), (0.80, 0.79, 0.76), (0.58, 0.45, 0.33))
KINDS = ("line", "corner", "galley", "apart")
_X = 300  # mm, half the counter's depth, on which drawers and grasps depend


@dataclass(frozen=True)
class CounterDraw:
    """A counter and what goes with it."""

    counter: Counter
    piece: Piece
    height: int  # mm
    front_rgb: Colour
    top_rgb: Colour


def draw_counter(rng: np.random.Generator) -> CounterDraw:
    """A counter of 1.8 to 2.7 m."""
    height = drawn(rng, 860, 940)
    order = [COLUMNS[i] for i in rng.permutation(3)]
    widths = {name: drawn(rng, 600, 900, 50) for name in COLUMNS}
    top_rgb, front_rgb = colour(rng, STONES), colour(rng, PLAIN + WOODS)
    split = drawn(rng, -40, 40, 20)
    dropped = [name for name in DROPPABLE if rng.integers(100) < 30]
    return make_counter(height, order, widths, split, dropped, top_rgb, front_rgb)


def make_counter(
    height: int,
    order: list[str],
    widths: dict[str, int],
    split: int = 0,
    dropped: Sequence[str] = (),
    top_rgb: Colour = fur.STONE,
    front_rgb: Colour = fur.WHITE,
) -> CounterDraw:
    """A counter of given sizes, mm.

    Args:
        order: of the columns, along +y.
        split: how much higher than usual the lowest drawer of the middle column ends.
        dropped: drawers that it does not have.
    """
    middles, at = {}, -sum(widths.values()) // 2
    for name in order:
        middles[name] = at + widths[name] // 2
        at += widths[name]
    drawers, half_widths = {}, {}
    lift = height - 900
    heights = {
        "top": (640 + lift, 850 + lift), "bottom": (100, 620 + lift),
        "middle_top": (620 + lift, 770 + lift), "middle_middle": (370 + split, 600 + lift),
        "middle_bottom": (100, 350 + split),
    }  # fmt: skip
    for joint in fur.DRAWERS:
        _, column, level = joint.split("_")
        own = f"{column}_{level}"
        low, high = heights[own if own in heights else level]
        drawers[joint] = (middles[column] / 1000, low / 1000, high / 1000)
        half_widths[joint] = (widths[column] // 2 - 20) / 1000
    fronts = []
    for joint in dropped:
        y, low, high = (round(1000 * v) for v in drawers.pop(joint))
        half = round(1000 * half_widths.pop(joint)) + 15
        fronts.append(box(310, y, (low + high) // 2, 10, half, (high - low) // 2, front_rgb))
    counter = Counter(drawers, half_widths, front_rgb, tuple(fronts))
    piece = _counter_piece(counter, middles, widths, order, height, top_rgb, front_rgb)
    return CounterDraw(counter, piece, height, front_rgb, top_rgb)


def _counter_piece(counter, middles, widths, order, height, top_rgb, front_rgb) -> Piece:
    """The seventeen boxes of a counter, in HAB's order."""
    half = sum(widths.values()) // 2
    top, body = height - 20, (height - 40) // 2
    y, w = middles["middle"], widths["middle"] // 2
    basin = min(320, w - 40)
    strip = (w - basin) // 2
    depth = round(1000 * fur.SINK_DEPTH)
    wall = height - 60
    edges = [middles[name] - widths[name] // 2 for name in order[1:]]
    boxes = [
        *(box(0, middles[n], top, _X, widths[n] // 2, 20, top_rgb) for n in ("left", "right")),
        box(250, y, top, 50, w, 20, top_rgb), box(-250, y, top, 50, w, 20, top_rgb),
        box(0, y + basin + strip, top, 200, strip, 20, top_rgb),
        box(0, y - basin - strip, top, 200, strip, 20, top_rgb),
        box(0, y, height - depth - 10, 200, basin, 10, fur.STEEL),
        box(0, y + basin + 5, wall, 200, 5, 40, fur.STEEL),
        box(0, y - basin - 5, wall, 200, 5, 40, fur.STEEL),
        box(205, y, wall, 5, basin, 40, fur.STEEL), box(-205, y, wall, 5, basin, 40, fur.STEEL),
        box(-290, 0, body, 10, half, body, front_rgb),
        box(0, 10 - half, body, _X, 10, body, front_rgb),
        box(0, half - 10, body, _X, 10, body, front_rgb),
        *(box(0, edge, body, _X, 10, body, front_rgb) for edge in edges),
        box(0, 0, 50, 280, half, 40, fur.DARK_WOOD),
    ]  # fmt: skip
    surfaces = []
    for name in ("left", "right"):
        surfaces.append(
            Surface(
                f"receptacle_aabb_counter_{name}_kitchen_counter",
                (0.0, middles[name] / 1000, height / 1000), (0.3, widths[name] / 2000), 1.0,
            )
        )  # fmt: skip
    surfaces.insert(
        1,
        Surface(
            "receptacle_aabb_sink_kitchen_counter", (0.0, y / 1000, (height - depth) / 1000),
            (0.19, (basin - 20) / 1000), 1.0, capacity=2,
        ),
    )  # fmt: skip
    surfaces += [fur.drawer_surface(joint, counter) for joint in counter.drawers]
    front = fur.PIECES["counter"].front
    return Piece("counter", (_X / 1000, half / 1000), tuple(boxes), tuple(surfaces), front)


def draw_fridge(rng: np.random.Generator) -> tuple[Fridge, Piece]:
    """A fridge of 0.68 to 0.8 m width and 1.7 to 2 m height, hinged left or right."""
    half, high = drawn(rng, 340, 400), drawn(rng, 1700, 2000, 20)
    shelf, side = drawn(rng, 900, 1000), 1 if rng.integers(2) else -1
    upper = shelf + drawn(rng, 480, 560)
    rgb = colour(rng, (fur.STEEL, fur.WHITE, (0.25, 0.26, 0.28)))
    return make_fridge(half, high, shelf, side, upper, rgb)


def make_fridge(
    half: int, high: int, shelf: int, side: int, upper: int, rgb: Colour = fur.STEEL
) -> tuple[Fridge, Piece]:
    """A fridge of given sizes, mm: half its width, its height, that of its shelf and the next one.

    Args:
        side: 1: hinged on the left as one looks out of it, at +y; -1: on the other side.
    """
    middle = high // 2
    boxes = [
        box(-305, 0, middle, 15, half, middle, rgb),
        box(0, half - 15, middle, 320, 15, middle, rgb),
        box(0, 15 - half, middle, 320, 15, middle, rgb),
        box(0, 0, high - 15, 320, half, 15, rgb), box(0, 0, 50, 320, half, 50, rgb),
        box(0, 0, 740, 310, half - 30, 10, rgb),
        box(-30, 0, shelf - 10, 270, half - 30, 10, rgb),
        box(-30, 0, upper, 270, half - 30, 10, rgb), box(-30, 0, 420, 270, half - 30, 10, rgb),
    ]  # fmt: skip
    known = fur.PIECES["fridge"].surfaces[0]
    surface = Surface(
        known.name, (0.05, 0.0, shelf / 1000), (0.18, (half - 50) / 1000),
        (upper - 10 - shelf) / 1000, known.kind, known.joint, known.capacity,
    )  # fmt: skip
    (bottom, middle_z, mass), (low, _, top_mass) = fur.FRIDGE_DOORS.values()
    names = list(fur.FRIDGE_DOORS)
    doors = {names[0]: (bottom, middle_z, mass), names[1]: (low, high / 1000, top_mass)}
    width = 2 * half - 20
    fridge = Fridge(
        (0.32, half / 1000), (0.32, side * (half - 10) / 1000), doors, width / 1000,
        (width - 70) / 1000, float(side), rgb,
    )  # fmt: skip
    piece = Piece(
        "fridge", (0.32, half / 1000), tuple(boxes), (surface,), fur.PIECES["fridge"].front
    )
    return fridge, piece


def run_piece(slot: str, length: int, like: CounterDraw) -> Piece:
    """More of the counter, without drawers: around the corner, or opposite."""
    half, z = length // 2, like.height
    boxes = (
        box(0, 0, (z - 40) // 2, _X - 10, half - 5, (z - 40) // 2, like.front_rgb),
        box(0, 0, z - 20, _X, half, 20, like.top_rgb),
    )
    surface = Surface(
        f"receptacle_aabb_worktop_{slot}", (0.0, 0.0, z / 1000), (_X / 1000, half / 1000), 1.0
    )
    return Piece(slot, (_X / 1000, half / 1000), boxes, (surface,))


def kept_free_counter(piece: Piece) -> tuple[int, int, int, int]:
    """Floor before a counter that stays free, mm, in its frame: x0, y0, x1, y1."""
    half = round(1000 * piece.half[1])
    return (_X, -half, 1_620, half)


def kept_free_fridge(fridge: Fridge) -> tuple[int, int, int, int]:
    """Floor before a fridge that stays free, also outside of its open door, mm, in its frame."""
    low, high = (-770, 1_020) if fridge.side > 0 else (-1_020, 770)
    return (320, low, 2_100, high)
