"""Visuals of furniture: legs, cushions, fronts and handles within the simulation's boxes.

A box becomes a rounded one of what its colour says it is made of; pieces that are known by their
name get more. Books, leaves and knobs are for the eye only.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rearrange.sim.home import furniture as fur
from rearrange.sim.home.furniture import Box, Piece
from rearrange.sim.pictures.triangles import Mesh
from rearrange.sim.visuals import prints
from rearrange.sim.visuals.kitchen import add_counter
from rearrange.sim.visuals.materials import add_box, material, tone
from rearrange.sim.visuals.meshes import about, moved, rounded_box, sheet, turned
from rearrange.sim.visuals.plants import add_plant
from rearrange.sim.visuals.visual_builder import Colour, VisualBuilder

KNOB: Colour = (0.78, 0.74, 0.66)
BOOKS: tuple[Colour, ...] = (
    (0.70, 0.24, 0.20),
    (0.20, 0.36, 0.50),
    (0.88, 0.76, 0.46),
    (0.24, 0.42, 0.34),
    (0.86, 0.84, 0.78),
    (0.36, 0.26, 0.40),
    (0.82, 0.52, 0.28),
)


def add_piece(visual_builder: VisualBuilder, body: int, name: str, piece: Piece) -> None:
    """Puts a piece's look on its body."""
    kind = name.partition("_")[0]
    add_visual = _KNOWN.get(kind)
    if add_visual is not None and len(piece.boxes) in _BOXES[kind]:
        add_visual(visual_builder, body, piece)
    else:
        for box in piece.boxes:
            add_box(visual_builder, body, box)


def _table(visual_builder: VisualBuilder, body: int, piece: Piece) -> None:
    top, *legs = piece.boxes
    look = material(visual_builder, top.rgb)
    visual_builder.box(body, top.pos, top.half, tone(top.rgb), 0.012, **look)
    for leg in legs:
        z = leg.half[2]
        foot, head = 0.62 * leg.half[0], leg.half[0]
        taper = _tapered(foot, head, z)
        visual_builder.add(body, taper, tone(leg.rgb), pos=leg.pos, **look)
    height, (hx, hy) = top.pos[2] - top.half[2] - 0.035, piece.half
    for sign in (-1.0, 1.0):
        visual_builder.box(
            body,
            (sign * (hx - 0.045), 0, height),
            (0.011, hy - 0.06, 0.035),
            tone(top.rgb),
            0.004,
            **look,
        )
        visual_builder.box(
            body,
            (0, sign * (hy - 0.045), height),
            (hx - 0.06, 0.011, 0.035),
            tone(top.rgb),
            0.004,
            **look,
        )


def _tapered(foot: float, head: float, half: float) -> Mesh:
    """A leg that is thinner at its foot."""
    mesh = rounded_box((head, head, half), 0.006)
    share = (mesh.points[:, 2:3] / half + 1) / 2
    points = mesh.points.copy()
    points[:, :2] *= foot / head + (1 - foot / head) * share
    return Mesh(points, mesh.normals, mesh.faces, mesh.uvs)


def _chair(visual_builder: VisualBuilder, body: int, piece: Piece) -> None:
    seat, back, *sides = piece.boxes
    look, rgb = material(visual_builder, seat.rgb), tone(seat.rgb)
    visual_builder.box(body, seat.pos, seat.half, rgb, 0.014, **look)
    low, high = back.pos[2] - back.half[2], back.pos[2] + back.half[2]
    half = back.half[1]
    for sign in (-1.0, 1.0):
        visual_builder.box(
            body,
            (back.pos[0], sign * (half - 0.02), back.pos[2]),
            (0.016, 0.018, back.half[2]),
            rgb,
            0.007,
            **look,
        )
    for share in (0.45, 0.72, 0.97):
        visual_builder.box(
            body,
            (back.pos[0], 0, low + share * (high - low) - 0.03),
            (0.010, half - 0.03, 0.03),
            rgb,
            0.006,
            **look,
        )
    for side in sides:
        for sign in (-1.0, 1.0):
            x = sign * (side.half[0] - 0.02)
            visual_builder.add(
                body,
                _tapered(0.014, 0.019, side.half[2]),
                rgb,
                pos=(side.pos[0] + x, side.pos[1], side.pos[2]),
                **look,
            )
        visual_builder.box(
            body,
            (side.pos[0], side.pos[1], 0.55 * side.pos[2]),
            (side.half[0] - 0.03, 0.009, 0.011),
            rgb,
            0.004,
            **look,
        )


