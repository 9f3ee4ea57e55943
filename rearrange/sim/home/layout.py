"""Apartments: five macro layouts, each with 21 variations, as numbers.

Names and split follow HAB on ReplicaCAD (hab-spec 2.1): `v3_sc{M}_staging_{NN}`, M = 0..4, NN =
00..20; train M = 0, 1, 2, validation M = 3, test M = 4. A variation shifts and turns the furniture
of its macro layout and is kept only when the home works: all drawers and both fridge doors have
room to open with the robot in front of them, and every receptacle can be reached.

For training there are more, M of the train split: `v3_sc{M}_varied_{NN}`, whose furniture is moved
and turned several times as far, and `v3_sc{M}_arranged_{NN}`, where all but the kitchen stands
anywhere (`sim/home/arrangement.py`). Three macro layouts are few to learn from what stands around a
chair or a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numba import njit

from rearrange.errors import UserError
from rearrange.sim.home import furniture as fur
from rearrange.sim.home.arrangement import KITCHEN, arranged
from rearrange.sim.home.furniture import piece_to_world
from rearrange.sim.home.navigation import FloorPlan
from rearrange.sim.robot import fetch

SPLITS: dict[str, tuple[int, ...]] = {"train": (0, 1, 2), "val": (3,), "test": (4,)}
NUM_VARIATIONS = 21
NUM_VARIED = 100  # of each macro layout of the train split, and as many that are arranged
VARIED_MOVE, VARIED_TURN = 3.0, 4.0  # times a piece's own bounds
BOUNDS = (0.0, 0.0, 9.0, 7.0)  # m, inside of the outer walls
_WALL = 0.05  # m, half thickness
MAX_TRIES = 200
MIN_ISLAND = 0.85  # of the free floor that the robot gets to

# piece: (x, y, yaw in degrees, along, across, turn): the last three bound its jitter: m along its
# own y, m along its own x, degrees. Furniture with its back to a wall does not move across.
_Pose = tuple[float, float, float, float, float, float]
_MACROS: tuple[dict[str, _Pose], ...] = (
    {
        "counter": (2.0, 6.68, -90, 0.12, 0, 0), "fridge": (4.2, 6.66, -90, 0.1, 0, 0),
        "island": (2.2, 4.35, -90, 0.15, 0.08, 3), "table_01": (7.3, 5.0, 0, 0.1, 0.1, 4),
        "chair_1": (7.3, 6.3, -90, 0.08, 0.06, 12), "chair_2": (7.3, 3.7, 90, 0.08, 0.06, 12),
        "sofa": (2.4, 0.5, 90, 0.2, 0, 0), "table_02": (2.4, 2.15, 90, 0.15, 0.08, 6),
        "tvstand": (0.27, 2.5, 0, 0.2, 0, 0), "chest": (8.74, 2.2, 180, 0.3, 0, 0),
        "shelf": (8.8, 0.9, 180, 0.2, 0, 0), "chair_0": (5.0, 0.6, 90, 0.25, 0.05, 12),
        "chair_3": (6.3, 0.6, 90, 0.2, 0.05, 12), "plant": (8.7, 6.7, 0, 0.04, 0.04, 0),
    },
    {
        "counter": (8.68, 2.0, 180, 0.12, 0, 0), "fridge": (8.66, 4.25, 180, 0.1, 0, 0),
        "island": (6.35, 2.0, 180, 0.15, 0.08, 3), "table_01": (4.6, 5.4, 90, 0.1, 0.1, 4),
        "chair_1": (3.45, 5.4, 0, 0.08, 0.06, 12), "chair_2": (5.75, 5.4, 180, 0.08, 0.06, 12),
        "sofa": (0.47, 1.8, 0, 0.2, 0, 0), "table_02": (2.1, 1.8, 0, 0.15, 0.08, 6),
        "tvstand": (4.1, 0.27, 90, 0.2, 0, 0), "chest": (1.0, 6.74, -90, 0.2, 0, 0),
        "shelf": (2.3, 6.8, -90, 0.15, 0, 0), "chair_0": (0.5, 5.1, 0, 0.15, 0.05, 12),
        "chair_3": (7.2, 6.6, -90, 0.2, 0.05, 12), "plant": (8.7, 6.7, 0, 0.04, 0.04, 0),
    },
    {
        "counter": (0.32, 4.6, 0, 0.12, 0, 0), "fridge": (0.34, 2.55, 0, 0.1, 0, 0),
        "island": (2.6, 4.7, 0, 0.15, 0.08, 3), "table_01": (3.3, 1.3, 90, 0.1, 0.1, 4),
        "chair_1": (2.15, 1.1, 0, 0.08, 0.06, 12), "chair_2": (4.45, 1.3, 180, 0.08, 0.06, 12),
        "sofa": (7.0, 6.5, -90, 0.2, 0, 0), "table_02": (7.0, 4.85, -90, 0.15, 0.08, 6),
        "tvstand": (7.0, 0.27, 90, 0.25, 0, 0), "chest": (8.74, 2.6, 180, 0.2, 0, 0),
        "shelf": (5.3, 0.2, 90, 0.1, 0, 0), "chair_0": (8.5, 4.2, 180, 0.1, 0.05, 12),
        "chair_3": (0.5, 0.5, 0, 0.06, 0.05, 12), "plant": (5.3, 6.6, 0, 0.06, 0.06, 0),
    },
    {
        "counter": (3.2, 0.32, 90, 0.12, 0, 0), "fridge": (5.35, 0.34, 90, 0.1, 0, 0),
        "island": (3.45, 2.65, 90, 0.15, 0.06, 3), "table_01": (1.9, 4.5, 0, 0.1, 0.1, 4),
        "chair_1": (1.9, 3.25, 90, 0.08, 0.06, 12), "chair_2": (1.9, 5.75, -90, 0.08, 0.06, 12),
        "sofa": (6.4, 6.5, -90, 0.2, 0, 0), "table_02": (6.4, 4.85, -90, 0.15, 0.08, 6),
        "tvstand": (8.73, 4.0, 180, 0.2, 0, 0), "chest": (0.26, 6.2, 0, 0.15, 0, 0),
        "shelf": (0.2, 1.6, 0, 0.15, 0, 0), "chair_0": (8.5, 1.7, 180, 0.15, 0.05, 12),
        "chair_3": (7.5, 0.5, 90, 0.1, 0.05, 12), "plant": (8.7, 6.7, 0, 0.04, 0.04, 0),
    },
    {
        "counter": (6.6, 6.68, -90, 0.12, 0, 0), "fridge": (4.5, 6.66, -90, 0.1, 0, 0),
        "island": (6.4, 4.45, -90, 0.15, 0.06, 3), "table_01": (7.3, 2.5, 90, 0.1, 0.08, 4),
        "chair_1": (6.15, 2.5, 0, 0.08, 0.06, 12), "chair_2": (8.5, 2.5, 180, 0.08, 0.04, 12),
        "sofa": (0.47, 2.8, 0, 0.2, 0, 0), "table_02": (2.1, 2.8, 0, 0.15, 0.08, 6),
        "tvstand": (4.5, 2.6, 180, 0.15, 0.1, 3), "chest": (2.4, 6.74, -90, 0.2, 0, 0),
        "shelf": (1.0, 6.8, -90, 0.2, 0, 0), "chair_0": (0.7, 0.6, 45, 0.1, 0.05, 12),
        "chair_3": (3.2, 0.5, 90, 0.2, 0.05, 12), "plant": (8.7, 0.35, 0, 0.04, 0.04, 0),
    },
)  # fmt: skip
# Inner walls: (x0, y0, x1, y1) m.
_INNER_WALLS: tuple[tuple[tuple[float, float, float, float], ...], ...] = (
    ((5.7, 7.0, 5.7, 4.9),),
    ((0.0, 3.75, 2.4, 3.75), (6.6, 7.0, 6.6, 6.0)),
    ((4.7, 7.0, 4.7, 3.7), (6.0, 0.0, 6.0, 0.9)),
    ((6.7, 0.0, 6.7, 2.1), (0.0, 2.3, 0.9, 2.3)),
    ((3.4, 7.0, 3.4, 4.8), (5.3, 0.0, 5.3, 1.2)),
)


@dataclass(frozen=True)
class Receptacle:
    """A surface that holds objects, in the world; drawers are given closed."""

    name: str
    parent: str  # HAB's instance handle of the furniture
    kind: str  # "open" | "fridge" | "drawer"
    link: str | None  # articulated joint that encloses it
    pos: tuple[float, float, float]  # m, centre of the surface
    yaw: float
    half: tuple[float, float]
    headroom: float
    capacity: int
    piece: str


@dataclass(frozen=True, eq=False)
class Layout:
    """One apartment. `pieces` maps furniture to its pose on the floor; `walls` is [W, 5]."""

    id: str
    bounds: tuple[float, float, float, float]
    pieces: dict[str, tuple[float, float, float]]
    walls: np.ndarray  # [W, 5] centre x, y, half x, y, yaw
    receptacles: tuple[Receptacle, ...]

    @property
    def obstacles(self) -> np.ndarray:
        """Footprints of all that stands on the floor, [K, 5]: centre x, y, half x, y, yaw."""
        rows = []
        for name, pose in self.pieces.items():
            piece = fur.PIECES[name]
            x, y = piece_to_world(pose, piece.front / 2, 0.0)
            rows.append((x, y, piece.half[0] + piece.front / 2, piece.half[1], pose[2]))
        return np.concatenate([np.array(rows), self.walls])

    def receptacle(self, name: str) -> Receptacle:
        """The receptacle called `name`. Raises UserError that lists the known ones."""
        for receptacle in self.receptacles:
            if receptacle.name == name:
                return receptacle
        known = ", ".join(r.name for r in self.receptacles)
        raise UserError(f"receptacle must be one of {known}; got {name!r}")


def layout_ids(split: str) -> tuple[str, ...]:
    """Names of the apartments of a split. Raises UserError for an unknown split."""
    if split not in SPLITS:
        raise UserError(f"split must be one of {', '.join(SPLITS)}; got {split!r}")
    return tuple(
        f"v3_sc{macro}_staging_{variation:02d}"
        for macro in SPLITS[split]
        for variation in range(NUM_VARIATIONS)
    )


def varied_layout_ids() -> tuple[str, ...]:
    """Names of the apartments that are for training alone."""
    return tuple(
        f"v3_sc{macro}_{kind}_{number:02d}"
        for kind in ("varied", "arranged")
        for macro in SPLITS["train"]
        for number in range(NUM_VARIED)
    )


def make_layout(layout_id: str) -> Layout:
    """The apartment called `layout_id`; the same numbers at every call and in every process."""
    return _found(layout_id)[0]


def layout_spots(layout_id: str) -> Mapping[str, np.ndarray]:
    """`reachable_spots` of every receptacle of an apartment with all closed, by name."""
    return _found(layout_id)[1]


@lru_cache(maxsize=1024)  # all there are: 14 MiB
def _found(layout_id: str) -> tuple[Layout, dict[str, np.ndarray]]:
    known = {name for split in SPLITS for name in layout_ids(split)}
    if layout_id not in known and layout_id not in varied_layout_ids():
        raise UserError(
            f"layout must be named v3_sc0_staging_00 .. v3_sc4_staging_20; got {layout_id!r}"
        )
    macro, kind, variation = int(layout_id[5]), layout_id.split("_")[2], int(layout_id[-2:])
    streams = {"staging": [], "varied": [1], "arranged": [2]}
    rng = np.random.default_rng([macro, variation, 7, *streams[kind]])
    move, turn = (VARIED_MOVE, VARIED_TURN) if kind == "varied" else (1.0, 1.0)
    for _ in range(MAX_TRIES):
        layout = _sample(layout_id, macro, rng, move, turn, kind == "arranged")
        spots = None if layout is None else _workable_spots(layout)
        if spots is not None:
            return layout, spots
    raise RuntimeError(f"no workable variation of macro layout {macro} found for {layout_id}")


def _sample(
    layout_id: str, macro: int, rng: np.random.Generator, moves: float, turns: float,
    is_arranged: bool,
) -> Layout | None:  # fmt: skip
    pieces = {}
    for name, (x, y, yaw_deg, along, across, turn) in _MACROS[macro].items():
        jitter = rng.uniform(-1, 1, 3)
        pose = (x, y, float(np.deg2rad(yaw_deg + turns * turn * jitter[2])))
        x, y = piece_to_world(pose, moves * across * jitter[1], moves * along * jitter[0])
        pieces[name] = (x, y, pose[2])
    x0, y0, x1, y1 = BOUNDS
    walls = [
        ((x0 + x1) / 2, y0 - _WALL, (x1 - x0) / 2 + 2 * _WALL, _WALL, 0.0),
        ((x0 + x1) / 2, y1 + _WALL, (x1 - x0) / 2 + 2 * _WALL, _WALL, 0.0),
        (x0 - _WALL, (y0 + y1) / 2, _WALL, (y1 - y0) / 2, 0.0),
        (x1 + _WALL, (y0 + y1) / 2, _WALL, (y1 - y0) / 2, 0.0),
    ]
    for ax, ay, bx, by in _INNER_WALLS[macro]:
        walls.append(
            ((ax + bx) / 2, (ay + by) / 2, abs(bx - ax) / 2 + _WALL, abs(by - ay) / 2 + _WALL, 0.0)
        )
    if is_arranged:
        kitchen = {name: pieces[name] for name in KITCHEN}
        found = arranged(kitchen, np.array(walls), BOUNDS, rng)
        if found is None:
            return None
        pieces = {name: found[name] for name in pieces}
    receptacles = []
    for name, pose in pieces.items():
        for s in fur.PIECES[name].surfaces:
            x, y = piece_to_world(pose, s.pos[0], s.pos[1])
            receptacles.append(
                Receptacle(
                    s.name, fur.PARENTS[name], s.kind, s.joint, (x, y, s.pos[2]), pose[2], s.half,
                    s.headroom, s.capacity, name,
                )
            )  # fmt: skip
    return Layout(layout_id, BOUNDS, pieces, np.array(walls), tuple(receptacles))


@lru_cache(maxsize=4)  # half a megabyte each, and made in half a millisecond
def _closed_floor_plan(layout_id: str) -> FloorPlan:
    layout = make_layout(layout_id)
    return FloorPlan(layout.bounds, layout.obstacles)


def floor_plan(
    layout: Layout,
    opening: Mapping[str, float],
    radius: float = fetch.BASE_RADIUS,
    litter: Sequence[tuple[float, ...]] = (),
) -> FloorPlan:
    """Free floor of an apartment with drawers (m) and doors (rad) open as given.

    `litter` are footprints of what else lies on the floor, rows as of `Layout.obstacles`.
    """
    extra = [row for name, value in opening.items() for row in _open_part(layout, name, value)]
    extra += litter
    if not extra and radius == fetch.BASE_RADIUS:
        return _closed_floor_plan(layout.id)
    obstacles = layout.obstacles
    if extra:
        obstacles = np.concatenate([obstacles, np.array(extra)])
    return FloorPlan(layout.bounds, obstacles, radius)


def _open_part(layout: Layout, joint: str, opening: float) -> list[tuple[float, ...]]:
    """Footprint of what stands out of furniture: centre x, y, half x, y, yaw; empty when closed."""
    if abs(opening) < 0.02:
        return []
    if joint in fur.DRAWERS:
        pose = layout.pieces["counter"]
        half = (opening + 0.06) / 2
        x, y = piece_to_world(pose, fur.COUNTER_HALF[0] + half, fur.DRAWERS[joint][0])
        return [(x, y, half, fur.DRAWER_HALF_WIDTH + 0.015, pose[2])]
    pose = layout.pieces["fridge"]
    hinge = piece_to_world(pose, *fur.FRIDGE_HINGE)
    yaw = pose[2] + opening
    hx, hy = fur.FRIDGE_DOOR_THICKNESS / 2 + 0.03, fur.FRIDGE_DOOR_WIDTH / 2
    x, y = piece_to_world((*hinge, yaw), hx, -hy)
    return [(x, y, hx, hy, yaw)]


def _points_clear(layout: Layout, own: str, points: np.ndarray) -> bool:
    """Whether no wall and no furniture but `own` covers any of the points [N, 2] of own's frame."""
    pose = layout.pieces[own]
    others = [fur.footprint(name, at) for name, at in layout.pieces.items() if name != own]
    return _is_clear(points, np.array(pose), np.concatenate([np.array(others), layout.walls]))


