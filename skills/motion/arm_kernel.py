"""Compiled kinematics of Fetch's arm: frames, Jacobian, bounded damped least squares."""

from __future__ import annotations

import numpy as np
from numba import njit

from rearrange.sim.robot import fetch

NUM_JOINTS = 7
POSITION_TOLERANCE = 0.002  # m
_ORIGINS = np.array([joint.origin for joint in fetch.ARM_JOINTS])
_AXES = np.array(fetch.ARM_AXES)
_CONTINUOUS = np.array([joint.is_continuous for joint in fetch.ARM_JOINTS])
_LOWER, _UPPER = fetch.ARM_LOWER.copy(), fetch.ARM_UPPER.copy()
_GRIPPER_X, _EE_X = fetch.GRIPPER_OFFSET[0], fetch.EE_OFFSET[0]
FREE, APPROACH, FULL = 0, 1, 2  # constraint on the gripper's orientation
_DAMPING = 0.02
# Iterations of one descent: from anywhere, where later convergence is rare, and along a line. An
# array, because numba would compile a kernel again for each constant argument.
_MAX_ITERATIONS = np.array([60, 20])
_NO_JOINT = np.zeros(NUM_JOINTS, np.bool_)
_MAX_TURN = 0.35  # rad a joint turns in one iteration, where the linear model still holds


@njit(cache=True, nogil=True)
def farthest_turn(q, other):
    """The largest |q[j] - other[j]|, rad: of the joint that turns farthest between two postures."""
    farthest = 0.0
    for j in range(NUM_JOINTS):
        farthest = max(farthest, abs(q[j] - other[j]))
    return farthest


@njit(cache=True, nogil=True)
def write_row(posture, rows, row):
    """rows[row] = posture. Element by element, here as elsewhere: whole arrays, and slices most of
    all, take numba seconds to compile in each kernel.
    """
    for j in range(NUM_JOINTS):
        rows[row, j] = posture[j]


@njit(cache=True, nogil=True)
def between(q, other, share):
    """The posture on the straight way from one to another: at 0 the one, at 1 the other."""
    found = np.empty(NUM_JOINTS)
    for j in range(NUM_JOINTS):
        found[j] = q[j] + share * (other[j] - q[j])
    return found


@njit(cache=True, nogil=True)
def frames_of(q):
    position, rotation = np.empty((9, 3)), np.empty((9, 3, 3))
    here = np.zeros(3)
    turn = np.eye(3)
    for i in range(NUM_JOINTS):
        for r in range(3):
            here[r] += (
                turn[r, 0] * _ORIGINS[i, 0]
                + turn[r, 1] * _ORIGINS[i, 1]
                + turn[r, 2] * _ORIGINS[i, 2]
            )
        cos, sin = np.cos(q[i]), np.sin(q[i])
        # Turning about one axis mixes the columns of the other two.
        u, v = (_AXES[i] + 1) % 3, (_AXES[i] + 2) % 3
        for r in range(3):
            a, b = turn[r, u], turn[r, v]
            turn[r, u] = cos * a + sin * b
            turn[r, v] = cos * b - sin * a
            position[i, r] = here[r]
            for c in range(3):
                rotation[i, r, c] = turn[r, c]
    for r in range(3):
        position[7, r] = here[r] + turn[r, 0] * _GRIPPER_X
        position[8, r] = here[r] + turn[r, 0] * (_GRIPPER_X + _EE_X)
        for c in range(3):
            rotation[7, r, c] = rotation[8, r, c] = turn[r, c]
    return position, rotation


