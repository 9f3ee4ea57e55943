"""Fetch, the robot: parameters with their sources, and its bodies as part of an MjSpec.

    floor -- base (x, y, yaw) -- shoulder_pan -- shoulder_lift -- upperarm_roll -- elbow_flex
          -- forearm_roll -- wrist_flex -- wrist_roll -- gripper (suction nozzle at its tip)

Frame of the base: x forward, y left, z up, origin on the floor. Torso lift is fixed at 0.15 m and
the head does not move, as in HAB. Numbers: the public hab_fetch_arm.urdf (Habitat-lab and
hab-mobile-manipulation), unless a line says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ArmJoint:
    """One revolute joint: where it sits in its parent, how far it turns, what its motor gives."""

    name: str
    origin: tuple[
        float, float, float
    ]  # m, in the parent link's frame; no link is rotated in its parent
    axis: tuple[float, float, float]
    lower: float  # rad
    upper: float  # rad
    is_continuous: bool
    effort: float  # N m
    max_velocity: float  # rad/s
    link_mass: float  # kg


_PI = float(np.pi)
ARM_JOINTS: tuple[ArmJoint, ...] = (
    ArmJoint(
        "shoulder_pan",
        (0.03265, 0.0, 0.87601),
        (0, 0, 1),
        -1.6056,
        1.6056,
        False,
        33.82,
        1.256,
        2.5587,
    ),
    ArmJoint(
        "shoulder_lift", (0.117, 0.0, 0.06), (0, 1, 0), -1.221, 1.518, False, 131.76, 1.454, 2.6615
    ),
    ArmJoint("upperarm_roll", (0.219, 0.0, 0.0), (1, 0, 0), -_PI, _PI, True, 76.94, 1.571, 2.3311),
    ArmJoint(
        "elbow_flex", (0.133, 0.0, 0.0), (0, 1, 0), -2.251, 2.251, False, 66.18, 1.521, 2.1299
    ),
    ArmJoint("forearm_roll", (0.197, 0.0, 0.0), (1, 0, 0), -_PI, _PI, True, 29.35, 1.571, 1.6563),
    ArmJoint("wrist_flex", (0.1245, 0.0, 0.0), (0, 1, 0), -2.16, 2.16, False, 25.7, 2.268, 1.725),
    ArmJoint("wrist_roll", (0.1385, 0.0, 0.0), (1, 0, 0), -_PI, _PI, True, 7.36, 2.268, 0.1354),
)
ARM_LOWER = np.array([joint.lower for joint in ARM_JOINTS])
ARM_UPPER = np.array([joint.upper for joint in ARM_JOINTS])
ARM_AXES = tuple(joint.axis.index(1) for joint in ARM_JOINTS)  # 0: x, 1: y, 2: z

GRIPPER_OFFSET = (0.16645, 0.0, 0.0)  # m, gripper_link in wrist_roll_link
GRIPPER_MASS = 1.5175  # kg
FINGER_MASS = 0.0798  # kg each; cosmetic with the suction gripper
BASE_MASS = 70.1294  # kg
EE_OFFSET = (
    0.08,
    0.0,
    0.0,
)  # m, end effector in gripper_link (habitat-lab fetch_suction.py): the nozzle's tip

ARM_START = np.array(
    [-0.45, -1.08, 0.1, 0.935, -0.001, 1.573, 0.005]
)  # rad, habitat-lab fetch_robot.py
EE_REST_B = np.array([0.5, 0.0, 1.0])  # m, base frame: `desired_resting_position` of habitat-lab
BASE_RADIUS = 0.3  # m, footprint used for navigation (habitat-lab: cylinder of 0.3 m)
MAX_BASE_SPEED = 1.0  # m/s, Fetch's own limit (Fetch Robotics data sheet)
MAX_BASE_TURN = 2.5  # rad/s, HAB's 0.0833 rad a control step; Fetch's own controller allows 4.5
MAX_ARM_STEP = 0.0125  # rad a control step: HAB's arm action scale, 0.375 rad/s at 30 Hz
HEAD_CAMERA_POS_B = (0.25, 0.0, 1.2)  # m
HEAD_CAMERA_TARGET_B = (0.75, 0.0, 1.0)  # m, the point it looks at: 21.8 degrees down
HEAD_CAMERA_FOV_DEG = 90.0
# On the gripper, looking down at what the nozzle is about to touch (habitat-lab fetch_robot.py).
ARM_CAMERA_POS, ARM_CAMERA_TARGET = (0.0, 0.0, 0.1), (0.1, 0.0, 0.0)  # m, in gripper_link
ARM_CAMERA_FOV_DEG = 90.0
LASER_POS_B = (0.235, 0.0, 0.2878)  # m, the laser scanner in the front of the base (fetch.urdf)
LASER_FOV_DEG = 220.0  # SICK TIM571 as built in (docs.fetchrobotics.com, "Robot Hardware Overview")


# --- the robot as bodies -------------------------------------------------------------------------
# Link shapes are ours: capsules and boxes that hold Fetch's hulls (drawings of
# robots.fetchrobotics.com). (link, from, to, radius) in the link's frame, m.
ARM_CAPSULES: tuple[
    tuple[str, tuple[float, float, float], tuple[float, float, float], float], ...
] = (
    ("shoulder_pan", (0.03, 0.0, 0.02), (0.117, 0.0, 0.06), 0.055),
    ("shoulder_lift", (0.0, 0.0, 0.0), (0.219, 0.0, 0.0), 0.055),
    ("upperarm_roll", (0.02, 0.0, 0.0), (0.12, 0.0, 0.0), 0.055),
    ("elbow_flex", (0.0, 0.0, 0.0), (0.197, 0.0, 0.0), 0.055),
    ("forearm_roll", (0.02, 0.0, 0.0), (0.11, 0.0, 0.0), 0.05),
    ("wrist_flex", (0.0, 0.0, 0.0), (0.1385, 0.0, 0.0), 0.05),
    ("wrist_roll", (0.02, 0.0, 0.0), (0.08, 0.0, 0.0), 0.045),
)
PALM_POS, PALM_HALF = (-0.015, 0.0, 0.0), (0.045, 0.06, 0.035)  # gripper_link
NOZZLE_FROM, NOZZLE_RADIUS = 0.03, 0.02  # the suction nozzle runs from here to EE_OFFSET
BASE_GEOMS: tuple[tuple[str, str, tuple[float, ...], tuple[float, float, float]], ...] = (
    ("base", "cylinder", (0.28, 0.1825, 0.0), (0.0, 0.0, 0.1875)),  # 5 mm above the floor
    ("torso", "box", (0.11, 0.14, 0.34), (-0.09, 0.0, 0.70)),
    ("head", "box", (0.10, 0.12, 0.06), (0.02, 0.0, 1.11)),
)
# Motors: stiff enough that gravity-compensated links follow their targets within 0.04 rad, soft
# enough for 120 Hz (time constant kv/kp of 0.05 s); armature is the reflected inertia of geared
# motors.
ARM_KP = (800.0, 1200.0, 600.0, 800.0, 300.0, 300.0, 100.0)  # N m/rad
ARM_KV = (40.0, 60.0, 30.0, 40.0, 15.0, 15.0, 5.0)  # N m s/rad
ARM_ARMATURE = (0.5, 0.5, 0.3, 0.3, 0.1, 0.1, 0.05)  # kg m^2
BASE_KV, BASE_FORCE = (
    6000.0,
    500.0,
)  # N s/m, N: friction of four wheels under 110 kg allows about 600 N
BASE_TURN_KV, BASE_TORQUE = 400.0, 120.0  # N m s/rad, N m
# Smooth plastic on wood and painted walls. With MuJoCo's default of 1 a base that backed up against
# something could not turn any more: its drive's 500 N held it by 140 N m. It slides along what it
# drives at obliquely; Habitat's stops at the navmesh's edge (`allow_sliding=False`).
BASE_FRICTION = (0.3, 0.005, 0.0005)


def joint_damping(joint: ArmJoint) -> float:
    """Damping of the URDF: 1.0 N m s/rad for hinges, 5.0 for rolls."""
    return 5.0 if joint.is_continuous else 1.0
