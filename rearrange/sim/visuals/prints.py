"""Procedural textures: labels of cans and boxes, wood, cloth, stone.

Each gives [h, w, 3] uint8. What tiles is drawn so that its edges meet. Labels are nobody's brand.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from rearrange.sim.visuals.pictograms import WHITE, Ink, draw_pictogram


def wood() -> np.ndarray:
    """Grain along u, light: its colour comes from the part."""
    rng = np.random.default_rng(3)
    height, width = 256, 512
    x = np.linspace(0, 2 * np.pi, width, endpoint=False)
    y = np.linspace(0, 2 * np.pi, height, endpoint=False)[:, None]
    bend = 0.25 * np.sin(x + 1.0) + 0.12 * np.sin(2 * x)
    rings = np.sin(5 * (y + bend)) * 0.5 + np.sin(13 * (y + 0.7 * bend) + 2.0) * 0.3
    fibre = rng.normal(size=(height, 16)).repeat(width // 16, axis=1)
    for _ in range(3):
        fibre = (fibre + np.roll(fibre, 11, axis=1) + np.roll(fibre, -7, axis=1)) / 3
    value = 0.93 + 0.05 * rings + 0.05 * fibre
    tone = np.stack([value, value - 0.012 * rings, value - 0.03 * rings], axis=2)
    return _bytes(tone)


def cloth() -> np.ndarray:
    """A weave."""
    rng = np.random.default_rng(4)
    j, i = np.meshgrid(np.arange(128), np.arange(128))
    over = ((i // 4 + j // 4) % 2) * 0.07
    value = 0.93 + over * np.sin(np.pi * (i % 4) / 4 + 0.4) + 0.03 * rng.normal(size=(128, 128))
    return _bytes(np.repeat(value[:, :, None], 3, axis=2))


def stone() -> np.ndarray:
    """Speckled, as of kitchen tops."""
    rng = np.random.default_rng(5)
    value = 0.93 + 0.035 * rng.normal(size=(256, 256))
    spots = rng.random((256, 256))
    value[spots > 0.985] -= 0.25
    value[spots < 0.012] += 0.12
    return _bytes(np.repeat(value[:, :, None], 3, axis=2))


def peel() -> np.ndarray:
    """The skin of fruit: fine spots."""
    rng = np.random.default_rng(6)
    value = 0.97 + 0.03 * rng.normal(size=(128, 128))
    return _bytes(np.repeat(value[:, :, None], 3, axis=2))


def seeds() -> np.ndarray:
    """A strawberry's."""
    image = Image.new("RGB", (128, 128), (255, 255, 255))
    pen = ImageDraw.Draw(image)
    for row in range(8):
        for column in range(8):
            x, y = 16 * column + 8 * (row % 2) + 4, 16 * row + 6
            pen.ellipse((x, y, x + 3, y + 6), fill=(255, 230, 130))
    return np.asarray(image)


def carpet() -> np.ndarray:
    """A border and diamonds."""
    size = (512, 360)
    image = Image.new("RGB", size, (178, 74, 62))
    pen = ImageDraw.Draw(image)
    for inset, ink in (
        (10, (236, 222, 196)),
        (18, (52, 72, 98)),
        (40, (236, 222, 196)),
        (46, (178, 74, 62)),
    ):
        pen.rectangle((inset, inset, size[0] - inset, size[1] - inset), fill=ink)
    for x in range(92, size[0] - 60, 82):
        for y in range(96, size[1] - 60, 84):
            for radius, ink in ((36, (52, 72, 98)), (27, (236, 222, 196)), (18, (206, 146, 76))):
                pen.polygon(
                    ((x, y - radius), (x + radius, y), (x, y + radius), (x - radius, y)), fill=ink
                )
    rng = np.random.default_rng(7)
    grain = 1.0 + 0.05 * rng.normal(size=(size[1], size[0], 1))
    return np.clip(np.asarray(image) * grain, 0, 255).astype(np.uint8)


def window() -> np.ndarray:
    """Sky, trees, and bars before them."""
    width, height = 256, 256
    y = np.linspace(0, 1, height)[:, None, None]
    top, low = np.array([150, 196, 240]), np.array([236, 244, 250])
    image = Image.fromarray(
        np.broadcast_to(top + (low - top) * y, (height, width, 3)).astype(np.uint8)
    )
    pen = ImageDraw.Draw(image)
    rng = np.random.default_rng(8)
    for x in range(-10, width, 15):
        radius = 16 + int(rng.integers(18))
        ink = (96 + int(rng.integers(30)), 138 + int(rng.integers(30)), 92)
        pen.ellipse((x - radius, 205 - radius, x + radius, 215 + radius), fill=ink)
    pen.rectangle((0, 222, width, height), fill=(132, 168, 104))
    return np.asarray(image)


