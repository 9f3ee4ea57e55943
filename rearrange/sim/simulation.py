"""The simulated home: one Fetch in one apartment, control at 30 Hz over physics at 120 Hz.

    Scene --reset--> world --step(arm, grip, base)--> world --> poses, holding, forces

Resting clutter sleeps (MuJoCo's sleeping islands): it is put to sleep at reset, where it is
already at rest, and costs nothing until something touches it.
"""

from __future__ import annotations

import math

import mujoco
import numpy as np

from rearrange.sim.apartment import ApartmentWriter
from rearrange.sim.contacts import ForceMeter
from rearrange.sim.current_floor import CurrentFloor
from rearrange.sim.home import furniture as fur
from rearrange.sim.home.house import Layout
from rearrange.sim.home.navigation import FloorPlan
from rearrange.sim.home.objects import KINDS, NUM_SLOTS, ObjectKind
from rearrange.sim.homes.layout import make_layout
from rearrange.sim.model import PARKED_Z, PHYSICS_DT, SUBSTEPS, new_model, object_body
from rearrange.sim.resting import TOUCHDOWN, all_rest
from rearrange.sim.robot import fetch
from rearrange.sim.scene import Scene, check_scene
from rearrange.sim.substep import Substepper
from rearrange.sim.suction import Suction

CONTROL_DT = PHYSICS_DT * SUBSTEPS  # s


