"""Visuals of objects: YCB objects by name; any other stays a plain shape.

The look keeps to the size of the shape that the simulation moves; a mug's handle and a banana's
bend stand out of it by 3 cm.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rearrange.sim.home.objects import ObjectKind
from rearrange.sim.visuals import prints
from rearrange.sim.visuals.meshes import (
    about,
    ball,
    joined,
    leaf,
    moved,
    printed_box,
    rounded_box,
    tube,
    turned,
)
from rearrange.sim.visuals.visual_builder import VisualBuilder

AddVisual = Callable[[VisualBuilder, int, ObjectKind], None]
METAL, GREEN, STEM = (0.76, 0.77, 0.79), (0.25, 0.48, 0.18), (0.36, 0.25, 0.13)
_CARTONS = {  # title, paper, ink, accent, picture, a line below
    "003_cracker_box": (
        "Crackers",
        (204, 32, 34),
        (255, 246, 226),
        (150, 14, 22),
        "crackers",
        "baked, with salt",
    ),
    "004_sugar_box": (
        "SUGAR",
        (250, 205, 40),
        (30, 70, 160),
        (30, 70, 160),
        "sugar",
        "1 lb, pure cane",
    ),
    "008_pudding_box": (
        "Pudding",
        (112, 62, 34),
        (255, 240, 214),
        (70, 34, 18),
        "cream",
        "chocolate",
    ),
    "009_gelatin_box": (
        "Gelatin",
        (240, 92, 128),
        (255, 255, 255),
        (176, 24, 66),
        "jelly",
        "strawberry",
    ),
    "010_potted_meat_can": (
        "Potted meat",
        (30, 66, 146),
        (255, 222, 60),
        (255, 200, 40),
        "meat",
        "",
    ),
    "021_bleach_cleanser": (
        "Bleach",
        (248, 250, 252),
        (20, 80, 170),
        (20, 120, 200),
        "drops",
        "cleanser",
    ),
}
_CANS = {  # title, paper, band, ink, picture
    "002_master_chef_can": ("Coffee", (24, 56, 132), (226, 186, 84), (255, 255, 255), "beans"),
    "005_tomato_soup_can": ("Tomato soup", (248, 244, 236), (200, 30, 30), (190, 24, 26), "tomato"),
    "007_tuna_fish_can": ("Tuna", (36, 128, 180), (240, 244, 248), (255, 255, 255), "fish"),
}


def add_object(visual_builder: VisualBuilder, body: int, kind: ObjectKind) -> bool:
    """Puts a thing's look on its body; whether there is one."""
    if kind.name in _CANS:
        _can(visual_builder, body, kind)
    elif kind.name in ("010_potted_meat_can", "021_bleach_cleanser"):
        (_tin if kind.name.startswith("010") else _bottle)(visual_builder, body, kind)
    elif kind.name in _CARTONS:
        _carton(visual_builder, body, kind)
    elif kind.name in _OTHERS:
        _OTHERS[kind.name](visual_builder, body, kind)
    else:
        return False
    return True


def _label(visual_builder: VisualBuilder, kind: ObjectKind) -> int:
    x, y, z = kind.size
    title, paper, ink, accent, picture, small = _CARTONS[kind.name]
    return visual_builder.texture(
        kind.name,
        lambda: prints.box_label(title, paper, ink, accent, picture, (y / z, x / z, y / x), small),
    )


def _carton(visual_builder: VisualBuilder, body: int, kind: ObjectKind) -> None:
    visual_builder.add(
        body, printed_box(kind.size, 0.002), texture=_label(visual_builder, kind), gloss=0.12
    )


def _can(visual_builder: VisualBuilder, body: int, kind: ObjectKind) -> None:
    r, h = kind.size[0], kind.size[1]
    title, paper, band, ink, picture = _CANS[kind.name]
    aspect = 2 * np.pi * r / (2 * h)
    texture = visual_builder.texture(
        kind.name, lambda: prints.can_label(title, paper, band, ink, picture, aspect)
    )
    rim = min(0.004, 0.1 * h)
    side = [(0.985 * r, rim - h), (0.985 * r, h - rim)]
    visual_builder.add(body, turned(side, 36), texture=texture, gloss=0.25)
    for sign in (-1.0, 1.0):
        profile = [
            (1e-4, h - 2.5 * rim),
            (0.90 * r, h - 2.5 * rim),
            (0.93 * r, h - 0.3 * rim),
            (0.97 * r, h),
            (r, h - 0.5 * rim),
            (r, h - rim),
            (0.98 * r, h - 1.4 * rim),
        ]
        lid = turned([(a, sign * b) for a, b in profile], 36)
        visual_builder.add(body, lid, METAL, gloss=0.8)


