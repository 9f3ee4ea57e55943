"""Recovery after a learned skill: backing away, by the robot's own sensors alone.

    back_out      straight back, first with the arm still, then moving it to its start
    step_aside    back_out  ->  turn to where the laser sees the most room  ->  drive there

In the start posture of skills the hand is as high as the counter, and inside the fridge it is
beside objects: an arm that moves there, or a base that turns there, sweeps them away. So
`back_out` comes first after every Pick and Place, `step_aside` after a failure.
A policy that takes its most likely actions fails again in the same way from the same state, so a
new attempt must start elsewhere. Mobile robots call this a recovery behaviour (the `move_base`
of ROS clears, backs up and turns). Nothing here is privileged: the way back is not seen and goes by
the wheels alone.
"""

from __future__ import annotations

import math

import numpy as np

from rearrange.sim.robot import fetch
from rearrange.sim.simulation import CONTROL_DT
from rearrange.skills.deployed.deployment import Senses, towards_start
from rearrange.skills.motion.robot import Robot
from rearrange.skills.skill import Program
from rearrange.tasks.ranges import BASE_SCAN, distance_of, scan_angles

BACK_STEPS, BACK_SPEED = 30, -0.5  # 0.5 m
HOLD_STEPS = 18  # the arm stays still for 0.3 m of them
TURN_SPEED = 0.5  # shares of the full speeds
DRIVE_SPEED, DRIVE_STEPS = 0.6, 45  # 0.9 m
ROOM = 0.75  # m ahead of the scanner below which the robot does not drive on
SEEN_ROOM = 2.5  # m, more room is no better
HALF_WIDTH = math.radians(25.0)  # width of the gap
CHANCE = 0.5  # m, random spread, so that the next attempt differs


def back_out(robot: Robot) -> Program:
    """Straight back from what the hand is at; the grip is unchanged."""
    robot.phase = "backing out"
    held = robot.sim.arm_target.copy()
    for step in range(BACK_STEPS):
        arm = held if step < HOLD_STEPS else towards_start(robot)
        yield robot.action(arm, (BACK_SPEED, 0.0))
    robot.phase = ""
    return None


def step_aside(robot: Robot, senses: Senses, seed: int) -> Program:
    """Leaves the place of a failure; the grip is unchanged.

    Args:
        seed: for choosing among the directions with room.
    """
    rng = np.random.default_rng(seed)
    yield from back_out(robot)
    robot.phase = "stepping aside"
    if BASE_SCAN in senses.now:
        angle = freest(senses.now[BASE_SCAN], rng)
        rate = TURN_SPEED * fetch.MAX_BASE_TURN * CONTROL_DT
        for _ in range(round(abs(angle) / rate)):
            yield robot.action(towards_start(robot), (0.0, math.copysign(TURN_SPEED, angle)))
        for _ in range(DRIVE_STEPS):
            if room_ahead(senses.now[BASE_SCAN]) < ROOM:
                break
            yield robot.action(towards_start(robot), (DRIVE_SPEED, 0.0))
    robot.phase = ""
    return None


def freest(scan: np.ndarray, rng: np.random.Generator) -> float:
    """A direction (rad, to the left) with much room in `base_scan`, chosen at random."""
    angles, lengths = scan_angles(), np.minimum(distance_of(scan), SEEN_ROOM)
    near = np.abs(angles[:, None] - angles[None]) < HALF_WIDTH
    room = np.where(near, lengths[None], np.inf).min(axis=1)
    return float(angles[np.argmax(room + rng.uniform(0.0, CHANCE, len(angles)))])


def room_ahead(scan: np.ndarray) -> float:
    """Distance (m) to the nearest obstacle ahead in `base_scan`."""
    return float(distance_of(scan)[np.abs(scan_angles()) < HALF_WIDTH].min())
