"""One home as data: furniture, walls, receptacles, free floor.

poses + shapes of furniture, walls -> receptacles, footprints -> floor plan -> reachable spots
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numba import njit

from rearrange.errors import UserError
from rearrange.sim.home import furniture as fur
from rearrange.sim.home.furniture import piece_to_world
from rearrange.sim.home.navigation import FloorPlan
from rearrange.sim.home.standing import floor_cells_near
from rearrange.sim.robot import fetch

MIN_ISLAND = 0.85  # share of the free floor that the robot must reach
HIGHEST = 2.5  # m, no object is placed above the walls
MIN_SPOTS = 3  # of a receptacle that is reached


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
    shapes: Mapping[str, fur.Piece] = field(default_factory=lambda: fur.PIECES)
    """Each piece of furniture in its own frame."""
    counter: fur.Counter = fur.COUNTER
    fridge: fur.Fridge = fur.FRIDGE
    digest: str = ""
    """SHA-256 of the file that the home is from; empty for those of the package."""

    def holds(self, pos: Sequence[float]) -> bool:
        """Whether a point, [3] m, lies between its outer walls, floor and ceiling."""
        x0, y0, x1, y1 = self.bounds
        x, y, z = pos
        return x0 <= x <= x1 and y0 <= y <= y1 and 0.0 <= z <= HIGHEST

    @property
    def extent(self) -> str:
        """What `holds` asks for, for people."""
        x0, y0, x1, y1 = self.bounds
        return f"the apartment (x {x0:g} to {x1:g}, y {y0:g} to {y1:g}, z 0 to {HIGHEST:g} m)"

    @property
    def obstacles(self) -> np.ndarray:
        """Footprints of all that stands on the floor, [K, 5]: centre x, y, half sizes x, y, yaw."""
        rows = []
        for name, pose in self.pieces.items():
            piece = self.shapes[name]
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

    def footprint(self, name: str) -> tuple[float, ...]:
        """The floor that a piece covers: centre x, y, half sizes x, y, yaw; m, rad, world frame."""
        x, y, yaw = self.pieces[name]
        return (x, y, *self.shapes[name].half, yaw)

    def door_frame(self, opening: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The fridge door's hinge, the unit vector from there along the door, and its normal, [2]
        each, world frame.

        Args:
            opening: of the door, rad.
        """
        pose, side = self.pieces["fridge"], self.fridge.side
        angle = pose[2] + side * opening
        hinge = np.array(piece_to_world(pose, *self.fridge.hinge))
        c, s = np.cos(angle), np.sin(angle)
        return hinge, side * np.array([s, -c]), np.array([c, s])


def receptacles_of(
    pieces: Mapping[str, tuple[float, float, float]],
    shapes: Mapping[str, fur.Piece],
    parents: Mapping[str, str] = fur.PARENTS,
) -> tuple[Receptacle, ...]:
    """The receptacles of furniture that stands at poses."""
    found = []
    for name, pose in pieces.items():
        for s in shapes[name].surfaces:
            x, y = piece_to_world(pose, s.pos[0], s.pos[1])
            found.append(
                Receptacle(
                    s.name, parents[name], s.kind, s.joint, (x, y, s.pos[2]), pose[2], s.half,
                    s.headroom, s.capacity, name,
                )
            )  # fmt: skip
    return tuple(found)


@lru_cache(maxsize=4)  # half a megabyte each, and made in half a millisecond
def _closed_floor_plan(layout: Layout) -> FloorPlan:
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
        return _closed_floor_plan(layout)
    obstacles = layout.obstacles
    if extra:
        obstacles = np.concatenate([obstacles, np.array(extra)])
    return FloorPlan(layout.bounds, obstacles, radius)


def _open_part(layout: Layout, joint: str, opening: float) -> list[tuple[float, ...]]:
    """Footprint of an open drawer or door: centre x, y, half sizes x, y, yaw; empty when closed."""
    if abs(opening) < 0.02:
        return []
    if joint in fur.DRAWERS:
        pose = layout.pieces["counter"]
        half = (opening + 0.06) / 2
        x, y = piece_to_world(pose, fur.COUNTER_HALF[0] + half, layout.counter.drawers[joint][0])
        return [(x, y, half, layout.counter.half_widths[joint] + 0.015, pose[2])]
    pose, fridge = layout.pieces["fridge"], layout.fridge
    hinge = piece_to_world(pose, *fridge.hinge)
    yaw = pose[2] + fridge.side * opening
    hx, hy = fur.FRIDGE_DOOR_THICKNESS / 2 + 0.03, fridge.door_width / 2
    x, y = piece_to_world((*hinge, yaw), hx, -fridge.side * hy)
    return [(x, y, hx, hy, yaw)]


def _points_clear(layout: Layout, own: str, points: np.ndarray) -> bool:
    """Whether no wall and no furniture but `own` covers any of the points [N, 2] of own's frame."""
    pose = layout.pieces[own]
    others = [layout.footprint(name) for name in layout.pieces if name != own]
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


def is_usable(layout: Layout) -> bool:
    """Doors and drawers open fully with the robot before them, pieces are apart, all in reach."""
    return usable_spots(layout) is not None


class UnusableHome(Exception):
    """Why a home cannot be used, as one line."""


