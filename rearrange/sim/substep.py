"""One physics substep: arm joints within the URDF's speed limits, no deep first contact.

    pieces: the hand or an object is fast?   -> a substep of two to four shorter steps
    step:   a joint would exceed its limit?  -> the step again, with that joint held just below it

MuJoCo limits positions and forces, but not speeds: an arm between the driving base and a wall was
turned at five times the speed that the URDF allows. A joint that would exceed its limit is held
just below it by an equality constraint, which the solver treats together with the contacts: an arm
that cannot give way faster stops the base. An arm without contacts or joints at an end stop is
simply slowed down. Contacts are detected once a step, 27 mm deep when the hand moves at 3.3 m/s, 35
mm when something has fallen from a counter: fast bodies get shorter steps. All other steps, and
that is nearly all of them, are MuJoCo's own.
"""

from __future__ import annotations

import math

import mujoco
import numpy as np

from rearrange.sim.home.objects import NUM_SLOTS
from rearrange.sim.model import PHYSICS_DT, object_body, speed_limit
from rearrange.sim.robot import fetch

FAST = 1.4  # m/s, of hand or object: 12 mm a substep
MOST_PIECES = 4
SLACK = 1.02  # a joint is held this much below its limit: the solver may miss the speed by less
_PASSES = 6  # at most, of a step: holding one joint may make another one too fast
_MOST = np.array([joint.max_velocity for joint in fetch.ARM_JOINTS])  # rad/s
_HELD = _MOST / SLACK
_SLOW = float(_MOST.min()) ** 2  # (rad/s)^2, summed over the joints: below it none is too fast


class Substep:
    """Steps worlds of one model. Nothing is remembered from one substep to the next."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self._model = model
        joints = [model.joint(joint.name) for joint in fetch.ARM_JOINTS]
        first_q, first_v = int(joints[0].qposadr[0]), int(joints[0].dofadr[0])
        first_row = model.equality(speed_limit(joints[0].name)).id
        count = len(joints)
        self._rows = slice(first_row, first_row + count)
        self._angles, self._speeds = (slice(n, n + count) for n in (first_q, first_v))
        self._zero = model.qpos0[self._angles].copy()
        self._before = (np.empty(model.nq), np.empty(model.nv), np.empty(model.nv))
        self._hand = model.site("ee").id
        self._hand_velocity = np.zeros(6)
        slots = [model.joint(object_body(slot)) for slot in range(NUM_SLOTS)]
        first_object = int(slots[0].dofadr[0])
        self._objects = slice(first_object, first_object + 6 * NUM_SLOTS)
        assert [int(slot.dofadr[0]) for slot in slots] == [*range(model.nv)[self._objects]][::6]

    def pieces(self, data: mujoco.MjData) -> int:
        """The number of steps into which the next substep is divided."""
        mujoco.mj_objectVelocity(
            self._model, data, mujoco.mjtObj.mjOBJ_SITE, self._hand, self._hand_velocity, 0
        )
        linear = self._hand_velocity[3:]
        square = linear.dot(linear)
        objects = data.qvel[self._objects]
        if objects.dot(objects) > FAST**2:  # most sleep
            velocities = objects.reshape(-1, 6)[:, :3]
            square = max(square, (velocities**2).sum(axis=1).max())
        if square < FAST**2:
            return 1
        return min(1 + int(math.sqrt(square) / FAST), MOST_PIECES)

    def step(self, data: mujoco.MjData, length: float) -> None:
        """One `mj_step` of `length`, s."""
        time = data.time
        if is_kept := data.nefc > 0:
            qpos, qvel, warmstart = self._before
            np.copyto(qpos, data.qpos)
            np.copyto(qvel, data.qvel)
            np.copyto(warmstart, data.qacc_warmstart)
        mujoco.mj_step(self._model, data)
        speeds = data.qvel[self._speeds]
        if speeds.dot(speeds) < _SLOW or (np.abs(speeds) <= _MOST).all():
            return
        if is_kept and data.nefc:
            self._hold_fast_joints(data, time, length)
        excess = speeds - np.minimum(np.maximum(speeds, -_MOST), _MOST)
        speeds -= excess
        data.qpos[self._angles] -= length * excess

    def _hold_fast_joints(self, data: mujoco.MjData, time: float, length: float) -> None:
        """Repeats the step until no joint is too fast, at most `_PASSES` times."""
        model, speeds = self._model, data.qvel[self._speeds]  # a view
        is_held = np.zeros(len(_MOST), dtype=bool)
        target = np.zeros(len(_MOST))
        for _ in range(_PASSES):
            is_fast = np.abs(speeds) > _MOST
            if not is_fast.any():
                break
            limit = np.copysign(_HELD, speeds)
            # The integrator applies the motors' damping after the solver, so that a held joint may
            # still miss its target: the next pass corrects the target by that error.
            missed = np.where(is_fast & is_held, limit - speeds, 0.0)
            target = np.where(is_held, target, limit) + missed
            is_held |= is_fast
            data.qpos[:], data.qvel[:], data.qacc_warmstart[:] = self._before
            data.time = time
            # A constraint accelerates its joint by 1 / PHYSICS_DT^2 per radian of error: here
            # towards the angle for which the joint reaches the target speed within this step.
            way = (target - speeds) * (PHYSICS_DT**2 / length)
            model.eq_data[self._rows, 0] = data.qpos[self._angles] - self._zero + way
            data.eq_active[self._rows] = is_held
            mujoco.mj_step(model, data)
        data.eq_active[self._rows] = 0
