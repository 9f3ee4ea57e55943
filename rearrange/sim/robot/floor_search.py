"""Compiled kernels of `seen_floor`: taking in a picture, and the cheapest way over a grid.

The grid has SIDE x SIDE cells of CELL m; its middle is where the robot began.
"""

from __future__ import annotations

import heapq
import math

import numpy as np
from numba import njit

from rearrange.sim.robot import fetch

CELL = 0.1  # m
SIDE = 256  # cells: 12.8 m to each side of the start
LOW, TOP = 0.06, 1.40  # m above the floor, where obstacles begin and end
FARTHEST = 6.0  # m: what is farther is taken in later
ARM_RADIUS = 0.14  # m around the arm's bones that are not looked at
HANGING, ABOVE = 0.2, 0.1  # m beside and above the hand: what it holds hangs below it
REACH = (1.4, 0.9)  # m ahead and aside: farther off there is no arm
SPREAD = 6  # cells around an obstacle that cost more
STAND, KEEP = 0.3, 0.58  # m from an obstacle: the base fits; no longer costs more
TOUCHING, TIGHT, WIDE = 60.0, 20.0, 4.0  # cost of a cell: below 0.2 m, below STAND, at STAND
FARTHER = 6.0  # of what a metre costs: to end one metre farther from the goal
BEHIND = 90.0  # cost of an end from where something stands between it and the goal, in cells
UNSEEN = 12.0  # the same, of an end where the floor was not seen either
TURN_ROOM, NO_ROOM = 6.5, 60.0  # cells that the arm takes to turn in; cost of an end with less
AT_GOAL, BESIDE = 1.0, 3.0  # cells from the goal: what is nearer stands in no way; nor beside it
MAX_CELLS = 30_000  # looked at
SLACK = 0.5  # cells by which a straight line may cost more than the way that it replaces
_EYE_X, _EYE_Z = fetch.HEAD_CAMERA_POS_B[0], fetch.HEAD_CAMERA_POS_B[2]


def pixel_rays(pixels: int, stride: int) -> np.ndarray:
    """Directions of every `stride`-th pixel of a square picture, base's frame, of depth 1,
    [N, N, 3]."""
    ahead = fetch.HEAD_CAMERA_TARGET_B[0] - fetch.HEAD_CAMERA_POS_B[0]
    down = fetch.HEAD_CAMERA_POS_B[2] - fetch.HEAD_CAMERA_TARGET_B[2]
    cos, sin = ahead / math.hypot(ahead, down), down / math.hypot(ahead, down)
    half = math.tan(math.radians(fetch.HEAD_CAMERA_FOV_DEG) / 2.0)
    across = half * (1.0 - (2.0 * np.arange(0, pixels, stride) + 1.0) / pixels)
    up, left = np.meshgrid(across, across, indexing="ij")
    return np.stack([cos + up * sin, left, up * cos - sin], axis=-1)


@njit(cache=True, nogil=True)
def take_in(near, cost, bare, barred, reach, depth, stride, rays, arm, x0, y0, yaw):
    """Marks what a picture [H, W, 1] m shows between LOW and TOP, and what lies around it.

    `near` [SIDE, SIDE]: cells to the nearest obstacle; `cost`: of driving there; `bare`: floor was
    seen there or in the next cell; `barred`: something was at the heights `reach` [2] m, through
    which the arm goes; `arm` [K, 3]: its joints and at last the hand, m, base's frame.
    """
    cos, sin = math.cos(yaw), math.sin(yaw)
    for row in range(rays.shape[0]):
        for column in range(rays.shape[1]):
            d = depth[row * stride, column * stride, 0]
            z = _EYE_Z + d * rays[row, column, 2]
            is_low, is_high = LOW <= z <= TOP, reach[0] <= z <= reach[1]
            if d > FARTHEST or not (z < LOW or is_low or is_high):
                continue
            ahead, aside = _EYE_X + d * rays[row, column, 0], d * rays[row, column, 1]
            if ahead < REACH[0] and abs(aside) < REACH[1] and _is_arm(arm, ahead, aside, z):
                continue
            ix = _index(x0 + cos * ahead - sin * aside)
            iy = _index(y0 + sin * ahead + cos * aside)
            is_inside = min(ix, iy) >= SPREAD and max(ix, iy) < SIDE - SPREAD
            if not is_inside:
                continue
            if z < LOW:
                bare[iy - 1 : iy + 2, ix - 1 : ix + 2] = True
            elif is_low and near[iy, ix] > 0.0:
                _mark(near, cost, iy, ix)
            if is_high:
                barred[iy, ix] = True


