"""Random floor plans: rooms, the walls between them, and doorways.

    area, number of rooms -> rectangle -> corridor with rooms on both sides, or cut in two again and
    again -> what each room is for -> doorways: every room reached, some loops -> wall pieces

All lengths are whole millimetres and all random draws integers, so that the same seed gives the
same home on every machine. Rooms are measured between the centre lines of their walls.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NUM_WALLS = 28  # of the model, including the four outer ones
HALF_WALL = 50  # mm
AREA = (40, 140)  # m2
NUM_ROOMS = (2, 7)
LONGEST = 14_000  # mm, a side of the home
SMALLEST = 1_900  # mm, a side of a room
CORRIDOR = (1_300, 1_700)  # mm wide: Fetch's base is 0.6 m, its arm at rest reaches 0.6 m ahead
# Clear widths: none below the 0.9 m that DIN 18040-2 asks for wheelchairs, which leaves 0.15 m on
# both sides of Fetch's base. Openings between kitchen and living room may be wider.
DOOR = (900, 1_150)
OPENING = (1_400, 2_400)
LARGEST_BATH = 14_000_000  # mm2
JAMB = 130  # mm of wall that stays beside a doorway
LOOP_SHARE = 25  # % of the remaining pairs of neighbours that get a doorway as well
Rect = tuple[int, int, int, int]  # x0, y0, x1, y1, mm


class PlanRejected(Exception):
    """This draw cannot be used; draw again."""


@dataclass(frozen=True)
class Room:
    kind: str  # "kitchen" | "living" | "bedroom" | "study" | "bath" | "corridor"
    rect: Rect

    @property
    def area(self) -> int:
        """mm2"""
        x0, y0, x1, y1 = self.rect
        return (x1 - x0) * (y1 - y0)


@dataclass(frozen=True)
class Doorway:
    """An opening in the wall between two rooms, `width` from `start` on along the wall."""

    rooms: tuple[int, int]
    is_upright: bool  # the wall runs along y
    at: int  # mm, the wall's centre line
    start: int
    width: int


@dataclass(frozen=True)
class Plan:
    """The floor of one home; outer walls lie outside `size`."""

    size: tuple[int, int]  # mm
    rooms: tuple[Room, ...]
    doorways: tuple[Doorway, ...]
    walls: tuple[Rect, ...]  # inner and outer


def draw_wish(rng: np.random.Generator) -> tuple[int, int]:
    """What kind of home to draw: its area, m2, and its number of rooms."""
    area = int(rng.integers(AREA[0], AREA[1] + 1))
    low, high = max(NUM_ROOMS[0], area // 32), min(NUM_ROOMS[1], 1 + area // 14)
    return area, int(rng.integers(low, high + 1))


def draw_plan(area: int, count: int, rng: np.random.Generator) -> Plan:
    """A floor plan of `area` m2 and `count` rooms. Raises PlanRejected if the draw cannot be
    used."""
    stretch = int(rng.integers(100, 165))  # %, length by width
    depth = _root(area * 1_000_000 * 100 // stretch) // 100 * 100
    width = area * 1_000_000 // depth // 100 * 100
    if width > LONGEST:
        raise PlanRejected
    if rng.integers(2):
        width, depth = depth, width
    has_corridor = count >= 4 and min(width, depth) >= 6_800 and bool(rng.integers(100) < 60)
    cut = _with_corridor if has_corridor else _cut_up
    rects, lines = cut((0, 0, width, depth), count, rng)
    rooms = _named(rects, has_corridor, rng)
    doorways = _doorways(rooms, lines, rng)
    gaps = []
    for door in doorways:
        for number, (is_upright, at, low, high) in enumerate(lines):
            if (is_upright, at) == (door.is_upright, door.at) and low <= door.start < high:
                gaps.append((number, door.start, door.width))
    walls = wall_pieces((width, depth), lines, gaps)
    if len(walls) > NUM_WALLS:
        raise PlanRejected
    return Plan((width, depth), rooms, doorways, walls)


def _root(value: int) -> int:
    """Integer square root."""
    low = int(value**0.5)
    while low * low > value:
        low -= 1
    while (low + 1) * (low + 1) <= value:
        low += 1
    return low


# A wall line: (is_upright, at, from, to), mm.
Line = tuple[bool, int, int, int]


def _cut_up(home: Rect, count: int, rng: np.random.Generator) -> tuple[list[Rect], list[Line]]:
    """Splits the largest room in two until there are enough."""
    rects, lines = [home], []
    while len(rects) < count:
        rects.sort(key=lambda r: (-(r[2] - r[0]) * (r[3] - r[1]), r))
        x0, y0, x1, y1 = rects.pop(0)
        share = int(rng.integers(36, 65))
        if x1 - x0 >= y1 - y0:
            at = x0 + (x1 - x0) * share // 100 // 50 * 50
            parts, line = [(x0, y0, at, y1), (at, y0, x1, y1)], (True, at, y0, y1)
        else:
            at = y0 + (y1 - y0) * share // 100 // 50 * 50
            parts, line = [(x0, y0, x1, at), (x0, at, x1, y1)], (False, at, x0, x1)
        _check_sides(parts)
        rects += parts
        lines.append(line)
    return rects, lines


def _with_corridor(
    home: Rect, count: int, rng: np.random.Generator
) -> tuple[list[Rect], list[Line]]:
    """A corridor through the length of the home, rooms on both sides of it; it comes first."""
    x0, y0, x1, y1 = home
    is_along_x = x1 - x0 >= y1 - y0
    length, depth = (x1 - x0, y1 - y0) if is_along_x else (y1 - y0, x1 - x0)
    width = int(rng.integers(CORRIDOR[0] // 50, CORRIDOR[1] // 50 + 1)) * 50
    near = (depth - width) * int(rng.integers(40, 61)) // 100 // 50 * 50
    number = count - 1
    first = max(1, min(number - 1, int(rng.integers(number // 2, number // 2 + 2))))
    rects, lines = [(0, near, length, near + width)], [
        (False, near, 0, length), (False, near + width, 0, length),
    ]  # fmt: skip
    for low, high, rooms in ((0, near, first), (near + width, depth, number - first)):
        cuts = _cuts(length, rooms, rng)
        rects += [(a, low, b, high) for a, b in zip(cuts, cuts[1:], strict=False)]
        lines += [(True, at, low, high) for at in cuts[1:-1]]
    if not is_along_x:
        rects = [(b, a, d, c) for a, b, c, d in rects]
        lines = [(not is_upright, at, a, b) for is_upright, at, a, b in lines]
    _check_sides(rects[1:])
    return rects, lines


def _cuts(length: int, rooms: int, rng: np.random.Generator) -> list[int]:
    shares = [int(rng.integers(60, 141)) for _ in range(rooms)]
    ends = [0]
    for share in shares[:-1]:
        ends.append(ends[-1] + length * share // sum(shares) // 50 * 50)
    return [*ends, length]


def _check_sides(rects: list[Rect]) -> None:
    if any(min(x1 - x0, y1 - y0) < SMALLEST for x0, y0, x1, y1 in rects):
        raise PlanRejected


def _named(rects: list[Rect], has_corridor: bool, rng: np.random.Generator) -> tuple[Room, ...]:
    """Assigns uses: the largest room or the next is the living room, the other the kitchen, the
    smallest a bath."""
    order = sorted(
        range(int(has_corridor), len(rects)),
        key=lambda i: (-(rects[i][2] - rects[i][0]) * (rects[i][3] - rects[i][1]), i),
    )
    kinds = {0: "corridor"} if has_corridor else {}
    first, second = order[:2] if rng.integers(2) else order[1::-1]
    kinds |= {first: "living", second: "kitchen"}
    rest = order[2:]
    x0, y0, x1, y1 = rects[order[-1]]
    if rest and (x1 - x0) * (y1 - y0) <= LARGEST_BATH and (len(rest) > 1 or rng.integers(2)):
        kinds[rest.pop()] = "bath"
    for number, i in enumerate(rest):
        kinds[i] = "study" if number and rng.integers(2) else "bedroom"
    return tuple(Room(kinds[i], rect) for i, rect in enumerate(rects))


def _shared(a: Rect, b: Rect) -> tuple[bool, int, int, int] | None:
    """The wall that two rooms share, as a line between the inner faces at its ends, or None."""
    for one, other in ((a, b), (b, a)):
        if one[2] == other[0]:
            low, high = max(a[1], b[1]) + HALF_WALL, min(a[3], b[3]) - HALF_WALL
            return (True, one[2], low, high) if high > low else None
        if one[3] == other[1]:
            low, high = max(a[0], b[0]) + HALF_WALL, min(a[2], b[2]) - HALF_WALL
            return (False, one[3], low, high) if high > low else None
    return None


def _doorways(
    rooms: tuple[Room, ...], lines: list[Line], rng: np.random.Generator
) -> tuple[Doorway, ...]:
    """A tree of doorways that reaches every room, and a few more. Raises PlanRejected."""
    pairs = []
    for i in range(len(rooms)):
        for j in range(i + 1, len(rooms)):
            line = _shared(rooms[i].rect, rooms[j].rect)
            if line is None or line[3] - line[2] < DOOR[0] + 2 * JAMB:
                continue
            kinds = {rooms[i].kind, rooms[j].kind}
            # A bath is never a passage; other rooms preferably open to corridors and living rooms.
            rank = 0 if "corridor" in kinds else 1 if kinds & {"living", "kitchen"} else 2
            pairs.append((rank + 2 * ("bath" in kinds), int(rng.integers(1_000)), i, j, line))
    group = list(range(len(rooms)))
    found = []
    for rank, lot, i, j, line in sorted(pairs):
        is_needed = group[i] != group[j]
        has_bath = "bath" in (rooms[i].kind, rooms[j].kind)
        if not is_needed and (has_bath or lot % 100 >= LOOP_SHARE or rank >= 2):
            continue
        group = [group[i] if g == group[j] else g for g in group]
        limits = DOOR
        if {rooms[i].kind, rooms[j].kind} == {"kitchen", "living"} and rng.integers(100) < 50:
            limits = OPENING
        widest = min(limits[1], line[3] - line[2] - 2 * JAMB)
        lowest = min(limits[0], widest)
        width = int(rng.integers(lowest // 50, widest // 50 + 1)) * 50
        start = int(rng.integers((line[2] + JAMB) // 10, (line[3] - JAMB - width) // 10 + 1)) * 10
        found.append(Doorway((i, j), line[0], line[1], start, width))
    if len(set(group)) > 1 or any(door.width < DOOR[0] for door in found):
        raise PlanRejected
    return tuple(found)


def wall_pieces(
    size: tuple[int, int], lines: list[Line], gaps: list[tuple[int, int, int]]
) -> tuple[Rect, ...]:
    """Outer walls, and the pieces of the inner ones between doorways.

    Args:
        gaps: of each doorway: the index of its line, its start along that line and its width, mm.
    """
    width, depth = size
    t = 2 * HALF_WALL
    walls = [
        (-t, -t, width + t, 0), (-t, depth, width + t, depth + t), (-t, 0, 0, depth),
        (width, 0, width + t, depth),
    ]  # fmt: skip
    for number, (is_upright, at, low, high) in enumerate(lines):
        own = sorted((start, start + wide) for line, start, wide in gaps if line == number)
        begin = low
        for gap in [*own, (high, high)]:
            end = gap[0]
            if end > begin:
                a, b = at - HALF_WALL, at + HALF_WALL
                walls.append((a, begin, b, end) if is_upright else (begin, a, end, b))
            begin = max(begin, gap[1])  # doorways that overlap are one
    return tuple(walls)
