"""Places furniture in the rooms of a floor plan, without overlap.

    kitchen (fridge, counter, more of it, island) -> dining -> sofa, television -> beds, desks, bath

Everything is in whole millimetres and in rectangles parallel to the walls, also around a slanted
chair. Floor that must stay free (in front of doors, drawers and doorways, and where one stands to
use a thing) is a rectangle too; nothing is put there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rearrange.sim.home.furniture import Counter, Fridge, Piece
from rearrange.sim.homes import kinds, kitchens
from rearrange.sim.homes.kinds import NUM_EXTRAS
from rearrange.sim.homes.rectangles import (
    hits,
    holds,
    moved,
    place_at_wall,
    placed,
    rows_of,
    turned,
)
from rearrange.sim.homes.rooms import HALF_WALL, Plan, PlanRejected, Rect

GAP = 30  # mm between pieces
WALL_GAP = (20, 60)  # mm behind a piece at a wall
DOOR_DEPTH = 800  # mm that stay free on both sides of a doorway: the base and room to turn
TRIES = 30  # for each piece
FRONTS = {  # mm that stay free in front of a piece
    "sofa": 750, "tvstand": 750, "chest": 600, "shelf": 500, "wardrobe": 700, "desk": 850,
    "toilet": 650, "basin": 750, "tub": 650, "shower": 650, "washer": 750, "sideboard": 750,
    "shoes": 600, "armchair": 650, "chair": 650,
}  # fmt: skip


@dataclass
class Furnished:
    """The result. Poses are x, y in mm and yaw in whole degrees."""

    poses: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    shapes: dict[str, Piece] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    counter: Counter | None = None
    fridge: Fridge | None = None
    kitchen: str = ""


def body(piece: Piece) -> Rect:
    """What a piece covers in its own frame, handles included, mm."""
    hx, hy = (round(1000 * v) for v in piece.half)
    return (-hx, -hy, hx + round(1000 * piece.front), hy)


class Furnisher:
    """Puts furniture into one floor plan."""

    def __init__(self, plan: Plan, kitchen: str, rng: np.random.Generator) -> None:
        self.plan, self.rng = plan, rng
        self.done = Furnished(kitchen=kitchen)
        self._taken: list[Rect] = []
        self._kept: list[tuple[str, Rect]] = []
        self._free_extras = [f"extra_{i:02d}" for i in range(NUM_EXTRAS - 1)]
        for door in plan.doorways:
            low, high = door.start - 50, door.start + door.width + 50
            a, b = door.at - HALF_WALL - DOOR_DEPTH, door.at + HALF_WALL + DOOR_DEPTH
            self._kept.append(("", (a, low, b, high) if door.is_upright else (low, a, high, b)))

    def inner(self, room: int) -> Rect:
        """A room between the faces of its walls."""
        x0, y0, x1, y1 = self.plan.rooms[room].rect
        width, depth = self.plan.size
        return (
            x0 + HALF_WALL * (x0 > 0), y0 + HALF_WALL * (y0 > 0),
            x1 - HALF_WALL * (x1 < width), y1 - HALF_WALL * (y1 < depth),
        )  # fmt: skip

    def put(
        self,
        slot: str,
        kind: str,
        piece: Piece,
        room: int,
        pose: tuple[int, int, int],
        front: Rect | None = None,
        ignored: str = "-",
    ) -> bool:
        """Puts a piece there if it and the floor `front` of its frame have room; whether it did.

        Args:
            ignored: a piece whose kept floor it may stand on.
        """
        own = placed(body(piece), pose)
        zone = None if front is None else placed(front, pose)
        if not self._has_room(self.inner(room), own, zone, ignored):
            return False
        self._take(slot, kind, piece, pose, own, zone)
        return True

    def _take(
        self,
        slot: str,
        kind: str,
        piece: Piece,
        pose: tuple[int, int, int],
        own: Rect,
        zone: Rect | None,
    ) -> None:
        """Puts a piece where it has room: what it covers and the floor that it keeps free."""
        if zone is not None:
            self._kept.append((slot, zone))
        self._taken.append(own)
        self.done.poses[slot], self.done.shapes[slot] = pose, piece
        self.done.kinds[slot] = kind

    def _has_room(self, inside: Rect, own: Rect, zone: Rect | None, ignored: str = "-") -> bool:
        """Whether a piece and the floor that it keeps free have room."""
        if not holds(inside, own) or hits(own, self._taken, GAP):
            return False
        if hits(own, [other for owner, other in self._kept if owner != ignored]):
            return False
        return zone is None or (holds(inside, zone) and not hits(zone, self._taken))

    def at_wall(
        self, slot: str, kind: str, piece: Piece, room: int, quarter: int | None = None
    ) -> bool:
        """Somewhere in a room with the back to a wall; now and then in a corner."""
        hx, hy = (round(1000 * v) for v in piece.half)
        depth = FRONTS.get(kind, 0)
        front = (hx, -hy, hx + depth, hy)
        bodies = [turned(body(piece), q) for q in range(4)]
        fronts = [turned(front, q) for q in range(4)]
        q, x, y = place_at_wall(
            self.rng, -1 if quarter is None else quarter, np.array(self.inner(room)),
            np.array([bodies, fronts]), depth > 0, (hx, hy), WALL_GAP,
            rows_of(self._taken), rows_of([rect for _, rect in self._kept]), GAP, TRIES,
        )  # fmt: skip
        if q < 0:
            return False
        zone = moved(fronts[q], x, y) if depth else None
        self._take(slot, kind, piece, (x, y, 90 * q), moved(bodies[q], x, y), zone)
        return True

    def extra(self, kind: str, room: int) -> bool:
        """Puts a piece of a kind beyond HAB's at a wall; False if there is no place or no slot
        left."""
        if not self._free_extras:
            return False
        slot = self._free_extras[0]
        piece = kinds.KINDS[kind](self.rng, slot)
        if not self.at_wall(slot, kind, piece, room):
            return False
        self._free_extras.pop(0)
        return True

    def rooms(self, *wanted: str) -> list[int]:
        """Rooms of a kind."""
        return [i for i, room in enumerate(self.plan.rooms) if room.kind in wanted]

    def must(self, is_done: bool) -> None:
        if not is_done:
            raise PlanRejected

    def furnish(self) -> Furnished:
        """Furnishes all rooms. Raises PlanRejected if a piece that every home needs found no
        place."""
        self._kitchen()
        self._dining()
        self._living()
        for room in self.rooms("bedroom"):
            self._bedroom(room)
        for room in self.rooms("study"):
            self._some(room, ("desk", "shelf", "sideboard", "armchair", "lamp"))
        for room in self.rooms("bath"):
            self._some(room, ("tub", "toilet", "basin", "washer"), "shower")
        for room in self.rooms("corridor"):
            self._some(room, ("shoes",))
        self._chair_0()
        for slot, kind in (("plant", "plant"), ("chest", "chest"), ("shelf", "shelf")):
            self._named(slot, kind)
        return self.done

    def _kitchen(self) -> None:
        rng, done = self.rng, self.done
        room = self.rooms("kitchen")[0]
        draw = kitchens.draw_counter(rng)
        fridge, fridge_piece = kitchens.draw_fridge(rng)
        done.counter, done.fridge = draw.counter, fridge
        for _ in range(TRIES):
            if self._run(room, draw, fridge, fridge_piece):
                break
        else:
            raise PlanRejected
        if rng.integers(100) < 55:
            self._island(room)

    def _run(self, room: int, draw, fridge: Fridge, fridge_piece: Piece) -> bool:
        """Fridge and counter along a wall, and more of it around the corner or opposite."""
        rng, kind = self.rng, self.done.kitchen
        q = int(rng.integers(4))
        inside = self.inner(room)
        # The wall's own frame: u along it, v out of it, as the piece's -y... and +x.
        width = inside[3] - inside[1] if q % 2 == 0 else inside[2] - inside[0]
        depth = inside[2] - inside[0] if q % 2 == 0 else inside[3] - inside[1]
        counter_half = round(1000 * draw.piece.half[1])
        fridge_half = round(1000 * fridge.half[1])
        corner = 660 if kind == "corner" else 20
        gap = kinds.drawn(rng, 40, 700)
        total = 2 * counter_half + corner + 20
        if kind != "apart":
            total += 2 * fridge_half + gap
        if total > width or depth < 2_500:
            return False
        free = width - total
        shift = 0 if kind == "corner" else kinds.drawn(rng, 0, free // 10 * 10)
        is_flipped = bool(rng.integers(2))  # which way the run goes along the wall

        def pose(u: int, v: int, turn: int = 0) -> tuple[int, int, int]:
            return _at_wall_frame(inside, q, width - u if is_flipped else u, v, turn)

        v = 300 + kinds.drawn(rng, *WALL_GAP)
        mark = len(self._taken), len(self._kept)
        u = corner + shift + counter_half
        is_done = self.put(
            "counter", "counter", draw.piece, room, pose(u, v),
            kitchens.kept_free_counter(draw.piece),
        )  # fmt: skip
        front = kitchens.kept_free_fridge(fridge)
        if is_done and kind == "apart":
            is_done = self._fridge_apart(room, q, fridge_piece, front)
        elif is_done:
            u += counter_half + gap + fridge_half
            is_done = self.put("fridge", "fridge", fridge_piece, room, pose(u, v + 20), front)
        if is_done and kind == "corner":
            length = kinds.drawn(rng, 1_000, min(2_200, depth - 900))
            slot = self._free_extras[0]
            wing = kitchens.run_piece(slot, length, draw)
            wall = -1 if is_flipped else 1  # its back to the wall at the run's end
            is_done = self.put(slot, "run", wing, room, pose(320, 20 + length // 2, wall))
            if is_done:
                self._free_extras.pop(0)
        if is_done and kind == "galley":
            is_done = self._opposite(room, draw, depth, counter_half, pose, u0=corner + shift)
        if not is_done:
            del self._taken[mark[0] :], self._kept[mark[1] :]
        return is_done

    def _fridge_apart(self, room: int, quarter: int, piece: Piece, front: Rect) -> bool:
        half = round(1000 * piece.half[1])
        for _ in range(TRIES):
            q = (quarter + int(self.rng.integers(1, 4))) % 4
            x0, y0, x1, y1 = self.inner(room)
            low, high = (y0, y1) if q % 2 == 0 else (x0, x1)
            if high - low < 2 * half + 60:
                continue
            along = kinds.drawn(self.rng, low + half + 20, high - half - 20)
            off = 340
            x, y = ((x0 + off, along), (along, y0 + off), (x1 - off, along), (along, y1 - off))[q]
            if self.put("fridge", "fridge", piece, room, (x, y, 90 * q), front):
                return True
        return False

    def _opposite(self, room, draw, depth, counter_half, pose, u0) -> bool:
        """A second run of worktop at the other wall; 1.3 m at least stay between the two."""
        if depth > 4_200:
            return False
        length = kinds.drawn(self.rng, 900, 2 * counter_half)
        slot = self._free_extras[0]
        piece = kitchens.run_piece(slot, length, draw)
        off = depth - 320
        is_done = self.put(slot, "run", piece, room, pose(u0 + length // 2, off, 2))
        if is_done:
            self._free_extras.pop(0)
        return is_done

    def _island(self, room: int) -> None:
        x, y, yaw = self.done.poses["counter"]
        piece = kinds.KINDS["island"](self.rng, "island")
        hx, hy = (round(1000 * v) for v in piece.half)
        away = 1_640 + hx + kinds.drawn(self.rng, 0, 250)
        aside = kinds.drawn(self.rng, -500, 500)
        dx, dy, _, _ = turned((away, aside, away, aside), yaw // 90)
        around = (-hx - 100, -hy - 650, hx + 700, hy + 650)
        self.put("island", "island", piece, room, (x + dx, y + dy, yaw), around)

    def _dining(self) -> None:
        """The table with chairs around it, in the kitchen or the living room."""
        rng = self.rng
        piece = kinds.table(rng, "table_01")
        hx, hy = (round(1000 * v) for v in piece.half)
        around = (-hx - 750, -hy - 750, hx + 750, hy + 750)
        places = self.rooms("kitchen", "living")
        for _ in range(2 * TRIES):
            room = places[int(rng.integers(len(places)))]
            x0, y0, x1, y1 = self.inner(room)
            q = int(rng.integers(2))
            x, y = kinds.drawn(rng, x0, x1), kinds.drawn(rng, y0, y1)
            if self.put("table_01", "table", piece, room, (x, y, 90 * q), around):
                break
        else:
            raise PlanRejected
        sides = ((0, hy, 3), (0, -hy, 1), (hx, 0, 2), (-hx, 0, 0))
        chosen = [sides[i] for i in rng.permutation(4)[: int(rng.integers(1, 4))]]
        for number, (dx, dy, facing) in enumerate(chosen):
            self._chair_at(f"chair_{number + 1}", room, (x, y, q), (dx, dy, facing))

    def _chair_at(self, slot: str, room: int, table, side, owner: str = "table_01") -> bool:
        rng = self.rng
        piece = kinds.chair(rng, slot)
        half = round(1000 * piece.half[0])
        x, y, q = table
        dx, dy, facing = side
        away = half + 70 + kinds.drawn(rng, 30, 250)
        dx, dy = dx + away * (dx > 0) - away * (dx < 0), dy + away * (dy > 0) - away * (dy < 0)
        dx, dy, _, _ = turned((dx, dy, dx, dy), q)
        yaw = 90 * ((facing + q) % 4) + int(rng.integers(-12, 13))
        return self.put(slot, "chair", piece, room, (x + dx, y + dy, yaw % 360), None, owner)

    def _living(self) -> None:
        rng = self.rng
        room = self.rooms("living")[0]
        sofa = kinds.sofa(rng, "sofa")
        self.must(self.at_wall("sofa", "sofa", sofa, room))
        x, y, yaw = self.done.poses["sofa"]
        low = kinds.table(rng, "table_02")
        away = round(1000 * (sofa.half[0] + low.half[0])) + 760
        for _ in range(TRIES):
            ahead, aside = away + kinds.drawn(rng, 0, 400), kinds.drawn(rng, -300, 300)
            dx, dy, _, _ = turned((ahead, aside, ahead, aside), yaw // 90)
            if self.put("table_02", "low table", low, room, (x + dx, y + dy, yaw)):
                break
        else:
            raise PlanRejected
        stand = kinds.tvstand(rng, "tvstand")
        opposite = (yaw // 90 + 2) % 4 if rng.integers(100) < 60 else None
        self.must(
            self.at_wall("tvstand", "tvstand", stand, room, opposite)
            or self.at_wall("tvstand", "tvstand", stand, room)
        )
        self._some(room, ("sideboard", "armchair", "lamp", "bed" if len(self.plan.rooms) < 3 else
                          "plant"))  # fmt: skip

    def _bedroom(self, room: int) -> None:
        self.extra("bed", room)
        self._some(room, ("wardrobe", "nightstand", "desk", "lamp"))

    def _some(self, room: int, wanted: tuple[str, ...], instead: str | None = None) -> None:
        """Places each of these kinds with a probability of 3/4; `instead` where the first did not
        fit."""
        for number, kind in enumerate(wanted):
            if self.rng.integers(100) < 75:
                is_done = self.extra(kind, room)
                if not is_done and instead is not None and number == 0:
                    self.extra(instead, room)

    def _chair_0(self) -> None:
        """The chair that holds objects: at any wall of any room but baths and corridors."""
        piece = kinds.chair(self.rng, "chair_0")
        places = self.rooms("kitchen", "living", "bedroom", "study")
        for _ in range(8):
            room = places[int(self.rng.integers(len(places)))]
            if self.at_wall("chair_0", "chair", piece, room):
                return
        raise PlanRejected

    def _named(self, slot: str, kind: str) -> None:
        places = self.rooms("living", "bedroom", "study", "kitchen")
        if self.rng.integers(100) < 80:
            room = places[int(self.rng.integers(len(places)))]
            self.at_wall(slot, kind, kinds.KINDS[kind](self.rng, slot), room)


def _at_wall_frame(inside: Rect, quarter: int, u: int, v: int, turn: int) -> tuple[int, int, int]:
    """The pose `u` mm along a wall and `v` mm in front of it, facing away, plus quarter turns."""
    x0, y0, x1, y1 = inside
    x, y = ((x0 + v, y0 + u), (x1 - u, y0 + v), (x1 - v, y1 - u), (x0 + u, y1 - v))[quarter]
    return (x, y, 90 * ((quarter + turn) % 4))