@njit(cache=True, nogil=True)
def _is_clear(points, pose, rectangles):
    """Whether no rectangle [K, 5] covers a point [N, 2] of the frame `pose`."""
    c, s = np.cos(pose[2]), np.sin(pose[2])
    for k in range(len(rectangles)):
        cx, cy, hx, hy, yaw = rectangles[k]
        ck, sk = np.cos(yaw), np.sin(yaw)
        for i in range(len(points)):
            dx = pose[0] + c * points[i, 0] - s * points[i, 1] - cx
            dy = pose[1] + s * points[i, 0] + c * points[i, 1] - cy
            if abs(ck * dx + sk * dy) < hx and abs(ck * dy - sk * dx) < hy:
                return False
    return True


@lru_cache(maxsize=64)
def _grid(x0: float, x1: float, y0: float, y1: float) -> np.ndarray:
    xs, ys = np.meshgrid(np.arange(x0, x1, 0.04), np.arange(y0, y1, 0.04))
    return np.column_stack([xs.ravel(), ys.ravel()])


def is_workable(layout: Layout) -> bool:
    """Doors and drawers open fully with the robot before them, pieces are apart, all in reach."""
    return _workable_spots(layout) is not None


def _workable_spots(layout: Layout) -> dict[str, np.ndarray] | None:
    """The reachable spots of every receptacle, None for an apartment that is not workable."""
    front = fur.FRIDGE_HALF[0]
    hinge = np.array(fur.FRIDGE_HINGE)
    angles, radii = np.meshgrid(
        np.linspace(0, fur.FRIDGE_DOOR_RANGE, 40), np.linspace(0.05, 0.76, 20)
    )
    swing = hinge + np.column_stack(
        [(radii * np.sin(angles)).ravel(), (-radii * np.cos(angles)).ravel()]
    )
    if not _points_clear(layout, "fridge", swing):
        return None
    # Standing room before the fridge, also outside the open door, from where it is pushed shut.
    if not _points_clear(layout, "fridge", _grid(front + 0.02, front + 1.75, -0.75, 1.0)):
        return None
    if not _points_clear(layout, "counter", _grid(0.32, 0.30 + 0.56 + 0.72, -1.2, 1.2)):
        return None
    for name, piece in fur.PIECES.items():  # no piece stands in another
        if not _points_clear(
            layout, name, _grid(-piece.half[0], piece.half[0], -piece.half[1], piece.half[1])
        ):
            return None
    plan = FloorPlan(layout.bounds, layout.obstacles)
    if (plan.labels == plan.largest).sum() < MIN_ISLAND * plan.free.sum():
        return None
    spots = {}
    for receptacle in layout.receptacles:
        spots[receptacle.name] = reachable_spots(layout, plan, receptacle)
        if len(spots[receptacle.name]) < 3:
            return None
    return spots