def _tin(visual_builder: VisualBuilder, body: int, kind: ObjectKind) -> None:
    x, y, z = kind.size
    visual_builder.add(
        body, printed_box((x, y, z - 0.003), 0.014), texture=_label(visual_builder, kind), gloss=0.3
    )
    for sign in (-1.0, 1.0):
        visual_builder.add(
            body,
            rounded_box((0.94 * x, 0.96 * y, 0.003), 0.0028),
            METAL,
            gloss=0.8,
            pos=(0.0, 0.0, sign * (z - 0.003)),
        )


def _bottle(visual_builder: VisualBuilder, body: int, kind: ObjectKind) -> None:
    x, y, z = kind.size
    low = 0.68 * z  # half height of the body
    visual_builder.add(
        body, rounded_box((x, y, low), 0.02), (0.93, 0.94, 0.96), gloss=0.5, pos=(0, 0, low - z)
    )
    title = visual_builder.texture(
        kind.name,
        lambda: prints.box_label(
            "Bleach",
            (248, 250, 252),
            (20, 80, 170),
            (20, 120, 200),
            "drops",
            (y / low, x / low, 1.0),
            "cleanser",
        ),
    )
    visual_builder.add(
        body,
        printed_box((x * 1.01, y * 0.86, low * 0.78), 0.004),
        texture=title,
        gloss=0.4,
        pos=(0, 0, low - z),
    )
    top = 2 * low - z
    shoulder = [(0.95, top - 0.012), (0.8, top + 0.012), (0.45, top + 0.030), (0.38, top + 0.042)]
    visual_builder.add(
        body, turned([(a * x, b) for a, b in shoulder], 28), (0.93, 0.94, 0.96), gloss=0.5
    )
    cap = [
        (1e-4, z),
        (0.40 * x, z),
        (0.42 * x, z - 0.003),
        (0.42 * x, top + 0.036),
        (1e-4, top + 0.036),
    ]
    visual_builder.add(body, turned(cap, 24, is_smooth=False), (0.10, 0.36, 0.72), gloss=0.5)


def _banana(visual_builder: VisualBuilder, body: int, kind: ObjectKind) -> None:
    long, _, thick = kind.size
    along = np.linspace(-1.0, 1.0, 17)
    bend = 0.055 * (1.0 - along**2) - 0.028
    line = np.stack([0.96 * long * np.sin(0.9 * along) / np.sin(0.9), bend, 0 * along], axis=1)
    wide = thick * np.clip(1.18 * (1.0 - np.abs(along) ** 3.2) ** 0.6, 0.22, 1.0)
    line[:, 2] = wide - thick
    texture = visual_builder.texture("peel", prints.peel)
    visual_builder.add(body, tube(line, wide, 6), (0.96, 0.82, 0.18), texture=texture, gloss=0.15)
    for end in (0, -1):
        tip = line[end] + np.sign(along[end]) * np.array([0.006, 0, 0])
        visual_builder.add(body, ball((0.008, 0.005, 0.005), 8), STEM, pos=tuple(tip))


def _fruit(profile, rgb, leafy: bool = False, texture: str = "peel"):
    """Of a profile in radii (radius, z)."""

    def dress(visual_builder: VisualBuilder, body: int, kind: ObjectKind) -> None:
        r = kind.size[0]
        line = _smooth(np.array(profile) * r)
        number = visual_builder.texture(texture, getattr(prints, texture))
        visual_builder.add(body, turned(line, 28), rgb, texture=number, gloss=0.3)
        top = float(line[-1, 1])
        if leafy:
            crown = [
                moved(leaf(1.1 * r, 0.45 * r, 1.25), (0, 0, top + 0.02 * r), about(2, a))
                for a in np.arange(6) * np.pi / 3
            ]
            visual_builder.add(body, joined(crown), GREEN)
        else:
            stalk = [
                (0, 0, top - 0.1 * r),
                (0.03 * r, 0, top + 0.22 * r),
                (0.12 * r, 0, top + 0.36 * r),
            ]
            visual_builder.add(body, tube(stalk, 0.05 * r, 6), STEM)

    return dress


def _lemon(visual_builder: VisualBuilder, body: int, kind: ObjectKind) -> None:
    """It lies on its side."""
    line = _smooth(np.array(_LEMON) * kind.size[0])
    texture = visual_builder.texture("peel", prints.peel)
    visual_builder.add(
        body,
        turned(line, 28),
        (0.97, 0.86, 0.16),
        texture=texture,
        gloss=0.3,
        turn=about(1, np.pi / 2),
    )


def _smooth(line: np.ndarray, count: int = 24) -> np.ndarray:
    """Catmull-Rom through a profile's points."""
    padded = np.concatenate([2 * line[:1] - line[1:2], line, 2 * line[-1:] - line[-2:-1]])
    places = np.linspace(0, len(line) - 1 - 1e-9, count)
    k, s = places.astype(int), (places % 1.0)[:, None]
    a, b, c, d = (padded[k + i] for i in range(4))
    found = 0.5 * (
        2 * b + (c - a) * s + (2 * a - 5 * b + 4 * c - d) * s**2 + (3 * b - a - 3 * c + d) * s**3
    )
    found[:, 0] = np.maximum(found[:, 0], 1e-5)
    return found