@njit(cache=True, nogil=True)
def _is_arm(arm, x, y, z):
    """Whether a point may be the arm's, or of what it holds."""
    last = len(arm) - 1
    beside = (x - arm[last, 0]) ** 2 + (y - arm[last, 1]) ** 2
    if beside < HANGING**2 and z < arm[last, 2] + ABOVE:
        return True
    for k in range(last):
        ax, ay, az = arm[k, 0], arm[k, 1], arm[k, 2]
        bx, by, bz = arm[k + 1, 0] - ax, arm[k + 1, 1] - ay, arm[k + 1, 2] - az
        length = bx * bx + by * by + bz * bz
        t = ((x - ax) * bx + (y - ay) * by + (z - az) * bz) / max(length, 1e-9)
        t = min(max(t, 0.0), 1.0)
        off = (x - ax - t * bx) ** 2 + (y - ay - t * by) ** 2 + (z - az - t * bz) ** 2
        if off < ARM_RADIUS**2:
            return True
    return False


@njit(cache=True, nogil=True)
def _mark(near, cost, iy, ix):
    for j in range(-SPREAD, SPREAD + 1):
        for i in range(-SPREAD, SPREAD + 1):
            away = math.sqrt(i * i + j * j)
            if away < near[iy + j, ix + i]:
                near[iy + j, ix + i] = away
                cost[iy + j, ix + i] = _cost_at(away * CELL)


@njit(cache=True, nogil=True)
def _cost_at(away):
    """Of a cell so many m from an obstacle. None is closed: the robot has to get away from what
    it stands at, and a cell may be wrong."""
    if away < 0.2:
        return TOUCHING
    if away < STAND:
        return TIGHT
    return 1.0 + (WIDE - 1.0) * max(KEEP - away, 0.0) / (KEEP - STAND)


@njit(cache=True, nogil=True)
def _index(position):
    return int(math.floor(position / CELL)) + SIDE // 2


