"""The one MuJoCo model: house, objects and Fetch, compiled once.

An apartment is a set of numbers written into it. All apartments share this topology (same bodies,
joints, geoms). What differs between them (where furniture stands, how long walls are, what the
objects are) is written by `apartment.py` at reset, which takes a millisecond where a recompile
takes hundreds, and would allow batched simulation on a GPU.

Who collides with whom (MuJoCo: contype of one meets conaffinity of the other):

    house, drawers, doors  contype HOUSE   conaffinity 0               hits nothing in the house
    objects                contype OBJECT  conaffinity HOUSE | OBJECT
    robot                  contype ROBOT   conaffinity HOUSE | OBJECT  held objects drop contype
    forearm, wrist, hand   contype DISTAL  meets the robot's own base, torso and head
"""

from __future__ import annotations

import copy
from functools import lru_cache

import mujoco
import numpy as np

from rearrange.sim.home import furniture as fur
from rearrange.sim.home.objects import NUM_SLOTS
from rearrange.sim.homes.kinds import EXTRA_BOXES, NUM_EXTRAS
from rearrange.sim.homes.rooms import NUM_WALLS
from rearrange.sim.robot import fetch

PHYSICS_DT = 1.0 / 120.0  # s, hab-spec 1.7
SUBSTEPS = 4  # 30 Hz control
# Contacts as stiff as the time step allows: with MuJoCo's defaults (0.02 s; 0.9, 0.95) a rammed
# wall and an object between robot and floor were penetrated by 30 to 40 mm. MuJoCo raises this time
# constant to two time steps, so that contacts are stiffer in the shorter steps of fast bodies: with
# 1/60 s there too, a fall from a counter went 28 mm into the floor, a hand 25 mm into a wall.
CONTACT_SOLREF = (1e-4, 1.0)  # s, damping ratio
CONTACT_SOLIMP = (0.95, 0.99, 0.001, 0.5, 2.0)
HOUSE, OBJECT, ROBOT, DISTAL = 1, 2, 4, 8
GROUP_HOUSE, GROUP_ARTICULATED, GROUP_OBJECT, GROUP_ROBOT, GROUP_UNSEEN = 0, 1, 2, 3, 4
NUM_HAB_WALLS = 12
WALL_HEIGHT = 2.4  # m
PARKED_Z = -10.0  # m, where unused things wait
HOUSE_FRICTION = (0.7, 0.005, 0.0005)
# Fruit and lying cans must not roll for ever: a rolling coefficient of 2 mm, as for slightly soft
# fruit on wood.
OBJECT_FRICTION = (0.7, 0.01, 0.002)
GRIPPER_GEOMS = ("palm", "nozzle")
BASE_HULL_SIDES = 24  # between 279 and 281 mm where the cylinder has 280

SHAPES = {
    "box": mujoco.mjtGeom.mjGEOM_BOX,
    "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER,
    "sphere": mujoco.mjtGeom.mjGEOM_SPHERE,
}
CONDIM = {"box": 4, "cylinder": 6, "sphere": 6}  # 6: rolling has friction too


def object_body(slot: int) -> str:
    """Name of the body of object slot `slot`."""
    return f"object_{slot:02d}"


def extra_body(number: int) -> str:
    """Name of the body of a piece of furniture that only procedural homes have."""
    return f"extra_{number:02d}"


def speed_limit(joint: str) -> str:
    """Name of the constraint that can hold an arm joint to a speed; see `substep`."""
    return f"speed_{joint}"


def new_model() -> mujoco.MjModel:
    """A model to write into: a copy of the one compiled in this process, which saves 7 ms."""
    return copy.copy(_compiled())


@lru_cache(maxsize=1)
def _compiled() -> mujoco.MjModel:
    return build_spec().compile()


