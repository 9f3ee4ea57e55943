"""Kinds of furniture for procedural and custom homes, with random sizes and colours.

    KINDS.add("aquarium", draw)     in a module of your own: home files may then name it

Dimensions are ours, in whole millimetres, around those of usual furniture; surfaces that hold
objects are at heights where Fetch's arm can work. A piece's frame is that of `furniture`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from rearrange.sim.home.furniture import PIECES, Box, Piece, Surface
from rearrange.system.registry import Registry

NUM_EXTRAS, EXTRA_BOXES = 16, 5  # pieces beyond those of HAB's homes, boxes a piece
Colour = tuple[float, float, float]
WOODS = ((0.62, 0.47, 0.33), (0.38, 0.28, 0.21), (0.75, 0.61, 0.44), (0.52, 0.36, 0.24))
PLAIN = ((0.86, 0.86, 0.84), (0.70, 0.71, 0.70), (0.30, 0.32, 0.35), (0.55, 0.62, 0.60))
FABRICS = ((0.36, 0.45, 0.53), (0.55, 0.50, 0.44), (0.45, 0.30, 0.30), (0.33, 0.42, 0.34))
CERAMIC: Colour = (0.92, 0.92, 0.92)
GREENS = ((0.28, 0.48, 0.27), (0.22, 0.40, 0.25), (0.40, 0.52, 0.30))


def drawn(rng: np.random.Generator, low: int, high: int, step: int = 10) -> int:
    """A length from low to high, both included, mm."""
    return low + step * int(rng.integers((high - low) // step + 1))


def colour(rng: np.random.Generator, palette: tuple[Colour, ...]) -> Colour:
    """One of a palette."""
    return palette[int(rng.integers(len(palette)))]


def box(x: int, y: int, z: int, hx: int, hy: int, hz: int, rgb: Colour) -> Box:
    """A box of centre and half sizes in mm."""
    return Box((x / 1000, y / 1000, z / 1000), (hx / 1000, hy / 1000, hz / 1000), rgb)


def _surface(name: str, x: int, z: int, hx: int, hy: int, headroom: float = 1.0, capacity=100):
    return Surface(name, (x / 1000, 0.0, z / 1000), (hx / 1000, hy / 1000), headroom, "open", None,
                   capacity)  # fmt: skip


def _receptacle(slot: str, kind: str) -> str:
    """HAB's name where HAB has the piece."""
    known = PIECES[slot].surfaces if slot in PIECES else ()
    return known[0].name if known else f"receptacle_aabb_{kind}_{slot}"


def _piece(slot: str, hx: int, hy: int, boxes, surfaces=()) -> Piece:
    return Piece(slot, (hx / 1000, hy / 1000), tuple(boxes), tuple(surfaces))


