"""The compiled search behind `routes.py`: A* over positions and headings, with clearance."""

from __future__ import annotations

import heapq

import numpy as np
from numba import njit

from rearrange.sim.home.grid_search import _multiplier

ARM_MARGIN = 0.04  # m; half a cell's diagonal, as fields are read at the nearest cell
_ARM_COMFORT = 0.12  # m beyond the margin within which nearness of the arm costs
TURN_COST = 0.5  # m/rad: at full speeds a radian takes as long as half a metre
CORNER_COST = 0.15  # m, for stopping and starting
REVERSE_COST = 1.6  # driving backwards, unseen by the camera
# Headings in turning order; odd ones are knight's moves.
STEPS = np.array(
    [(1, 0), (2, 1), (1, 1), (1, 2), (0, 1), (-1, 2), (-1, 1), (-2, 1)]
    + [(-1, 0), (-2, -1), (-1, -1), (-1, -2), (0, -1), (1, -2), (1, -1), (2, -1)]
)
HEADINGS = np.arctan2(STEPS[:, 1], STEPS[:, 0]) % (2.0 * np.pi)
_STEP_LENGTH = np.hypot(STEPS[:, 0], STEPS[:, 1])


@njit(cache=True, nogil=True)
def _room(x, y, yaw, base_field, arm_field, radius, circles, x0, y0, cell):
    """Room (m) of base and arm to the nearest obstacle beyond the margin; negative: too near."""
    ny, nx = base_field.shape
    ix, iy = int(np.floor((x - x0) / cell)), int(np.floor((y - y0) / cell))
    if ix < 0 or iy < 0 or ix >= nx or iy >= ny:
        return -1.0, -1.0
    base, arm = base_field[iy, ix] - radius, 1.0
    cos, sin = np.cos(yaw), np.sin(yaw)
    for c in range(len(circles)):
        cx = x + cos * circles[c, 0] - sin * circles[c, 1]
        cy = y + sin * circles[c, 0] + cos * circles[c, 1]
        ix, iy = int(np.floor((cx - x0) / cell)), int(np.floor((cy - y0) / cell))
        clearance = 0.0
        if 0 <= ix < nx and 0 <= iy < ny:
            clearance = arm_field[iy, ix]
        arm = min(arm, clearance - circles[c, 2] - ARM_MARGIN)
    return base, arm


@njit(cache=True, nogil=True)
def _price(base, arm, radius):
    """Cost per metre with this much room."""
    near = min(1.0, max(0.0, 1.0 - arm / _ARM_COMFORT))
    return _multiplier(base + radius, radius, 1.0) + near * near


@njit(cache=True, nogil=True)
def leg_cost(ax, ay, bx, by, yaw, base_field, arm_field, radius, circles, x0, y0, cell):
    """Cost of a straight leg, inf if base or arm do not fit."""
    length = np.hypot(bx - ax, by - ay)
    num = max(1, int(np.ceil(length / (0.7 * cell))))
    total = 0.0
    for i in range(num + 1):
        x, y = ax + (bx - ax) * i / num, ay + (by - ay) * i / num
        base, arm = _room(x, y, yaw, base_field, arm_field, radius, circles, x0, y0, cell)
        if min(base, arm) < 0.0:
            return np.inf
        total += _price(base, arm, radius) * (0.5 if i in (0, num) else 1.0)
    return total * length / num


@njit(cache=True, nogil=True)
def turn_is_free(x, y, before, after, base_field, arm_field, radius, circles, x0, y0, cell):
    num = max(1, int(np.ceil(abs(after - before) / 0.12)))
    for i in range(num + 1):
        yaw = before + (after - before) * i / num
        base, arm = _room(x, y, yaw, base_field, arm_field, radius, circles, x0, y0, cell)
        if min(base, arm) < 0.0:
            return False
    return True


@njit(cache=True, nogil=True)
def _way_to(last, before, layer, nx):
    """The states from the first to `last`, [n, 3]: heading, iy, ix."""
    chain = [last]
    while before[chain[-1]] >= 0:
        chain.append(before[chain[-1]])
    states = np.empty((len(chain), 3), np.int64)
    for i in range(len(chain)):
        node = chain[len(chain) - 1 - i]
        states[i, 0], states[i, 1], states[i, 2] = node // layer, node % layer // nx, node % nx
    return states


