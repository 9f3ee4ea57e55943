"""The substeps of control steps in one compiled call.

A copy of what `Substepper` does one by one, in the same order and to the last bit. What is rare, a
joint held at its limit against contacts, is left to it.
"""

from __future__ import annotations

import math

from numba import njit

from rearrange.sim.native.addresses import (
    bytes_at,
    call_force,
    call_velocity,
    call_world,
    float64_at,
    floats,
    int32_at,
    int64_at,
    wholes,
)

# Places in a world's table, [TABLE_SIZE] int64. Addresses of functions ...
STEP, VELOCITY, CONTACT_FORCE, KINEMATICS, CAMLIGHT = range(5)
# ... of the model, the data and its fields, sizes and indices ...
MODEL, DATA, NCON, NEFC, CLOCK, CONTACT, CONTACT_SIZE, CONTACT_GEOM = range(5, 13)
TIMESTEP, WARNING, WARNING_SIZE, NUM_WARNINGS = range(13, 17)
# ... numbers of the model ...
SITE, HAND, YAW, ARM_Q, ARM_V, NUM_JOINTS, OBJECTS, OBJECTS_END, NQ, NV, NGEOM = range(17, 28)
# ... addresses of arrays: MuJoCo's own; the state before a substep that has constraints; others;
# substeps of a control step ...
QPOS, QVEL, WARMSTART, CTRL, BEFORE_Q, BEFORE_V, BEFORE_W, WRENCH = range(28, 36)
MOST, IS_ROBOT, IS_OBJECT, NUMBERS, FOUND, SUBSTEPS = range(36, 42)
# ... and what changes: the held object's geom, -1: none; why it stopped; the next substep; its next
# piece, of how many.
HELD, WHY, NEXT, PIECE, PIECES, TABLE_SIZE = range(42, 48)
# Why: nothing was run yet; all done; this piece made a joint too fast; the world is Python's.
TO_DO, DONE, TOO_FAST, PLAIN = range(4)
# NUMBERS: forward, m/s; of a substep, s; the speed above which a substep has pieces, m/s; how many
# at most; the square of a speed, (rad/s)^2, below which no joint is too fast.
SPEED, LENGTH, FAST, MOST_PIECES, SLOW, NUMBERS_SIZE = range(6)
# FOUND: largest contact force; whether robot and object, robot and home, what is held and home
# touched; the time before the substep that made a joint too fast; 1 while all is well.
FORCE, TOUCHED, TIME, IS_SOUND, FOUND_SIZE = 0, 1, 4, 5, 6


@njit(cache=True, nogil=True)
def run_worlds(tables):
    """Substeps of several worlds, from `NEXT` of each on, and the kinematics after the last.

    Args:
        tables: [N] int64, addresses of their tables.
    """
    for i in range(len(tables)):
        at = wholes(tables[i], TABLE_SIZE)
        if at[WHY] == TO_DO:
            at[NEXT] = at[PIECE] = 0
        if at[WHY] != PLAIN:
            _run_substeps(at)


@njit(cache=True, nogil=True)
def _run_substeps(at):
    numbers, found = floats(at[NUMBERS], NUMBERS_SIZE), floats(at[FOUND], FOUND_SIZE)
    qpos, qvel, ctrl = floats(at[QPOS], at[NQ]), floats(at[QVEL], at[NV]), floats(at[CTRL], 3)
    for i in range(FOUND_SIZE):
        found[i] = 0.0
    timestep = floats(at[TIMESTEP], 1)
    while at[NEXT] < at[SUBSTEPS]:
        if at[PIECE] == 0:
            yaw = qpos[at[YAW]]
            ctrl[0] = numbers[SPEED] * math.cos(yaw)
            ctrl[1] = numbers[SPEED] * math.sin(yaw)
            at[PIECES] = _pieces(at, qvel, numbers)
            timestep[0] = numbers[LENGTH] / at[PIECES]
        is_kept = int32_at(at[NEFC]) > 0
        if is_kept:
            _keep(at, qpos, qvel)
            found[TIME] = float64_at(at[CLOCK])
        call_world(at[STEP], at[MODEL], at[DATA])
        if _is_too_fast(at, qvel, numbers[SLOW]):
            if is_kept and int32_at(at[NEFC]):
                at[WHY] = TOO_FAST
                return
            _slow_down(at, qpos, qvel, timestep[0])
        _measure(at, found)
        at[PIECE] += 1
        if at[PIECE] == at[PIECES]:
            at[NEXT], at[PIECE], timestep[0] = at[NEXT] + 1, 0, numbers[LENGTH]
    call_world(at[KINEMATICS], at[MODEL], at[DATA])
    call_world(at[CAMLIGHT], at[MODEL], at[DATA])
    found[IS_SOUND] = _is_sound(at, qpos, qvel)
    at[WHY] = DONE