def _sofa(visual_builder: VisualBuilder, body: int, piece: Piece) -> None:
    seat, back, *arms = piece.boxes
    look, rgb = material(visual_builder, seat.rgb), tone(seat.rgb)
    top, depth, inner = 2 * seat.half[2], seat.half[0], seat.half[1]
    low = 0.06
    split = top - 0.15
    visual_builder.box(
        body,
        (seat.pos[0] - 0.005, 0, (low + split) / 2),
        (depth - 0.005, inner, (split - low) / 2),
        rgb,
        0.02,
        **look,
    )
    count = 3 if inner > 0.85 else 2
    wide = inner / count
    light = (1.08 * rgb[0], 1.08 * rgb[1], 1.08 * rgb[2])
    for k in range(count):
        y = -inner + wide * (2 * k + 1)
        visual_builder.box(
            body,
            (seat.pos[0] + 0.005, y, (split + top) / 2),
            (depth - 0.005, wide - 0.003, 0.075),
            light,
            0.045,
            **look,
        )
        rest = back.pos[0] + back.half[0] + 0.002
        high = back.half[2] * 2 - 0.04
        visual_builder.box(
            body,
            (rest - 0.03, y, (top + high) / 2),
            (0.05, wide - 0.006, (high - top) / 2 - 0.005),
            light,
            0.045,
            **look,
        )
    visual_builder.box(
        body,
        (back.pos[0] - 0.03, 0, back.pos[2] + low / 2),
        (back.half[0] - 0.03, back.half[1], back.half[2] - low / 2),
        rgb,
        0.05,
        **look,
    )
    for arm in arms:
        visual_builder.box(
            body,
            (arm.pos[0], arm.pos[1], arm.pos[2] + low / 2),
            (arm.half[0], arm.half[1], arm.half[2] - low / 2),
            rgb,
            0.06,
            **look,
        )
    for sx in (-1, 1):
        for sy in (-1, 1):
            foot = (sx * (piece.half[0] - 0.07), sy * (piece.half[1] - 0.07), low / 2)
            visual_builder.box(body, foot, (0.025, 0.025, low / 2), tone(fur.DARK_WOOD), 0.004)


def _tvstand(visual_builder: VisualBuilder, body: int, piece: Piece) -> None:
    board, screen = piece.boxes
    _cabinet(visual_builder, body, board, columns=3, rows=1, legs=0.10)
    x, y, z = screen.pos
    hx, hy, hz = screen.half
    visual_builder.box(body, (x, y, z), (hx - 0.002, hy, hz), (0.05, 0.05, 0.06), 0.008, gloss=0.4)
    picture = visual_builder.texture("painting_0", lambda: prints.painting(0))
    corners = [
        (x + hx, y - hy + 0.02, z - hz + 0.02),
        (x + hx, y + hy - 0.02, z - hz + 0.02),
        (x + hx, y + hy - 0.02, z + hz - 0.02),
        (x + hx, y - hy + 0.02, z + hz - 0.02),
    ]
    visual_builder.add(
        body, sheet(corners), (0.55, 0.58, 0.65), texture=picture, light=0.75, gloss=0.5
    )
    top = 2 * board.half[2]
    for sign in (-1, 1):
        visual_builder.box(
            body,
            (x, y + sign * 0.5 * hy, (top + z - hz) / 2),
            (0.012, 0.02, (z - hz - top) / 2 + 0.01),
            (0.07, 0.07, 0.08),
            0.004,
        )


