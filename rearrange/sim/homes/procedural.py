"""Procedural homes: 1,000 for training, 100 for validation and 100 for test, all different.

    (split, number, attempt) -> seed -> floor plan -> furniture -> checks -> Layout, or next attempt

`procedural_{split}_{number}` names a home; no home is in two splits. Every home is checked: doors
and drawers open with the robot in front of them, no piece overlaps another, and every room and
every receptacle is reached from one island of free floor. Surfaces beyond HAB's receptacles (desks,
sideboards, worktops) that no arm reaches are no receptacles.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from rearrange.sim.home import furniture as fur
from rearrange.sim.home.house import (
    MIN_SPOTS,
    Layout,
    all_spots,
    receptacles_of,
    usable_spots,
)
from rearrange.sim.home.navigation import FloorPlan
from rearrange.sim.homes import kitchens
from rearrange.sim.homes.furnishing import Furnished, Furnisher
from rearrange.sim.homes.rooms import Plan, PlanRejected, draw_plan, draw_wish

NUM_HOMES = {"train": 1_000, "val": 100, "test": 100}
_STREAM = 22  # a random stream of its own for these homes
_SPLITS = tuple(NUM_HOMES)
MAX_ATTEMPTS, PATIENCE = 500, 60
# Half a millimetre beyond the base's radius: cells lie at whole millimetres, so no cell is just as
# far from a wall, where rounding would decide.
CHECK_RADIUS = 0.3005
_ATTEMPTS = Path(__file__).parent / "data" / "attempts.json.gz"
ROOM_SHARE = 0.08  # share of a room's floor that the robot's centre must reach


@dataclass(frozen=True, eq=False)
class Home:
    """One home with what it was drawn from."""

    layout: Layout
    plan: Plan
    furnished: Furnished
    spots: dict[str, np.ndarray]
    """Reachable spots by receptacle."""
    attempt: int


def home_ids(split: str) -> tuple[str, ...]:
    """Names of a split's homes."""
    return tuple(f"procedural_{split}_{i:04d}" for i in range(NUM_HOMES[split]))


def is_home_id(layout_id: str) -> bool:
    """Whether there is a home of that name."""
    parts = layout_id.split("_")
    return (
        len(parts) == 3
        and parts[0] == "procedural"
        and parts[1] in NUM_HOMES
        and parts[2].isdecimal()
        and len(parts[2]) == 4
        and int(parts[2]) < NUM_HOMES[parts[1]]
    )


@lru_cache(maxsize=64)
def make_home(home_id: str) -> Home:
    """The home of that name; the same numbers at every call, on every machine."""
    _, split, number = home_id.split("_")
    known = known_attempts()
    if known is None:
        return search_home(home_id)
    home = draw_home(home_id, _numbers(home_id), known[split][int(number)], is_proven=True)
    assert home is not None, f"attempts.json.gz is of other code: {home_id} is not workable"
    return home


def _numbers(home_id: str) -> list[int]:
    _, split, number = home_id.split("_")
    return [_STREAM, _SPLITS.index(split), int(number)]


def search_home(home_id: str) -> Home:
    """The home of the first attempt that succeeds."""
    for attempt in range(MAX_ATTEMPTS):
        home = draw_home(home_id, _numbers(home_id), attempt)
        if home is not None:
            return home
    raise RuntimeError(f"no workable home found for {home_id}")


@lru_cache(maxsize=1)
def known_attempts() -> dict[str, list[int]] | None:
    """The number of each home's attempt, so that no search is needed: an attempt takes
    milliseconds.

    None: not yet searched. Written by `python -m rearrange.sim.homes.procedural`; a test
    searches some of them again.
    """
    if not _ATTEMPTS.exists():
        return None
    return json.loads(gzip.decompress(_ATTEMPTS.read_bytes()))


def draw_home(
    home_id: str, numbers: list[int], attempt: int = 0, is_proven: bool = False
) -> Home | None:
    """The home drawn from a seed at an attempt; None if that cannot be used.

    All attempts are for the same area, number of rooms and kind of kitchen, so that hard ones are
    not rarer; one room less is tried for every `PATIENCE` attempts.

    Args:
        is_proven: it is known to be usable: only the reachable spots are computed.
    """
    wishes = np.random.default_rng(numbers)
    area, count = draw_wish(wishes)
    kitchen = kitchens.KINDS[int(wishes.integers(len(kitchens.KINDS)))]
    rng = np.random.default_rng([*numbers, attempt])
    try:
        plan = draw_plan(area, max(count - attempt // PATIENCE, 2), rng)
        furnished = Furnisher(plan, kitchen, rng).furnish()
    except PlanRejected:
        return None
    layout = _layout(home_id, plan, furnished)
    floor = FloorPlan(layout.bounds, layout.obstacles, CHECK_RADIUS)
    if is_proven:
        spots = all_spots(layout, floor)
    else:
        is_reached = _rooms_reached(plan, floor)
        spots = usable_spots(layout, floor, _is_needed) if is_reached else None
        if spots is None:
            return None
    reached = tuple(r for r in layout.receptacles if len(spots[r.name]) >= MIN_SPOTS)
    spots = {r.name: spots[r.name] for r in reached}
    return Home(replace(layout, receptacles=reached), plan, furnished, spots, attempt)


def _is_needed(piece: str) -> bool:
    """Whether every home has this piece's receptacles."""
    return piece in fur.PIECES


def _layout(home_id: str, plan: Plan, furnished: Furnished) -> Layout:
    width, depth = plan.size
    poses = {
        name: (x / 1000, y / 1000, float(np.deg2rad(yaw)))
        for name, (x, y, yaw) in furnished.poses.items()
    }
    walls = [
        ((x0 + x1) / 2000, (y0 + y1) / 2000, (x1 - x0) / 2000, (y1 - y0) / 2000, 0.0)
        for x0, y0, x1, y1 in plan.walls
    ]
    parents = {
        name: fur.PARENTS.get(name, f"{kind.replace(' ', '_')}_{name}_:0000")
        for name, kind in furnished.kinds.items()
    }
    shapes = {name: furnished.shapes[name] for name in poses}
    assert furnished.counter is not None and furnished.fridge is not None  # or PlanRejected
    return Layout(
        home_id, (0.0, 0.0, width / 1000, depth / 1000), poses, np.array(walls),
        receptacles_of(poses, shapes, parents), shapes, furnished.counter, furnished.fridge,
    )  # fmt: skip


def _rooms_reached(plan: Plan, floor: FloorPlan) -> bool:
    """Whether the robot's centre reaches a large enough share of every room."""
    island = floor.labels == floor.largest
    cell = round(1000 * floor.cell)
    for room in plan.rooms:
        x0, y0, x1, y1 = (value // cell for value in room.rect)
        part = island[y0:y1, x0:x1]
        if not part.size or part.mean() < ROOM_SHARE:
            return False
    return True


def main() -> None:
    """Searches all homes, which takes minutes, and writes the numbers of their attempts."""
    found = {split: [search_home(name).attempt for name in home_ids(split)] for split in NUM_HOMES}
    text = json.dumps(found, separators=(",", ":"))
    _ATTEMPTS.parent.mkdir(exist_ok=True)
    _ATTEMPTS.write_bytes(gzip.compress(text.encode(), mtime=0))
    counts = [attempt + 1 for attempts in found.values() for attempt in attempts]
    print(f"{len(counts)} homes, {sum(counts)} attempts, {max(counts)} at most: {_ATTEMPTS}")


if __name__ == "__main__":
    main()
