"""Collision-free motions of the arm, as joint positions per control step.

    plan_arm:  leave what touches at either end -> straight in joint space, if free
                                                -> else RRT-connect (Kuffner and LaValle 2000)
               -> random shortcuts
    time_parametrise:  the path at no more than MAX_ARM_STEP a joint and control step

The caps count iterations, never seconds: the same call gives the same motion on any machine.

K: obstacles, n: corner points of a path, T: control steps.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rearrange.sim.robot import fetch
from rearrange.skills.motion.arm_kernel import between, farthest_turn, write_row
from rearrange.skills.motion.collision import (
    NO_OBSTACLES,
    Obstacles,
    _clearance,
    _segment_free,
    arm_spheres,
    min_clearance,
    packed,
)
from rearrange.skills.motion.kinematics import solve_ik_many

# Where the arm carries: `derive_rest()`, rounded to a thousandth.
ARM_REST = np.array([-0.743, -1.1, 0.55, 1.09, 0.51, 1.92, -0.05])  # rad

_LOWER, _UPPER = fetch.ARM_LOWER.copy(), fetch.ARM_UPPER.copy()
_RANGE = np.minimum(_UPPER - _LOWER, np.pi)  # a whole turn of a roll joint is hardly ever of use
_EXTEND = 0.4  # rad, weighted, of one branch of a tree
# What a radian of each joint moves: the shoulder the whole arm, the last roll nothing.
_WEIGHTS = np.array([1.0, 1.0, 0.7, 0.8, 0.4, 0.5, 0.2])
_MAX_ESCAPE_SAMPLES = 400
# Branches added to a tree at once: towards a sample, and towards the other tree. An array, because
# numba would compile a kernel again for each constant argument.
_MAX_BRANCHES = np.array([1, 64])
_MORE_TREES = 4  # after the first, while a motion takes more than
_DETOUR = 1.3  # times what the direct one would


def plan_arm(
    q_start: np.ndarray,  # [7]
    q_goal: np.ndarray,  # [7]
    obstacles: Obstacles = NO_OBSTACLES,
    held: np.ndarray | None = None,  # [H, 4], collision.held_spheres
    margin: float = 0.01,  # m
    max_iterations: int = 3000,
    seed: int = 0,
) -> np.ndarray | None:
    """Corner points [n, 7] of a motion that keeps `margin` from everything, or None.

    An end that is nearer than `margin` (an object just lifted, a handle) is left or entered by a
    short motion on which nothing gets nearer than it is at that end; a goal that overlaps something
    is refused.
    """
    start, goal = np.asarray(q_start, dtype=np.float64), np.asarray(q_goal, dtype=np.float64)
    path, is_complete = _plan(
        start, goal, *packed(obstacles, held), float(margin), int(max_iterations), int(seed)
    )
    return path if is_complete else None


def plan_to_pose(
    q_start: np.ndarray,  # [7]
    target_pos_b: np.ndarray,  # [3]
    approach_b: np.ndarray | None = None,  # [3]
    obstacles: Obstacles = NO_OBSTACLES,
    held: np.ndarray | None = None,
    margin: float = 0.01,
    *,
    rotation_b: np.ndarray | None = None,  # [3, 3]
    approach_tolerance: float = 0.02,  # rad
    num_postures: int = 6,
    max_iterations: int = 1500,
    seed: int = 0,
) -> np.ndarray | None:
    """As `plan_arm`, to the nearest reachable posture with the ee at a pose, or None."""
    start = np.asarray(q_start, dtype=np.float64)
    postures = solve_ik_many(
        target_pos_b, approach_b, start, rotation_b=rotation_b, num_solutions=num_postures,
        approach_tolerance=approach_tolerance, random_seed=seed,
    )  # fmt: skip
    for posture in postures:
        if min_clearance(posture, obstacles, held) < margin:
            continue
        path = plan_arm(start, posture, obstacles, held, margin, max_iterations, seed)
        if path is not None:
            return path
    return None


def time_parametrise(path: np.ndarray, max_step: float = fetch.MAX_ARM_STEP) -> np.ndarray:
    """Joint positions [T, 7] per control step along corner points [n, 7], the first point left out.

    No joint moves more than `max_step` (rad) between two rows, nor from path[0] to the first row;
    the last row is the path's end. A path of one point gives no rows.
    """
    path = np.asarray(path, dtype=np.float64)
    lengths = np.abs(np.diff(path, axis=0)).max(axis=1)  # of the slowest joint, which sets the pace
    travelled = np.concatenate([[0.0], np.cumsum(lengths)])
    num_steps = int(np.ceil(travelled[-1] / max_step - 1e-9))
    if num_steps == 0:
        return path[len(path) :]
    at = np.linspace(0.0, travelled[-1], num_steps + 1)[1:]
    keep = np.concatenate([[True], lengths > 0.0])
    return np.stack(
        [np.interp(at, travelled[keep], path[keep, j]) for j in range(path.shape[1])], axis=1
    )


def derive_rest() -> np.ndarray:
    """The posture [7] that `ARM_REST` is: ee at the resting point, able to carry and to see.

    Of the postures whose gripper points 45 to 90 degrees down, that keep 9 cm from the robot's body
    and 10 cm from the camera's eye, the one with the shortest motion from the start posture.
    """
    camera = np.array(fetch.HEAD_CAMERA_POS_B)
    best, best_distance = None, np.inf
    for down in np.deg2rad(np.arange(45.0, 91.0, 5.0)):
        for side in np.deg2rad(np.arange(-180.0, 180.0, 10.0)):
            approach = np.array(
                [np.cos(down) * np.cos(side), np.cos(down) * np.sin(side), -np.sin(down)]
            )
            postures = solve_ik_many(
                fetch.EE_REST_B,
                approach,
                fetch.ARM_START,
                num_solutions=6,
                num_restarts=12,
                posture_gain=0.2,
            )
            for posture in postures:
                distance = float(np.abs(posture - fetch.ARM_START).max())
                if distance >= best_distance or min_clearance(posture) < 0.09:
                    continue
                spheres = arm_spheres(posture)
                if (np.linalg.norm(spheres[:, :3] - camera, axis=1) - spheres[:, 3]).min() < 0.1:
                    continue
                best, best_distance = posture, distance
    if best is None:
        raise RuntimeError(
            "no posture of the arm is fit to rest in; fetch.py's shapes have changed"
        )
    return best


@njit(cache=True, nogil=True)
def _plan(start, goal, kind, pos, rot, size, held, margin, max_iterations, seed):
    np.random.seed(seed)
    failed = np.empty((0, 7))
    goal_clearance = _clearance(goal, kind, pos, rot, size, held, -np.inf)
    if goal_clearance < 0.0 or not _within_limits(goal):
        return failed, False
    # In joint space the direct motion is the best there is, if both ends are clear.
    low = min(margin, _clearance(start, kind, pos, rot, size, held, -np.inf))
    if (
        low >= margin
        and goal_clearance >= margin
        and _segment_free(start, goal, kind, pos, rot, size, held, margin)
    ):
        return _straight(start, goal), True
    begin, can_leave = _escape(start, goal, kind, pos, rot, size, held, margin)
    end, can_enter = _escape(goal, start, kind, pos, rot, size, held, margin)
    if not (can_leave and can_enter):
        return failed, False
    if _segment_free(begin, end, kind, pos, rot, size, held, margin):
        middle = _straight(begin, end)
    else:
        middle = _detour(begin, end, kind, pos, rot, size, held, margin, max_iterations)
        if len(middle) == 0:
            return failed, False
    first = 1 if farthest_turn(begin, start) > 0.0 else 0
    last = 1 if farthest_turn(end, goal) > 0.0 else 0
    path = np.empty((first + len(middle) + last, 7))
    write_row(start, path, 0)
    write_row(goal, path, len(path) - 1)
    for i in range(len(middle)):
        write_row(middle[i], path, first + i)
    return path, True


@njit(cache=True, nogil=True)
def _straight(begin, end):
    """The path [2, 7] from one posture to another."""
    path = np.empty((2, 7))
    write_row(begin, path, 0)
    write_row(end, path, 1)
    return path


@njit(cache=True, nogil=True)
def _detour(begin, end, kind, pos, rot, size, held, margin, max_iterations):
    """A path [n, 7] around what blocks the straight one; no points if the first search fails.

    Trees that grow at random find needlessly long ways, so a long one is searched for again.
    """
    path = np.empty((0, 7))
    direct = farthest_turn(end, begin)
    for search in range(1 + _MORE_TREES):
        other = _connect(begin, end, kind, pos, rot, size, held, margin, max_iterations)
        if len(other) > 0:
            other = _shortcut(other, kind, pos, rot, size, held, margin)
            if search == 0 or _duration(other) < _duration(path):
                path = other
        if len(path) == 0 or _duration(path) < _DETOUR * direct:
            break
    return path


@njit(cache=True, nogil=True)
def _within_limits(q):
    is_within = True
    for j in range(len(q)):
        is_within = is_within and _LOWER[j] - 1e-6 <= q[j] <= _UPPER[j] + 1e-6
    return is_within


@njit(cache=True, nogil=True)
def _escape(q, towards, kind, pos, rot, size, held, margin):
    """A posture near q, reached without getting nearer to anything, that keeps the margin.

    Tried in order: along the way `towards` the other end, then at random, in growing distance.
    """
    here = _clearance(q, kind, pos, rot, size, held, -np.inf)
    if here >= margin and _within_limits(q):
        return q.copy(), True
    span = farthest_turn(towards, q)
    candidate = np.empty(7)
    for sample in range(_MAX_ESCAPE_SAMPLES):
        reach = 0.03 + 0.5 * sample / _MAX_ESCAPE_SAMPLES
        for j in range(7):
            move = (
                (towards[j] - q[j]) / max(span, 1e-9)
                if sample % 8 == 0
                else 2.0 * np.random.random() - 1.0
            )
            candidate[j] = min(max(q[j] + reach * move, _LOWER[j]), _UPPER[j])
        if _clearance(candidate, kind, pos, rot, size, held, margin) < margin:
            continue
        floor = min(here, margin) - 0.002  # m; a joint motion curves a little
        if _segment_free(q, candidate, kind, pos, rot, size, held, floor):
            return candidate.copy(), True
    return candidate, False


@njit(cache=True, nogil=True)
def _nearest(tree, num, q):
    best, index = np.inf, 0
    for i in range(num):
        squared = 0.0
        for j in range(7):
            gap = _WEIGHTS[j] * (tree[i, j] - q[j])
            squared += gap * gap
        if squared < best:
            best, index = squared, i
    return index, np.sqrt(best)


@njit(cache=True, nogil=True)
def _connect(begin, end, kind, pos, rot, size, held, margin, max_iterations):
    """RRT-connect: two trees that grow towards each other. No points if the cap is reached."""
    capacity = 4 * max_iterations + 2
    trees, parents = np.empty((2, capacity, 7)), np.empty((2, capacity), np.int64)
    counts = np.array([1, 1])
    write_row(begin, trees[0], 0)
    write_row(end, trees[1], 0)
    parents[0, 0] = parents[1, 0] = -1
    sample = np.empty(7)
    for iteration in range(max_iterations):
        mine = iteration % 2
        # Half of the samples stay around the two ends, where the way usually is.
        is_local = np.random.random() < 0.5
        mix = np.random.random()
        for j in range(7):
            draw = np.random.random()
            if is_local:
                middle = begin[j] + mix * (end[j] - begin[j])
                sample[j] = middle + (draw - 0.5) * _RANGE[j]
                sample[j] = min(max(sample[j], _LOWER[j]), _UPPER[j])
            else:
                sample[j] = _LOWER[j] + draw * (_UPPER[j] - _LOWER[j])
        reached = _extend(
            trees[mine], parents[mine], counts, mine, sample, _MAX_BRANCHES[0],
            kind, pos, rot, size, held, margin,
        )  # fmt: skip
        if reached < 0:
            continue
        other = 1 - mine
        target = trees[mine, reached].copy()
        room = min(_MAX_BRANCHES[1], capacity - counts[other] - 2 * (max_iterations - iteration))
        met = _extend(
            trees[other], parents[other], counts, other, target, room,
            kind, pos, rot, size, held, margin,
        )  # fmt: skip
        if met < 0 or farthest_turn(trees[other, met], target) > 1e-9:
            continue
        ends = np.array([reached, met]) if mine == 0 else np.array([met, reached])
        return _join(trees, parents, ends[0], ends[1])
    return np.empty((0, 7))


@njit(cache=True, nogil=True)
def _extend(tree, parent, counts, which, target, max_branches, kind, pos, rot, size, held, margin):
    """Grow a tree towards a posture by some branches; index of the last new node, -1: none."""
    node, distance = _nearest(tree, counts[which], target)
    last = -1
    for _ in range(max_branches):
        if distance < 1e-12:
            return node
        ratio = min(1.0, _EXTEND / distance)
        q = target.copy() if ratio == 1.0 else between(tree[node], target, ratio)
        if not _segment_free(tree[node], q, kind, pos, rot, size, held, margin):
            return last
        last = counts[which]
        write_row(q, tree, last)
        parent[last] = node
        counts[which] += 1
        if ratio == 1.0:
            return last
        node, distance = last, distance - _EXTEND
    return last


@njit(cache=True, nogil=True)
def _join(trees, parents, from_begin, from_end):
    """The way from one root to where the trees met, then to the other root."""
    first, node = [from_begin], parents[0, from_begin]
    while node >= 0:
        first.append(node)
        node = parents[0, node]
    second, node = [from_end], parents[1, from_end]
    while node >= 0:
        second.append(node)
        node = parents[1, node]
    path = np.empty((len(first) + len(second) - 1, 7))
    for i in range(len(first)):
        write_row(trees[0, first[len(first) - 1 - i]], path, i)
    for i in range(1, len(second)):
        write_row(trees[1, second[i]], path, len(first) - 1 + i)
    return path


@njit(cache=True, nogil=True)
def _duration(path):
    """Radians of the slowest joint along a path: what its time is proportional to."""
    total = 0.0
    for i in range(1, len(path)):
        total += farthest_turn(path[i], path[i - 1])
    return total


@njit(cache=True, nogil=True)
def _stretch_at(lengths, length):
    """The stretch i, from corner i to i + 1, in which a path with corners at `lengths` [n] is."""
    stretch = 0
    while stretch < len(lengths) - 2 and lengths[stretch + 1] <= length:
        stretch += 1
    return stretch


@njit(cache=True, nogil=True)
def _shortcut(path, kind, pos, rot, size, held, margin):
    """Replace stretches by straight ones where that is free and takes less time (max-norm)."""
    for _ in range(120):
        n = len(path)
        if n < 3:
            return path
        lengths = np.zeros(n)
        for i in range(1, n):
            lengths[i] = lengths[i - 1] + farthest_turn(path[i], path[i - 1])
        a, b = np.random.random() * lengths[-1], np.random.random() * lengths[-1]
        a, b = min(a, b), max(a, b)
        i, j = _stretch_at(lengths, a), _stretch_at(lengths, b)
        if i == j:
            continue
        share_a = (a - lengths[i]) / max(lengths[i + 1] - lengths[i], 1e-12)
        share_b = (b - lengths[j]) / max(lengths[j + 1] - lengths[j], 1e-12)
        qa = between(path[i], path[i + 1], share_a)
        qb = between(path[j], path[j + 1], share_b)
        if farthest_turn(qb, qa) > b - a - 1e-6:
            continue
        if not _segment_free(qa, qb, kind, pos, rot, size, held, margin):
            continue
        shorter = np.empty((i + 1 + 2 + n - 1 - j, 7))
        for k in range(i + 1):
            write_row(path[k], shorter, k)
        write_row(qa, shorter, i + 1)
        write_row(qb, shorter, i + 2)
        for k in range(j + 1, n):
            write_row(path[k], shorter, i + 2 + k - j)
        path = shorter
    return path
