"""How much homes differ: sizes, path lengths, and the distance to the nearest home of a set.

    home --> occupancy of its floor, cells of 0.1 m --> its 8 rotations and reflections
         --> the smallest distance to any other home: 1 - intersection over union

Two homes are aligned at a corner, in the orientation that fits best. 0: everything stands in the
same places; 1: nothing does. Homes share parts of their outer walls, so that unrelated ones are
about 0.8 apart; HAB's variations of one floor plan about 0.1.
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
NUM_ENDS = 12  # paths in each home, between points drawn from its free floor


@dataclass(frozen=True)
class HomeStatistics:
    """Statistics of one home; areas in m2, path lengths in m."""

    name: str
    area: float
    free_area: float
    """Where the middle of the robot's base can be."""
    num_receptacles: int
    mean_way: float
    """Mean length of shortest paths between points drawn uniformly from the free floor."""
    longest_way: float
    detour: float
    """Mean ratio of a path's length to that of the straight line."""


def statistics_of(name: str) -> HomeStatistics:
    """The statistics of the home called `name`; the same at every call."""
    layout = make_layout(name)
    plan = floor_plan(layout, {})
    x0, y0, x1, y1 = layout.bounds
    ways, lines = _ways(plan, np.random.default_rng(0))
    is_apart = lines > 0.5  # m; at shorter distances the grid would decide the ratio
    return HomeStatistics(
        name, (x1 - x0) * (y1 - y0), len(plan.free_centres) * plan.cell**2,
        len(layout.receptacles), float(ways.mean()), float(ways.max()),
        float((ways[is_apart] / lines[is_apart]).mean()),
    )  # fmt: skip


def _ways(plan: FloorPlan, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Lengths of paths between points of the floor, and of the straight lines, [P] each."""
    ends = plan.free_centres[rng.integers(len(plan.free_centres), size=NUM_ENDS)]
    cells = [plan.index(*end) for end in ends]
    ways, lines = [], []
    for i, end in enumerate(ends[:-1]):
        field = plan.geodesic_field(*end)
        ways += [field[cell] for cell in cells[i + 1 :]]
        lines += [float(np.hypot(*(end - other))) for other in ends[i + 1 :]]
    return np.array(ways), np.array(lines)


def nearest_distances(names: Sequence[str], others: Sequence[str]) -> np.ndarray:
    """Distance of each home to the most similar other one, [len(names)], see above."""
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
    """All eight rotations and reflections of a picture, each in the same corner, [8, bytes]."""
    rows = []
    for mirrored in (picture, picture[:, ::-1]):
        for turns in range(4):
            page = np.zeros((SIDE, SIDE), bool)
            turned = np.rot90(mirrored, turns)
            page[: turned.shape[0], : turned.shape[1]] = turned[:SIDE, :SIDE]
            rows.append(np.packbits(page))
    return np.stack(rows)