@njit(cache=True, nogil=True)
def jacobian_of(q):
    """Position [3], rotation [3, 3] of the ee, and [6, 7]: velocity above, angular below."""
    position, rotation = frames_of(q)
    jacobian = np.empty((6, NUM_JOINTS))
    for i in range(NUM_JOINTS):
        axis = _AXES[i]
        ax, ay, az = rotation[i, 0, axis], rotation[i, 1, axis], rotation[i, 2, axis]
        dx = position[8, 0] - position[i, 0]
        dy = position[8, 1] - position[i, 1]
        dz = position[8, 2] - position[i, 2]
        jacobian[0, i] = ay * dz - az * dy
        jacobian[1, i] = az * dx - ax * dz
        jacobian[2, i] = ax * dy - ay * dx
        jacobian[3, i], jacobian[4, i], jacobian[5, i] = ax, ay, az
    return position[8], rotation[8], jacobian


@njit(cache=True, nogil=True)
def _add_cross(first, second, c, factor, out):
    """Adds factor times (column c of `first` x column c of `second`) to out [3]."""
    for r in range(3):
        s, t = (r + 1) % 3, (r + 2) % 3
        out[r] += factor * (first[s, c] * second[t, c] - first[t, c] * second[s, c])


@njit(cache=True, nogil=True)
def _task(q, target, wanted, mode, error, task):
    """Fill error and Jacobian of the constraints; return rows, metres off, radians off."""
    position, rotation, jacobian = jacobian_of(q)
    for r in range(3):
        error[r] = target[r] - position[r]
        for j in range(NUM_JOINTS):
            task[r, j] = jacobian[r, j]
    off = np.sqrt(error[0] ** 2 + error[1] ** 2 + error[2] ** 2)
    if mode == FREE:
        return 3, off, 0.0
    turn = np.zeros(3)  # rotation vector from actual to wanted orientation, in the base frame
    if mode == APPROACH:
        _add_cross(rotation, wanted, 0, 1.0, turn)
        cos = (
            rotation[0, 0] * wanted[0, 0]
            + rotation[1, 0] * wanted[1, 0]
            + rotation[2, 0] * wanted[2, 0]
        )
    else:
        for c in range(3):
            _add_cross(rotation, wanted, c, 0.5, turn)
        trace = 0.0
        for r in range(3):
            for c in range(3):
                trace += rotation[r, c] * wanted[r, c]
        cos = 0.5 * (trace - 1.0)
    sin = np.sqrt(turn[0] ** 2 + turn[1] ** 2 + turn[2] ** 2)
    angle = np.arctan2(sin, cos)
    for r in range(3):
        if sin > 1e-9:
            turn[r] *= angle / sin
        elif cos < 0.0:  # exactly opposite: any axis across will do
            turn[r] = rotation[r, 2] * np.pi
    if mode == FULL:
        for r in range(3):
            error[3 + r] = turn[r]
            for j in range(NUM_JOINTS):
                task[3 + r, j] = jacobian[3 + r, j]
        return 6, off, angle
    for k in range(2):  # two rows only, about the gripper's y and z: roll about its x is free
        error[3 + k] = 0.0
        for j in range(NUM_JOINTS):
            task[3 + k, j] = 0.0
        for r in range(3):
            error[3 + k] += rotation[r, 1 + k] * turn[r]
            for j in range(NUM_JOINTS):
                task[3 + k, j] += rotation[r, 1 + k] * jacobian[3 + r, j]
    return 5, off, angle


