"""Pictograms for labels: crackers, a tomato, a fish, ..., with a given centre and radius."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from PIL import ImageDraw

Ink = tuple[int, int, int]
Pen = ImageDraw.ImageDraw
WHITE = (250, 248, 242)


def draw_pictogram(pen: Pen, what: str, x: int, y: int, r: int) -> None:
    """Draws `what` about x, y, pixels; not more than r away."""
    _PICTOGRAMS[what](pen, x, y, r)


def _disc(
    pen: Pen, place: tuple[int, int, int], dx: float, dy: float, radius: float, ink: Ink
) -> None:
    """Lengths in radii of the pictogram, which is about `place`: x, y, radius."""
    x, y, r = place
    x, y, radius = x + r * dx, y + r * dy, r * radius
    pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=ink)


def _crackers(pen: Pen, x: int, y: int, r: int) -> None:
    for dx, dy in ((-0.6, 0.25), (0.55, 0.3), (0.0, -0.3)):
        _disc(pen, (x, y, r), dx, dy, 0.62, (150, 96, 40))
        _disc(pen, (x, y, r), dx, dy, 0.57, (232, 184, 104))
        for a, b in ((-0.2, -0.2), (0.2, -0.2), (0, 0.05), (-0.2, 0.28), (0.22, 0.26)):
            _disc(pen, (x, y, r), dx + a, dy + b, 0.05, (150, 96, 40))


def _tomato(pen: Pen, x: int, y: int, r: int) -> None:
    _disc(pen, (x, y, r), 0, 0, 0.95, (206, 40, 30))
    _disc(pen, (x, y, r), -0.3, -0.3, 0.22, (236, 120, 104))
    for k in range(5):
        a = -np.pi / 2 + (k - 2) * 0.5
        pen.line(
            (x, y - 0.6 * r, x + 0.75 * r * np.cos(a), y - 0.6 * r + 0.45 * r * np.sin(a)),
            fill=(46, 110, 48),
            width=max(r // 8, 2),
        )


def _fish(pen: Pen, x: int, y: int, r: int) -> None:
    pen.ellipse((x - r, y - 0.5 * r, x + 0.6 * r, y + 0.5 * r), fill=(226, 236, 244))
    pen.polygon(
        ((x + 0.45 * r, y), (x + r, y - 0.5 * r), (x + r, y + 0.5 * r)), fill=(226, 236, 244)
    )
    _disc(pen, (x, y, r), -0.65, -0.1, 0.08, (30, 50, 80))


def _cream(pen: Pen, x: int, y: int, r: int) -> None:
    pen.chord((x - r, y - 0.5 * r, x + r, y + r), 0, 180, fill=WHITE)
    _disc(pen, (x, y, r), 0, 0.1, 0.62, (96, 54, 28))
    _disc(pen, (x, y, r), -0.15, -0.2, 0.40, (120, 70, 38))
    _disc(pen, (x, y, r), 0.05, -0.5, 0.20, (150, 92, 54))


def _jelly(pen: Pen, x: int, y: int, r: int) -> None:
    pen.polygon(
        (
            (x - r, y + 0.8 * r),
            (x - 0.55 * r, y - 0.6 * r),
            (x + 0.55 * r, y - 0.6 * r),
            (x + r, y + 0.8 * r),
        ),
        fill=(226, 34, 66),
    )
    pen.polygon(
        (
            (x - 0.5 * r, y + 0.6 * r),
            (x - 0.3 * r, y - 0.4 * r),
            (x - 0.1 * r, y - 0.4 * r),
            (x - 0.2 * r, y + 0.6 * r),
        ),
        fill=(250, 120, 140),
    )


def _sugar(pen: Pen, x: int, y: int, r: int) -> None:
    for dx, dy in ((-0.45, 0.35), (0.45, 0.35), (0.0, -0.4)):
        pen.rectangle(
            (x + r * (dx - 0.4), y + r * (dy - 0.36), x + r * (dx + 0.4), y + r * (dy + 0.36)),
            fill=WHITE,
            outline=(150, 160, 190),
            width=3,
        )


def _meat(pen: Pen, x: int, y: int, r: int) -> None:
    pen.rounded_rectangle((x - r, y - 0.55 * r, x + r, y + 0.55 * r), r // 4, fill=(226, 128, 118))
    for k in (-0.4, 0.1, 0.6):
        pen.line(
            (x + k * r, y - 0.5 * r, x + (k - 0.2) * r, y + 0.5 * r),
            fill=(248, 186, 176),
            width=max(r // 9, 2),
        )


def _beans(pen: Pen, x: int, y: int, r: int) -> None:
    for dx, dy in ((-0.5, 0.2), (0.4, -0.1), (0.0, 0.5)):
        pen.ellipse(
            (x + r * (dx - 0.45), y + r * (dy - 0.3), x + r * (dx + 0.45), y + r * (dy + 0.3)),
            fill=(92, 54, 28),
        )
        pen.line(
            (x + r * (dx - 0.4), y + r * dy, x + r * (dx + 0.4), y + r * dy),
            fill=(190, 140, 90),
            width=max(r // 12, 2),
        )


def _drops(pen: Pen, x: int, y: int, r: int) -> None:
    for dx in (-0.5, 0.2):
        _disc(pen, (x, y, r), dx, 0.25, 0.38, (80, 160, 220))
        pen.polygon(
            (
                (x + r * (dx - 0.33), y + 0.1 * r),
                (x + r * dx, y - 0.9 * r),
                (x + r * (dx + 0.33), y + 0.1 * r),
            ),
            fill=(80, 160, 220),
        )


_PICTOGRAMS: dict[str, Callable[[Pen, int, int, int], None]] = {
    "crackers": _crackers,
    "tomato": _tomato,
    "fish": _fish,
    "cream": _cream,
    "jelly": _jelly,
    "sugar": _sugar,
    "meat": _meat,
    "beans": _beans,
    "drops": _drops,
}