@njit(cache=True, nogil=True)
def cheapest_way(cost, bare, barred, spent, before, x, y, goal_x, goal_y, closest, farthest):
    """Corners [n, 2] m of the cheapest way to a goal, or to the cell nearest to it that was looked
    at, by A* (Hart et al. 1968) over 16 moves.

    It ends where the base fits, `closest` m from the goal, or farther, which costs FARTHER, but not
    more than `farthest`. To end behind what is `barred` costs BEHIND, within TURN_ROOM of it
    NO_ROOM, where no floor is `bare` UNSEEN. `spent` and `before` [SIDE, SIDE] are room to work in.
    """
    at = min(max(_index(y), 2), SIDE - 3) * SIDE + min(max(_index(x), 2), SIDE - 3)
    tx, ty = goal_x / CELL + SIDE // 2 - 0.5, goal_y / CELL + SIDE // 2 - 0.5
    spent[:] = np.inf
    spent[at // SIDE, at % SIDE] = 0.0
    before[at // SIDE, at % SIDE] = -1
    near, room = closest / CELL, (farthest - closest) / CELL
    queue = [(_left(at % SIDE, at // SIDE, tx, ty, near), at)]
    nearest, least, best = np.inf, np.inf, at  # cells to the goal, cost of the best end
    for _ in range(MAX_CELLS):
        if len(queue) == 0:
            break
        total, at = heapq.heappop(queue)
        iy, ix = at // SIDE, at % SIDE
        if total >= least:
            break
        left = _left(ix, iy, tx, ty, near)
        if total > spent[iy, ix] + left + 1e-4:
            continue  # found cheaper since
        if left < nearest and least == np.inf:
            nearest, best = left, at
        ends = spent[iy, ix] + FARTHER * left
        if left <= room and cost[iy, ix] < TIGHT and ends < least:
            ends += BEHIND * is_behind(barred, ix, iy, tx, ty) + UNSEEN * (not bare[iy, ix])
            ends += 0.0 if ends >= least else NO_ROOM * _is_narrow(barred, ix, iy)
            if ends < least:
                least, best = ends, at
        for j in range(-2, 3):
            for i in range(-2, 3):
                if abs(i) + abs(j) in (0, 4) or i * j == 0 and abs(i) + abs(j) == 2:
                    continue
                jy, jx = iy + j, ix + i
                if min(jy, jx) < 2 or max(jy, jx) > SIDE - 3:
                    continue
                new = spent[iy, ix] + _step(cost, iy, ix, j, i)
                if new < spent[jy, jx] - 1e-5:
                    spent[jy, jx], before[jy, jx] = new, at
                    heapq.heappush(queue, (new + _left(jx, jy, tx, ty, near), jy * SIDE + jx))
    way, spent_at = _traced(spent, before, best, x, y)
    return _taut(cost, way, spent_at)


@njit(cache=True, nogil=True)
def is_behind(barred, ix, iy, tx, ty):
    """Whether something stands between a cell and the goal, or too near beside that line."""
    dx, dy = ix - tx, iy - ty
    length = math.sqrt(dx * dx + dy * dy)
    away = AT_GOAL
    while away < length:
        px = min(max(int(round(tx + dx * away / length)), 1), SIDE - 2)
        py = min(max(int(round(ty + dy * away / length)), 1), SIDE - 2)
        if barred[py, px]:
            return True
        if away > BESIDE and (
            barred[py, px - 1] or barred[py, px + 1] or barred[py - 1, px] or barred[py + 1, px]
        ):
            return True
        away += 0.5
    return False


@njit(cache=True, nogil=True)
def _is_narrow(barred, ix, iy):
    """Whether something stands within TURN_ROOM of a cell."""
    most = int(TURN_ROOM)
    for jy in range(max(iy - most, 0), min(iy + most + 1, SIDE)):
        for jx in range(max(ix - most, 0), min(ix + most + 1, SIDE)):
            if barred[jy, jx] and (jx - ix) ** 2 + (jy - iy) ** 2 < TURN_ROOM**2:
                return True
    return False


@njit(cache=True, nogil=True)
def _left(ix, iy, tx, ty, near):
    return max(math.sqrt((ix - tx) ** 2 + (iy - ty) ** 2) - near, 0.0)


@njit(cache=True, nogil=True)
def _step(cost, iy, ix, j, i):
    each = 0.5 * (cost[iy, ix] + cost[iy + j, ix + i])
    if abs(i) + abs(j) == 3:  # a knight's move passes between two cells
        over_y, over_x = iy + (j // 2 if abs(j) == 2 else 0), ix + (i // 2 if abs(i) == 2 else 0)
        each = max(each, cost[over_y, over_x], cost[iy + j - (over_y - iy), ix + i - (over_x - ix)])
    return math.sqrt(i * i + j * j) * each


@njit(cache=True, nogil=True)
def _traced(spent, before, last, x, y):
    """The way to a cell, [n, 2] m, and what it costs as far as each of its points, in cells."""
    count, at = 0, last
    while at >= 0:
        count += 1
        at = before[at // SIDE, at % SIDE]
    way, costs = np.empty((count, 2)), np.empty(count)
    at = last
    while at >= 0:
        count -= 1
        way[count, 0] = (at % SIDE - SIDE // 2 + 0.5) * CELL
        way[count, 1] = (at // SIDE - SIDE // 2 + 0.5) * CELL
        costs[count] = spent[at // SIDE, at % SIDE]
        at = before[at // SIDE, at % SIDE]
    way[0, 0], way[0, 1] = x, y
    return way, costs


@njit(cache=True, nogil=True)
def _taut(cost, way, costs):
    """The corners of a way that is pulled taut where that does not cost more."""
    kept, a = [0], 0
    while a < len(way) - 1:
        c = a + 1
        while c + 1 < len(way):
            straight = _straight(cost, way[a], way[c + 1])
            if straight > costs[c + 1] - costs[a] + SLACK:
                break
            c += 1
        kept.append(c)
        a = c
    return way[np.array(kept)]


@njit(cache=True, nogil=True)
def _straight(cost, a, c):
    """Cost of a straight line, in cells."""
    length = math.sqrt((c[0] - a[0]) ** 2 + (c[1] - a[1]) ** 2) / CELL
    count = int(length * 2.0) + 1
    total = 0.0
    for k in range(count + 1):
        share = k / count
        x, y = a[0] + share * (c[0] - a[0]), a[1] + share * (c[1] - a[1])
        total += cost[_index(y), _index(x)]
    return length * total / (count + 1)


@njit(cache=True, nogil=True)
def point_along(way, x, y, distance):
    """The point so many m along a way [n, 2] from where it is nearest, and the length that is left
    from there on: x, y, left, m."""
    best, at, begin = np.inf, 0, 0.0
    for i in range(len(way) - 1):
        dx, dy = way[i + 1, 0] - way[i, 0], way[i + 1, 1] - way[i, 1]
        length = math.sqrt(dx * dx + dy * dy)
        t = 0.0
        if length > 0.0:
            t = ((x - way[i, 0]) * dx + (y - way[i, 1]) * dy) / length
            t = min(max(t, 0.0), length)
            off = math.hypot(way[i, 0] + t * dx / length - x, way[i, 1] + t * dy / length - y)
            if off < best:
                best, at, begin = off, i, t
    left, rest, begun = 0.0, distance, begin
    px, py, is_found = way[-1, 0], way[-1, 1], False
    for i in range(at, len(way) - 1):
        dx, dy = way[i + 1, 0] - way[i, 0], way[i + 1, 1] - way[i, 1]
        length = math.sqrt(dx * dx + dy * dy)
        if not is_found and begun + rest <= length and length > 0.0:
            share = (begun + rest) / length
            px, py, is_found = way[i, 0] + share * dx, way[i, 1] + share * dy, True
        rest -= length - begun
        left += length - begun
        begun = 0.0
    return px, py, left
