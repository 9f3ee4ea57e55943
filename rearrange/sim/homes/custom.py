"""Custom homes: a JSON file of walls, doorways and furniture, read and checked.

    {"format": 1, "size": [6.2, 8.4],
     "rooms": [{"name": "kitchen", "rect": [0, 0, 6.2, 3.5]}],
     "walls": [[0, 3.5, 6.2, 3.5]], "doorways": [{"wall": 0, "start": 1.1, "width": 1.0}],
     "furniture": [{"kind": "sofa", "at": [1.2, 5.0], "yaw": 90, "size": [0.85, 1.9, 0.85]}]}

Metres and degrees; x and y begin in the corner of the inside of the outer walls. `rect` and
`walls` are x0, y0, x1, y1, the latter the middle of a wall 0.1 m thick. A piece's `at` is the
middle of its footprint, `yaw` where its front looks (0: along x, 90: along y), `size` its depth,
width and height; without it the kind has its own. A counter takes `height`, `columns` (widths from
left to right as seen from its front: {"left": 0.8, "sink": 0.8, "right": 0.8}) and `without`
(drawers) instead, a fridge `width`, `height`, `shelf` and `hinge`.

Anything that is wrong is one line, a UserError, that names the file, the place and what to do.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from rearrange.errors import UserError, described
from rearrange.sim.home import furniture as fur
from rearrange.sim.home.furniture import Piece
from rearrange.sim.home.house import (
    EDGE_MARGIN,
    MIN_SPOTS,
    SPOT_STEP,
    Layout,
    UnusableHome,
    check_usable,
    receptacles_of,
    spot_grid,
)
from rearrange.sim.homes import kinds, kitchens
from rearrange.sim.homes.custom_reach import unreached
from rearrange.sim.homes.kinds import EXTRA_BOXES, NUM_EXTRAS
from rearrange.sim.homes.procedural import Home
from rearrange.sim.homes.rooms import HALF_WALL, NUM_WALLS, Line, Rect, wall_pieces
from rearrange.system.checked_json import Node, quoted, strict_json
from rearrange.system.files import read_whole_file, user_path

SUFFIX = ".json"
MAX_BYTES = 2**20
MAX_SIDE = 20.0  # m
MAX_ROOMS, MAX_LINES, MAX_DOORWAYS = 40, 24, 24
NARROWEST = 0.7  # m, of a doorway: the base's 0.6 m and 5 cm on both sides
SLOTS = {
    "table": ("table_01",), "low_table": ("table_02",), "sofa": ("sofa",), "tvstand": ("tvstand",),
    "chair": ("chair_0", "chair_1", "chair_2", "chair_3"), "chest": ("chest",),
    "shelf": ("shelf",), "island": ("island",), "plant": ("plant",), "counter": ("counter",),
    "fridge": ("fridge",),
}  # fmt: skip
"""Kind -> where HAB's homes have it; more of a kind, and other kinds, are extras."""
NEEDED = ("counter", "fridge", "table", "low_table", "sofa", "tvstand", "chair")
_FIELDS = {  # beside those of all kinds; of the others size
    "counter": ("height", "columns", "without"),
    "fridge": ("width", "height", "shelf", "hinge"),
}
_COLUMN_NAMES = {"left": "left", "sink": "middle", "right": "right"}


