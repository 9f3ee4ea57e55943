"""The teacher of each single-skill task."""

from __future__ import annotations

import numpy as np

from rearrange.skills.definition import skill_for
from rearrange.skills.motion.robot import Robot
from rearrange.skills.oracle.programs import FRIDGE
from rearrange.skills.teacher.servo import Servo
from rearrange.skills.teacher.servo_doors import CloseDrawerServo, CloseFridgeServo, OpenServo
from rearrange.skills.teacher.servo_objects import NavigateServo, PickServo, PlaceServo
from rearrange.skills.teacher.shelf import Shelf
from rearrange.tasks.rules.episode import EpisodeSpec


def teacher_for(robot: Robot, episode: EpisodeSpec) -> Servo:
    """The rules for an episode of a skill task.

    Raises ValueError for other tasks, UserError for a skill that has none.
    """
    return skill_for(episode.task).start_teacher(robot, episode)


def pick(robot: Robot, episode: EpisodeSpec) -> Servo:
    target = episode.targets[episode.target_index]
    return PickServo(robot, target.object, _shelf(robot, target.start_container))


def place(robot: Robot, episode: EpisodeSpec) -> Servo:
    target = episode.targets[episode.target_index]
    shelf = _shelf(robot, target.goal_container)
    return PlaceServo(robot, target.object, np.array(target.goal), shelf)


def navigate(robot: Robot, episode: EpisodeSpec) -> Servo:
    target = episode.targets[episode.target_index]
    return NavigateServo(robot, np.array(target.goal if episode.start_holding else target.start))


def open_container(robot: Robot, episode: EpisodeSpec) -> Servo:
    return OpenServo(robot, episode.handle)


def close_drawer(robot: Robot, episode: EpisodeSpec) -> Servo:
    return CloseDrawerServo(robot, episode.handle)


def close_fridge(robot: Robot, episode: EpisodeSpec) -> Servo:
    return CloseFridgeServo(robot)


def _shelf(robot: Robot, container: str | None) -> Shelf | None:
    """The fridge's, for what is in it."""
    layout = robot.sim.layout
    return Shelf(layout.pieces["fridge"], layout.fridge) if container == FRIDGE else None
