"""Routes for base and arm: turns on the spot and straight legs that keep the gripper off walls.

A base that fits can still sweep its gripper, half a metre ahead of it, into a fridge. So the search
runs over (heading, y, x): 16 headings, those of the 16 moves of the floor plan's grid.

    base circle vs. floor plan + arm circles vs. what stands as high as the arm -> free states
    A* (turn left, turn right, forward, backward) -> corner poses -> shortcuts

A start that touches something is left along states that touch less and less.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rearrange.sim.home.navigation import FloorPlan
from rearrange.sim.robot import fetch
from rearrange.skills.motion.collision import BOX, SPHERE, Obstacles, arm_spheres
from rearrange.skills.motion.driving import PathFollower, wrapped
from rearrange.skills.motion.route_search import (
    CORNER_COST,
    HEADINGS,
    REVERSE_COST,
    STEPS,
    TURN_COST,
    leg_cost,
    search,
    turn_is_free,
)


@dataclass(frozen=True)
class Footprint:
    """The arm and what it holds, seen from above, in the base frame."""

    circles: np.ndarray  # [C, 3] x, y, radius, m
    low: float  # m, lowest and highest point
    high: float


def arm_footprint(q: np.ndarray, held: np.ndarray | None = None) -> Footprint:
    """Parts of the arm in posture q [7], with held spheres [H, 4], outside the base's circle."""
    spheres = arm_spheres(q, held)
    outside = spheres[
        np.hypot(spheres[:, 0], spheres[:, 1]) + spheres[:, 3] > fetch.BASE_RADIUS - 0.02
    ]
    if not len(outside):
        return Footprint(np.empty((0, 3)), 0.0, 0.0)
    low = float((outside[:, 2] - outside[:, 3]).min())
    high = float((outside[:, 2] + outside[:, 3]).max())
    return Footprint(np.ascontiguousarray(outside[:, [0, 1, 3]]), low, high)


def overhead_plan(plan: FloorPlan, obstacles: Obstacles, footprint: Footprint) -> FloorPlan:
    """The floor plan of obstacles as high as the arm; obstacles in the world frame."""
    reach = np.where(
        (obstacles.kind == BOX)[:, None],
        obstacles.size,
        np.stack(
            [
                obstacles.size[:, 0],
                obstacles.size[:, 0],
                obstacles.size[:, 1] + obstacles.size[:, 0],
            ],
            1,
        ),
    )
    reach = np.where((obstacles.kind == SPHERE)[:, None], obstacles.size[:, :1], reach)
    height = (np.abs(obstacles.rot[:, 2]) * reach).sum(axis=1)
    z = obstacles.pos[:, 2]
    at_arm = (z + height > footprint.low - 0.03) & (z - height < footprint.high + 0.03)
    pos, rot, reach = obstacles.pos[at_arm], obstacles.rot[at_arm], reach[at_arm]
    # Upright boxes keep their yaw; whatever is tilted gets the rectangle around it.
    is_upright = np.abs(rot[:, 2, 2]) > 0.999
    yaw = np.where(is_upright, np.arctan2(rot[:, 1, 0], rot[:, 0, 0]), 0.0)
    around = (np.abs(rot[:, :2]) * reach[:, None]).sum(axis=2)
    half = np.where(is_upright[:, None], reach[:, :2], around)
    rectangles = np.concatenate([pos[:, :2], half, yaw[:, None]], axis=1)
    return FloorPlan(plan.bounds, rectangles, radius=0.0, cell=plan.cell)