@njit(cache=True, nogil=True)
def _is_sound(at, qpos, qvel):
    """Whether all numbers are finite, and MuJoCo, which repairs a diverged world, gave no
    warning."""
    for i in range(at[NUM_WARNINGS]):
        if int32_at(at[WARNING] + i * at[WARNING_SIZE]) != 0:
            return 0.0
    total = 0.0
    for i in range(at[NQ]):
        total += qpos[i] * qpos[i]
    for i in range(at[NV]):
        total += qvel[i] * qvel[i]
    return 1.0 if math.isfinite(total) else 0.0


@njit(cache=True, nogil=True)
def _pieces(at, qvel, numbers):
    """See `Substepper.pieces`."""
    wrench, fast = floats(at[WRENCH], 6), numbers[FAST]
    call_velocity(at[VELOCITY], at[MODEL], at[DATA], at[SITE], at[HAND], at[WRENCH], 0)
    square = wrench[3] * wrench[3] + wrench[4] * wrench[4] + wrench[5] * wrench[5]
    for i in range(at[OBJECTS], at[OBJECTS_END], 6):
        linear = qvel[i] * qvel[i] + qvel[i + 1] * qvel[i + 1] + qvel[i + 2] * qvel[i + 2]
        square = max(square, linear)
    if square < fast * fast:
        return 1
    times = math.sqrt(square) / fast
    # Not a number, and numbers too large for an int, are neither less nor an error here.
    return 1 + int(times) if times < numbers[MOST_PIECES] else int(numbers[MOST_PIECES])


@njit(cache=True, nogil=True)
def _keep(at, qpos, qvel):
    before_q, before_v = floats(at[BEFORE_Q], at[NQ]), floats(at[BEFORE_V], at[NV])
    warmstart, before_w = floats(at[WARMSTART], at[NV]), floats(at[BEFORE_W], at[NV])
    for i in range(at[NQ]):
        before_q[i] = qpos[i]
    for i in range(at[NV]):
        before_v[i], before_w[i] = qvel[i], warmstart[i]


@njit(cache=True, nogil=True)
def _is_too_fast(at, qvel, slow):
    most, first = floats(at[MOST], at[NUM_JOINTS]), at[ARM_V]
    square, is_fast = 0.0, False
    for i in range(at[NUM_JOINTS]):
        square += qvel[first + i] * qvel[first + i]
        is_fast |= abs(qvel[first + i]) > most[i]
    return is_fast and square >= slow


@njit(cache=True, nogil=True)
def _slow_down(at, qpos, qvel, length):
    """See `Substepper`."""
    most, angles, speeds = floats(at[MOST], at[NUM_JOINTS]), at[ARM_Q], at[ARM_V]
    for i in range(at[NUM_JOINTS]):
        now = qvel[speeds + i]
        excess = now - min(max(now, -most[i]), most[i])
        qvel[speeds + i] = now - excess
        qpos[angles + i] -= length * excess


@njit(cache=True, nogil=True)
def _measure(at, found):
    """See `ForceMeter.measure`."""
    count, held, wrench = int32_at(at[NCON]), at[HELD], floats(at[WRENCH], 6)
    is_robot, is_object = bytes_at(at[IS_ROBOT], at[NGEOM]), bytes_at(at[IS_OBJECT], at[NGEOM])
    for i in range(count):
        pair = int64_at(at[CONTACT]) + i * at[CONTACT_SIZE] + at[CONTACT_GEOM]
        a, b = int32_at(pair), int32_at(pair + 4)
        by_robot = is_robot[a] != 0 or is_robot[b] != 0
        has_held = held >= 0 and (a == held or b == held)
        if by_robot == has_held or (is_robot[a] and is_robot[b]):
            continue  # neither, the robot holding it, or the robot touching itself
        call_force(at[CONTACT_FORCE], at[MODEL], at[DATA], i, at[WRENCH])
        force = abs(wrench[0])
        if force <= 0.0:
            continue
        found[FORCE] = max(found[FORCE], force)
        other = b if is_robot[a] or a == held else a
        kind = 2 if not by_robot else (0 if is_object[other] else 1)
        found[TOUCHED + kind] = 1.0