class CustomHome:
    """A home of a file: its layout, where objects may lie, and its rooms, for drawings."""

    def __init__(self, path: str, content: bytes | None = None) -> None:
        self.path = path
        content = _content(path) if content is None else content
        self.digest = hashlib.sha256(content).hexdigest()
        self._node = Node(_decoded(path, content), f"{path}: ")
        self._node["format"].equal(1)
        self._node.only("format", "size", "rooms", "walls", "doorways", "furniture")
        self.kinds: dict[str, str] = {}
        self._extras = [f"extra_{i:02d}" for i in range(NUM_EXTRAS - 1)]
        self._where: dict[str, Node] = {}
        self._bare: set[str] = set()  # slots of pieces on which nothing is to lie
        width, depth = (_mm(s.number(3.0, MAX_SIDE)) for s in self._node["size"].list(2, 2))
        self._size = (width, depth)
        self._measures = f"the home of {width / 1000:g} x {depth / 1000:g} m"
        self.rooms = [self._room(node) for node in self._node["rooms"].list(MAX_ROOMS)]
        self.layout = self._layout()
        try:
            self.spots = check_usable(self.layout)
        except UnusableHome as error:
            raise UserError(f"{path}: {self._named(str(error))}") from None
        if found := unreached(self.layout, self.spots):
            slot, must, got = found
            self._where[slot].fail(must, f"{got} ({self.kinds[slot]})")

    def _named(self, line: str) -> str:
        """A line about pieces with their places in the file instead of slots."""
        for slot, node in self._where.items():
            line = line.replace(
                f", {slot} does", f"; {node.path} ({self.kinds[slot]}) does: move it"
            )
            line = line.replace(f" of {slot}", f" of {node.path} ({self.kinds[slot]}): make room")
        return line

    def _room(self, node: Node) -> tuple[str, tuple[float, ...]]:
        node.only("name", "rect")
        name, rect = node["name"].text(), node["rect"].numbers(4)
        if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
            node["name"].fail("be text that can be written")
        x0, y0, x1, y1 = map(_mm, rect)
        if not (0 <= x0 < x1 <= self._size[0] and 0 <= y0 < y1 <= self._size[1]):
            node["rect"].fail(f"lie in {self._measures}, its lower corner first", _listed(rect))
        return name, rect

    def _layout(self) -> Layout:
        walls = self._walls()
        poses: dict[str, tuple[float, float, float]] = {}
        shapes: dict[str, Piece] = {}
        self._counter, self._fridge = fur.COUNTER, fur.FRIDGE
        for node in self._node["furniture"].list(len(fur.PIECES) + NUM_EXTRAS):
            slot, piece = self._piece(node)
            x, y = node["at"].numbers(2)
            if not (0 <= x <= self._size[0] / 1000 and 0 <= y <= self._size[1] / 1000):
                node["at"].fail(f"lie in the home, x 0 to {self._size[0] / 1000:g}, "
                                f"y 0 to {self._size[1] / 1000:g} m", _listed((x, y)))  # fmt: skip
            yaw = node["yaw"].number(-360.0, 360.0)
            poses[slot], shapes[slot] = (x, y, float(np.deg2rad(yaw))), piece
        missing = [kind for kind in NEEDED if SLOTS[kind][0] not in poses]
        if missing:
            raise UserError(f"{self.path}: furniture must have a {missing[0]}, got none; add one")
        rows = [
            ((a + c) / 2000, (b + d) / 2000, (c - a) / 2000, (d - b) / 2000, 0.0)
            for a, b, c, d in walls
        ]
        parents = {s: fur.PARENTS.get(s, f"{kind}_{s}_:0000") for s, kind in self.kinds.items()}
        bounds = (0.0, 0.0, self._size[0] / 1000, self._size[1] / 1000)
        receptacles = receptacles_of(poses, shapes, parents)
        seen: dict[str, str] = {}
        for receptacle in receptacles:
            if (first := seen.setdefault(receptacle.name, receptacle.piece)) != receptacle.piece:
                self._where[receptacle.piece].fail(
                    f"have surfaces of other names than {first}: its draw puts the slot into them",
                    quoted(receptacle.name),
                )
        return Layout(
            self.path, bounds, poses, np.array(rows),
            tuple(r for r in receptacles if r.piece not in self._bare),
            shapes, self._counter, self._fridge, self.digest,
        )  # fmt: skip

    def _walls(self) -> tuple[Rect, ...]:
        lines: list[Line] = []
        for node in self._node["walls"].list(MAX_LINES):
            ends = node.numbers(4)
            x0, y0, x1, y1 = map(_mm, ends)
            if (x0 == x1) == (y0 == y1):
                node.fail("run along x or along y: x0 = x1 or y0 = y1", _listed(ends))
            low, high = sorted((y0, y1) if x0 == x1 else (x0, x1))
            limits = self._size[::-1] if x0 == x1 else self._size
            if low < 0 or high > limits[0] or not 0 < (x0 if x0 == x1 else y0) < limits[1]:
                node.fail(f"lie in {self._measures}", _listed(ends))
            lines.append((x0 == x1, x0 if x0 == x1 else y0, low, high))
        gaps: list[tuple[int, int, int]] = []
        for node in self._node["doorways"].list(MAX_DOORWAYS):
            node.only("wall", "start", "width")
            if not lines:
                self._node["doorways"].fail("be empty where walls is: there is none to open")
            number = node["wall"].integer(0, len(lines) - 1)
            start = _mm(node["start"].number(0.0, MAX_SIDE))
            width = _mm(node["width"].number(NARROWEST, MAX_SIDE))
            _, _, low, high = lines[number]
            if low + start + width > high:
                node.fail(f"end on its wall, which is {(high - low) / 1000:g} m long",
                          f"{(start + width) / 1000:g} m")  # fmt: skip
            gaps.append((number, low + start, width))
        walls = wall_pieces(self._size, lines, gaps)
        if len(walls) > NUM_WALLS:
            line = f"walls must come to at most {NUM_WALLS} pieces between doorways"
            raise UserError(f"{self.path}: {line}, the outer four among them, got {len(walls)}")
        return walls

    def _piece(self, node: Node) -> tuple[str, Piece]:
        kind = node["kind"].text()
        known = sorted({*kinds.KINDS, *SLOTS, "worktop"})
        if kind not in known:
            node["kind"].fail(f"be one of {', '.join(known)}")
        node.only("kind", "at", "yaw", "holds_objects", *_FIELDS.get(kind, ("size",)))
        free = [slot for slot in SLOTS.get(kind, ()) if slot not in self.kinds]
        is_single = kind in ("counter", "fridge", "sofa", "tvstand", "table", "low_table")
        if not free and (is_single or not self._extras):
            most = f"{NUM_EXTRAS - 1} pieces beyond HAB's" if not is_single else f"one {kind}"
            node.fail(f"not be there: a home has at most {most}; leave it out", quoted(kind))
        slot = free[0] if free else self._extras.pop(0)
        self.kinds[slot], self._where[slot] = kind, node
        if "holds_objects" in node.value and not node["holds_objects"].boolean():
            if kind in NEEDED:
                node["holds_objects"].fail("be true: HAB's tasks put things there", "false")
            self._bare.add(slot)
        if kind == "counter":
            return slot, self._read_counter(node)
        if kind == "fridge":
            return slot, self._read_fridge(node)
        rng = np.random.default_rng(0)
        if kind == "worktop":
            piece = kitchens.run_piece(slot, 1_200, self._like)
        else:
            piece = _drawn(node, "table" if kind == "low_table" else kind, rng, slot)
        if "size" in node.value:
            depth, width, high = (v.number(0.1, 4.0) for v in node["size"].list(3, 3))
            piece = kinds.resized(piece, (depth, width, high))
            if slot not in self._bare:
                _check_room_for_objects(node["size"], piece, (depth, width, high))
        if slot.startswith("extra") and len(piece.boxes) > EXTRA_BOXES:
            if kind not in SLOTS:
                node.fail(f"have at most {EXTRA_BOXES} boxes", f"{len(piece.boxes)} from its draw")
            node.fail(f"not be there: a home has one {kind}; leave it out", quoted(kind))
        return slot, piece

    _like = kitchens.make_counter(
        900, ["left", "middle", "right"], dict.fromkeys(kitchens.COLUMNS, 800)
    )

    def _read_counter(self, node: Node) -> Piece:
        height = _mm(node["height"].number(0.86, 0.94)) if "height" in node.value else 900
        order, widths = ["left", "middle", "right"], dict.fromkeys(kitchens.COLUMNS, 800)
        if "columns" in node.value:
            columns: dict[str, int] = {}
            for name, width in node["columns"].items():
                if name not in _COLUMN_NAMES:
                    width.fail("belong to left, sink or right", "another name")
                columns[_COLUMN_NAMES[name]] = _mm(width.number(0.6, 0.9)) // 2 * 2
            if len(columns) != 3:
                node["columns"].fail("name left, sink and right", f"{len(columns)} of them")
            order, widths = list(columns), columns
        dropped = []
        if "without" in node.value:
            names = node["without"].list(len(kitchens.DROPPABLE))
            dropped = [name.text(kitchens.DROPPABLE) for name in names]
        draw = kitchens.make_counter(height, order, widths, 0, tuple(dict.fromkeys(dropped)))
        self._counter = draw.counter
        return draw.piece

    def _read_fridge(self, node: Node) -> Piece:
        def given(name: str, usual: float, low: float, high: float) -> int:
            return _mm(node[name].number(low, high)) if name in node.value else _mm(usual)

        half = given("width", 0.7, 0.66, 0.84) // 2
        shelf = given("shelf", 0.98, 0.9, 1.0)
        side = 1
        if "hinge" in node.value:
            # As one stands before it; its own left is on the other hand.
            side = {"left": -1, "right": 1}[node["hinge"].text(("left", "right"))]
        high = given("height", 1.84, 1.7, 2.0)
        self._fridge, piece = kitchens.make_fridge(half, high, shelf, side, shelf + 520)
        return piece