def table(rng: np.random.Generator, slot: str) -> Piece:
    """A dining table, or a low one: top and four legs."""
    is_low = slot == "table_02"
    hx = drawn(rng, 250, 350) if is_low else drawn(rng, 360, 460)
    hy = drawn(rng, 350, 600) if is_low else drawn(rng, 500, 850)
    z = drawn(rng, 400, 520) if is_low else drawn(rng, 710, 780)
    rgb, leg = colour(rng, WOODS), drawn(rng, 20, 35, 5)
    legs = [
        box(sx * (hx - leg), sy * (hy - leg), (z - 40) // 2, leg, leg, (z - 40) // 2, rgb)
        for sx in (-1, 1)
        for sy in (-1, 1)
    ]
    top = box(0, 0, z - 20, hx, hy, 20, rgb)
    return _piece(slot, hx, hy, [top, *legs], [_surface(_receptacle(slot, "table"), 0, z, hx, hy)])


def chair(rng: np.random.Generator, slot: str) -> Piece:
    """Seat, back and two sides."""
    half, z = drawn(rng, 200, 240), drawn(rng, 420, 470)
    back, rgb = drawn(rng, 180, 260), colour(rng, WOODS)
    boxes = [
        box(0, 0, z - 20, half, half, 20, rgb),
        box(20 - half, 0, z + back, 20, half, back, rgb),
        box(0, half - 20, (z - 40) // 2, half - 20, 20, (z - 40) // 2, rgb),
        box(0, 20 - half, (z - 40) // 2, half - 20, 20, (z - 40) // 2, rgb),
    ]
    seats = [_surface(_receptacle(slot, "chair"), 20, z, half - 20, half, 0.8, 2)]
    return _piece(slot, half, half, boxes, seats if slot == "chair_0" else ())


def sofa(rng: np.random.Generator, slot: str) -> Piece:
    """Seat, back and two arms."""
    hx, hy = drawn(rng, 390, 460), drawn(rng, 700, 1150)
    z, arm, back = drawn(rng, 390, 460), drawn(rng, 60, 110), drawn(rng, 380, 460)
    rgb = colour(rng, FABRICS)
    inner, depth = hy - 2 * arm, hx - 40
    boxes = [
        box(40, 0, z // 2, depth, inner, z // 2, rgb),
        box(90 - hx, 0, back, 90, hy, back, rgb),
        box(40, hy - arm, z // 2 + 80, depth, arm, z // 2 + 80, rgb),
        box(40, arm - hy, z // 2 + 80, depth, arm, z // 2 + 80, rgb),
    ]
    seat = _surface(_receptacle(slot, "sofa"), 90, z // 2 * 2, depth - 50, inner)
    return _piece(slot, hx, hy, boxes, [seat])


def tvstand(rng: np.random.Generator, slot: str) -> Piece:
    """A low board with a screen on it."""
    hx, hy, z = drawn(rng, 190, 250), drawn(rng, 550, 900), drawn(rng, 420, 600)
    screen, high = min(hy - 50, drawn(rng, 400, 650)), drawn(rng, 250, 360)
    boxes = [
        box(0, 0, z // 2, hx, hy, z // 2, colour(rng, WOODS)),
        box(30 - hx, 0, z + 20 + high, 20, screen, high, (0.08, 0.08, 0.09)),
    ]
    top = _surface(_receptacle(slot, "tvstand"), 30, z // 2 * 2, hx - 30, hy)
    return _piece(slot, hx, hy, boxes, [top])


def shelf(rng: np.random.Generator, slot: str) -> Piece:
    """A bookcase: back, sides, boards. It holds no objects."""
    last = 4 if slot in PIECES else EXTRA_BOXES - 4  # boards but one
    hx, hy, z = drawn(rng, 130, 190), drawn(rng, 350, 600), drawn(rng, 1500, 2100, 50)
    rgb = colour(rng, WOODS)
    boxes = [
        box(10 - hx, 0, z // 2, 10, hy, z // 2, rgb),
        box(0, hy - 10, z // 2, hx, 10, z // 2, rgb),
        box(0, 10 - hy, z // 2, hx, 10, z // 2, rgb),
        *(box(0, 0, 100 + k * (z - 120) // last, hx, hy - 10, 12, rgb) for k in range(last + 1)),
    ]
    return _piece(slot, hx, hy, boxes)


def plant(rng: np.random.Generator, slot: str) -> Piece:
    """A pot and leaves."""
    half, pot, high = drawn(rng, 140, 220), drawn(rng, 120, 220), drawn(rng, 250, 550)
    boxes = [
        box(0, 0, pot, half - 20, half - 20, pot, colour(rng, PLAIN)),
        box(0, 0, 2 * pot + high, half, half, high, colour(rng, GREENS)),
    ]
    return _piece(slot, half, half, boxes)


def lamp(rng: np.random.Generator, slot: str) -> Piece:
    """A floor lamp: foot, pole, shade."""
    half, high = drawn(rng, 120, 200), drawn(rng, 1300, 1700, 50)
    boxes = [
        box(0, 0, 15, half - 20, half - 20, 15, (0.2, 0.2, 0.2)),
        box(0, 0, high // 2, 20, 20, high // 2, (0.2, 0.2, 0.2)),
        box(0, 0, high, half, half, 130, (0.90, 0.86, 0.72)),
    ]
    return _piece(slot, half, half, boxes)


def bed(rng: np.random.Generator, slot: str) -> Piece:
    """Its head at the wall, its foot in front."""
    hx, hy, z = drawn(rng, 1000, 1080), drawn(rng, 450, 920), drawn(rng, 380, 560)
    boxes = [
        box(0, 0, z // 2 - 40, hx, hy, z // 2 - 40, colour(rng, WOODS)),
        box(20, 0, z - 40, hx - 20, hy - 20, 40, (0.88, 0.87, 0.84)),
        box(30 - hx, 0, drawn(rng, 400, 560), 30, hy, 400, colour(rng, WOODS)),
        box(350, 0, z + 10, hx - 400, hy - 10, 30, colour(rng, FABRICS)),
    ]
    return _piece(slot, hx, hy, boxes)


def _solid(sizes: tuple[tuple[int, int], ...], palette: tuple[Colour, ...]):
    """A closed body with half depth, half width and height from three ranges, mm."""

    def draw(rng: np.random.Generator, slot: str) -> Piece:
        (hx, hy, z) = (drawn(rng, *limits) for limits in sizes)
        return _piece(slot, hx, hy, [box(0, 0, z // 2, hx, hy, z // 2, colour(rng, palette))])

    return draw


def _board(kind: str, sizes: tuple[tuple[int, int], ...]):
    """A closed body with a top that holds objects."""

    def draw(rng: np.random.Generator, slot: str) -> Piece:
        hx, hy, z = (drawn(rng, *limits) for limits in sizes)
        z = z // 20 * 20
        boxes = [
            box(0, 0, z // 2 - 10, hx - 10, hy - 10, z // 2 - 10, colour(rng, PLAIN + WOODS)),
            box(0, 0, z - 10, hx, hy, 10, colour(rng, WOODS)),
        ]
        return _piece(slot, hx, hy, boxes, [_surface(_receptacle(slot, kind), 0, z, hx, hy)])

    return draw


def desk(rng: np.random.Generator, slot: str) -> Piece:
    """A top on two sides and a back."""
    hx, hy, z = drawn(rng, 300, 400), drawn(rng, 500, 800), drawn(rng, 700, 770)
    rgb = colour(rng, WOODS)
    boxes = [
        box(0, 0, z - 15, hx, hy, 15, rgb),
        box(0, hy - 20, (z - 30) // 2, hx - 20, 20, (z - 30) // 2, rgb),
        box(0, 20 - hy, (z - 30) // 2, hx - 20, 20, (z - 30) // 2, rgb),
        box(20 - hx, 0, z // 2, 10, hy - 40, 150, rgb),
    ]
    return _piece(slot, hx, hy, boxes, [_surface(_receptacle(slot, "desk"), 0, z, hx, hy)])


def tub(rng: np.random.Generator, slot: str) -> Piece:
    """A bath: bottom and four sides; its front is a long side."""
    hx, hy, z = drawn(rng, 340, 400), drawn(rng, 750, 900), drawn(rng, 500, 600)
    boxes = [
        box(0, 0, 60, hx, hy, 60, CERAMIC),
        box(hx - 40, 0, z // 2, 40, hy, z // 2, CERAMIC),
        box(40 - hx, 0, z // 2, 40, hy, z // 2, CERAMIC),
        box(0, hy - 40, z // 2, hx, 40, z // 2, CERAMIC),
        box(0, 40 - hy, z // 2, hx, 40, z // 2, CERAMIC),
    ]
    return _piece(slot, hx, hy, boxes)


def toilet(rng: np.random.Generator, slot: str) -> Piece:
    """Bowl and tank."""
    hx, hy = drawn(rng, 300, 350), drawn(rng, 180, 210)
    boxes = [
        box(70, 0, 200, hx - 70, hy, 200, CERAMIC),
        box(80 - hx, 0, 390, 80, hy, 390, CERAMIC),
    ]
    return _piece(slot, hx, hy, boxes)


def resized(piece: Piece, sizes: tuple[float, float, float]) -> Piece:
    """A piece stretched to a depth, width and height, m."""
    top = max(box.pos[2] + box.half[2] for box in piece.boxes)
    by = (sizes[0] / (2 * piece.half[0]), sizes[1] / (2 * piece.half[1]), sizes[2] / top)

    def flat(x: float, y: float) -> tuple[float, float]:
        return round(x * by[0], 6), round(y * by[1], 6)

    def scaled(x: float, y: float, z: float) -> tuple[float, float, float]:
        return (*flat(x, y), round(z * by[2], 6))

    boxes = tuple(Box(scaled(*b.pos), scaled(*b.half), b.rgb) for b in piece.boxes)
    surfaces = tuple(replace(s, pos=scaled(*s.pos), half=flat(*s.half)) for s in piece.surfaces)
    return replace(piece, half=flat(*piece.half), boxes=boxes, surfaces=surfaces)


Draw = Callable[[np.random.Generator, str], Piece]
KINDS: Registry[Draw] = Registry("kind of furniture")
"""Kind -> function that draws a random piece of it for a slot of the model."""
for _name, _draw in {
    "table": table, "chair": chair, "sofa": sofa, "tvstand": tvstand, "shelf": shelf,
    "plant": plant, "lamp": lamp, "bed": bed, "desk": desk, "tub": tub, "toilet": toilet,
    "chest": _solid(((200, 260), (350, 650), (700, 1150)), WOODS),
    "wardrobe": _solid(((280, 320), (400, 1000), (1900, 2200)), WOODS + PLAIN),
    "nightstand": _solid(((180, 220), (180, 260), (420, 600)), WOODS),
    "shoes": _solid(((120, 170), (300, 600), (600, 1100)), WOODS + PLAIN),
    "washer": _solid(((290, 310), (290, 310), (840, 860)), ((0.9, 0.9, 0.9),)),
    "island": _solid(((300, 420), (450, 900), (860, 940)), PLAIN + WOODS),
    "shower": _solid(((380, 450), (380, 500), (1900, 2100)), ((0.75, 0.80, 0.82),)),
    "armchair": _solid(((380, 430), (380, 450), (400, 440)), FABRICS),
    "basin": _board("basin", ((220, 260), (280, 600), (820, 880))),
    "sideboard": _board("sideboard", ((190, 240), (500, 1000), (640, 880))),
}.items():  # fmt: skip
    KINDS.add(_name, _draw)
