"""The physics of a control step: arm joints within the URDF's speed limits, no deep first contact.

    pieces: the hand or an object is fast?   -> a substep of two to four shorter steps
    step:   a joint would exceed its limit?  -> the step again, with that joint held just below it

MuJoCo limits positions and forces, but not speeds: an arm between the driving base and a wall was
turned at five times the speed that the URDF allows. A joint that would exceed its limit is held
just below it by an equality constraint, which the solver treats together with the contacts: an arm
that cannot give way faster stops the base. An arm without contacts or joints at an end stop is
simply slowed down. Contacts are detected once a step, 27 mm deep when the hand moves at 3.3 m/s, 35
mm when something has fallen from a counter: fast bodies get shorter steps. All other steps, and
that is nearly all of them, are MuJoCo's own, and run in one compiled call, see `substep_kernel`.
"""

from __future__ import annotations

import math

import mujoco
import numpy as np

from rearrange.sim.contacts import ForceMeter
from rearrange.sim.home.objects import NUM_SLOTS
from rearrange.sim.model import PHYSICS_DT, SUBSTEPS, object_body, speed_limit
from rearrange.sim.native import substep_kernel as kernel
from rearrange.sim.native.addresses import Table, address_of
from rearrange.sim.native.library import FUNCTIONS, Native, native
from rearrange.sim.robot import fetch

FAST = 1.4  # m/s, of hand or object: 12 mm a substep
MOST_PIECES = 4
SLACK = 1.02  # a joint is held this much below its limit: the solver may miss the speed by less
_CALLBACKS = [
    getattr(mujoco, name)
    for name in dir(mujoco)
    if name.startswith("get_mjcb_") or name == "get_mju_user_warning"
]
_PASSES = 6  # at most, of a step: holding one joint may make another one too fast
_MOST = np.array([joint.max_velocity for joint in fetch.ARM_JOINTS])  # rad/s
_HELD = _MOST / SLACK
_SLOW = float(_MOST.min()) ** 2  # (rad/s)^2, summed over the joints: below it none is too fast