def build_spec() -> mujoco.MjSpec:
    """The house, the objects and the robot as an editable MjSpec, all at their parking places."""
    spec = mujoco.MjSpec()
    spec.modelname = "rearrange"
    spec.compiler.degree = False
    option = spec.option
    option.timestep = PHYSICS_DT
    option.gravity = [0.0, 0.0, -9.81]
    option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    option.enableflags |= mujoco.mjtEnableBit.mjENBL_SLEEP
    option.iterations = 30
    option.sleep_tolerance = 3e-3  # m/s
    spec.default.geom.solref, spec.default.geom.solimp = CONTACT_SOLREF, CONTACT_SOLIMP
    spec.visual.global_.offwidth, spec.visual.global_.offheight = 1280, 960

    world = spec.worldbody
    world.add_geom(
        name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[20, 20, 0.1],
        rgba=[0.66, 0.58, 0.48, 1], contype=HOUSE, conaffinity=0,
        group=GROUP_HOUSE, friction=HOUSE_FRICTION,
    )  # fmt: skip
    world.add_light(pos=[4, 3, 6], dir=[0.2, 0.1, -1], type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL)
    for i in range(NUM_HAB_WALLS):
        _add_wall(world, i)
    for i, piece in enumerate(fur.PIECES.values()):
        _add_piece(world.add_body(name=piece.name, pos=[3.0 * i, 10, PARKED_Z]), piece)
    for slot in range(NUM_SLOTS):
        _add_object(world, slot)
    _add_fetch(spec)
    # What only procedural homes use comes last, so that all else keeps its index.
    for i in range(NUM_HAB_WALLS, NUM_WALLS):
        _add_wall(world, i)
    for i in range(NUM_EXTRAS):
        extra = world.add_body(name=extra_body(i), pos=[2.0 * i, -10, PARKED_Z])
        for k in range(EXTRA_BOXES):
            _add_box(extra, f"{extra_body(i)}_{k:02d}", (0, 0, 0.1 * k), (0.2, 0.2, 0.05), fur.WOOD)
    _add_grasp_constraints(spec)
    _add_speed_limits(spec)
    return spec


def _add_wall(world, number: int) -> None:
    name = f"wall_{number:02d}"
    wall = world.add_body(name=name, pos=[2.0 * number, 0, PARKED_Z])
    _add_box(wall, name, (0, 0, 0), (0.5, 0.05, WALL_HEIGHT / 2), (0.85, 0.83, 0.79))


def _add_box(body, name, pos, half, rgb, group=GROUP_HOUSE, mass=0.0):
    return body.add_geom(
        name=name, type=mujoco.mjtGeom.mjGEOM_BOX, pos=pos, size=half, rgba=[*rgb, 1.0], mass=mass,
        contype=HOUSE, conaffinity=0, group=group, friction=HOUSE_FRICTION,
    )  # fmt: skip


def _add_piece(body, piece: fur.Piece) -> None:
    for i, box in enumerate(piece.boxes):
        _add_box(body, f"{piece.name}_{i:02d}", box.pos, box.half, box.rgb)
    if piece.name == "counter":
        for name in fur.DRAWERS:
            _add_drawer(body, name)
    if piece.name == "fridge":
        for name in fur.FRIDGE_DOORS:
            _add_door(body, name)


def _add_drawer(counter, name: str) -> None:
    """An open box that slides out along +x, with a bar handle in front of it."""
    y, bottom, top = fur.DRAWERS[name]
    middle = (bottom + top) / 2
    drawer = counter.add_body(
        name=name, pos=[0, y, middle], sleep=mujoco.mjtSleepPolicy.mjSLEEP_ALLOWED
    )
    drawer.add_joint(
        name=name, type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[1, 0, 0], range=[0, fur.DRAWER_TRAVEL],
        limited=mujoco.mjtLimited.mjLIMITED_TRUE, damping=[8.0, 0, 0], frictionloss=2.0,
    )  # fmt: skip
    boxes = fur.drawer_boxes(bottom, top, fur.DRAWER_HALF_WIDTH)
    handle = boxes.pop("handle")
    for part, (pos, half) in boxes.items():
        rgb = fur.WHITE if part == "front" else fur.WOOD
        _add_box(drawer, f"{name}_{part}", pos, half, rgb, GROUP_ARTICULATED, fur.DRAWER_MASS / 6)
    _add_handle(drawer, name, *handle)


def _add_door(fridge, name: str) -> None:
    bottom, top, mass = fur.FRIDGE_DOORS[name]
    middle = (bottom + top) / 2
    door = fridge.add_body(
        name=name, pos=[*fur.FRIDGE_HINGE, middle], sleep=mujoco.mjtSleepPolicy.mjSLEEP_ALLOWED
    )
    door.add_joint(
        name=name, type=mujoco.mjtJoint.mjJNT_HINGE, axis=[0, 0, 1],
        range=[0, fur.FRIDGE_DOOR_RANGE], limited=mujoco.mjtLimited.mjLIMITED_TRUE,
        damping=[1.0, 0, 0], frictionloss=0.5,
    )  # fmt: skip
    boxes = fur.door_boxes(name, fur.FRIDGE)
    _add_box(door, f"{name}_panel", *boxes["panel"], fur.WHITE, GROUP_ARTICULATED, mass)
    if "handle" in boxes:
        _add_handle(door, name, *boxes["handle"])


def _add_handle(body, name: str, pos, half) -> None:
    """A bar that suction can grip; `marker` in HAB's words, at the bar's middle."""
    _add_box(
        body, f"{name}_handle", pos, half, (0.25, 0.25, 0.27), GROUP_ARTICULATED, fur.HANDLE_MASS
    )
    body.add_site(name=f"{name}_marker", pos=pos, size=[0.01], group=5)