REACH_MIN, REACH_MAX = (
    0.42,
    0.72,
)  # m, base centre to object seen from above, for Fetch's arm at table height
EDGE_MARGIN = 0.09  # m, object centres stay this far inside the surface


def reachable_spots(layout: Layout, plan: FloorPlan, receptacle: Receptacle) -> np.ndarray:
    """Places for object centres on a receptacle that the arm reaches from free floor, [N, 2] world.

    A drawer's spots are given for the closed drawer; they are reached when it is open.
    """
    hx = max(receptacle.half[0] - EDGE_MARGIN, 0.0)
    hy = max(receptacle.half[1] - EDGE_MARGIN, 0.0)
    xs = np.linspace(-hx, hx, 2 * int(hx / 0.05) + 1)
    ys = np.linspace(-hy, hy, 2 * int(hy / 0.05) + 1)
    xs, ys = np.repeat(xs, len(ys)), np.tile(ys, len(xs))
    c, s = np.cos(receptacle.yaw), np.sin(receptacle.yaw)
    centre = receptacle.pos
    spots = np.column_stack([centre[0] + c * xs - s * ys, centre[1] + s * xs + c * ys])
    if receptacle.kind != "open":  # room before them is guaranteed by `is_workable`
        return spots
    return spots[floor_cells_near(plan, spots, REACH_MIN, REACH_MAX, enough=1) > 0]


