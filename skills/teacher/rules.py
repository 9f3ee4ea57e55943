"""The teacher of each single-skill task."""

from __future__ import annotations

import numpy as np

from rearrange.skills.definition import skill_for
from rearrange.skills.motion.body import Body
from rearrange.skills.oracle.programs import FRIDGE
from rearrange.skills.teacher.servo import Servo
from rearrange.skills.teacher.servo_doors import CloseDrawerServo, CloseFridgeServo, OpenServo
from rearrange.skills.teacher.servo_objects import NavigateServo, PickServo, PlaceServo
from rearrange.skills.teacher.shelf import Shelf
from rearrange.tasks.rules.episode import EpisodeSpec


def teacher_for(body: Body, episode: EpisodeSpec) -> Servo:
    """The rules for an episode of a skill task.

    Raises ValueError for other tasks, UserError for a skill that has none.
    """
    return skill_for(episode.task).start_teacher(body, episode)


def pick(body: Body, episode: EpisodeSpec) -> Servo:
    target = episode.targets[episode.target_index]
    return PickServo(body, target.object, _shelf(body, target.start_container))


def place(body: Body, episode: EpisodeSpec) -> Servo:
    target = episode.targets[episode.target_index]
    shelf = _shelf(body, target.goal_container)
    return PlaceServo(body, target.object, np.array(target.goal), shelf)


def navigate(body: Body, episode: EpisodeSpec) -> Servo:
    target = episode.targets[episode.target_index]
    return NavigateServo(body, np.array(target.goal if episode.start_holding else target.start))


def open_container(body: Body, episode: EpisodeSpec) -> Servo:
    return OpenServo(body, episode.handle)


def close_drawer(body: Body, episode: EpisodeSpec) -> Servo:
    return CloseDrawerServo(body, episode.handle)


def close_fridge(body: Body, episode: EpisodeSpec) -> Servo:
    return CloseFridgeServo(body)


def _shelf(body: Body, container: str | None) -> Shelf | None:
    """The fridge's, for what is in it."""
    layout = body.sim.layout
    return Shelf(layout.pieces["fridge"], layout.fridge) if container == FRIDGE else None