def _add_object(world, slot: int) -> None:
    """A small box; `apartment.py` turns it into what an episode needs, shape and all."""
    name = object_body(slot)
    body = world.add_body(
        name=name, pos=[0.5 * slot, 20, PARKED_Z], sleep=mujoco.mjtSleepPolicy.mjSLEEP_ALLOWED
    )
    body.add_freejoint(name=name)
    body.add_geom(
        name=name, type=SHAPES["box"], size=[0.03, 0.03, 0.03], mass=0.2, group=GROUP_OBJECT,
        contype=OBJECT, conaffinity=HOUSE | OBJECT, friction=OBJECT_FRICTION,
        condim=CONDIM["box"], rgba=[0.7, 0.7, 0.7, 1],
    )  # fmt: skip


def _add_fetch(spec: mujoco.MjSpec) -> None:
    base = spec.worldbody.add_body(name="base_link", gravcomp=1.0)
    slide, hinge = mujoco.mjtJoint.mjJNT_SLIDE, mujoco.mjtJoint.mjJNT_HINGE
    base.add_joint(name="base_x", type=slide, axis=[1, 0, 0])
    base.add_joint(name="base_y", type=slide, axis=[0, 1, 0])
    base.add_joint(name="base_yaw", type=hinge, axis=[0, 0, 1])
    volumes = (0.55, 0.35, 0.10)  # share of the base's mass: batteries and drive sit low
    for (name, shape, size, pos), share in zip(fetch.BASE_GEOMS, volumes, strict=True):
        base.add_geom(
            name=name, type=SHAPES[shape], size=size if shape == "box" else [size[0], size[1], 0],
            pos=pos, mass=fetch.BASE_MASS * share, contype=ROBOT,
            conaffinity=OBJECT | DISTAL | (0 if name == "base" else HOUSE),
            group=GROUP_ROBOT, rgba=[0.30, 0.33, 0.38, 1],
        )  # fmt: skip
    _add_base_hull(spec, base)
    _add_camera(
        base, "head", fetch.HEAD_CAMERA_POS_B, fetch.HEAD_CAMERA_TARGET_B, fetch.HEAD_CAMERA_FOV_DEG
    )
    body = base
    for i, joint in enumerate(fetch.ARM_JOINTS):
        body = body.add_body(name=f"{joint.name}_link", pos=joint.origin, gravcomp=1.0)
        body.add_joint(
            name=joint.name, type=hinge, axis=joint.axis, range=[joint.lower, joint.upper],
            limited=mujoco.mjtLimited.mjLIMITED_TRUE, damping=[fetch.joint_damping(joint), 0, 0],
            armature=fetch.ARM_ARMATURE[i],
        )  # fmt: skip
        _, start, end, radius = fetch.ARM_CAPSULES[i]
        _add_robot_geom(
            body, f"{joint.name}_capsule", mujoco.mjtGeom.mjGEOM_CAPSULE, [radius, 0, 0],
            joint.link_mass, is_distal=i >= 3, fromto=[*start, *end],
        )  # fmt: skip
    gripper = body.add_body(name="gripper_link", pos=fetch.GRIPPER_OFFSET, gravcomp=1.0)
    _add_robot_geom(
        gripper, "palm", mujoco.mjtGeom.mjGEOM_BOX, fetch.PALM_HALF, fetch.GRIPPER_MASS * 0.9, True,
        pos=fetch.PALM_POS,
    )  # fmt: skip
    _add_robot_geom(
        gripper, "nozzle", mujoco.mjtGeom.mjGEOM_CYLINDER, [fetch.NOZZLE_RADIUS, 0, 0],
        fetch.GRIPPER_MASS * 0.1, True, fromto=[fetch.NOZZLE_FROM, 0, 0, *fetch.EE_OFFSET],
    )  # fmt: skip
    _add_camera(
        gripper, "arm", fetch.ARM_CAMERA_POS, fetch.ARM_CAMERA_TARGET, fetch.ARM_CAMERA_FOV_DEG
    )
    gripper.add_site(name="ee", pos=fetch.EE_OFFSET, size=[0.01], group=5)
    for side, y in (("r", 0.015425), ("l", -0.015425)):  # cosmetic: suction does the holding
        finger = gripper.add_body(name=f"{side}_gripper_finger_link", pos=[0, y, 0], gravcomp=1.0)
        finger.add_geom(
            name=f"{side}_finger", type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.02, 0.008, 0.012],
            mass=fetch.FINGER_MASS, contype=0, conaffinity=0, group=GROUP_UNSEEN,
        )  # fmt: skip
    for link in (
        "shoulder_lift_link",
        "upperarm_roll_link",
    ):  # they turn inside the shoulder's hull
        spec.add_exclude(name=f"base_{link}", bodyname1="base_link", bodyname2=link)
    _add_motors(spec)