def painting(number: int) -> np.ndarray:
    """Something for the wall: hills, or shapes."""
    image = Image.new("RGB", (192, 144), (238, 226, 204))
    pen = ImageDraw.Draw(image)
    if number % 2 == 0:
        pen.ellipse((120, 20, 160, 60), fill=(232, 150, 70))
        for level, ink in enumerate(((150, 178, 178), (96, 138, 140), (52, 92, 104))):
            ridge = [
                (x, 70 + 24 * level + 12 * np.sin(x / 26 + 2 * level)) for x in range(0, 200, 8)
            ]
            pen.polygon([*ridge, (200, 150), (0, 150)], fill=ink)
    else:
        pen.ellipse((24, 22, 104, 102), fill=(200, 88, 66))
        pen.rectangle((84, 54, 160, 122), fill=(46, 84, 112))
        pen.polygon(((40, 126), (96, 60), (126, 126)), fill=(226, 178, 92))
    return np.asarray(image)


def box_label(
    title: str,
    paper: Ink,
    ink: Ink,
    accent: Ink,
    picture: str,
    aspects: Sequence[float],
    small: str = "",
) -> np.ndarray:
    """A carton's faces side by side for `meshes.printed_box`.

    Args:
        picture: what is drawn below the title: crackers, sugar, cream, jelly, meat, drops.
        aspects: width / height of the x, y and z faces.
        small: a line below the title.
    """
    image = Image.new("RGB", (1000, 500), paper)
    for (left, right), aspect, place in (
        ((0, 500), aspects[0], 0),
        ((500, 800), aspects[1], 1),
        ((800, 1000), aspects[2], 2),
    ):
        height = 480
        face = Image.new("RGB", (max(int(height * aspect), 40), height), paper)
        _carton_face(
            face, title, small, ink, accent, "" if place == 1 and aspect < 0.6 else picture
        )
        image.paste(face.resize((right - left, 500), Image.Resampling.LANCZOS), (left, 0))
    return np.asarray(image)


def can_label(
    title: str, paper: Ink, band: Ink, ink: Ink, picture: str, aspect: float
) -> np.ndarray:
    """A can's wrapper, [h, w, 3]; the same three times around."""
    height = 320
    width = int(height * aspect)
    image = Image.new("RGB", (width, height), paper)
    pen = ImageDraw.Draw(image)
    pen.rectangle((0, 0, width, height * 0.12), fill=band)
    pen.rectangle((0, height * 0.88, width, height), fill=band)
    for k in range(3):
        x = int((k + 0.5) * width / 3)
        limit = int(0.27 * width)
        font = _fitting(title, limit, int(height * (0.24 if aspect < 5 else 0.42)))
        pen.text(
            (x, height * 0.34),
            title,
            fill=ink,
            font=font,
            anchor="mm",
            stroke_width=2,
            stroke_fill=ink,
        )
        draw_pictogram(pen, picture, x, int(height * 0.64), int(height * 0.17))
    return np.asarray(image)


def _carton_face(face: Image.Image, title: str, small: str, ink: Ink, accent: Ink, picture: str):
    width, height = face.size
    pen = ImageDraw.Draw(face)
    pen.rectangle((0, height * 0.80, width, height), fill=accent)
    pen.rectangle((0, height * 0.775, width, height * 0.79), fill=WHITE)
    words = title.split(" ")
    size = int(min(height * 0.5 / len(words), height * 0.30))
    fonts = [_fitting(word, int(width * 0.86), size) for word in words]
    y = height * 0.10
    for word, font in zip(words, fonts, strict=True):
        box = font.getbbox(word)
        pen.text(
            (width / 2, y), word, fill=ink, font=font, anchor="mt", stroke_width=3, stroke_fill=ink
        )
        y += (box[3] - box[1]) * 1.25 + 8
    if small:
        pen.text(
            (width / 2, height * 0.86),
            small,
            fill=WHITE,
            anchor="mt",
            font=_fitting(small, int(width * 0.8), int(height * 0.09)),
        )
    room = height * 0.75 - y
    if picture and room > 0.12 * height:
        draw_pictogram(pen, picture, width // 2, int(y + room / 2), int(min(room / 2, width * 0.3)))


def _fitting(text: str, width: int, size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """The largest letters up to a size in which a text keeps to a width, pixels."""
    while size > 8 and ImageFont.load_default(size).getlength(text) > width:
        size = int(size * 0.92)
    return ImageFont.load_default(max(size, 8))


def _bytes(values: np.ndarray) -> np.ndarray:
    return np.clip(255 * values, 0, 255).astype(np.uint8)
