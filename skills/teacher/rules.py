"""The teacher for each single-skill task: which rules answer for which episode."""

from __future__ import annotations

import numpy as np

from rearrange.skills.motion.body import Body
from rearrange.skills.oracle.programs import FRIDGE
from rearrange.skills.teacher.servo import Servo
from rearrange.skills.teacher.servo_doors import CloseDrawerServo, CloseFridgeServo, OpenServo
from rearrange.skills.teacher.servo_objects import NavigateServo, PickServo, PlaceServo
from rearrange.skills.teacher.shelf import Shelf
from rearrange.tasks.rules.episode import EpisodeSpec


def teacher_for(body: Body, episode: EpisodeSpec) -> Servo:
    """The rules for an episode of a skill task. Raises ValueError for other tasks."""
    target = episode.targets[episode.target_index] if episode.targets else None
    fridge = Shelf(body.sim.layout.pieces["fridge"])
    if episode.task == "pick":
        return PickServo(body, target.object, fridge if target.start_container == FRIDGE else None)
    if episode.task == "place":
        shelf = fridge if target.goal_container == FRIDGE else None
        return PlaceServo(body, target.object, np.array(target.goal), shelf)
    if episode.task == "navigate":
        return NavigateServo(body, np.array(target.goal if episode.start_holding else target.start))
    if episode.task.startswith("open"):
        return OpenServo(body, episode.marker)
    if episode.task == "close_drawer":
        return CloseDrawerServo(body, episode.marker)
    if episode.task == "close_fridge":
        return CloseFridgeServo(body)
    raise ValueError(f"no rules for task {episode.task!r}")
