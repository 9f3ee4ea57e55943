"""What is to be done, in words, and which object it is about now.

Pick up the gelatin box on the counter, then bring the arm back to rest (hold C).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rearrange.planner.home.descriptions import (
    Descriptions,
    furniture,
    names_of,
    plain,
    running_step,
)
from rearrange.tasks.rules.definition import TASKS
from rearrange.tasks.rules.episode import EpisodeSpec, Target
from rearrange.tasks.rules.predicates import AT_GOAL
from rearrange.tasks.rules.rulebook import make_task

REST = "then bring the arm back to rest (hold C)"
DONE = "press X once you are there"
STOP = ", then press X"
ON = {"drawer": "in", "fridge": "in"}  # all others: on


class Instruction(NamedTuple):
    """What a person reads at one moment."""

    text: str
    lines: tuple[tuple[str, bool], ...] = ()
    """Of several parts: each, and whether it is done."""
    focus: int | None = None
    """The object that it is about now."""


def instruct(sim: Any, episode: EpisodeSpec) -> Instruction:
    """What is to be done in the episode, as the world is now."""
    if TASKS[episode.task].is_planned:
        return _several(sim, episode)
    if episode.marker is not None:
        step = Descriptions(names_of(episode)).step(running_step(episode, ""))
        return Instruction(_sentence(f"{step}, {REST}{_stop_of(episode)}"))
    target = episode.targets[episode.target_index]
    thing, start, goal = _texts(episode, target)
    skill = running_step(episode, "").partition("(")[0]
    if skill == "navigate":
        where = goal if episode.start_holding else f"the {thing} {start}"
        what = f"Drive to {where.removeprefix('on ').removeprefix('in ')} and face it, {DONE}"
        return Instruction(_sentence(what), focus=target.object)
    if skill == "place":
        return Instruction(
            _sentence(f"put the {thing} {goal}, where its green copy is, {REST}"),
            focus=target.object,
        )
    if skill == "pick":
        return Instruction(_sentence(f"pick up the {thing} {start}, {REST}"), focus=target.object)
    step = Descriptions(names_of(episode)).step(running_step(episode, ""))
    return Instruction(_sentence(f"{step}{_stop_of(episode)}"), focus=target.object)


def _stop_of(episode: EpisodeSpec) -> str:
    """What is to be done last in a task that only its stop ends."""
    return STOP if make_task(episode.task).rules.is_stop_used else ""


def way_to_go(sim: Any, episode: EpisodeSpec, focus: int | None) -> list[float] | None:
    """From the hand to what is next: the object, the goal of a held one or the handle; base axes.

    [3] m forward, left, up; None where there is nothing next.
    """
    if episode.marker is not None:
        point = sim.marker_pos_w(episode.marker)
    elif focus is None:
        return None
    elif sim.held_object == focus and not _is_pick(episode):
        target = next(t for t in episode.targets if t.object == focus)
        held = sim.object_pos_w(focus) - sim.ee_pos_w
        point = np.array(target.goal) - held
    else:
        point = sim.object_pos_w(focus)
    away = sim.world_to_base(point) - sim.ee_pos_b
    return [round(float(value), 4) for value in away]


def _is_pick(episode: EpisodeSpec) -> bool:
    return not TASKS[episode.task].is_planned and not episode.start_holding


def _several(sim: Any, episode: EpisodeSpec) -> Instruction:
    lines, focus, nearest = [], None, np.inf
    hand = sim.ee_pos_w
    for target in episode.targets:
        thing, start, goal = _texts(episode, target)
        place = sim.object_pos_w(target.object)
        is_done = np.linalg.norm(place - target.goal) < AT_GOAL
        lines.append((f"{thing} {start} -> {goal}", bool(is_done)))
        if not is_done and (away := float(np.linalg.norm(place - hand))) < nearest:
            nearest, focus = away, target.object
    if sim.held_object is not None:
        focus = sim.held_object
    title = TASKS[episode.task].title
    return Instruction(f"{title}: put these in their places, then press X.", tuple(lines), focus)


def _texts(episode: EpisodeSpec, target: Target) -> tuple[str, str, str]:
    """Name of the object, where it starts, where it has to go."""
    kind = episode.scene.objects[target.object].kind
    return plain(kind), _place(target.start_receptacle), _place(target.goal_receptacle)


def _place(receptacle: str) -> str:
    name = furniture(receptacle)
    return f"{ON.get(name, 'on')} the {name}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."