def _bowl(visual_builder: VisualBuilder, body: int, kind: ObjectKind) -> None:
    r, h = kind.size[0], kind.size[1]
    outside = [
        (1e-4, -h),
        (0.42 * r, -h),
        (0.46 * r, 0.12 * h - h),
        (0.75 * r, -0.35 * h),
        (0.93 * r, 0.35 * h),
        (r, h),
    ]
    inside = [
        (0.965 * r, h),
        (0.89 * r, 0.35 * h),
        (0.70 * r, -0.30 * h),
        (0.42 * r, -0.72 * h),
        (1e-4, -0.78 * h),
    ]
    rim = [(r, h), (0.985 * r, h + 0.001), (0.965 * r, h)]
    visual_builder.add(body, turned(outside, 40), (0.72, 0.14, 0.13), gloss=0.5)
    visual_builder.add(
        body,
        joined([turned(_smooth(np.array(inside)), 40), turned(rim, 40)]),
        (0.93, 0.88, 0.80),
        gloss=0.5,
    )


def _mug(visual_builder: VisualBuilder, body: int, kind: ObjectKind) -> None:
    r, h = kind.size[0], kind.size[1]
    outside = [
        (1e-4, -h),
        (0.86 * r, -h),
        (0.94 * r, 0.04 * h - h),
        (0.94 * r, h),
        (0.86 * r, h),
        (0.84 * r, 0.12 * h - h),
        (1e-4, 0.12 * h - h),
    ]
    visual_builder.add(body, turned(outside, 36, is_smooth=False), (0.78, 0.16, 0.13), gloss=0.5)
    turn = np.linspace(-1.35, 1.35, 13)
    handle = np.stack(
        [0.86 * r + 0.72 * r * np.cos(turn), 0 * turn, 0.72 * h * np.sin(turn)], axis=1
    )
    visual_builder.add(body, tube(handle, 0.13 * r, 10), (0.78, 0.16, 0.13), gloss=0.5)


def _sponge(visual_builder: VisualBuilder, body: int, kind: ObjectKind) -> None:
    x, y, z = kind.size
    texture = visual_builder.texture("cloth", prints.cloth)
    visual_builder.add(
        body,
        rounded_box((x, y, 0.66 * z), 0.004, 0.1),
        (0.95, 0.80, 0.22),
        texture=texture,
        pos=(0, 0, -0.34 * z),
    )
    visual_builder.add(
        body,
        rounded_box((x, y, 0.34 * z), 0.002, 0.05),
        (0.18, 0.45, 0.22),
        texture=texture,
        pos=(0, 0, 0.66 * z),
    )


_ROUND = [(0.0, -1.0), (0.55, -0.84), (0.98, -0.2), (0.98, 0.2), (0.55, 0.84), (0.0, 1.0)]
_APPLE = [
    (0.0, -0.82),
    (0.3, -0.98),
    (0.75, -0.75),
    (1.0, 0.1),
    (0.86, 0.68),
    (0.45, 0.92),
    (0.12, 0.80),
    (0.0, 0.66),
]
_PEAR = [
    (0.0, -0.92),
    (0.3, -1.0),
    (0.82, -0.72),
    (0.92, -0.25),
    (0.66, 0.3),
    (0.42, 0.72),
    (0.3, 1.05),
    (0.0, 1.2),
]
_LEMON = [
    (0.0, -1.32),
    (0.13, -1.2),
    (0.5, -0.95),
    (1.0, -0.3),
    (1.0, 0.3),
    (0.5, 0.95),
    (0.13, 1.2),
    (0.0, 1.32),
]
_BERRY = [(0.0, -1.0), (0.3, -0.85), (0.72, -0.1), (0.92, 0.5), (0.7, 0.85), (0.0, 0.9)]
_OTHERS: dict[str, AddVisual] = {
    "011_banana": _banana,
    "012_strawberry": _fruit(_BERRY, (0.86, 0.10, 0.12), leafy=True, texture="seeds"),
    "013_apple": _fruit(_APPLE, (0.75, 0.10, 0.10)),
    "014_lemon": _lemon,
    "015_peach": _fruit(_APPLE, (0.96, 0.62, 0.40)),
    "016_pear": _fruit(_PEAR, (0.72, 0.78, 0.24)),
    "017_orange": _fruit(_ROUND, (0.95, 0.52, 0.08)),
    "018_plum": _fruit(_ROUND, (0.36, 0.10, 0.28)),
    "024_bowl": _bowl,
    "025_mug": _mug,
    "026_sponge": _sponge,
}