def plan_route(
    plan: FloorPlan,  # of the base
    overhead: FloorPlan,  # obstacles of the arm, by `overhead_plan`
    footprint: Footprint,
    start: tuple[float, float, float],  # x, y (m), yaw (rad) in the world
    goal: tuple[float, float],
    goal_yaw: float | None = None,
    max_expansions: int = 150_000,
) -> np.ndarray | None:
    """Poses [n, 3] from the start to the goal, or None.

    Between two poses the robot either turns on the spot or drives straight, forwards or backwards.
    Yaw runs on beyond pi, so that its sign tells which way to turn. The route ends exactly at the
    goal; a goal where the base or the arm does not fit is refused.
    """
    if not plan.is_free(*goal):
        return None
    field = plan.geodesic_field(*goal)
    circles = footprint.circles
    start_yaw = float(start[2])
    start_state = _state(plan, start[0], start[1], start_yaw)
    goal_state = _state(plan, goal[0], goal[1], 0.0 if goal_yaw is None else goal_yaw)
    if start_state[0] < 0:
        return None
    shapes = (plan.clearance, overhead.clearance, plan.radius, circles)
    grid = (plan.bounds[0], plan.bounds[1], plan.cell)
    states = search(
        *shapes,
        *grid,
        field,
        np.array(start_state),
        np.array(goal_state),
        goal_yaw is not None,
        max_expansions,
    )
    if not len(states):
        return None
    centres = np.array([[grid[0], grid[1]]]) + (states[:, [2, 1]] + 0.5) * plan.cell
    # The ends are exact while the robot is there.
    has_left = np.cumsum(np.abs(states[:, 1:] - states[0, 1:]).sum(axis=1)) > 0
    still_comes = np.cumsum(np.abs(states[::-1, 1:] - states[-1, 1:]).sum(axis=1))[::-1] > 0
    centres[~still_comes], centres[~has_left] = goal, start[:2]
    yaws = np.unwrap(HEADINGS[states[:, 0]])
    yaws += start_yaw + wrapped(yaws[0] - start_yaw) - yaws[0]
    last_yaw = None if goal_yaw is None else yaws[-1] + wrapped(goal_yaw - yaws[-1])
    return _straightened(
        _legs(states, centres, yaws), (*start[:2], start_yaw), last_yaw, shapes, grid
    )


class RouteFollower:
    """Gives base actions (forward, turn) in [-1, 1] that take the base along a route."""

    def __init__(self, route: np.ndarray, speed: float = 1.0) -> None:
        self.route, self._speed = np.asarray(route, dtype=np.float64), speed
        self._chunks = _chunks(self.route)
        self._follower: PathFollower | None = None
        self._yaw: float | None = None  # continuous, like the route's
        self._idle_steps, self._best = 0, np.inf

    @property
    def is_done(self) -> bool:
        return not self._chunks

    @property
    def is_stuck(self) -> bool:
        """No progress, neither in distance nor in heading, for a second."""
        if self._follower is not None:
            return self._follower.is_stuck
        return not self.is_done and self._idle_steps >= 30

    def act(self, base_pose: tuple[float, float, float]) -> np.ndarray:
        """The base action [2] of this control step at (x, y, yaw)."""
        if self._yaw is None:
            self._yaw = float(self.route[0, 2])
        self._yaw += wrapped(base_pose[2] - self._yaw)
        while self._chunks:
            chunk = self._chunks[0]
            if isinstance(chunk, float):
                error = chunk - self._yaw
                if abs(error) > (0.03 if len(self._chunks) == 1 else 0.08):
                    self._idle_steps += 1
                    if abs(error) < self._best - 0.02:
                        self._best, self._idle_steps = abs(error), 0
                    gain = 2.5 if len(self._chunks) == 1 else 4.0
                    return np.array(
                        [0.0, self._speed * np.clip(gain * error / fetch.MAX_BASE_TURN, -1, 1)]
                    )
            else:
                if self._follower is None:
                    points, reverse = chunk
                    self._follower = PathFollower(points, speed=self._speed, reverse=reverse)
                action = self._follower.act(base_pose)
                if not self._follower.is_done:
                    return action
            self._chunks.pop(0)
            self._follower, self._idle_steps, self._best = None, 0, np.inf
        return np.zeros(2)


def _chunks(route: np.ndarray) -> list:
    """The route as turns (a continuous yaw) and paths ([n, 2] points, whether backwards).

    A turn by clearly less than half a circle before a leg is left to the path follower.
    """
    chunks: list = []
    turn: float | None = None
    turned_from = 0.0
    for before, after in zip(route[:-1], route[1:], strict=True):
        way = after[:2] - before[:2]
        if np.hypot(*way) < 1e-6:
            turn = float(after[2])
            turned_from = float(before[2])
            continue
        reverse = bool(abs(wrapped(np.arctan2(way[1], way[0]) - after[2])) > np.pi / 2)
        is_long = turn is not None and abs(turn - turned_from) > 0.9 * np.pi
        if is_long:
            chunks.append(turn)
        if not is_long and chunks and isinstance(chunks[-1], tuple) and chunks[-1][1] == reverse:
            chunks[-1] = (np.concatenate([chunks[-1][0], after[None, :2]]), reverse)
        else:
            chunks.append((np.stack([before[:2], after[:2]]), reverse))
        turn = None
    return chunks if turn is None else [*chunks, turn]