class Simulation:
    """The world. Objects are numbered as in `Scene.objects`, as are their slots; vectors are in m.

    Vectors are in the world frame unless said.

    Args:
        motor_lead: rad that a motor's target may run ahead of its joint, and not past the joint's
            limits, so that an arm that is held up does not wind up; None: as far as it is
            commanded, as in HAB.
    """

    def __init__(self, motor_lead: float | None = None) -> None:
        self.motor_lead = motor_lead
        self.model = new_model()
        self.data = mujoco.MjData(self.model)
        model = self.model
        self._apartment = ApartmentWriter(model)
        self._suction = Suction(model)
        self._base_body = model.body("base_link").id
        self._ee_site = model.site("ee").id
        robot = [b for b in range(model.nbody) if model.body_rootid[b] == self._base_body]
        self._forces = ForceMeter(model, robot)
        self._substepper = Substepper(model, self._forces)
        self._robot_geoms = np.isin(model.geom_bodyid, robot)
        self._base_qpos = [int(model.joint(n).qposadr[0]) for n in ("base_x", "base_y", "base_yaw")]
        self._base_qvel = [int(model.joint(n).dofadr[0]) for n in ("base_x", "base_y", "base_yaw")]
        arm = [model.joint(joint.name) for joint in fetch.ARM_JOINTS]
        self._arm = slice(int(arm[0].qposadr[0]), int(arm[-1].qposadr[0]) + 1)
        self._arm_v = slice(int(arm[0].dofadr[0]), int(arm[-1].dofadr[0]) + 1)
        self._joint_qpos = {n: int(model.joint(n).qposadr[0]) for n in fur.ARTICULATED_JOINTS}
        self._joint_dof = {n: int(model.joint(n).dofadr[0]) for n in fur.ARTICULATED_JOINTS}
        self._joint_range = {n: tuple(model.joint(n).range) for n in fur.ARTICULATED_JOINTS}
        self._marker_site = {m: model.site(f"{j}_marker").id for m, j in fur.MARKERS.items()}
        self._slot_body = [model.body(object_body(slot)).id for slot in range(NUM_SLOTS)]
        free = [model.joint(object_body(slot)) for slot in range(NUM_SLOTS)]
        self._slot_qpos = [int(joint.qposadr[0]) for joint in free]
        self._slot_dof = [int(joint.dofadr[0]) for joint in free]
        self._can_sleep = np.array([b != self._base_body for b in model.tree_bodyadr])
        self.scene: Scene | None = None
        self._layout: Layout | None = None
        self._floor = CurrentFloor()
        self._num_objects = 0
        self.arm_target = np.zeros(7)  # rad
        self.hold_violation = False
        self.is_sound = True
        """Whether the last step left finite numbers and no warning of MuJoCo's."""

    # --- reset ---------------------------------------------------------------------------------

    def reset(self, scene: Scene) -> None:
        """Puts the world into the start state of `scene`, whatever it was before.

        Raises UserError for unknown layouts, object kinds and joints, and for values out of range.
        """
        layout = make_layout(scene.layout_id, scene.home_digest)
        check_scene(scene, self._joint_range)
        kinds = [placement.kind for placement in scene.objects]
        if self._layout is not layout:
            self._apartment.write_layout(layout)
        self._apartment.write_objects(range(len(kinds)), [KINDS[kind] for kind in kinds])
        self.scene, self._layout, self._num_objects = scene, layout, len(kinds)
        self._suction.reset()
        self._forces.reset()
        self.hold_violation = False
        data = self.data
        mujoco.mj_resetData(self.model, data)  # also recomputes the poses of what cannot move
        if kinds:
            poses = np.array([(*placement.pos, *placement.quat) for placement in scene.objects])
            data.qpos[self._object_qpos(7)] = poses
        for name, value in scene.joints.items():
            data.qpos[self._joint_qpos[name]] = value
        self.set_robot(scene.base, scene.arm)

    def set_robot(self, base: tuple[float, float, float], arm) -> None:
        """Teleports the robot, at rest and with nothing held; all that can sleep goes to sleep."""
        data = self.data
        self.drop()
        data.qpos[self._base_qpos] = base
        data.qpos[self._arm] = arm
        data.qvel[:] = 0.0
        self.arm_target = np.clip(np.array(arm, dtype=float), fetch.ARM_LOWER, fetch.ARM_UPPER)
        data.ctrl[:3] = 0.0
        data.ctrl[3:10] = self.arm_target
        self.sleep_all()

    def sleep_all(self) -> None:
        """Puts everything to sleep, exactly where it is, that can sleep and does not touch the
        robot.

        MuJoCo puts trees to sleep at the end of a step, when they have been slow for some steps. A
        step of length zero, in which every speed counts as slow, is the public way to do that at
        once.
        """
        model, data = self.model, self.data
        time, tolerance = data.time, model.opt.sleep_tolerance
        data.qvel[:] = 0.0
        data.tree_asleep[self._can_sleep & (data.tree_asleep < 0)] = -1
        model.opt.timestep, model.opt.sleep_tolerance = 1e-12, 1e9
        mujoco.mj_step(model, data)
        model.opt.timestep, model.opt.sleep_tolerance = PHYSICS_DT, tolerance
        data.time = time
        data.qvel[:] = 0.0
        mujoco.mj_forward(model, data)

    def _object_qpos(self, count: int) -> np.ndarray:
        """Addresses of the first `count` numbers of every object's pose, [num_objects, count]."""
        return np.array(self._slot_qpos[: self._num_objects])[:, None] + np.arange(count)

    def drift(self, num_steps: int) -> float:
        """How far (m, along an axis) any object moves within `num_steps` control steps, all awake.

        The robot holds still meanwhile. The world is left as it is at the end: reset it afterwards.
        """
        if not self._num_objects:
            return 0.0
        model, data = self.model, self.data
        positions = self._object_qpos(3)
        start = data.qpos[positions]
        data.qvel[:] = 0.0
        for address in self._slot_dof[: self._num_objects]:
            data.qvel[address : address + 6] = 1e-6  # wakes it
        data.qvel[list(self._joint_dof.values())] = 1e-6
        bodies = np.array(self._slot_body[: self._num_objects])
        for step in range(num_steps * SUBSTEPS):
            mujoco.mj_step(model, data)
            is_still = step == TOUCHDOWN and all_rest(model, data, bodies)
            if is_still or (data.tree_asleep[self._can_sleep] >= 0).all():
                break  # the remaining steps would move nothing
        return float(np.abs(data.qpos[positions] - start).max())

    # --- step ----------------------------------------------------------------------------------

    def step(self, arm_delta, grip: float | None, base) -> None:
        """One control step of 1/30 s.

        Args:
            arm_delta: [7] in [-1, 1], times 0.0125 rad added to the motor targets.
            grip: >= 0 suction on, < 0 off, None leaves it as it is.
            base: forward and turn in [-1, 1], times 1.0 m/s and 2.5 rad/s.
        """
        self.begin_step(arm_delta, grip, base)
        self.run_step()
        self.end_step()

    def begin_step(self, arm_delta, grip: float | None, base) -> int:
        """The first third of `step`; returns what `substep_kernel.run_worlds` takes."""
        data = self.data
        self._suction.update(data, grip)
        target = self.arm_target + fetch.MAX_ARM_STEP * np.asarray(arm_delta, dtype=float)
        if (lead := self.motor_lead) is not None:
            now = data.qpos[self._arm]
            np.clip(target, now - lead, now + lead, out=target)
            np.clip(target, fetch.ARM_LOWER, fetch.ARM_UPPER, out=target)
        self.arm_target = target
        ctrl = data.ctrl
        ctrl[3:10] = target
        ctrl[2] = fetch.MAX_BASE_TURN * float(base[1])
        self._forces.begin_step()
        speed = fetch.MAX_BASE_SPEED * float(base[0])
        return self._substepper.begin(data, speed, self._suction.held_geom)

    def run_step(self) -> None:
        """The second third of `step`; or `run_worlds`, for any number of simulations at once."""
        self._substepper.run()

    def end_step(self) -> None:
        """The last third of `step`."""
        self.is_sound = self._substepper.end(self.data, self._forces)
        self._forces.end_step()
        self.hold_violation = self._suction.is_violated(self.data)

    # --- the robot -----------------------------------------------------------------------------

    @property
    def base_pose(self) -> tuple[float, float, float]:
        """x, y [m] and yaw [rad], not wrapped."""
        qpos = self.data.qpos  # one by one: a list as index takes six times as long
        x, y, yaw = self._base_qpos
        return float(qpos[x]), float(qpos[y]), float(qpos[yaw])

    @property
    def base_turn_rate(self) -> float:
        """Angular speed of the base, rad/s, positive to the left."""
        return float(self.data.qvel[self._base_qvel[2]])

    @property
    def base_speed(self) -> float:
        """Forward speed of the base, m/s."""
        x, y, _ = self.data.qvel[self._base_qvel]
        yaw = self.data.qpos[self._base_qpos[2]]
        return float(x * math.cos(yaw) + y * math.sin(yaw))

    @property
    def arm_qpos(self) -> np.ndarray:
        """Arm angles, [7] rad, a copy."""
        return self.data.qpos[self._arm].copy()

    @property
    def ee_pos_w(self) -> np.ndarray:
        """End effector (the nozzle's tip), [3], a copy."""
        return self.data.site_xpos[self._ee_site].copy()

    @property
    def ee_rot_w(self) -> np.ndarray:
        """End effector's axes as columns, [3, 3], a copy."""
        return self.data.site_xmat[self._ee_site].reshape(3, 3).copy()

    @property
    def ee_pos_b(self) -> np.ndarray:
        """End effector in the base frame, [3]."""
        return self.world_to_base(self.data.site_xpos[self._ee_site])

    def world_to_base(self, point) -> np.ndarray:
        """A world point in the base frame, [3]."""
        rotation = self.data.xmat[self._base_body].reshape(3, 3)
        return (point - self.data.xpos[self._base_body]) @ rotation

    def world_to_ee(self, point) -> np.ndarray:
        """A world point in the end effector's frame, [3]."""
        rotation = self.data.site_xmat[self._ee_site].reshape(3, 3)
        return (point - self.data.site_xpos[self._ee_site]) @ rotation

    # --- the home ------------------------------------------------------------------------------

    @property
    def layout(self) -> Layout:
        """The home of the last reset; there is none before the first."""
        assert self._layout is not None
        return self._layout

    @property
    def num_objects(self) -> int:
        """Objects of the scene."""
        return self._num_objects

    def object_kind(self, index: int) -> ObjectKind:
        """Kind of an object."""
        assert self.scene is not None
        return KINDS[self.scene.objects[index].kind]

    def object_geom(self, index: int) -> int:
        """Geom id of an object."""
        return int(self.model.body_geomadr[self._slot_body[index]])

    def object_pos_w(self, index: int) -> np.ndarray:
        """Centre of an object, [3], a copy."""
        return self.data.xpos[self._slot_body[index]].copy()

    @property
    def objects_pos_w(self) -> np.ndarray:
        """Centres of all objects of the scene, [N, 3], a copy."""
        return self.data.xpos[self._slot_body[: self._num_objects]]

    def object_quat_w(self, index: int) -> np.ndarray:
        """Orientation of an object, [4] wxyz, a copy."""
        return self.data.xquat[self._slot_body[index]].copy()

    def joint_position(self, name: str) -> float:
        """Opening of a drawer (m) or fridge door (rad)."""
        return float(self.data.qpos[self._joint_qpos[name]])

    def joint_velocity(self, name: str) -> float:
        """Speed of a drawer (m/s) or fridge door (rad/s)."""
        return float(self.data.qvel[self._joint_dof[name]])

    def marker_pos_w(self, marker: str) -> np.ndarray:
        """Middle of a handle, [3], a copy."""
        return self.data.site_xpos[self._marker_site[marker]].copy()

    # --- holding -------------------------------------------------------------------------------

    @property
    def held_object(self) -> int | None:
        """Number of the held object."""
        return self._suction.slot

    @property
    def held_marker(self) -> str | None:
        """Marker of the held handle."""
        return None if self._suction.joint is None else fur.MARKER_OF_JOINT[self._suction.joint]

    @property
    def is_holding(self) -> bool:
        """Whether an object or a handle is held."""
        return self._suction.slot is not None or self._suction.joint is not None

    @property
    def hold_stretch(self) -> float:
        """How far what is held has moved from where it was gripped, m."""
        return self._suction.stretch(self.data)

    def drop(self) -> None:
        """Releases whatever is held."""
        self._suction.release(self.data)

    def snap_object(self, index: int) -> None:
        """Puts an object upright under the gripper's tip, held: Place and Navigate start so."""
        kind = self.object_kind(index)
        self.drop()
        data, address = self.data, self._slot_qpos[index]
        # The object hangs from the nozzle: its nearest side along the approach touches the tip.
        approach = self.ee_rot_w[:, 0]
        data.qpos[address : address + 3] = self.ee_pos_w + approach * kind.support(approach)
        data.qpos[address + 3 : address + 7] = (1.0, 0.0, 0.0, 0.0)
        data.qvel[self._slot_dof[index] : self._slot_dof[index] + 6] = 0.0
        mujoco.mj_kinematics(self.model, data)
        self._suction.hold_object(data, index)
        self.sleep_all()

    # --- forces --------------------------------------------------------------------------------

    @property
    def force_instant(self) -> float:
        """Largest contact force of the robot or the held object in the last control step, N."""
        return self._forces.instant

    @property
    def force_accum(self) -> float:
        """Force accumulated over the episode (hab-spec 1.8), N."""
        return self._forces.accum

    @property
    def force_added(self) -> float:
        """What the last control step added to the accumulated force, N."""
        return self._forces.added

    @property
    def collisions(self) -> dict[str, int]:
        """Control steps with contact so far, by what touched what."""
        f = self._forces
        return {
            "robot_object": f.robot_object,
            "robot_scene": f.robot_scene,
            "held_scene": f.held_scene,
        }

    def has_robot_contact(self) -> bool:
        """Whether the robot, or what it holds, touches anything now."""
        pairs = self.data.contact.geom
        if not len(pairs):
            return False
        robot = self._robot_geoms[pairs]
        held = self._suction.held_geom
        touched = robot[:, 0] != robot[:, 1]
        if held >= 0:
            is_held = pairs == held
            touched = (touched | is_held.any(axis=1)) & ~(robot.any(axis=1) & is_held.any(axis=1))
        return bool(touched.any())

    def stateful_parts(self) -> dict[str, Suction | ForceMeter]:
        """The parts that keep a state of their own during an episode, by name; for
        `world_state`."""
        return {"suction": self._suction, "forces": self._forces}

    def floor_plan(self, radius: float = fetch.BASE_RADIUS) -> FloorPlan:
        """Free floor with drawers and doors as they stand now, around what lies on the floor."""
        return self._floor.plan(self, radius)

    def check_finite(self) -> bool:
        """Whether positions and velocities are finite numbers."""
        return bool(np.isfinite(self.data.qpos).all() and np.isfinite(self.data.qvel).all())


assert PARKED_Z < -5.0  # the depth kernel culls what is parked below this
