"""Where a round robot can stand and drive: a grid of the floor, distances along it, and paths.

    obstacles -> clearance [ny, nx] (m to the nearest wall, furniture) -> free: clearance >= radius
              -> islands (connected free cells) -> Dijkstra -> polyline

Cell (iy, ix) is the square of side `cell` whose centre is `origin + (ix + 1/2, iy + 1/2) * cell`.
Moves go to 16 neighbours (king's and knight's moves), so a distance is at most 2.8% too long.
Dijkstra's queue is a ring of buckets one cell wide: no edge is shorter, so the nodes of one bucket
cannot improve each other and the result is exact without a heap.
"""

from __future__ import annotations

import numpy as np
from numba import njit

CLEARANCE_CAP = 1.0  # m; further than this from everything, a path gains nothing
COMFORT = 0.25  # m beyond the radius within which a path pays for being near something
MAX_ESCAPE = 0.6  # m a robot that touches furniture may stand from free floor: twice its radius
_MOVES = np.array(
    [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1)]
    + [(2, 1), (2, -1), (-2, 1), (-2, -1), (1, 2), (1, -2), (-1, 2), (-1, -2)],
    dtype=np.int64,
)
_MOVE_LENGTH = np.sqrt((_MOVES**2).sum(axis=1).astype(np.float64))  # in cells


class FloorPlan:
    """The floor of one apartment as a grid for a robot of one radius."""

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
        self.clearance = _clearance_field(np.array(self.bounds), self.obstacles, ny, nx, self.cell)
        self.free = self.clearance >= self.radius
        self.labels, sizes = _islands(self.free)  # [ny, nx] int32, -1 where blocked
        self.largest = int(np.argmax(sizes)) if len(sizes) else -1
        iy, ix = (
            np.nonzero(self.labels == self.largest)
            if self.largest >= 0
            else (np.empty(0, int),) * 2
        )
        self.free_centres = np.stack(
            [xmin + (ix + 0.5) * cell, ymin + (iy + 0.5) * cell], axis=1
        )  # [n, 2]

    @property
    def shape(self) -> tuple[int, int]:
        """(ny, nx)."""
        return self.free.shape

    def is_free(self, x: float, y: float) -> bool:
        """Whether the robot fits with its centre in this cell."""
        iy, ix = self.index(x, y)
        return iy >= 0 and bool(self.free[iy, ix])

    def island(self, x: float, y: float) -> int:
        """Number of this cell's connected region, -1 where blocked; `largest` is the biggest's."""
        iy, ix = self.index(x, y)
        return int(self.labels[iy, ix]) if iy >= 0 else -1

    def clearance_at(self, x: float, y: float) -> float:
        """Exact distance (m) to the nearest obstacle or bound: 0 inside, cap `CLEARANCE_CAP`."""
        return float(_clearance_at(float(x), float(y), np.array(self.bounds), self.obstacles))

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
        """Centres [n, 2] of the largest island's cells between two distances (m) of a point."""
        squared = ((self.free_centres - (x, y)) ** 2).sum(axis=1)
        return self.free_centres[(squared >= r_min**2) & (squared <= r_max**2)]

    def snap(self, x: float, y: float) -> np.ndarray:
        """The point itself [2] if it is free, else the centre of the nearest free cell."""
        if self.is_free(x, y):
            return np.array([x, y], dtype=np.float64)
        self._require_floor()
        return self._centre(*_nearest_free(self.labels, -1, *self._position(x, y)))

    def geodesic_field(self, x: float, y: float) -> np.ndarray:
        """Length of the shortest way (m) from every cell to a goal, [ny, nx]; inf: there is none.

        A blocked goal counts as the nearest free cell.
        """
        self._require_floor()
        iy, ix = self.index(*self.snap(x, y))
        distance, _ = _dijkstra(self.free, np.ones(self.shape), 1.0, iy, ix, -1, -1)
        ny, nx = self.shape
        return distance.reshape(ny + 4, nx + 4)[2:-2, 2:-2] * self.cell

    def geodesic_distance(self, a: np.ndarray, b: np.ndarray) -> float:
        """Length of the shortest way (m) between two points, both snapped; inf: there is none."""
        a, b = self.snap(float(a[0]), float(a[1])), self.snap(float(b[0]), float(b[1]))
        if self.island(*a) != self.island(*b):
            return float("inf")
        if (
            _segment_cost(
                *a, *b, self.clearance, self.radius, 0.0, self.bounds[0], self.bounds[1], self.cell
            )
            < np.inf
        ):
            return float(np.hypot(*(a - b)))
        start, goal = self.index(*a), self.index(*b)
        distance, _ = _dijkstra(self.free, np.ones(self.shape), 1.0, *goal, *start)
        return float(distance[(start[0] + 2) * (self.shape[1] + 4) + start[1] + 2] * self.cell)

    def shortest_path(
        self, a: np.ndarray, b: np.ndarray, clearance_weight: float = 1.0
    ) -> np.ndarray | None:
        """Corner points [n, 2] of a way from a to b, both included; None if there is none.

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
            first = self._centre(*_nearest_free(self.labels, wanted, *self._position(*start)))
            if np.hypot(*(first - start)) > MAX_ESCAPE:
                return None
        elif island != wanted:
            return None
        path = _plan_path(
            first, goal, self.free, self.clearance, self.radius, float(clearance_weight),
            self.bounds[0], self.bounds[1], self.cell,
        )  # fmt: skip
        return path if first is start else np.concatenate([start[None], path])

    def _position(self, x: float, y: float) -> tuple[float, float]:
        """(iy, ix) as real numbers; a cell's centre has whole ones."""
        return (y - self.bounds[1]) / self.cell - 0.5, (x - self.bounds[0]) / self.cell - 0.5

    def index(self, x: float, y: float) -> tuple[int, int]:
        """(iy, ix) of the cell that holds a point, (-1, -1) outside the grid."""
        ny, nx = self.free.shape
        fx, fy = (x - self.bounds[0]) / self.cell, (y - self.bounds[1]) / self.cell
        return (int(fy), int(fx)) if 0.0 <= fx < nx and 0.0 <= fy < ny else (-1, -1)

    def _centre(self, iy: int, ix: int) -> np.ndarray:
        return np.array(
            [self.bounds[0] + (ix + 0.5) * self.cell, self.bounds[1] + (iy + 0.5) * self.cell]
        )

    def _require_floor(self) -> None:
        if self.largest < 0:
            raise ValueError(
                f"the floor plan has no free cell for a robot of radius {self.radius} m"
            )