@njit(cache=True, nogil=True)
def _solve_positive(matrix, vector):
    """x of matrix x = vector, matrix [n, n] symmetric positive definite, by Cholesky, in place."""
    n = len(vector)
    for i in range(n):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= matrix[i, k] * matrix[j, k]
            if i == j:
                matrix[i, i] = np.sqrt(max(total, 1e-18))
            else:
                matrix[i, j] = total / matrix[j, j]
    for i in range(n):
        for k in range(i):
            vector[i] -= matrix[i, k] * vector[k]
        vector[i] /= matrix[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            vector[i] -= matrix[k, i] * vector[k]
        vector[i] /= matrix[i, i]


@njit(cache=True, nogil=True)
def _bounded_least_squares(task, error, low, high, pull, inverse_weights, damping, step):
    """Fill `step`: damped least squares within a box, with the null space pulled towards `pull`.

    A component beyond its bound is fixed at the bound and removed, until none is beyond.
    """
    n, rows = len(step), len(error)
    is_fixed = np.zeros(n, np.bool_)
    gram, rest = np.empty((rows, rows)), np.empty(rows)
    for _ in range(n):
        for r in range(rows):
            rest[r] = error[r]
            for j in range(n):
                rest[r] -= task[r, j] * (step[j] if is_fixed[j] else pull[j])
            for s in range(r + 1):
                gram[r, s] = damping * damping if r == s else 0.0
                for j in range(n):
                    if not is_fixed[j]:
                        gram[r, s] += task[r, j] * task[s, j] * inverse_weights[j]
        _solve_positive(gram, rest)
        has_changed = False
        for j in range(n):
            if is_fixed[j]:
                continue
            step[j] = pull[j]
            for r in range(rows):
                step[j] += inverse_weights[j] * task[r, j] * rest[r]
            if step[j] < low[j] or step[j] > high[j]:
                step[j] = min(max(step[j], low[j]), high[j])
                is_fixed[j] = has_changed = True
        if not has_changed:
            return


@njit(cache=True, nogil=True)
def _descend(q, target, wanted, mode, preferred, tolerance, gain, is_wrapped, max_iterations):
    """Move q, in place, to the pose; whether it arrived. Joints with `is_wrapped` may pass pi."""
    error, task = np.empty(6), np.empty((6, NUM_JOINTS))
    low, high = np.empty(NUM_JOINTS), np.empty(NUM_JOINTS)
    pull, step, ones = np.empty(NUM_JOINTS), np.empty(NUM_JOINTS), np.ones(NUM_JOINTS)
    for iteration in range(max_iterations + 1):
        rows, off, angle = _task(q, target, wanted, mode, error, task)
        if off < 0.25 * POSITION_TOLERANCE and angle < 0.5 * tolerance:
            return True
        if iteration == max_iterations:
            return off < POSITION_TOLERANCE and angle < tolerance
        # Far away, only the direction of the error means something.
        scale = min(1.0, 0.2 / max(off, 1e-9))
        for r in range(3):
            error[r] *= scale
        scale = min(1.0, 0.6 / max(angle, 1e-9))
        for r in range(3, rows):
            error[r] *= scale
        # The pull fades out near the goal, where it would prevent convergence.
        fade = gain * min(1.0, (off / 0.05) + (angle / 0.3))
        for j in range(NUM_JOINTS):
            pull[j] = fade * (preferred[j] - q[j])
            low[j] = -_MAX_TURN if is_wrapped[j] else max(-_MAX_TURN, _LOWER[j] - q[j])
            high[j] = _MAX_TURN if is_wrapped[j] else min(_MAX_TURN, _UPPER[j] - q[j])
            pull[j] = min(max(pull[j], low[j]), high[j])
        _bounded_least_squares(task, error[:rows], low, high, pull, ones, _DAMPING, step)
        for j in range(NUM_JOINTS):
            q[j] += step[j]
            if is_wrapped[j]:
                q[j] = (q[j] + np.pi) % (2.0 * np.pi) - np.pi
    return False


@njit(cache=True, nogil=True)
def descend_many(
    target, wanted, mode, seed, preferred, tolerance, gain, num_restarts, num_solutions, random_seed
):
    np.random.seed(random_seed)
    found, distances = np.empty((num_solutions, NUM_JOINTS)), np.empty(num_solutions)
    num_found = 0
    for attempt in range(num_restarts + 1):
        q = seed.copy()
        for j in range(NUM_JOINTS):
            draw = np.random.random()
            if attempt % 3 == 1:  # around the seed, wider each time
                q[j] += (draw - 0.5) * (0.6 + 0.2 * attempt)
            elif attempt > 0:
                q[j] = _LOWER[j] + draw * (_UPPER[j] - _LOWER[j])
            q[j] = min(max(q[j], _LOWER[j]), _UPPER[j])
        if not _descend(
            q, target, wanted, mode, preferred, tolerance, gain, _CONTINUOUS, _MAX_ITERATIONS[0]
        ):
            continue
        distance, is_new = farthest_turn(q, preferred), True
        for k in range(num_found):
            is_new = is_new and farthest_turn(q, found[k]) > 0.1
        if not is_new:
            continue
        place = num_found
        while place > 0 and distances[place - 1] > distance:
            write_row(found[place - 1], found, place)
            distances[place] = distances[place - 1]
            place -= 1
        write_row(q, found, place)
        distances[place] = distance
        num_found += 1
        if num_found == num_solutions:
            break
    return found[:num_found]


@njit(cache=True, nogil=True)
def postures_along(q_start, target, mode, tolerance, step):
    position, rotation = frames_of(q_start)
    start, wanted = position[8].copy(), rotation[8].copy()
    num = max(1, int(np.ceil(np.sqrt(np.sum((target - start) ** 2)) / step)))
    path, goal = np.empty((num + 1, NUM_JOINTS)), np.empty(3)
    write_row(q_start, path, 0)
    for i in range(1, num + 1):
        q = path[i - 1].copy()
        for r in range(3):
            goal[r] = start[r] + (target[r] - start[r]) * (i / num)
        if not _descend(
            q, goal, wanted, mode, q_start, tolerance, 0.0, _NO_JOINT, _MAX_ITERATIONS[1]
        ):
            return path, False
        if farthest_turn(q, path[i - 1]) > 0.3:
            return path, False
        write_row(q, path, i)
    return path, True


@njit(cache=True, nogil=True)
def joint_step(q, wanted, limits, preferred, weights, gain, damping):
    position, _, jacobian = jacobian_of(q)
    task = np.empty((3, 9))
    for r in range(3):
        for j in range(NUM_JOINTS):
            task[r, j] = jacobian[r, j]
    task[0, 7], task[1, 7], task[2, 7] = 1.0, 0.0, 0.0
    task[0, 8], task[1, 8], task[2, 8] = -position[1], position[0], 0.0  # z x p
    low, high, pull, step = -limits, limits.copy(), np.zeros(9), np.empty(9)
    for j in range(NUM_JOINTS):
        # A joint that noise put beyond its limit may stay or come back.
        low[j] = min(0.0, max(low[j], _LOWER[j] - q[j]))
        high[j] = max(0.0, min(high[j], _UPPER[j] - q[j]))
        pull[j] = min(max(gain * (preferred[j] - q[j]), 0.5 * low[j]), 0.5 * high[j])
    _bounded_least_squares(task, wanted, low, high, pull, 1.0 / weights, damping, step)
    return step


@njit(cache=True, nogil=True)
def pose_step(q, move, turn, turn_weight, limit, preferred, gain, damping):
    """As `joint_step` without base: the ee moves by `move` [3] m, turns by `turn` [3] rad.

    `turn_weight` [3], m per rad, is that of the turn about each axis; 0 leaves it free.
    """
    _, _, jacobian = jacobian_of(q)
    task, wanted = np.empty((6, NUM_JOINTS)), np.empty(6)
    for r in range(3):
        wanted[r], wanted[3 + r] = move[r], turn_weight[r] * turn[r]
        for j in range(NUM_JOINTS):
            task[r, j] = jacobian[r, j]
            task[3 + r, j] = turn_weight[r] * jacobian[3 + r, j]
    low, high = np.empty(NUM_JOINTS), np.empty(NUM_JOINTS)
    pull, step = np.empty(NUM_JOINTS), np.empty(NUM_JOINTS)
    for j in range(NUM_JOINTS):
        low[j] = min(0.0, max(-limit, _LOWER[j] - q[j]))
        high[j] = max(0.0, min(limit, _UPPER[j] - q[j]))
        pull[j] = min(max(gain * (preferred[j] - q[j]), 0.5 * low[j]), 0.5 * high[j])
    weights = np.ones(NUM_JOINTS)
    _bounded_least_squares(task, wanted, low, high, pull, weights, damping, step)
    return step