@njit(cache=True, nogil=True)
def search(
    base_field, arm_field, radius, circles, x0, y0, cell, field, start, goal, has_yaw,
    max_expansions,
):  # fmt: skip
    """A* over (heading, iy, ix): the chain of states [n, 3], empty if there is none."""
    ny, nx = base_field.shape
    layer = ny * nx
    cost = np.full(16 * layer, np.inf)
    before = np.full(16 * layer, -1, np.int64)
    is_closed = np.zeros(16 * layer, np.bool_)
    room = np.full(16 * layer, np.nan)
    price = np.ones(16 * layer)
    begin = (start[0] * ny + start[1]) * nx + start[2]
    cost[begin] = 0.0
    queue = [(0.0, begin)]
    expansions = 0
    none = np.empty((0, 3), np.int64)
    for state in (begin, (goal[0] * ny + goal[1]) * nx + goal[2]):
        _look(state, base_field, arm_field, radius, circles, x0, y0, cell, room, price)
    if has_yaw and room[(goal[0] * ny + goal[1]) * nx + goal[2]] < 0.0:
        return none
    while len(queue) > 0:
        _, here = heapq.heappop(queue)
        if is_closed[here]:
            continue
        is_closed[here] = True
        expansions += 1
        heading, iy, ix = here // layer, here % layer // nx, here % nx
        if iy == goal[1] and ix == goal[2] and (not has_yaw or heading == goal[0]):
            return _way_to(here, before, layer, nx)
        if expansions > max_expansions:
            return none
        for move in range(4):
            jy, jx, turned = iy, ix, heading
            if move < 2:
                turned = (heading + (1 if move == 0 else 15)) % 16
                length = TURN_COST * abs(
                    (HEADINGS[turned] - HEADINGS[heading] + np.pi) % (2 * np.pi) - np.pi
                )
                # The first turn of several pays for stopping.
                source = before[here]
                if source < 0 or source % layer != here % layer:
                    length += CORNER_COST
            else:
                sign = 1 if move == 2 else -1
                jx, jy = ix + sign * STEPS[heading, 0], iy + sign * STEPS[heading, 1]
                if not (0 <= jx < nx and 0 <= jy < ny):
                    continue
                length = _STEP_LENGTH[heading] * cell * (1.0 if move == 2 else REVERSE_COST)
            there = (turned * ny + jy) * nx + jx
            if is_closed[there]:
                continue
            if np.isnan(room[there]):
                _look(there, base_field, arm_field, radius, circles, x0, y0, cell, room, price)
            # If it is too tight already, any move towards more room is allowed.
            needed = min(0.0, room[here] - 1e-3)
            if room[there] < needed:
                continue
            if move < 2:
                turn = (HEADINGS[turned] - HEADINGS[heading] + np.pi) % (2 * np.pi) - np.pi
                base, arm = _room(
                    x0 + (ix + 0.5) * cell, y0 + (iy + 0.5) * cell, HEADINGS[heading] + 0.5 * turn,
                    base_field, arm_field, radius, circles, x0, y0, cell,
                )  # fmt: skip
                if min(base, arm) < needed - 0.02:
                    continue
                reached = cost[here] + length
            else:
                reached = cost[here] + length * 0.5 * (price[here] + price[there])
            if reached < cost[there]:
                cost[there], before[there] = reached, here
                ahead = field[jy, jx]
                if ahead == np.inf:
                    ahead = np.hypot(jx - goal[2], jy - goal[1]) * cell
                # 2% inadmissible: king's and knight's moves leave many equal paths.
                heapq.heappush(queue, (reached + 1.02 * ahead, there))
    return none


@njit(cache=True, nogil=True)
def _look(state, base_field, arm_field, radius, circles, x0, y0, cell, room, price):
    """Fill in a state's room and cost."""
    ny, nx = base_field.shape
    heading, iy, ix = state // (ny * nx), state % (ny * nx) // nx, state % nx
    base, arm = _room(
        x0 + (ix + 0.5) * cell, y0 + (iy + 0.5) * cell, HEADINGS[heading],
        base_field, arm_field, radius, circles, x0, y0, cell,
    )  # fmt: skip
    room[state] = min(base, arm)
    price[state] = _price(base, arm, radius) if room[state] >= 0.0 else 3.0