@njit(cache=True, nogil=True)
def _rectangle_distance_squared(x, y, rectangle, cos, sin):
    """0 inside."""
    dx, dy = x - rectangle[0], y - rectangle[1]
    ex = abs(cos * dx + sin * dy) - rectangle[2]
    ey = abs(cos * dy - sin * dx) - rectangle[3]
    ex, ey = max(ex, 0.0), max(ey, 0.0)
    return ex * ex + ey * ey


@njit(cache=True, nogil=True)
def _clearance_at(x, y, bounds, obstacles):
    best = min(CLEARANCE_CAP, x - bounds[0], y - bounds[1], bounds[2] - x, bounds[3] - y)
    best = max(best, 0.0) ** 2
    for k in range(len(obstacles)):
        cos, sin = np.cos(obstacles[k, 4]), np.sin(obstacles[k, 4])
        best = min(best, _rectangle_distance_squared(x, y, obstacles[k], cos, sin))
    return np.sqrt(best)


@njit(cache=True, nogil=True)
def _clearance_field(bounds, obstacles, ny, nx, cell):
    field = np.empty((ny, nx))
    for iy in range(ny):
        y = bounds[1] + (iy + 0.5) * cell
        for ix in range(nx):
            x = bounds[0] + (ix + 0.5) * cell
            edge = min(CLEARANCE_CAP, x - bounds[0], y - bounds[1], bounds[2] - x, bounds[3] - y)
            field[iy, ix] = max(edge, 0.0) ** 2
    for k in range(len(obstacles)):
        cos, sin = np.cos(obstacles[k, 4]), np.sin(obstacles[k, 4])
        # Cells beyond the cap cannot get nearer: only the window around the rectangle is visited.
        half_x = abs(cos) * obstacles[k, 2] + abs(sin) * obstacles[k, 3] + CLEARANCE_CAP
        half_y = abs(sin) * obstacles[k, 2] + abs(cos) * obstacles[k, 3] + CLEARANCE_CAP
        ix0 = max(0, int(np.floor((obstacles[k, 0] - half_x - bounds[0]) / cell)))
        ix1 = min(nx, int(np.ceil((obstacles[k, 0] + half_x - bounds[0]) / cell)))
        iy0 = max(0, int(np.floor((obstacles[k, 1] - half_y - bounds[1]) / cell)))
        iy1 = min(ny, int(np.ceil((obstacles[k, 1] + half_y - bounds[1]) / cell)))
        for iy in range(iy0, iy1):
            y = bounds[1] + (iy + 0.5) * cell
            for ix in range(ix0, ix1):
                x = bounds[0] + (ix + 0.5) * cell
                field[iy, ix] = min(
                    field[iy, ix], _rectangle_distance_squared(x, y, obstacles[k], cos, sin)
                )
    return np.sqrt(field)