def _add_camera(body, name: str, pos, target, fov_deg: float) -> None:
    """A camera that looks at a point ahead, both in the body's frame, with y to its left."""
    forward = np.array(target) - np.array(pos)
    forward /= np.linalg.norm(forward)
    right = np.array([0.0, -1.0, 0.0])
    # MuJoCo's cameras look along their -z, with x to the right and y up.
    rotation = np.column_stack([right, np.cross(right, forward), -forward])
    quat = np.empty(4)
    mujoco.mju_mat2Quat(quat, rotation.flatten())
    body.add_camera(name=name, pos=pos, quat=quat, fovy=fov_deg)


def _add_base_hull(spec: mujoco.MjSpec, base) -> None:
    """The base's collision shape: a prism with 24 sides and the area of its cylinder.

    Where a cylinder's side meets a box's edge, MuJoCo 4.0 takes the normal of the box's nearest
    face, and so lets the base glide centimetres into the end of a wall. For a prism against a box
    depth and normal are right.
    """
    (name, _, (radius, half, _), (_, _, middle)), count = fetch.BASE_GEOMS[0], BASE_HULL_SIDES
    angle = 2 * np.pi * (np.arange(count) + 0.5) / count
    corner = radius * np.sqrt(2 * np.pi / (count * np.sin(2 * np.pi / count)))
    ring = np.column_stack([corner * np.cos(angle), corner * np.sin(angle)])
    levels = [np.column_stack([ring, np.full(count, z)]) for z in (middle - half, middle + half)]
    spec.add_mesh(name=f"{name}_hull", uservert=np.concatenate(levels).ravel())
    base.add_geom(
        name=f"{name}_hull", type=mujoco.mjtGeom.mjGEOM_MESH, meshname=f"{name}_hull", mass=0.0,
        contype=ROBOT, conaffinity=HOUSE, group=GROUP_UNSEEN,
        friction=fetch.BASE_FRICTION, priority=1,  # not the larger of both
    )  # fmt: skip


def _add_robot_geom(body, name, shape, size, mass, is_distal, **where) -> None:
    body.add_geom(
        name=name, type=shape, size=size, mass=mass, contype=ROBOT | (DISTAL if is_distal else 0),
        conaffinity=HOUSE | OBJECT, group=GROUP_ROBOT, rgba=[0.85, 0.42, 0.16, 1], **where,
    )  # fmt: skip


def _add_motors(spec: mujoco.MjSpec) -> None:
    limits = {
        "base_x": (fetch.BASE_KV, fetch.BASE_FORCE),
        "base_y": (fetch.BASE_KV, fetch.BASE_FORCE),
    }
    limits["base_yaw"] = (fetch.BASE_TURN_KV, fetch.BASE_TORQUE)
    for name, (kv, force) in limits.items():
        motor = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        motor.set_to_velocity(kv=kv)
        motor.forcerange, motor.forcelimited = [-force, force], mujoco.mjtLimited.mjLIMITED_TRUE
    for i, joint in enumerate(fetch.ARM_JOINTS):
        motor = spec.add_actuator(
            name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT
        )
        motor.set_to_position(kp=fetch.ARM_KP[i], kv=fetch.ARM_KV[i])
        motor.forcerange = [-joint.effort, joint.effort]
        motor.forcelimited = mujoco.mjtLimited.mjLIMITED_TRUE


def _add_grasp_constraints(spec: mujoco.MjSpec) -> None:
    """One weld per object slot, one ball joint per handle; all off until suction closes."""
    for slot in range(NUM_SLOTS):
        spec.add_equality(
            name=f"hold_{object_body(slot)}", type=mujoco.mjtEq.mjEQ_WELD, active=False,
            objtype=mujoco.mjtObj.mjOBJ_BODY, name1="gripper_link", name2=object_body(slot),
            solref=[0.01, 1.0],
        )  # fmt: skip
    for joint in fur.MARKER_OF_JOINT:
        spec.add_equality(
            name=f"hold_{joint}", type=mujoco.mjtEq.mjEQ_CONNECT, active=False,
            objtype=mujoco.mjtObj.mjOBJ_BODY, name1="gripper_link", name2=joint, solref=[0.02, 1.0],
        )  # fmt: skip


def _add_speed_limits(spec: mujoco.MjSpec) -> None:
    """A constraint per arm joint, off: it removes all but a ten-thousandth of an excess speed."""
    impedance = 0.9999
    for joint in fetch.ARM_JOINTS:
        spec.add_equality(
            name=speed_limit(joint.name), type=mujoco.mjtEq.mjEQ_JOINT, active=False,
            objtype=mujoco.mjtObj.mjOBJ_JOINT, name1=joint.name,
            solref=[-impedance / PHYSICS_DT**2, 0.0],
            solimp=[impedance, impedance, 0.001, 0.5, 2.0],
        )  # fmt: skip
