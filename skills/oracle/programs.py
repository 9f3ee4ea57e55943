"""The oracle's program for each single-skill task."""

from __future__ import annotations

import numpy as np

from rearrange.skills.definition import skill_for
from rearrange.skills.motion.robot import Robot
from rearrange.skills.oracle import doors as oracle_doors
from rearrange.skills.oracle import objects as oracle_objects
from rearrange.skills.oracle import place as oracle_place
from rearrange.skills.skill import Program
from rearrange.tasks.rules.episode import EpisodeSpec

FRIDGE = "fridge_top_door"


def skill_program(robot: Robot, episode: EpisodeSpec) -> Program:
    """The program for an episode of a skill task. Raises ValueError for other tasks."""
    return skill_for(episode.task).start_program(robot, episode)


def navigate(robot: Robot, episode: EpisodeSpec) -> Program:
    target = episode.targets[episode.target_index]
    point = target.goal if episode.start_holding else target.start
    return oracle_objects.navigate(robot, np.array(point))


def pick(robot: Robot, episode: EpisodeSpec) -> Program:
    target = episode.targets[episode.target_index]
    is_level = target.start_container == FRIDGE
    pitches = oracle_objects.PITCHES_LEVEL if is_level else oracle_objects.PITCHES
    return oracle_objects.pick(robot, target.object, pitches)


def place(robot: Robot, episode: EpisodeSpec) -> Program:
    target = episode.targets[episode.target_index]
    return oracle_place.place(robot, target.object, np.array(target.goal), give_up=4)


def open_container(robot: Robot, episode: EpisodeSpec) -> Program:
    return oracle_doors.open_container(robot, episode.handle)


def close_container(robot: Robot, episode: EpisodeSpec) -> Program:
    return oracle_doors.close_container(robot, episode.handle)