def from_procedural(home: Home) -> dict[str, Any]:
    """What a file would say of a procedural home: pieces by kind, place and size.

    Not by colour, nor by the heights of seats, shelves and drawers: they are those of the kind.
    """
    layout, furnished = home.layout, home.furnished
    holding = {receptacle.piece for receptacle in layout.receptacles}
    walls = []
    for x0, y0, x1, y1 in home.plan.walls[4:]:  # the outer ones come first
        x, y = (x0 + x1) / 2, (y0 + y1) / 2
        is_upright = x1 - x0 == 2 * HALF_WALL
        ends = (x, y0, x, y1) if is_upright else (x0, y, x1, y)
        walls.append([v / 1000 for v in ends])
    furniture = []
    # In the order in which a file's pieces get the slots: of the chairs the first holds things.
    ranks = {slot: i for i, slot in enumerate(slot for slots in SLOTS.values() for slot in slots)}
    for slot in sorted(furnished.poses, key=lambda slot: ranks.get(slot, len(ranks))):
        x, y, yaw = furnished.poses[slot]
        kind = {"low table": "low_table", "run": "worktop"}.get(
            furnished.kinds[slot], furnished.kinds[slot]
        )
        piece = layout.shapes[slot]
        top = max(box.pos[2] + box.half[2] for box in piece.boxes)
        entry: dict[str, Any] = {"kind": kind, "at": [x / 1000, y / 1000], "yaw": yaw}
        if kind == "counter":
            drawers = layout.counter.drawers
            order = sorted(_COLUMN_NAMES, key=lambda n: drawers[f"drawer_{_COLUMN_NAMES[n]}_top"])
            halves = layout.counter.half_widths
            entry |= {
                "height": round(top, 3),
                "columns": {
                    n: round(2 * halves[f"drawer_{_COLUMN_NAMES[n]}_top"] + 0.04, 3) for n in order
                },
                "without": [name for name in fur.DRAWERS if name not in drawers],
            }
        elif kind == "fridge":
            entry |= {
                "width": round(2 * piece.half[1], 3), "height": round(top, 3),
                "shelf": piece.surfaces[0].pos[2],
                "hinge": "right" if layout.fridge.side > 0 else "left",
            }  # fmt: skip
        else:
            entry["size"] = [round(v, 3) for v in (2 * piece.half[0], 2 * piece.half[1], top)]
        if piece.surfaces and slot not in holding:  # too hard to reach
            entry["holds_objects"] = False
        furniture.append(entry)
    rooms = [{"name": r.kind, "rect": [v / 1000 for v in r.rect]} for r in home.plan.rooms]
    size = [side / 1000 for side in home.plan.size]
    return {"format": 1, "size": size, "rooms": rooms, "walls": walls, "doorways": [],
            "furniture": furniture}  # fmt: skip