def _cabinet(
    visual_builder: VisualBuilder, body: int, box: Box, columns: int, rows: int, legs: float
) -> None:
    """A body on legs with fronts that end where its box does, and a knob on each."""
    look, rgb = material(visual_builder, box.rgb), tone(box.rgb)
    (hx, hy, hz), bottom = box.half, box.pos[2] - box.half[2]
    x, y = box.pos[:2]
    front = 0.012
    low, high = bottom + legs, bottom + 2 * hz
    visual_builder.box(
        body,
        (x - front, y, (low + high) / 2),
        (hx - front, hy, (high - low) / 2),
        rgb,
        0.008,
        **look,
    )
    visual_builder.box(body, (x, y, high - 0.012), (hx, hy, 0.012), rgb, 0.005, **look)
    for sx in (-1, 1):
        for sy in (-1, 1):
            if legs > 0.05:
                place = (x + sx * (hx - 0.04), y + sy * (hy - 0.05), bottom + legs / 2)
                visual_builder.add(body, _tapered(0.013, 0.02, legs / 2), rgb, pos=place, **look)
    wide, tall = hy / columns, (high - low - 0.03) / rows / 2
    for column in range(columns):
        for row in range(rows):
            place = (x + hx - 0.010, y - hy + wide * (2 * column + 1), low + tall * (2 * row + 1))
            visual_builder.box(body, place, (0.008, wide - 0.006, tall - 0.005), rgb, 0.004, **look)
            side = 0.0 if rows > 1 else wide * (0.75 if column < columns / 2 else -0.75)
            knobs = (-0.45 * wide, 0.45 * wide) if rows > 1 and wide > 0.3 else (side,)
            for dy in knobs:
                knob = turned(
                    [(1e-4, 0.022), (0.011, 0.020), (0.013, 0.014), (0.006, 0.008), (0.005, 0)], 14
                )
                visual_builder.add(
                    body,
                    moved(knob, (0, 0, 0), about(1, np.pi / 2)),
                    KNOB,
                    gloss=0.7,
                    pos=(x + hx - 0.003, place[1] + dy, place[2]),
                )


def _chest(visual_builder: VisualBuilder, body: int, piece: Piece) -> None:
    _cabinet(visual_builder, body, piece.boxes[0], columns=1, rows=4, legs=0.08)


def _island(visual_builder: VisualBuilder, body: int, piece: Piece) -> None:
    box = piece.boxes[0]
    (hx, hy, hz), z = box.half, box.pos[2]
    lower = Box((0, 0, z - 0.02), (hx - 0.02, hy - 0.02, hz - 0.02), box.rgb)
    _cabinet(visual_builder, body, lower, columns=3, rows=1, legs=0.02)
    visual_builder.box(
        body,
        (0, 0, 2 * hz - 0.02),
        (hx, hy, 0.02),
        tone(fur.STONE),
        0.006,
        **material(visual_builder, fur.STONE),
    )


def _shelf(visual_builder: VisualBuilder, body: int, piece: Piece) -> None:
    for box in piece.boxes:
        add_box(visual_builder, body, box, 0.004)
    boards = sorted((b for b in piece.boxes if b.half[2] < 0.02), key=lambda b: b.pos[2])
    rng = np.random.default_rng(11)
    for number, (board, above) in enumerate(zip(boards, boards[1:], strict=False)):
        floor, room = board.pos[2] + board.half[2], above.pos[2] - above.half[2]
        y, end = -board.half[1] + 0.03, board.half[1] * (0.9 if number % 2 else 0.2)
        while y < end:
            wide, tall = (
                rng.uniform(0.012, 0.028),
                min(rng.uniform(0.19, 0.29), room - floor - 0.02),
            )
            rgb = BOOKS[int(rng.integers(len(BOOKS)))]
            deep = min(rng.uniform(0.07, 0.095), board.half[0] - 0.02)
            visual_builder.box(
                body,
                (board.pos[0] - board.half[0] + deep + 0.02, y + wide, floor + tall / 2),
                (deep, wide - 0.0008, tall / 2),
                rgb,
                0.003,
            )
            y += 2 * wide
        if end < board.half[1] * 0.5:
            vase = [(1e-4, 0), (0.045, 0), (0.06, 0.05), (0.045, 0.13), (0.022, 0.17), (0.03, 0.2)]
            visual_builder.add(
                body,
                turned(vase, 24),
                BOOKS[(number * 3 + 2) % len(BOOKS)],
                gloss=0.5,
                pos=(board.pos[0], 0.6 * board.half[1], floor),
            )


_KNOWN: dict[str, Callable[[VisualBuilder, int, Piece], None]] = {
    "table": _table,
    "chair": _chair,
    "sofa": _sofa,
    "tvstand": _tvstand,
    "chest": _chest,
    "island": _island,
    "shelf": _shelf,
    "plant": add_plant,
    "counter": add_counter,
}
_BOXES: dict[str, range] = {
    "table": range(5, 6),
    "chair": range(4, 5),
    "sofa": range(4, 5),
    "tvstand": range(2, 3),
    "chest": range(1, 2),
    "island": range(1, 2),
    "shelf": range(4, 99),
    "plant": range(2, 3),
    "counter": range(1, 99),
}
"""How many boxes a piece has to have to be one of these: another of its name gets a plain look."""
