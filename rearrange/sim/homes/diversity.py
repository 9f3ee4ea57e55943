"""How much homes differ: sizes, path lengths, and the distance to the nearest home of a set.

    home --> what stands on its floor, as a picture of 0.1 m a cell --> 8 turned and mirrored ones
         --> of all the others the least distance: 1 - intersection over union

Two homes are laid corner to corner, in the turn that suits best. 0: all stands in the same places;
1: nothing does. Homes share their outer walls in part, so unlike ones come to about 0.8; HAB's
variations of one plan to about 0.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rearrange.sim.home.house import Layout, floor_plan
from rearrange.sim.home.navigation import FloorPlan
from rearrange.sim.homes.layout import make_layout

CELL = 0.1  # m
SIDE = 176  # cells of a picture: the longest home has 16 m; a whole number of bytes
NUM_ENDS = 12  # of ways in each home, drawn from its free floor


@dataclass(frozen=True)
class HomeStatistics:
    """One home's. Areas in m2, ways in m."""

    name: str
    area: float
    free_area: float
    """Where the middle of the robot's base can be."""
    num_receptacles: int
    mean_way: float
    """Of ways between points drawn evenly from the free floor."""
    longest_way: float
    detour: float
    """Mean of a way's length over the straight line's."""


def statistics_of(name: str) -> HomeStatistics:
    """The statistics of the home called `name`; the same at every call."""
    layout = make_layout(name)
    plan = floor_plan(layout, {})
    x0, y0, x1, y1 = layout.bounds
    ways, lines = _ways(plan, np.random.default_rng(0))
    is_apart = lines > 0.5  # m; of nearer ones the grid decides
    return HomeStatistics(
        name, (x1 - x0) * (y1 - y0), len(plan.free_centres) * plan.cell**2,
        len(layout.receptacles), float(ways.mean()), float(ways.max()),
        float((ways[is_apart] / lines[is_apart]).mean()),
    )  # fmt: skip


def _ways(plan: FloorPlan, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of ways between points of the floor, and of the straight lines, [P] each."""
    ends = plan.free_centres[rng.integers(len(plan.free_centres), size=NUM_ENDS)]
    cells = [plan.index(*end) for end in ends]
    ways, lines = [], []
    for i, end in enumerate(ends[:-1]):
        field = plan.geodesic_field(*end)
        ways += [field[cell] for cell in cells[i + 1 :]]
        lines += [float(np.hypot(*(end - other))) for other in ends[i + 1 :]]
    return np.array(ways), np.array(lines)


def nearest_distances(names: Sequence[str], others: Sequence[str]) -> np.ndarray:
    """From each home to the most alike of the others but itself, [len(names)], see above."""
    known = np.stack([_turned(_picture(make_layout(name)))[0] for name in others])  # [N, bytes]
    sizes = np.bitwise_count(known).sum(axis=1, dtype=np.int64)
    nearest = []
    for name in names:
        distances = np.ones(len(others))
        for picture in _turned(_picture(make_layout(name))):
            shared = np.bitwise_count(known & picture).sum(axis=1, dtype=np.int64)
            union = np.bitwise_count(picture).sum(dtype=np.int64) + sizes - shared
            distances = np.minimum(distances, 1.0 - shared / union)
        distances[[other == name for other in others]] = np.inf
        nearest.append(distances.min())
    return np.array(nearest)


def _picture(layout: Layout) -> np.ndarray:
    """Which cells walls and furniture cover, [ny, nx] bool."""
    return FloorPlan(layout.bounds, layout.obstacles, 0.0, CELL).clearance <= 0.0


def _turned(picture: np.ndarray) -> np.ndarray:
    """The picture turned and mirrored in all eight ways, each in the same corner, [8, bytes]."""
    rows = []
    for mirrored in (picture, picture[:, ::-1]):
        for turns in range(4):
            page = np.zeros((SIDE, SIDE), bool)
            turned = np.rot90(mirrored, turns)
            page[: turned.shape[0], : turned.shape[1]] = turned[:SIDE, :SIDE]
            rows.append(np.packbits(page))
    return np.stack(rows)