def _state(plan: FloorPlan, x: float, y: float, yaw: float) -> tuple[int, int, int]:
    """(heading, iy, ix) nearest to a pose; iy -1 outside the grid."""
    iy, ix = plan.index(x, y)
    return int(np.argmin(np.abs((HEADINGS - yaw + np.pi) % (2 * np.pi) - np.pi))), iy, ix


@dataclass
class _Leg:
    begin: np.ndarray  # [2]
    end: np.ndarray  # [2]
    yaw: float  # the robot's, continuous
    is_backward: bool


def _legs(states: np.ndarray, centres: np.ndarray, yaws: np.ndarray) -> list[_Leg]:
    """The straight stretches of a chain of states."""
    legs: list[_Leg] = []
    for i in range(1, len(states)):
        step = states[i, [2, 1]] - states[i - 1, [2, 1]]
        if not step.any():
            continue
        is_backward = bool(np.dot(step, STEPS[states[i, 0]]) < 0)
        last = legs[-1] if legs else None
        if last is not None and last.yaw == yaws[i] and last.is_backward == is_backward:
            last.end = centres[i]
        else:
            legs.append(_Leg(centres[i - 1], centres[i], float(yaws[i]), is_backward))
    return legs


def _straightened(legs: list[_Leg], start, last_yaw, shapes, grid) -> np.ndarray:
    """Poses [n, 3] after shortcuts: from each corner straight to the farthest that pays."""
    route, yaw, first, was_shortcut = [start], start[2], 0, False
    while first < len(legs):
        best = None
        begin, old_cost, old_yaw = legs[first].begin, 0.0, yaw
        for j in range(first, len(legs)):
            leg = legs[j]
            (ax, ay), (bx, by) = leg.begin, leg.end
            cost = leg_cost(ax, ay, bx, by, leg.yaw, *shapes, *grid)
            length = float(np.hypot(*(leg.end - leg.begin)))
            old_cost += min(cost, 2.0 * length) * (REVERSE_COST if leg.is_backward else 1.0)
            old_cost += _turn_cost(old_yaw, leg.yaw)
            old_yaw = leg.yaw
            way = leg.end - begin
            if j == first or np.hypot(*way) < 0.1:
                continue
            for is_backward in (False, True):
                heading = yaw + wrapped(np.arctan2(way[1], way[0]) + np.pi * is_backward - yaw)
                after = legs[j + 1].yaw if j + 1 < len(legs) else last_yaw
                after = heading if after is None else heading + wrapped(after - heading)
                cost = leg_cost(begin[0], begin[1], bx, by, heading, *shapes, *grid)
                cost = cost * (REVERSE_COST if is_backward else 1.0) + _turn_cost(yaw, heading)
                old_after = old_yaw if j + 1 == len(legs) and last_yaw is None else after
                if (
                    cost + _turn_cost(heading, after)
                    > old_cost + abs(wrapped(old_after - old_yaw)) * TURN_COST
                ):
                    continue
                if turn_is_free(begin[0], begin[1], yaw, heading, *shapes, *grid) and turn_is_free(
                    bx, by, heading, after, *shapes, *grid
                ):
                    best = (j, heading)
        if best is None:
            leg = legs[first]
            way = leg.end - leg.begin
            # The grid's turn, maybe the long way; ends off the cell centres bend a leg slightly.
            lattice = leg.yaw - (legs[first - 1].yaw if first else start[2])
            heading = yaw + (wrapped(lattice) if was_shortcut else lattice)
            heading += wrapped(np.arctan2(way[1], way[0]) + np.pi * leg.is_backward - heading)
            best, was_shortcut = (first, heading), False
        else:
            was_shortcut = True
        yaw = best[1]
        route += [(*begin, yaw), (*legs[best[0]].end, yaw)]
        first = best[0] + 1
    if last_yaw is not None:
        route.append(
            (*route[-1][:2], yaw + wrapped(last_yaw - yaw) if was_shortcut or legs else last_yaw)
        )
    poses = np.array(route)
    keep = np.concatenate([[True], np.abs(np.diff(poses, axis=0)).max(axis=1) > 1e-9])
    return poses[keep]


def _turn_cost(before: float, after: float) -> float:
    turn = abs(after - before)
    return TURN_COST * turn + (CORNER_COST if turn > 0.3 else 0.0)