class Substepper:
    """Steps worlds of one model. Nothing is remembered from one control step to the next.

        begin --> run_worlds([table, ...]), of several worlds at once --> end

    Args:
        forces: knows whose contacts count.
    """

    def __init__(self, model: mujoco.MjModel, forces: ForceMeter) -> None:
        self._model = model
        joints = [model.joint(joint.name) for joint in fetch.ARM_JOINTS]
        first_q, first_v = int(joints[0].qposadr[0]), int(joints[0].dofadr[0])
        first_row = model.equality(speed_limit(joints[0].name)).id
        count = len(joints)
        self._rows = slice(first_row, first_row + count)
        self._angles, self._speeds = (slice(n, n + count) for n in (first_q, first_v))
        self._yaw = int(model.joint("base_yaw").qposadr[0])
        self._zero = model.qpos0[self._angles].copy()
        self._before = (np.empty(model.nq), np.empty(model.nv), np.empty(model.nv))
        self._hand = model.site("ee").id
        self._wrench = np.zeros(6)
        slots = [model.joint(object_body(slot)) for slot in range(NUM_SLOTS)]
        first_object = int(slots[0].dofadr[0])
        self._objects = slice(first_object, first_object + 6 * NUM_SLOTS)
        assert [int(slot.dofadr[0]) for slot in slots] == [*range(model.nv)[self._objects]][::6]
        self._numbers = np.zeros(kernel.NUMBERS_SIZE)
        self._numbers[:] = 0.0, PHYSICS_DT, FAST, MOST_PIECES, _SLOW
        self._found = np.zeros(kernel.FOUND_SIZE)
        self._kinds = forces.is_robot_geom, forces.is_object_geom
        self._table = Table(kernel.TABLE_SIZE)

    def begin(self, data: mujoco.MjData, speed: float, held: int) -> int:
        """Before a control step: returns the address of the table for `run_worlds`.

        Args:
            speed: forward, m/s.
            held: the held object's geom, -1 for none.
        """
        # What MuJoCo calls, in Python, may raise: not through compiled code, nor in its own check.
        is_watched = any(get() is not None for get in _CALLBACKS)
        table, where = self._table.values, None if is_watched else native()
        if where is not None and data is not self._table.owner:
            self._look_at(data, where)
        self._numbers[kernel.SPEED], table[kernel.HELD] = speed, held
        table[kernel.WHY] = kernel.PLAIN if where is None else kernel.TO_DO
        return self._table.address

    def run(self) -> None:
        """`run_worlds` of this world alone."""
        kernel.run_worlds(self._table.alone)

    def end(self, data: mujoco.MjData, forces: ForceMeter) -> bool:
        """After `run_worlds`: does what that left to do; `forces` gets what was measured.

        Returns whether all numbers are finite, without a warning of MuJoCo's.
        """
        table, found = self._table.values, self._found
        if table[kernel.WHY] == kernel.PLAIN:
            return self._run_plain(data, forces)
        while True:
            if found[kernel.FORCE] > 0.0:
                forces.include(found[kernel.FORCE], found[kernel.TOUCHED : kernel.TIME])
            if table[kernel.WHY] == kernel.DONE:
                return found[kernel.IS_SOUND] > 0.0
            self._slow_down(data, self._model.opt.timestep, float(found[kernel.TIME]))
            forces.measure(data, int(table[kernel.HELD]))
            table[kernel.PIECE] += 1
            if table[kernel.PIECE] == table[kernel.PIECES]:
                table[kernel.PIECE] = 0
                table[kernel.NEXT] += 1
                self._model.opt.timestep = PHYSICS_DT
            self.run()

    def _run_plain(self, data: mujoco.MjData, forces: ForceMeter) -> bool:
        """The same, of a whole control step, without compiled code."""
        option, speed = self._model.opt, self._numbers[kernel.SPEED]
        for _ in range(SUBSTEPS):
            yaw = data.qpos[self._yaw]
            data.ctrl[0] = speed * math.cos(yaw)
            data.ctrl[1] = speed * math.sin(yaw)
            pieces = self.pieces(data)
            option.timestep = PHYSICS_DT / pieces
            for _ in range(pieces):
                self.step(data, PHYSICS_DT / pieces)
                forces.measure(data, int(self._table.values[kernel.HELD]))
            option.timestep = PHYSICS_DT
        mujoco.mj_kinematics(self._model, data)
        mujoco.mj_camlight(self._model, data)
        is_finite = np.isfinite(data.qpos).all() and np.isfinite(data.qvel).all()
        return bool(is_finite and not data.warning.number.any())

    def _look_at(self, data: mujoco.MjData, where: Native) -> None:
        """The table of other data: of a copy of the world, as a rule."""
        at, model = data._address, self._model
        arrays = (
            data.qpos, data.qvel, data.qacc_warmstart, data.ctrl, *self._before, self._wrench,
            _MOST, *self._kinds, self._numbers, self._found,
        )  # fmt: skip
        self._table.values[: kernel.HELD] = (
            *where[: len(FUNCTIONS)], model._address, at, at + where.ncon, at + where.nefc,
            at + where.time, at + where.contact, where.contact_size, where.contact_geom,
            model._address + where.timestep, at + where.warning, where.warning_size,
            where.num_warnings, mujoco.mjtObj.mjOBJ_SITE, self._hand, self._yaw,
            self._angles.start, self._speeds.start,
            len(_MOST), self._objects.start, self._objects.stop, model.nq, model.nv, model.ngeom,
            *map(address_of, arrays), SUBSTEPS,
        )  # fmt: skip
        self._table.owner = data

    def pieces(self, data: mujoco.MjData) -> int:
        """The number of steps into which the next substep is divided."""
        mujoco.mj_objectVelocity(
            self._model, data, mujoco.mjtObj.mjOBJ_SITE, self._hand, self._wrench, 0
        )
        linear = self._wrench[3:]
        square = linear.dot(linear)
        objects = data.qvel[self._objects]
        if objects.dot(objects) > FAST**2:  # most sleep
            velocities = objects.reshape(-1, 6)[:, :3]
            square = max(square, (velocities**2).sum(axis=1).max())
        if square < FAST**2:
            return 1
        times = math.sqrt(square) / FAST
        return min(1 + int(times), MOST_PIECES) if times < MOST_PIECES else MOST_PIECES

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
        self._slow_down(data, length, time if is_kept and data.nefc else None)

    def _slow_down(self, data: mujoco.MjData, length: float, time: float | None) -> None:
        """Brings the arm's joints to their limits after a step in which one was too fast.

        Args:
            time: before that step, if it had constraints: it is then repeated.
        """
        if time is not None:
            self._hold_fast_joints(data, time, length)
        speeds = data.qvel[self._speeds]
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
