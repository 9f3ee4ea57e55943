"""Recovery after a learned skill: backing away, by the robot's own sensors alone.

    back_out      straight back, first with the arm still, then moving it to its start
    step_aside    back_out  ->  turn to where there is room  ->  drive there

A laser scanner, where a skill of the chain has one, shows at once where there is most room. The
head's camera shows what is ahead: the robot turns by a random angle, and on until it sees room.

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
from collections.abc import Callable

import numpy as np

from rearrange.sim.robot import fetch
from rearrange.sim.simulation import CONTROL_DT
from rearrange.skills.deployed.deployment import Senses, towards_start
from rearrange.skills.motion.robot import Robot
from rearrange.skills.skill import Program
from rearrange.tasks.ranges import BASE_SCAN, MAX_RANGE, distance_of, scan_angles

HEAD_DEPTH = "head_depth"
BACK_STEPS, BACK_SPEED = 30, -0.5  # 0.5 m
HOLD_STEPS = 18  # the arm stays still for 0.3 m of them
TURN_SPEED = 0.5  # shares of the full speeds
DRIVE_SPEED, DRIVE_STEPS = 0.6, 45  # 0.9 m
ROOM = 0.75  # m ahead of the scanner below which the robot does not drive on
SEEN_ROOM = 2.5  # m, more room is no better
HALF_WIDTH = math.radians(25.0)  # width of the gap
LOOK_AWAY = (math.radians(60.0), math.radians(150.0))  # turned at least before it drives on
MOST_TURN = math.radians(300.0)
DRIVE = DRIVE_SPEED * fetch.MAX_BASE_SPEED * DRIVE_STEPS * CONTROL_DT  # m
PASSAGE = 0.35  # m to each side that the base needs
LOW, HIGH = 0.08, 1.4  # m above the floor, of what is in the way
ARM_REACH, ARM_LOW = 1.0, 0.5  # m ahead and up, where the camera sees the arm
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
    rate = TURN_SPEED * fetch.MAX_BASE_TURN * CONTROL_DT
    if BASE_SCAN in senses.now:
        angle = freest(senses.now[BASE_SCAN], rng)
        for _ in range(round(abs(angle) / rate)):
            yield robot.action(towards_start(robot), (0.0, math.copysign(TURN_SPEED, angle)))
        yield from _drive(robot, lambda: room_ahead(senses.now[BASE_SCAN]))
    elif HEAD_DEPTH in senses.now:
        side, least = rng.choice([-1.0, 1.0]), rng.uniform(*LOOK_AWAY)
        for step in range(round(MOST_TURN / rate)):
            if step * rate > least and room_seen(senses.now[HEAD_DEPTH]) > ROOM + DRIVE:
                break
            yield robot.action(towards_start(robot), (0.0, side * TURN_SPEED))
        yield from _drive(robot, lambda: room_seen(senses.now[HEAD_DEPTH]))
    robot.phase = ""
    return None


def _drive(robot: Robot, room: Callable[[], float]) -> Program:
    """Straight on while there is room."""
    for _ in range(DRIVE_STEPS):
        if room() < ROOM:
            break
        yield robot.action(towards_start(robot), (DRIVE_SPEED, 0.0))
    return None


def freest(scan: np.ndarray, rng: np.random.Generator) -> float:
    """A direction (rad, to the left) with much room in `base_scan`, chosen at random."""
    angles, lengths = scan_angles(), np.minimum(distance_of(scan), SEEN_ROOM)
    near = np.abs(angles[:, None] - angles[None]) < HALF_WIDTH
    room = np.where(near, lengths[None], np.inf).min(axis=1)
    return float(angles[np.argmax(room + rng.uniform(0.0, CHANCE, len(angles)))])


def room_seen(head_depth: np.ndarray) -> float:
    """Distance (m) from the base's front to the nearest obstacle ahead in the head's depth picture,
    [size, size, 1] in [0, 1], as far as the robot is wide; at most `SEEN_ROOM`.

    The floor is none, and nothing where the arm in its start posture is in the way.
    """
    size = len(head_depth)
    across = (2.0 * np.arange(size) + 1.0) / size - 1.0  # of pixels' centres, at distance 1
    across *= math.tan(math.radians(fetch.HEAD_CAMERA_FOV_DEG) / 2.0)
    eye = np.array(fetch.HEAD_CAMERA_POS_B)
    ahead = np.array(fetch.HEAD_CAMERA_TARGET_B) - eye
    ahead /= np.linalg.norm(ahead)
    down = np.array([ahead[2], 0.0, -ahead[0]])
    right = np.array([0.0, -1.0, 0.0])
    rays = ahead + across[:, None, None] * down + across[:, None] * right  # [size, size, 3]
    x, y, z = np.moveaxis(eye + head_depth.astype(np.float64) * MAX_RANGE * rays, -1, 0)
    is_there = (np.abs(y) < PASSAGE) & (z > LOW) & (z < HIGH)
    is_there &= ~((x < ARM_REACH) & (z > ARM_LOW))
    return float(np.min(x[is_there] - fetch.LASER_POS_B[0], initial=SEEN_ROOM))


def room_ahead(scan: np.ndarray) -> float:
    """Distance (m) to the nearest obstacle ahead in `base_scan`."""
    return float(distance_of(scan)[np.abs(scan_angles()) < HALF_WIDTH].min())