def floor_cells_near(
    plan: FloorPlan, points: np.ndarray, r_min: float, r_max: float, enough: int
) -> np.ndarray:
    """How many cells of the largest island lie between two distances (m) of each point [N, 2].

    Counts stop at `enough`: [N] ints.
    """
    return _count_near(
        points, plan.labels, plan.largest, plan.bounds, plan.cell, r_min, r_max, enough
    )


@njit(cache=True, nogil=True)
def _count_near(points, labels, island, bounds, cell, r_min, r_max, enough):
    ny, nx = labels.shape
    counts = np.zeros(len(points), dtype=np.int64)
    for i in range(len(points)):
        x, y = points[i, 0], points[i, 1]
        # Only the window of the grid that holds the circle, a cell wider than needed.
        ix0, ix1 = int((x - r_max - bounds[0]) / cell) - 1, int((x + r_max - bounds[0]) / cell) + 2
        iy0, iy1 = int((y - r_max - bounds[1]) / cell) - 1, int((y + r_max - bounds[1]) / cell) + 2
        for iy in range(max(iy0, 0), min(iy1, ny)):
            dy = bounds[1] + (iy + 0.5) * cell - y
            for ix in range(max(ix0, 0), min(ix1, nx)):
                dx = bounds[0] + (ix + 0.5) * cell - x
                if labels[iy, ix] == island and r_min * r_min <= dx * dx + dy * dy <= r_max * r_max:
                    counts[i] += 1
            if counts[i] >= enough:
                counts[i] = enough
                break
    return counts
