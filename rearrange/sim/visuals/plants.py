"""Visuals of plants: leaves instead of green boxes, and a pot below them."""

from __future__ import annotations

import numpy as np

from rearrange.sim.home import furniture as fur
from rearrange.sim.home.furniture import Box, Piece
from rearrange.sim.visuals.meshes import about, joined, leaf, moved, tube, turned
from rearrange.sim.visuals.visual_builder import VisualBuilder


def add_plant(visual_builder: VisualBuilder, body: int, piece: Piece) -> None:
    """Pot, earth, leaves."""
    pot, green = piece.boxes
    r, h = pot.half[0], pot.half[2]
    profile = [
        (1e-4, -h),
        (0.72 * r, -h),
        (0.98 * r, 0.9 * h),
        (r, 0.9 * h),
        (r, h),
        (0.88 * r, h),
        (0.86 * r, 0.75 * h),
        (1e-4, 0.75 * h),
    ]
    rgb = (0.82, 0.80, 0.76) if pot.rgb == fur.STONE else pot.rgb
    visual_builder.add(body, turned(profile, 32, is_smooth=False), rgb, pos=pot.pos, gloss=0.25)
    earth = turned([(1e-4, 0.78 * h), (0.87 * r, 0.78 * h)], 20)
    visual_builder.add(body, earth, (0.24, 0.17, 0.12), pos=pot.pos)
    add_leaves(visual_builder, body, green)


def add_leaves(visual_builder: VisualBuilder, body: int, box: Box) -> None:
    """Stalks with leaves that fill a box."""
    rng = np.random.default_rng(12)
    bottom, tall, wide = box.pos[2] - box.half[2], 2 * box.half[2], min(box.half[:2])
    stalks, shades = [], ([], [])
    for k in range(7):
        a, lean = 0.9 * k, wide * rng.uniform(0.1, 0.5)
        line = [
            (
                lean * s * np.cos(a),
                lean * s * np.sin(a),
                bottom + 0.85 * tall * s * rng.uniform(0.9, 1.0),
            )
            for s in np.linspace(0, 1, 5)
        ]
        stalks.append(tube(line, 0.006, 6))
        for s in np.linspace(0.25, 1.0, 8):
            at = np.array(
                [np.interp(s, np.linspace(0, 1, 5), np.array(line)[:, i]) for i in range(3)]
            )
            length = rng.uniform(0.16, 0.28) * min(1.6 * wide / 0.18, 1.4)
            turn = about(2, rng.uniform(0, 2 * np.pi)) @ about(1, rng.uniform(-0.2, 0.5))
            mesh = moved(leaf(length, 0.34 * length, rng.uniform(0.5, 1.1)), at, turn)
            shades[int(rng.integers(2))].append(mesh)
    visual_builder.add(body, joined(stalks), (0.30, 0.36, 0.18))
    for leaves, rgb in zip(shades, ((0.20, 0.44, 0.22), (0.34, 0.56, 0.28)), strict=True):
        if leaves:
            visual_builder.add(body, joined(leaves), rgb, gloss=0.15)
