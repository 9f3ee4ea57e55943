"""HAB's PDDL predicates as pure functions of the simulation (hab-spec 3.3)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rearrange.sim.robot import fetch
from rearrange.sim.simulation import Simulation
from rearrange.tasks.rules.episode import Target

AT_GOAL = 0.3  # m, object_at
ROBOT_AT = 2.0  # m, planar
OPENED = {"drawer": 0.35, "fridge": 1.07}  # m, rad: 0.45 - 0.1 and 1.22 - 0.15
CLOSED = 0.15  # m or rad
_REST = tuple(float(v) for v in fetch.EE_REST_B)


def object_at(sim: Simulation, target: Target, threshold: float = AT_GOAL) -> bool:
    """Whether a target object's centre is within `threshold` of its goal."""
    return object_to_goal(sim, target) < threshold


def holding(sim: Simulation, target: Target) -> bool:
    """Whether the gripper holds this target."""
    return sim.held_object == target.object


def opened(sim: Simulation, joint: str) -> bool:
    """Whether a drawer or fridge door counts as open."""
    return sim.joint_position(joint) > OPENED[joint.split("_")[0]]


def closed(sim: Simulation, joint: str) -> bool:
    """Whether a drawer or fridge door counts as closed. Between open and closed is neither."""
    return abs(sim.joint_position(joint)) < CLOSED


def robot_at(
    sim: Simulation, point: Sequence[float] | np.ndarray, threshold: float = ROBOT_AT
) -> bool:
    """Whether the base is within `threshold` of a world point, seen from above."""
    x, y, _ = sim.base_pose
    return math.hypot(point[0] - x, point[1] - y) <= threshold


def contained(sim: Simulation, index: int, joint: str) -> bool:
    """Whether an object's centre is in the drawer, or behind the fridge door, of that joint.

    A drawer's volume moves out with it. What is behind a door may lie farther back than the
    receptacles, on which the arm reaches: anywhere in the piece that has it, at their height.
    """
    shift: tuple[float, ...] = (0.0, 0.0, 0.0)
    if joint.startswith("drawer"):
        axis = sim.data.joint(joint).xaxis
        shift = tuple(float(v) * sim.joint_position(joint) for v in axis)
    x, y, z = (float(v) - s for v, s in zip(sim.object_pos_w(index), shift, strict=True))
    for receptacle in sim.layout.receptacles:
        if receptacle.link != joint:
            continue
        half, centre = receptacle.half, receptacle.pos[:2]
        if receptacle.kind != "drawer":
            half = sim.layout.shapes[receptacle.piece].half
            centre = sim.layout.pieces[receptacle.piece][:2]
        dx, dy = x - centre[0], y - centre[1]
        cos, sin = math.cos(receptacle.yaw), math.sin(receptacle.yaw)
        is_above = 0.0 <= z - receptacle.pos[2] <= receptacle.headroom
        is_over = abs(cos * dx + sin * dy) <= half[0] and abs(cos * dy - sin * dx) <= half[1]
        if is_above and is_over:
            return True
    return False


def object_to_goal(sim: Simulation, target: Target) -> float:
    """From a target object's centre to its goal, m."""
    return math.dist(sim.object_pos_w(target.object).tolist(), target.goal)


def ee_to_object(sim: Simulation, index: int) -> float:
    """From the end effector to an object's centre, m."""
    return math.dist(sim.ee_pos_w.tolist(), sim.object_pos_w(index).tolist())


def ee_to_marker(sim: Simulation, marker: str) -> float:
    """From the end effector to a handle, m."""
    return math.dist(sim.ee_pos_w.tolist(), sim.marker_pos_w(marker).tolist())


def ee_to_rest(sim: Simulation) -> float:
    """From the end effector to its resting point (0.5, 0, 1.0) in the base frame, m."""
    return math.dist(sim.ee_pos_b.tolist(), _REST)
