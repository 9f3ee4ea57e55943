"""Fetch with the suction gripper as a URDF, its links numbered as habitat-lab needs them.

    root (y up) 0 base_link --- 1 estop | 2 l_wheel | 3 laser | 4 r_wheel | 5 torso_fixed
                             \\- 6 torso_lift --- 7 bellows
                                              |- 8 head_pan - 9 head_tilt - 10..14 cameras
                                              \\- 15..21 arm - 22 gripper - 23 suction

habitat-lab addresses wheels 2 and 4, lift 6, head 8 and 9, arm 15 to 21, gripper 22 and suction 23
by number, and puts the lift at 0.15 m (hab-spec 1.1 and 11). Suction has to be a joint that moves,
by 0.1 mm here; only what link 23 touches can be gripped, so palm and nozzle are of that link. Names
and places of what carries no shape here are those of Fetch's public URDF (fetch_ros at 9c38de6,
fetch_description/robots/fetch.urdf); shapes, masses, limits and torques are those of our model.
"""

from __future__ import annotations

import math

from rearrange.habitat.axes import TO_Z_UP_RPY
from rearrange.habitat.contact import FRICTION
from rearrange.habitat.solids import Solid, capsule, inside_out, turned_along
from rearrange.habitat.urdf import Joint, Link, Robot, Shape, Vector, along
from rearrange.sim.robot import fetch

LIFT = 0.15  # m, where habitat-lab holds the torso, and where it stands in our model
LIFT_ORIGIN = (-0.086875, 0.0, 0.37743)  # m, torso_lift_link in base_link
_TORSO_FIXED_ORIGIN = (-0.086875, 0.0, 0.377425)  # m, torso_fixed_link in base_link
_LIFT_RANGE = (0.0, 0.38615)  # m
_LIFT_BRAKE = 100.0  # N s: it holds the torso (fetch_description has the same damping)
_TILT = math.pi / 2  # rad, where habitat-lab sets the head; Fetch's own ends at 1.45
_HERE: Vector = (0.0, 0.0, 0.0)
_OPTICAL_RPY: Vector = (-math.pi / 2, 0.0, -math.pi / 2)  # z forward, x right
_SUCTION_TRAVEL = 1e-4  # m
_DARK, _ORANGE = (0.30, 0.33, 0.38), (0.85, 0.42, 0.16)
SUCTION = "suction_link"


def fetch_robot() -> Robot:
    """The robot; the root's frame lies on the floor, x forward, y up."""
    robot = Robot("hab_suction", friction=FRICTION)
    _add_body(robot)
    _add_head(robot)
    _add_arm(robot)
    return robot


def arm_insides() -> dict[str, Solid]:
    """The arm's links from within, by the names of their files.

    A start posture may put the upper arm around the head's camera. Habitat draws faces from outside
    alone, so it would see through the arm, and ours sees the arm.
    """
    return {
        _inside_file(joint.name): inside_out(
            turned_along(capsule(radius, math.dist(start, end) / 2, _ORANGE), start, end)
        )
        for joint, (_, start, end, radius) in zip(fetch.ARM_JOINTS, fetch.ARM_CAPSULES, strict=True)
    }


def _inside_file(joint: str) -> str:
    return f"{joint}_inside.glb"


def _fixed(
    robot: Robot, joint: str, parent: str, child: str, origin=_HERE, rpy: Vector = _HERE
) -> None:
    robot.links.append(Link(child))
    robot.joints.append(Joint(joint, "fixed", parent, child, origin, rpy))


def _add_body(robot: Robot) -> None:
    base, torso, head = fetch.BASE_GEOMS
    robot.links.append(Link("root"))
    shapes = (_base_shape(base), _base_shape(torso), _base_shape(head))
    robot.links.append(Link("base_link", fetch.BASE_MASS, shapes=shapes))
    robot.joints.append(Joint("root_to_base", "fixed", "root", "base_link", rpy=TO_Z_UP_RPY))
    estop = (-0.12465, 0.23892, 0.31127)
    _fixed(robot, "estop_joint", "base_link", "estop_link", estop, (math.pi / 2, 0.0, 0.0))
    _fixed(robot, "laser_joint", "base_link", "laser_link", fetch.LASER_POS_B, (math.pi, 0.0, 0.0))
    _fixed(robot, "torso_fixed_joint", "base_link", "torso_fixed_link", _TORSO_FIXED_ORIGIN)
    for side, y in (("l", 0.18738), ("r", -0.18738)):
        link = f"{side}_wheel_link"
        robot.links.append(Link(link))
        origin = (0.0012914, y, 0.055325)
        robot.joints.append(
            Joint(f"{side}_wheel_joint", "continuous", "base_link", link, origin,
                  axis=(0.0, 1.0, 0.0), effort=8.85, velocity=17.4)
        )  # fmt: skip
    robot.links.append(Link("torso_lift_link"))
    robot.joints.append(
        Joint("torso_lift_joint", "prismatic", "base_link", "torso_lift_link", LIFT_ORIGIN,
              axis=(0.0, 0.0, 1.0), limits=_LIFT_RANGE, effort=450.0, velocity=0.1,
              damping=_LIFT_BRAKE)
    )  # fmt: skip
    _fixed(robot, "bellows_joint", "torso_lift_link", "bellows_link")


