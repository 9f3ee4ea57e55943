"""Visuals of the counter, its drawers and the fridge's doors."""

from __future__ import annotations

import numpy as np

from rearrange.sim.home import furniture as fur
from rearrange.sim.home.furniture import Piece
from rearrange.sim.visuals.materials import add_box, material, tone
from rearrange.sim.visuals.meshes import tube, turned
from rearrange.sim.visuals.visual_builder import Colour, VisualBuilder

BRIGHT: Colour = (0.78, 0.79, 0.81)


def add_counter(visual_builder: VisualBuilder, body: int, piece: Piece) -> None:
    """Its boxes, and a tap at the sink."""
    for box in piece.boxes:
        add_box(visual_builder, body, box, 0.004)
    sink = next((b for b in piece.boxes if b.rgb == fur.STEEL and b.half[2] <= 0.011), None)
    if sink is None:
        return
    x, y, top = sink.pos[0] - sink.half[0] - 0.045, sink.pos[1], fur.COUNTER_HEIGHT
    turn = np.linspace(0, np.pi, 9)
    neck = [(x, y, top), (x, y, top + 0.16)]
    neck += [(x + 0.06 * (1 - np.cos(a)), y, top + 0.16 + 0.06 * np.sin(a)) for a in turn]
    visual_builder.add(body, tube(neck, 0.011, 12), BRIGHT, gloss=0.9)
    visual_builder.add(
        body,
        turned([(0.026, 0), (0.026, 0.012), (0.012, 0.03)], 18),
        BRIGHT,
        gloss=0.9,
        pos=(x, y, top),
    )


def add_drawer(visual_builder: VisualBuilder, body: int, boxes: dict, rgb: Colour) -> None:
    """A drawer: front with a frame, box, and a bar on two posts."""
    for part, (pos, half) in boxes.items():
        if part == "handle":
            _bar(visual_builder, body, pos, half, boxes["front"][0][0])
        elif part == "front":
            look, paint = material(visual_builder, rgb), tone(rgb)
            visual_builder.box(
                body, pos, (half[0] - 0.003, half[1], half[2] - 0.003), paint, 0.004, **look
            )
            visual_builder.box(
                body,
                (pos[0] + 0.004, 0, 0),
                (half[0] - 0.003, half[1] - 0.05, max(half[2] - 0.045, 0.02)),
                paint,
                0.002,
                **look,
            )
        else:
            visual_builder.box(
                body, pos, half, tone(fur.WOOD), 0.002, **material(visual_builder, fur.WOOD)
            )


def add_door(visual_builder: VisualBuilder, body: int, boxes: dict, rgb: Colour) -> None:
    """A fridge's door and its knob."""
    pos, half = boxes["panel"]
    paint = tone(rgb)
    visual_builder.box(body, pos, half, paint, 0.018, gloss=0.45)
    if "handle" in boxes:
        place, size = boxes["handle"]
        visual_builder.box(body, place, size, (0.28, 0.29, 0.31), 0.012, gloss=0.7)
        side = 1.0 if place[1] > 0 else -1.0
        visual_builder.box(
            body,
            (2 * half[0] + 0.002, pos[1] - side * 0.15, half[2] - 0.10),
            (0.002, 0.05, 0.008),
            BRIGHT,
            0.001,
            gloss=0.8,
        )


def _bar(visual_builder: VisualBuilder, body: int, pos, half, front: float) -> None:
    x, y, z = pos
    ends = [(x, y - half[1], z), (x, y + half[1], z)]
    visual_builder.add(body, tube(ends, 0.8 * half[0], 12), BRIGHT, gloss=0.8)
    for sign in (-1, 1):
        post = [(front, y + sign * 0.8 * half[1], z), (x, y + sign * 0.8 * half[1], z)]
        visual_builder.add(body, tube(post, 0.5 * half[0], 8), BRIGHT, gloss=0.8)