def _mm(value: float) -> int:
    return round(1000 * max(-1e6, min(value, 1e6)))  # no home is so large: what follows refuses it


def _listed(numbers: Iterable[float]) -> str:
    return f"[{', '.join(f'{number:g}' for number in numbers)}]"


def _content(path: str) -> bytes:
    return read_whole_file(user_path(path), MAX_BYTES)


def _decoded(path: str, content: bytes) -> Any:
    try:
        text = content.decode("utf-8-sig")  # some editors begin a file with a mark
        if not text.strip():
            raise UserError(f"{path} must hold a home, it is empty")
        return strict_json(text)
    except UserError:
        raise
    except ValueError as error:
        raise UserError(f"{path} must be JSON: {error}") from None


def custom_home(path: str) -> CustomHome:
    """The home of a file as it is now. Raises UserError for anything wrong with it."""
    return _home_of(path, _content(path))


@lru_cache(maxsize=8)
def _home_of(path: str, content: bytes) -> CustomHome:
    return CustomHome(path, content)


def _drawn(node: Node, kind: str, rng: np.random.Generator, slot: str) -> Piece:
    """What a kind's `draw` makes, which may be a user's own."""
    draw: Any = kinds.KINDS[kind]
    try:
        piece = draw(rng, slot)
    except Exception as error:
        node["kind"].fail("have a draw that returns a Piece", described(error))
    if not isinstance(piece, Piece) or piece.name != slot:
        got = f"one named {piece.name}" if isinstance(piece, Piece) else quoted(piece)
        node["kind"].fail(f"have a draw that returns a Piece named {slot}", got)
    return piece


def _check_room_for_objects(node: Node, piece: Piece, size: tuple[float, ...]) -> None:
    """Refuses surfaces on which an object's centre has hardly a place far enough from the edges."""
    for surface in piece.surfaces:
        has_room = len(spot_grid(*surface.half)[0]) >= MIN_SPOTS
        if surface.kind == "open" and (min(surface.half) < EDGE_MARGIN or not has_room):
            narrow, wide = 2.0 * EDGE_MARGIN, 2.0 * (EDGE_MARGIN + SPOT_STEP)
            node.fail(
                f"leave room for objects, {narrow:g} x {wide:g} m of each surface, or have "
                '"holds_objects": false beside it',
                _listed(size),
            )