def usable_spots(
    layout: Layout, plan: FloorPlan | None = None, needed: Callable[[str], bool] | None = None
) -> dict[str, np.ndarray] | None:
    """`check_usable`, but None for a home that cannot be used."""
    try:
        return check_usable(layout, plan, needed)
    except UnusableHome:
        return None


def check_usable(
    layout: Layout, plan: FloorPlan | None = None, needed: Callable[[str], bool] | None = None
) -> dict[str, np.ndarray]:
    """The reachable spots of every receptacle. Raises UnusableHome.

    Args:
        plan: its floor with all doors and drawers closed; None: for the base's radius.
        needed: whether the receptacles of a piece have to be reached; None: of every piece.
    """
    fridge, side = layout.fridge, layout.fridge.side
    front = fridge.half[0]
    hinge = np.array(fridge.hinge)
    angles, radii = np.meshgrid(
        np.linspace(0, fur.FRIDGE_DOOR_RANGE, 40), np.linspace(0.05, fridge.door_width + 0.08, 20)
    )
    swing = hinge + np.column_stack(
        [(radii * np.sin(angles)).ravel(), (-side * radii * np.cos(angles)).ravel()]
    )
    if not _points_clear(layout, "fridge", swing):
        raise UnusableHome("the fridge's doors must be free to open by 130 degrees")
    # Standing room before the fridge, also outside the open door, from where it is pushed shut.
    room = _grid(front + 0.02, front + 1.75, -0.75, 1.0) * (1.0, side)
    if not _points_clear(layout, "fridge", room):
        raise UnusableHome(
            "the floor in front of the fridge must be free: 1.75 m ahead, 1 m to the side of its "
            "hinge, 0.75 m to the other, from its middle"
        )
    reach = layout.shapes["counter"].half[1]
    if not _points_clear(layout, "counter", _grid(0.32, 0.30 + 0.56 + 0.72, -reach, reach)):
        raise UnusableHome(
            "the floor in front of the counter must be free, 1.3 m deep, for its drawers"
        )
    for name in layout.pieces:
        piece = layout.shapes[name]
        if not _points_clear(
            layout, name, _grid(-piece.half[0], piece.half[0], -piece.half[1], piece.half[1])
        ):
            raise UnusableHome(f"no piece may overlap another or a wall, {name} does")
    plan = plan or FloorPlan(layout.bounds, layout.obstacles)
    if (plan.labels == plan.largest).sum() < MIN_ISLAND * plan.free.sum():
        raise UnusableHome(
            "the free floor must be connected: the robot reaches less than 85% of it"
        )
    spots = all_spots(layout, plan)
    for receptacle in layout.receptacles:
        is_needed = needed is None or needed(receptacle.piece)
        if is_needed and len(spots[receptacle.name]) < MIN_SPOTS:
            raise UnusableHome(f"the robot must reach {receptacle.name} of {receptacle.piece}")
    return spots


REACH_MIN, REACH_MAX = (
    0.42,
    0.72,
)  # m, base centre to object seen from above, for Fetch's arm at table height
EDGE_MARGIN = 0.09  # m, object centres stay this far inside the surface
SPOT_STEP = 0.05  # m between them, or more


def all_spots(layout: Layout, plan: FloorPlan) -> dict[str, np.ndarray]:
    """Places for object centres that the arm reaches from free floor, [N, 2] world, by receptacle.

    A drawer's spots are given for the closed drawer; they are reached when it is open.
    """
    spots = {r.name: _spots_on(r) for r in layout.receptacles}
    # `check_usable` guarantees the room in front of the others.
    names = [r.name for r in layout.receptacles if r.kind == "open"]
    if not names:
        return spots
    ends = np.cumsum([len(spots[name]) for name in names])
    points = np.concatenate([spots[name] for name in names])
    is_reached = floor_cells_near(plan, points, REACH_MIN, REACH_MAX, enough=1) > 0
    for name, reached in zip(names, np.split(is_reached, ends[:-1]), strict=True):
        spots[name] = spots[name][reached]
    return spots


def _spots_on(receptacle: Receptacle) -> np.ndarray:
    """A grid over a receptacle, [N, 2] world."""
    xs, ys = spot_grid(*receptacle.half[:2])
    c, s = np.cos(receptacle.yaw), np.sin(receptacle.yaw)
    spots = np.empty((len(xs), 2))
    spots[:, 0] = receptacle.pos[0] + c * xs - s * ys
    spots[:, 1] = receptacle.pos[1] + s * xs + c * ys
    return spots


@lru_cache(maxsize=256)  # some 2 KB each: sizes are in steps of a centimetre
def spot_grid(half_x: float, half_y: float) -> tuple[np.ndarray, np.ndarray]:
    """A grid over a surface in its own frame: x and y, [N] each."""
    hx, hy = max(half_x - EDGE_MARGIN, 0.0), max(half_y - EDGE_MARGIN, 0.0)
    xs = np.linspace(-hx, hx, 2 * int(hx / SPOT_STEP) + 1)
    ys = np.linspace(-hy, hy, 2 * int(hy / SPOT_STEP) + 1)
    return np.repeat(xs, len(ys)), np.tile(ys, len(xs))
