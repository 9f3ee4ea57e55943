"""Compiled grid search on the floor: clearance, connected regions, shortest paths."""

from __future__ import annotations

import numpy as np
from numba import njit

CLEARANCE_CAP = 1.0  # m; more clearance than this gains a path nothing
COMFORT = 0.25  # m beyond the radius; a path with less clearance pays for it
_MOVES = np.array(
    [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1)]
    + [(2, 1), (2, -1), (-2, 1), (-2, -1), (1, 2), (1, -2), (-1, 2), (-1, -2)],
    dtype=np.int64,
)
_MOVE_LENGTH = np.sqrt((_MOVES**2).sum(axis=1).astype(np.float64))  # in cells


@njit(cache=True, nogil=True)
def _rectangle_distance_squared(x, y, rectangle, cos, sin):
    """0 inside."""
    dx, dy = x - rectangle[0], y - rectangle[1]
    ex = abs(cos * dx + sin * dy) - rectangle[2]
    ey = abs(cos * dy - sin * dx) - rectangle[3]
    ex, ey = max(ex, 0.0), max(ey, 0.0)
    return ex * ex + ey * ey


@njit(cache=True, nogil=True)
def clearance_at(x, y, bounds, obstacles):
    best = min(CLEARANCE_CAP, x - bounds[0], y - bounds[1], bounds[2] - x, bounds[3] - y)
    best = max(best, 0.0) ** 2
    for k in range(len(obstacles)):
        cos, sin = np.cos(obstacles[k, 4]), np.sin(obstacles[k, 4])
        best = min(best, _rectangle_distance_squared(x, y, obstacles[k], cos, sin))
    return np.sqrt(best)


@njit(cache=True, nogil=True)
def clearance_field(bounds, obstacles, ny, nx, cell):
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
def islands(free):
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
def nearest_free(labels, island, fy, fx):
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
def dijkstra(free, multiplier, max_multiplier, from_y, from_x, to_y, to_x, most):
    """Cost in cells from one cell to all (given `to`: at least to that one), and predecessors.

    Costs above `most` need not be the least.

    Both are flat over a grid with a border of two blocked cells: (iy + 2) * (nx + 4) + ix + 2 is
    the index. A predecessor of -1 means none.
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
    # Each move is entered at most once; untouched pages of the queue cost no memory.
    entry_cell, entry_next = np.empty(16 * size, np.int32), np.empty(16 * size, np.int32)
    begin = (from_y + 2) * width + from_x + 2
    target = (to_y + 2) * width + to_x + 2 if to_y >= 0 else -1
    cost[begin] = 0.0
    entry_cell[0], entry_next[0], head[0] = begin, -1, 0
    num_entries, waiting, level = 1, 1, 0
    while waiting > 0 and level <= most:
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
def segment_cost(ax, ay, bx, by, clearance, radius, weight, x0, y0, cell):
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
def plan_path(start, goal, free, clearance, radius, weight, x0, y0, cell):
    """Cells by Dijkstra, then the cheapest polyline through some; both ends connected."""
    ny, nx = free.shape
    multiplier = np.empty((ny, nx))
    for iy in range(ny):
        for ix in range(nx):
            multiplier[iy, ix] = _multiplier(clearance[iy, ix], radius, weight)
    from_y, from_x = int((start[1] - y0) / cell), int((start[0] - x0) / cell)
    to_y, to_x = int((goal[1] - y0) / cell), int((goal[0] - x0) / cell)
    # From the goal backwards, so that following `before` runs from the start to the goal.
    cost, before = dijkstra(free, multiplier, 1.0 + weight, to_y, to_x, from_y, from_x, np.inf)
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
            straight = segment_cost(ax, ay, bx, by, clearance, radius, weight, x0, y0, cell)
            if (
                i == j - 1
            ):  # the cells themselves form a path, whatever the finer check between them says
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
