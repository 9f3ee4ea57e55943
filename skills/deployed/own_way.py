"""The sensor `floor_way`, made by a trained skill of what it observes: picture, goal, own commands.

    goal before and now --> how the base has moved --> its pose --+
    depth picture, the arm's angles ------------------------------+--> `sim/robot/seen_floor.py`

A base on wheels moves along a line or an arc, so where its goal was and is tells how it has moved.
Where that leaves it open, the goal being right beside it, it has moved as it was told.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from rearrange.sim.robot import fetch
from rearrange.sim.robot.seen_floor import SeenFloor
from rearrange.skills.motion.kinematics import link_frames
from rearrange.tasks.floor_way import ENDS, FLOOR_WAY, MAX_DEPTH, NAV_GOAL, goal_sensor

PICTURE, JOINT = "head_depth", "joint"
ARM_POINTS = [*range(len(fetch.ARM_JOINTS)), -1]  # of the arm's frames: the joints' and the hand's
# A goal beside the base tells little of the way driven, and much of a little sliding aside: below
# so many m and parts of its distance ahead or behind, the command counts more.
OPEN, OPEN_SHARE = 0.01, 0.08
ROUNDS = 5  # of solving for way and turn, which depend on each other
STEPS_PER_SECOND = 30.0
MOST = 0.15  # m in a control step; a goal that moves by more has been set anew


def is_made(observed: Collection[str]) -> bool:
    """Whether a policy that observes these makes `floor_way` itself, not its environment."""
    return FLOOR_WAY in observed and PICTURE in observed


class OwnWay:
    """What one policy has seen in an episode, and where it is.

    Args:
        observed: names of its observations; one tells where the goal is.
        delay: control steps by which observations are late.
    """

    def __init__(self, observed: Collection[str], delay: int) -> None:
        goal = goal_sensor(observed)
        assert goal is not None, f"none of {', '.join(observed)} tells where the goal is"
        self._goal_sensor, self._delay = goal, delay
        self._floor = SeenFloor(ENDS[goal])
        self.reset()

    def reset(self) -> None:
        """Call before each episode."""
        self._goal: tuple[float, float] | None = None  # m, in the base's frame
        self._pose = (0.0, 0.0, 0.0)
        self._commands = [(0.0, 0.0)] * (self._delay + 1)

    @property
    def position(self) -> tuple[float, float]:
        """Where the base is, m, in the frame of its first pose."""
        return self._pose[:2]

    def read(self, observation: Mapping[str, Any], command: tuple[float, float]) -> np.ndarray:
        """The sensor, [5] float32.

        Args:
            observation: with the depth picture, the goal's sensor and the arm's angles.
            command: base action of the step before, in [-1, 1].
        """
        positions, rotations = link_frames(np.asarray(observation[JOINT], float))
        told = np.asarray(observation[self._goal_sensor], float)
        x, y, height = self._where(told, positions, rotations)
        goal = x, y
        self._commands = [*self._commands[1:], command]
        if self._goal is None:
            self._floor.begin(goal, height)
        else:
            self._move(*motion(self._goal, goal, self._commands[0]))
        self._goal = goal
        depth = np.asarray(observation[PICTURE])
        scale = MAX_DEPTH / 255.0 if depth.dtype == np.uint8 else MAX_DEPTH
        depth = np.ascontiguousarray(scale * depth, np.float32)
        self._floor.look(depth, self._pose, positions[ARM_POINTS])
        return self._floor.numbers()

    @property
    def inputs(self) -> tuple[str, ...]:
        """The observations that it is made of."""
        return PICTURE, JOINT, self._goal_sensor

    def _where(
        self, told: np.ndarray, positions: np.ndarray, rotations: np.ndarray
    ) -> tuple[float, float, float]:
        """The goal in the base's frame, m; at a height of 0 if its sensor does not tell it."""
        if self._goal_sensor == NAV_GOAL:
            distance, right = told.tolist()
            return distance * math.cos(right), -distance * math.sin(right), 0.0
        x, y, z = (positions[-1] + rotations[-1] @ told).tolist()  # told in the hand's frame
        return x, y, z

    def _move(self, ahead: float, aside: float, turn: float) -> None:
        x, y, yaw = self._pose
        cos, sin = math.cos(yaw), math.sin(yaw)
        self._pose = x + cos * ahead - sin * aside, y + sin * ahead + cos * aside, yaw + turn


def motion(
    before: tuple[float, float], now: tuple[float, float], command: tuple[float, float]
) -> tuple[float, float, float]:
    """How the base has moved, in its frame before: ahead and aside, m, and turned, rad.

    Args:
        before, now: a point that stands still, in the base's frame then and now, m.
        command: base action in between.
    """
    told_way = min(max(command[0], -1.0), 1.0) * fetch.MAX_BASE_SPEED / STEPS_PER_SECOND
    told_turn = min(max(command[1], -1.0), 1.0) * fetch.MAX_BASE_TURN / STEPS_PER_SECOND
    way, turn = told_way, told_turn
    nearer = before[0] ** 2 + before[1] ** 2 - now[0] ** 2 - now[1] ** 2
    doubt = OPEN**2 + OPEN_SHARE**2 * (before[0] ** 2 + before[1] ** 2)
    for _ in range(ROUNDS):
        cos, sin = math.cos(turn / 2), math.sin(turn / 2)  # an arc's chord
        along = before[0] * cos + before[1] * sin
        way = (along * (nearer + way * way) / 2 + doubt * told_way) / (along * along + doubt)
        after = before[0] - way * cos, before[1] - way * sin
        angle = math.atan2(after[1], after[0]) - math.atan2(now[1], now[0])
        turn = math.atan2(math.sin(angle), math.cos(angle))
    if abs(way) > MOST:
        way, turn = told_way, told_turn
    return way * math.cos(turn / 2), way * math.sin(turn / 2), turn
