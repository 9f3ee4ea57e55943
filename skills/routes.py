"""Ways for base and carried arm: turns on the spot and straight legs that keep the gripper off the walls.

A base that fits can still sweep its gripper, half a metre ahead of it, into a fridge. So the search runs
over (heading, y, x): 16 headings, those of the 16 moves of the floor plan's grid.

    base circle vs. the floor plan  +  circles of the arm vs. what stands as high as the arm -> free states
    A* (turn left, turn right, forward, backward) -> corner poses -> shortcuts

A start that touches something is left along states that touch less and less.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numba import njit

from rearrange.sim import fetch
from rearrange.sim.navigation import FloorPlan, _multiplier
from rearrange.skills.collision import BOX, SPHERE, Obstacles, arm_spheres
from rearrange.skills.driving import PathFollower, wrapped

ARM_MARGIN = 0.04  # m; half a cell's diagonal, as fields are read at the nearest cell
_ARM_COMFORT = 0.12  # m beyond the margin within which the arm pays for being near something
_TURN_COST = 0.5  # m/rad: at full speeds a radian takes as long as half a metre
_CORNER_COST = 0.15  # m, for stopping and starting
_REVERSE_COST = 1.6  # the camera does not see where it goes
# Headings in turning order; odd ones are knight's moves.
_STEPS = np.array(
    [(1, 0), (2, 1), (1, 1), (1, 2), (0, 1), (-1, 2), (-1, 1), (-2, 1)]
    + [(-1, 0), (-2, -1), (-1, -1), (-1, -2), (0, -1), (1, -2), (1, -1), (2, -1)]
)
_HEADINGS = np.arctan2(_STEPS[:, 1], _STEPS[:, 0]) % (2.0 * np.pi)
_STEP_LENGTH = np.hypot(_STEPS[:, 0], _STEPS[:, 1])


@dataclass(frozen=True)
class Footprint:
    """The arm and what it holds, seen from above, in the base frame."""

    circles: np.ndarray  # [C, 3] x, y, radius, m
    low: float  # m, lowest and highest point
    high: float


def arm_footprint(q: np.ndarray, held: np.ndarray | None = None) -> Footprint:
    """What of the arm in posture q [7], holding spheres [H, 4], sticks out of the base's circle."""
    spheres = arm_spheres(q, held)
    outside = spheres[np.hypot(spheres[:, 0], spheres[:, 1]) + spheres[:, 3] > fetch.BASE_RADIUS - 0.02]
    if not len(outside):
        return Footprint(np.empty((0, 3)), 0.0, 0.0)
    low = float((outside[:, 2] - outside[:, 3]).min())
    high = float((outside[:, 2] + outside[:, 3]).max())
    return Footprint(np.ascontiguousarray(outside[:, [0, 1, 3]]), low, high)


def overhead_plan(plan: FloorPlan, obstacles: Obstacles, footprint: Footprint) -> FloorPlan:
    """The floor plan of what stands as high as the arm; obstacles in the world frame."""
    reach = np.where(
        (obstacles.kind == BOX)[:, None],
        obstacles.size,
        np.stack([obstacles.size[:, 0], obstacles.size[:, 0], obstacles.size[:, 1] + obstacles.size[:, 0]], 1),
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
    overhead: FloorPlan,  # of what the arm can hit, by `overhead_plan`
    footprint: Footprint,
    start: tuple[float, float, float],  # x, y (m), yaw (rad) in the world
    goal: tuple[float, float],
    goal_yaw: float | None = None,
    max_expansions: int = 150_000,
) -> np.ndarray | None:
    """Poses [n, 3] from the start to the goal, or None.

    Between two poses the robot either turns on the spot or drives straight, forwards or backwards. Yaw runs
    on beyond pi, so that its sign tells which way to turn. The route ends exactly at the goal; a goal where
    the base or the arm does not fit is refused.
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
    args = (plan.clearance, overhead.clearance, plan.radius, circles, plan.cell)
    states = _search(*args, field, start_state, goal_state, goal_yaw is not None, int(max_expansions))
    if not len(states):
        return None
    poses = np.empty((len(states), 3))
    poses[:, 0] = plan.bounds[0] + (states[:, 2] + 0.5) * plan.cell
    poses[:, 1] = plan.bounds[1] + (states[:, 1] + 0.5) * plan.cell
    poses[:, 2] = np.unwrap(_HEADINGS[states[:, 0]])
    poses[:, 2] += start_yaw - wrapped(start_yaw - poses[0, 2]) - poses[0, 2]
    poses[0, :2], poses[-1, :2] = start[:2], goal
    corners = _corners(poses)
    route = _shortcut(corners, *args, plan.bounds[0], plan.bounds[1])
    return _as_turns_and_legs(route, start_yaw, goal_yaw)


class RouteFollower:
    """Gives base actions (forward, turn) in [-1, 1] that take the base along a route of `plan_route`."""

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
                    return np.array([0.0, self._speed * np.clip(gain * error / fetch.MAX_BASE_TURN, -1, 1)])
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
    """The route as turns (a continuous yaw) and paths ([n, 2] points, whether backwards)."""
    chunks: list = []
    for before, after in zip(route[:-1], route[1:], strict=True):
        way = after[:2] - before[:2]
        if np.hypot(*way) < 1e-6:
            chunks.append(float(after[2]))
            continue
        reverse = abs(wrapped(np.arctan2(way[1], way[0]) - after[2])) > np.pi / 2
        # A turn below half a circle between two legs of one direction is the follower's own affair.
        if len(chunks) >= 2 and isinstance(chunks[-1], float) and isinstance(chunks[-2], tuple):
            points, was_reverse = chunks[-2]
            last_way = points[-1] - points[-2]
            last_yaw = np.arctan2(last_way[1], last_way[0]) + np.pi * was_reverse
            turn = chunks[-1] - (before[2] + wrapped(last_yaw - before[2]))
            is_short = abs(before[2] - chunks[-1]) < 1e-6 and abs(turn) < np.pi
            if reverse == was_reverse and is_short and len(chunks) > 2:
                chunks.pop()
                chunks[-1] = (np.concatenate([points, after[None, :2]]), reverse)
                continue
        chunks.append((np.stack([before[:2], after[:2]]), reverse))
    return chunks


def _state(plan: FloorPlan, x: float, y: float, yaw: float) -> tuple[int, int, int]:
    """(heading, iy, ix) nearest to a pose; iy -1 outside the grid."""
    iy, ix = plan._index(x, y)
    return int(np.argmin(np.abs((_HEADINGS - yaw + np.pi) % (2 * np.pi) - np.pi))), iy, ix


def _corners(poses: np.ndarray) -> np.ndarray:
    """The poses where a turn or a leg ends."""
    keep = [0]
    for i in range(1, len(poses) - 1):
        turns_before = poses[i, 2] != poses[i - 1, 2]
        turns_after = poses[i + 1, 2] != poses[i, 2]
        same_way = np.dot(poses[i, :2] - poses[i - 1, :2], poses[i + 1, :2] - poses[i, :2]) > 0.0
        same_turn = (poses[i, 2] - poses[i - 1, 2]) * (poses[i + 1, 2] - poses[i, 2]) > 0.0
        if not (same_turn if turns_before and turns_after else (turns_before == turns_after and same_way)):
            keep.append(i)
    if len(poses) > 1:
        keep.append(len(poses) - 1)
    return poses[keep]