def _base_shape(geom: tuple[str, str, tuple[float, ...], tuple[float, float, float]]) -> Shape:
    _, shape, size, pos = geom
    if shape == "cylinder":
        return Shape("cylinder", (size[0], 2 * size[1]), pos, rgb=_DARK)
    return Shape("box", tuple(2 * v for v in size), pos, rgb=_DARK)


def _add_head(robot: Robot) -> None:
    for name, parent, origin, axis, limits, effort in (
        ("head_pan", "torso_lift_link", (0.053125, 0.0, 0.603001), (0.0, 0.0, 1.0),
         (-1.57, 1.57), 0.32),
        ("head_tilt", "head_pan_link", (0.14253, 0.0, 0.057999), (0.0, 1.0, 0.0),
         (-0.76, _TILT), 0.68),
    ):  # fmt: skip
        robot.links.append(Link(f"{name}_link"))
        robot.joints.append(
            Joint(f"{name}_joint", "revolute", parent, f"{name}_link", origin, axis=axis,
                  limits=limits, effort=effort, velocity=1.57, damping=1.0)
        )  # fmt: skip
    camera = "head_camera_link"
    _fixed(robot, "head_camera_joint", "head_tilt_link", camera, (0.055, 0.0, 0.0225))
    for eye, left in (("depth", 0.045), ("rgb", 0.02)):
        frame = f"head_camera_{eye}_frame"
        _fixed(robot, f"head_camera_{eye}_joint", camera, frame, (0.0, left, 0.0))
        optical = f"head_camera_{eye}_optical"
        _fixed(robot, f"{optical}_joint", frame, f"{optical}_frame", rpy=_OPTICAL_RPY)


def _add_arm(robot: Robot) -> None:
    parent = "torso_lift_link"
    for i, joint in enumerate(fetch.ARM_JOINTS):
        x, y, z = joint.origin
        if i == 0:  # ours is given from the base, with the torso lifted
            x, y, z = x - LIFT_ORIGIN[0], y - LIFT_ORIGIN[1], z - LIFT_ORIGIN[2] - LIFT
        _, start, end, radius = fetch.ARM_CAPSULES[i]
        middle, rpy, length = along(start, end)
        shape = Shape("capsule", (radius, length), middle, rpy, _ORANGE)
        link = f"{joint.name}_link"
        inertia, inside = _capsule_inertia(i), _inside_file(joint.name)
        robot.links.append(Link(link, joint.link_mass, inertia, (shape,), inside=inside))
        robot.joints.append(
            Joint(
                f"{joint.name}_joint", "revolute", parent, link, (x, y, z), axis=joint.axis,
                limits=(joint.lower, joint.upper), effort=joint.effort,
                velocity=joint.max_velocity, damping=fetch.joint_damping(joint),
            )
        )  # fmt: skip
        parent = link
    _fixed(robot, "gripper_axis", parent, "gripper_link", fetch.GRIPPER_OFFSET)
    nozzle, rpy, length = along((fetch.NOZZLE_FROM, 0.0, 0.0), fetch.EE_OFFSET)
    shapes = (
        Shape("box", tuple(2 * v for v in fetch.PALM_HALF), fetch.PALM_POS, rgb=_ORANGE),
        Shape("cylinder", (fetch.NOZZLE_RADIUS, length), nozzle, rpy, _ORANGE),
    )
    box_inertia = tuple(
        fetch.GRIPPER_MASS * sum(h * h for k, h in enumerate(fetch.PALM_HALF) if k != axis) / 3
        for axis in range(3)
    )
    x, y, z = box_inertia
    robot.links.append(Link(SUCTION, fetch.GRIPPER_MASS, (x, y, z), shapes))
    robot.joints.append(
        Joint("suction_joint", "prismatic", "gripper_link", SUCTION,
              limits=(0.0, _SUCTION_TRAVEL), effort=60.0, velocity=0.05)
    )  # fmt: skip


def _capsule_inertia(number: int) -> tuple[float, float, float]:
    """Of an arm's link, as a rod along x from its joint, kg m^2."""
    mass = fetch.ARM_JOINTS[number].link_mass
    _, start, end, radius = fetch.ARM_CAPSULES[number]
    a, b = math.dist((0.0, 0.0, 0.0), start), math.dist((0.0, 0.0, 0.0), end)
    across = mass * ((a * a + a * b + b * b) / 3 + radius * radius / 4)
    return mass * radius * radius / 2, across, across