@njit(cache=True, nogil=True)
def _islands(free):
    """Labels of the 4-connected regions and their sizes in cells."""
    ny, nx = free.shape
    labels = np.full((ny, nx), -1, np.int32)
    stack = np.empty(ny * nx, np.int32)
    sizes = []
    for begin in range(ny * nx):
        if not free[begin // nx, begin % nx] or labels[begin // nx, begin % nx] >= 0:
            continue
        label, size, top = len(sizes), 0, 1
        stack[0] = begin
        labels[begin // nx, begin % nx] = label
        while top > 0:
            top -= 1
            size += 1
            iy, ix = stack[top] // nx, stack[top] % nx
            for m in range(4):
                jx, jy = ix + _MOVES[m, 0], iy + _MOVES[m, 1]
                if 0 <= jx < nx and 0 <= jy < ny and free[jy, jx] and labels[jy, jx] < 0:
                    labels[jy, jx] = label
                    stack[top] = jy * nx + jx
                    top += 1
        sizes.append(size)
    return labels, np.array([float(s) for s in sizes])


@njit(cache=True, nogil=True)
def _nearest_free(labels, island, fy, fx):
    """Cell nearest to a point in cells; `island` -1 takes any island."""
    best, best_y, best_x = np.inf, -1, -1
    for iy in range(labels.shape[0]):
        if (iy - fy) ** 2 >= best:
            continue
        for ix in range(labels.shape[1]):
            squared = (iy - fy) ** 2 + (ix - fx) ** 2
            if squared < best and (labels[iy, ix] >= 0 if island < 0 else labels[iy, ix] == island):
                best, best_y, best_x = squared, iy, ix
    return best_y, best_x


@njit(cache=True, nogil=True)
def _dijkstra(free, multiplier, max_multiplier, from_y, from_x, to_y, to_x):
    """Cost in cells from one cell to all (given `to`: at least to that one), and predecessors.

    Both are flat over a grid with a border of two blocked cells: (iy + 2) * (nx + 4) + ix + 2 is
    the index. A predecessor of -1: there is none.
    """
    ny, nx = free.shape
    width = nx + 4
    size = (ny + 4) * width
    is_free, is_open = np.zeros(size, np.bool_), np.zeros(size, np.bool_)  # open: free, unsettled
    price = np.ones(size)  # half the cost of a cell's width, as an edge has two ends
    for iy in range(ny):
        for ix in range(nx):
            index = (iy + 2) * width + ix + 2
            is_free[index] = is_open[index] = free[iy, ix]
            price[index] = 0.5 * multiplier[iy, ix]
    offset, side_a, side_b = _move_offsets(width)
    cost, before = np.full(size, np.inf), np.full(size, -1, np.int32)
    num_buckets = 4
    while num_buckets < np.sqrt(5.0) * max_multiplier + 2.0:
        num_buckets *= 2
    mask = num_buckets - 1
    head = np.full(num_buckets, -1, np.int64)
    # Each move is entered at most once, and only what is touched costs memory.
    entry_cell, entry_next = np.empty(16 * size, np.int32), np.empty(16 * size, np.int32)
    begin = (from_y + 2) * width + from_x + 2
    target = (to_y + 2) * width + to_x + 2 if to_y >= 0 else -1
    cost[begin] = 0.0
    entry_cell[0], entry_next[0], head[0] = begin, -1, 0
    num_entries, waiting, level = 1, 1, 0
    while waiting > 0:
        slot = level & mask
        while head[slot] >= 0:
            entry = head[slot]
            head[slot] = entry_next[entry]
            waiting -= 1
            here = entry_cell[entry]
            if not is_open[here]:
                continue
            is_open[here] = False
            if here == target:
                return cost, before
            for m in range(16):
                there = here + offset[m]
                if not is_open[there]:
                    continue
                reached = cost[here] + _MOVE_LENGTH[m] * (price[here] + price[there])
                # The cells that the straight move crosses must be free: no cutting of corners.
                if (
                    reached < cost[there]
                    and is_free[here + side_a[m]]
                    and is_free[here + side_b[m]]
                ):
                    cost[there] = reached
                    before[there] = here
                    bucket = int(reached) & mask
                    entry_cell[num_entries], entry_next[num_entries] = there, head[bucket]
                    head[bucket] = num_entries
                    num_entries += 1
                    waiting += 1
        level += 1
    return cost, before


@njit(cache=True, nogil=True)
def _move_offsets(width):
    """Per move: where it ends and the two cells beside its line, as differences of flat indices."""
    offset, side_a, side_b = np.zeros(16, np.int64), np.zeros(16, np.int64), np.zeros(16, np.int64)
    for m in range(16):
        dx, dy = _MOVES[m, 0], _MOVES[m, 1]
        offset[m] = dy * width + dx
        if 4 <= m < 8:
            side_a[m], side_b[m] = dx, dy * width
        elif m >= 8 and abs(dx) == 2:
            side_a[m], side_b[m] = dx // 2, dy * width + dx // 2
        elif m >= 8:
            side_a[m], side_b[m] = dy // 2 * width, dy // 2 * width + dx
    return offset, side_a, side_b


@njit(cache=True, nogil=True)
def _multiplier(clearance, radius, weight):
    """1 in the open, 1 + weight where the robot just fits."""
    near = min(1.0, max(0.0, 1.0 - (clearance - radius) / COMFORT))
    return 1.0 + weight * near * near


@njit(cache=True, nogil=True)
def _segment_cost(ax, ay, bx, by, clearance, radius, weight, x0, y0, cell):
    """Integral of the multiplier along a straight segment (m), inf where the robot does not fit."""
    ny, nx = clearance.shape
    length = np.hypot(bx - ax, by - ay)
    num = int(np.ceil(length / (0.5 * cell))) + 1
    total = 0.0
    for i in range(num + 1):
        fx = min(max((ax + (bx - ax) * i / num - x0) / cell - 0.5, 0.0), nx - 1.001)
        fy = min(max((ay + (by - ay) * i / num - y0) / cell - 0.5, 0.0), ny - 1.001)
        ix, iy = int(fx), int(fy)
        tx, ty = fx - ix, fy - iy
        low = clearance[iy, ix] * (1 - tx) + clearance[iy, ix + 1] * tx
        high = clearance[iy + 1, ix] * (1 - tx) + clearance[iy + 1, ix + 1] * tx
        here = low * (1 - ty) + high * ty
        if here < radius - 1e-6:
            return np.inf
        total += _multiplier(here, radius, weight) * (0.5 if i in (0, num) else 1.0)
    return total * length / num


@njit(cache=True, nogil=True)
def _plan_path(start, goal, free, clearance, radius, weight, x0, y0, cell):
    """Cells by Dijkstra, then the cheapest polyline through some; both ends connected."""
    ny, nx = free.shape
    multiplier = np.empty((ny, nx))
    for iy in range(ny):
        for ix in range(nx):
            multiplier[iy, ix] = _multiplier(clearance[iy, ix], radius, weight)
    from_y, from_x = int((start[1] - y0) / cell), int((start[0] - x0) / cell)
    to_y, to_x = int((goal[1] - y0) / cell), int((goal[0] - x0) / cell)
    # From the goal backwards, so that following `before` runs from the start to the goal.
    cost, before = _dijkstra(free, multiplier, 1.0 + weight, to_y, to_x, from_y, from_x)
    width = nx + 4
    cells = [(from_y + 2) * width + from_x + 2]
    while before[cells[-1]] >= 0:
        cells.append(before[cells[-1]])
    # Candidates for corners: the ends, each change of direction, each eighth cell of a run.
    points, costs = [(start[0], start[1])], [cost[cells[0]] * cell]
    run = 0
    for i in range(1, len(cells) - 1):
        run += 1
        if cells[i + 1] - cells[i] != cells[i] - cells[i - 1] or run >= 8:
            iy, ix = cells[i] // width - 2, cells[i] % width - 2
            points.append((x0 + (ix + 0.5) * cell, y0 + (iy + 0.5) * cell))
            costs.append(cost[cells[i]] * cell)
            run = 0
    points.append((goal[0], goal[1]))
    costs.append(0.0)
    n = len(points)
    best, previous = np.full(n, np.inf), np.zeros(n, np.int64)
    best[0] = 0.0
    for j in range(1, n):
        for i in range(j):
            ax, ay = points[i]
            bx, by = points[j]
            straight = _segment_cost(ax, ay, bx, by, clearance, radius, weight, x0, y0, cell)
            if (
                i == j - 1
            ):  # the cells themselves are a way, whatever the finer look between them says
                straight = min(straight, costs[i] - costs[j] + 2.0 * cell)
            # A corner costs the robot a slow-down: worth 0.1 m.
            if best[i] + straight + 0.1 < best[j]:
                best[j], previous[j] = best[i] + straight + 0.1, i
    chosen = [n - 1]
    while chosen[-1] > 0:
        chosen.append(previous[chosen[-1]])
    path = np.empty((len(chosen), 2))
    for k in range(len(chosen)):
        path[k, 0], path[k, 1] = points[chosen[len(chosen) - 1 - k]]
    return path
