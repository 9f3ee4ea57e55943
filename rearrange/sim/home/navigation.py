"""Where a round robot can stand and drive: an occupancy grid, distances and paths on it.

    obstacles -> clearance [ny, nx] (m to the nearest wall, furniture) -> free: clearance >= radius
              -> islands (connected free cells) -> Dijkstra -> polyline

Cell (iy, ix) is the square of side `cell` whose centre is `origin + (ix + 1/2, iy + 1/2) * cell`.
Moves go to 16 neighbours (king's and knight's moves), so a distance is at most 2.8% too long.
Dijkstra's queue is a ring of buckets one cell wide: no edge is shorter, so the nodes of one bucket
cannot improve each other and the result is exact without a heap.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from rearrange.sim.home.grid_search import (
    clearance_at,
    clearance_field,
    dijkstra,
    islands,
    nearest_free,
    plan_path,
    segment_cost,
)

MAX_ESCAPE = 0.6  # m a robot that touches furniture may stand from free floor: twice its radius


class FloorPlan:
    """The floor of one apartment as a grid for a robot of one radius.

    Fields are computed when they are first needed; whether a single point is free is cheap to tell.
    """

    def __init__(
        self,
        bounds: tuple[float, float, float, float],  # xmin, ymin, xmax, ymax in m
        obstacles: np.ndarray,  # [K, 5] rectangles: centre x, y, half sizes x, y (m), yaw (rad)
        radius: float = 0.3,
        cell: float = 0.05,
    ) -> None:
        xmin, ymin, xmax, ymax = (float(value) for value in bounds)
        if not (xmax > xmin and ymax > ymin and radius >= 0.0 and cell > 0.0):
            raise ValueError(
                "a floor plan needs xmin < xmax, ymin < ymax, radius >= 0 and cell > 0, "
                f"got {bounds}, {radius}, {cell}"
            )
        self.bounds = (xmin, ymin, xmax, ymax)
        self.obstacles = np.ascontiguousarray(obstacles, dtype=np.float64).reshape(-1, 5)
        self.radius, self.cell = float(radius), float(cell)
        nx, ny = (
            int(np.ceil((xmax - xmin) / cell - 1e-9)),
            int(np.ceil((ymax - ymin) / cell - 1e-9)),
        )
        self.shape = (ny, nx)

    @cached_property
    def clearance(self) -> np.ndarray:
        """Distance (m) from each cell's centre to the nearest obstacle or bound, [ny, nx]."""
        return clearance_field(np.array(self.bounds), self.obstacles, *self.shape, self.cell)

    @cached_property
    def free(self) -> np.ndarray:
        """Whether the robot fits with its centre in each cell, [ny, nx]."""
        return self.clearance >= self.radius

    @property
    def labels(self) -> np.ndarray:
        """Number of each cell's connected region, [ny, nx] int32; -1 where blocked."""
        return self._islands[0]

    @property
    def largest(self) -> int:
        """The biggest region's number; -1: nothing is free."""
        return self._islands[1]

    @cached_property
    def _islands(self) -> tuple[np.ndarray, int]:
        labels, sizes = islands(self.free)
        return labels, int(np.argmax(sizes)) if len(sizes) else -1

    @cached_property
    def free_centres(self) -> np.ndarray:
        """Centres [n, 2] of the biggest region's cells."""
        if self.largest < 0:
            return np.empty((0, 2))
        return self._centres(*np.nonzero(self.labels == self.largest))

    def is_free(self, x: float, y: float) -> bool:
        """Whether the robot fits with its centre in this cell."""
        iy, ix = self.index(x, y)
        if iy < 0:
            return False
        if "free" in self.__dict__:  # the field is there already
            return bool(self.free[iy, ix])
        return self.clearance_at(*self._centre(iy, ix)) >= self.radius

    def island(self, x: float, y: float) -> int:
        """Number of this cell's connected region, -1 where blocked; `largest` is the biggest's."""
        iy, ix = self.index(x, y)
        return int(self.labels[iy, ix]) if iy >= 0 else -1

    def clearance_at(self, x: float, y: float) -> float:
        """Exact distance (m) to the nearest obstacle or bound: 0 inside, cap `CLEARANCE_CAP`."""
        return float(clearance_at(float(x), float(y), np.array(self.bounds), self.obstacles))

    def random_free_point(self, rng: np.random.Generator) -> np.ndarray:
        """A point [2] uniform over the largest island."""
        self._require_floor()
        point = self.free_centres[0]
        for _ in range(20):  # a free cell's corner can lie up to 0.7 cells too close: draw again
            point = self.free_centres[rng.integers(len(self.free_centres))]
            shifted = point + rng.uniform(-0.5, 0.5, 2) * self.cell
            if self.clearance_at(*shifted) >= self.radius:
                return shifted
        return point.copy()

    def free_cells_near(self, x: float, y: float, r_min: float, r_max: float) -> np.ndarray:
        """Centres [n, 2] of the largest island's cells between two distances (m) of a point.

        `r_max` may be inf.
        """
        if self.largest < 0:
            return np.empty((0, 2))
        # Only cells of a square around the point are looked at: homes have up to 50,000.
        (xmin, ymin), (ny, nx) = self.bounds[:2], self.shape
        reach = r_max + self.cell
        corners = np.array([[x - reach, y - reach], [x + reach + self.cell, y + reach + self.cell]])
        cells = np.clip((corners - (xmin, ymin)) / self.cell, 0, (nx, ny)).astype(int)
        (left, below), (right, above) = cells.tolist()
        iy, ix = np.nonzero(self.labels[below:above, left:right] == self.largest)
        centres = self._centres(iy + below, ix + left)
        squared = ((centres - (x, y)) ** 2).sum(axis=1)
        return centres[(squared >= r_min**2) & (squared <= r_max**2)]

    def snap(self, x: float, y: float) -> np.ndarray:
        """The point itself [2] if it is free, else the centre of the nearest free cell."""
        if self.is_free(x, y):
            return np.array([x, y], dtype=np.float64)
        self._require_floor()
        return self._centre(*nearest_free(self.labels, -1, *self._position(x, y)))

    def geodesic_field(self, x: float, y: float, most: float = np.inf) -> np.ndarray:
        """Length (m) of the shortest path from every cell to a goal, [ny, nx]; inf: there is none.

        A blocked goal counts as the nearest free cell. Beyond `most` m a length may be too long,
        and never comes down to `most`.
        """
        self._require_floor()
        iy, ix = self.index(*self.snap(x, y))
        free, alike = self.free, np.ones(self.shape)
        distance, _ = dijkstra(free, alike, 1.0, iy, ix, -1, -1, most / self.cell + 1.0)
        ny, nx = self.shape
        return distance.reshape(ny + 4, nx + 4)[2:-2, 2:-2] * self.cell

    def at(self, field: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Values [N] of a field [ny, nx] in the cells that hold points [N, 2] of the grid."""
        ix, iy = ((points - self.bounds[:2]) / self.cell).astype(int).T
        return field[iy, ix]

    def geodesic_distance(self, a: np.ndarray, b: np.ndarray) -> float:
        """Length (m) of the shortest path between two points, both snapped; inf: there is none."""
        a, b = self.snap(float(a[0]), float(a[1])), self.snap(float(b[0]), float(b[1]))
        if self.island(*a) != self.island(*b):
            return float("inf")
        (ax, ay), (bx, by) = a, b
        cost = segment_cost(
            ax, ay, bx, by, self.clearance, self.radius, 0.0, self.bounds[0], self.bounds[1],
            self.cell,
        )  # fmt: skip
        if cost < np.inf:
            return float(np.hypot(*(a - b)))
        start, goal = self.index(*a), self.index(*b)
        distance, _ = dijkstra(self.free, np.ones(self.shape), 1.0, *goal, *start, np.inf)
        return float(distance[(start[0] + 2) * (self.shape[1] + 4) + start[1] + 2] * self.cell)

    def shortest_path(
        self, a: np.ndarray, b: np.ndarray, clearance_weight: float = 1.0
    ) -> np.ndarray | None:
        """Corner points [n, 2] of a path from a to b, both included; None if there is none.

        With `clearance_weight` w, driving within `COMFORT` of being blocked costs up to (1 + w)
        times its length. A blocked goal is replaced by the nearest free cell. A start in a blocked
        cell (a robot that touches furniture) is left by the nearest free cell of the goal's island;
        None if that is further than `MAX_ESCAPE`.
        """
        if self.largest < 0:
            return None
        start, goal = np.array(a[:2], dtype=np.float64), self.snap(float(b[0]), float(b[1]))
        wanted, island = self.island(*goal), self.island(*start)
        first = start
        if island < 0:
            first = self._centre(*nearest_free(self.labels, wanted, *self._position(*start)))
            if np.hypot(*(first - start)) > MAX_ESCAPE:
                return None
        elif island != wanted:
            return None
        path = plan_path(
            first, goal, self.free, self.clearance, self.radius, float(clearance_weight),
            self.bounds[0], self.bounds[1], self.cell,
        )  # fmt: skip
        return path if first is start else np.concatenate([start[None], path])

    def _position(self, x: float, y: float) -> tuple[float, float]:
        """(iy, ix) as real numbers; a cell's centre has whole ones."""
        return (y - self.bounds[1]) / self.cell - 0.5, (x - self.bounds[0]) / self.cell - 0.5

    def index(self, x: float, y: float) -> tuple[int, int]:
        """(iy, ix) of the cell that holds a point, (-1, -1) outside the grid."""
        ny, nx = self.shape
        fx, fy = (x - self.bounds[0]) / self.cell, (y - self.bounds[1]) / self.cell
        return (int(fy), int(fx)) if 0.0 <= fx < nx and 0.0 <= fy < ny else (-1, -1)

    def _centre(self, iy: int, ix: int) -> np.ndarray:
        return np.array(
            [self.bounds[0] + (ix + 0.5) * self.cell, self.bounds[1] + (iy + 0.5) * self.cell]
        )

    def _centres(self, iy: np.ndarray, ix: np.ndarray) -> np.ndarray:
        xmin, ymin = self.bounds[:2]
        return np.stack([xmin + (ix + 0.5) * self.cell, ymin + (iy + 0.5) * self.cell], axis=1)

    def _require_floor(self) -> None:
        if self.largest < 0:
            raise ValueError(
                f"the floor plan has no free cell for a robot of radius {self.radius} m"
            )
