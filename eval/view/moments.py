"""What the page gets: what there is to choose, and a moment of the world in words and numbers."""

from __future__ import annotations

from typing import Any

from rearrange.eval.film.film import object_in_work
from rearrange.eval.view.instructions import Instruction, way_to_go
from rearrange.eval.view.keys import COMMANDS, DRIVING, MOUSE, Key
from rearrange.eval.view.painting import map_bounds
from rearrange.eval.view.replay import Evaluation
from rearrange.eval.view.sensors import describe
from rearrange.eval.view.stage import YOU, Stage
from rearrange.eval.view.terms import TERMS
from rearrange.planner.home.descriptions import Descriptions, names_of
from rearrange.sim.homes.layout import SPLITS
from rearrange.tasks.rules.definition import TASKS

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def setup(evaluation: Evaluation | None = None) -> dict[str, Any]:
    """What the page offers, whatever is played."""

    def rows(keys: tuple[Key, ...]) -> list[list[str]]:
        return [[key.shown, key.meaning] for key in keys]

    return {
        "tasks": {name: task.title for name, task in sorted(TASKS.items())},
        "splits": list(SPLITS),
        "speeds": list(SPEEDS),
        "terms": list(TERMS),
        "evaluated": [] if evaluation is None else evaluation.rows(),
        "keys": {"driving": rows(DRIVING), "commands": rows(COMMANDS), "mouse": MOUSE},
    }


def focus_of(stage: Stage, instruction: Instruction) -> int | None:
    """The object that it is about now: an agent says it by its plan."""
    if stage.driver == YOU:
        return instruction.focus
    return object_in_work(stage.env.episode, stage.agent.status)


def about_world(stage: Stage, instruction: Instruction) -> dict[str, Any]:
    """What is to be done, who does what, what the sensors give, and where all is."""
    env, agent = stage.env, stage.agent
    described = Descriptions(names_of(env.episode))
    return {
        "instruction": instruction.text,
        "parts": instruction.lines,
        "status": described.status(agent.status),
        "plan": [described.plan_line(line) for line in agent.plan_lines],
        "stages": dict(stage.info.get("stages", {})),
        "is_holding": bool(env.sim.is_holding),
        "to_go": way_to_go(env.sim, env.episode, instruction.focus),
        "hand": [round(float(value), 4) for value in env.sim.ee_pos_b],
        "home": _home(env, instruction.focus),
        "sensors": describe(stage.observation),
    }


def _home(env: Any, focus: int | None) -> dict[str, Any]:
    """For the map: bounds, robot, and what the episode is about, m and rad, world."""
    sim, episode = env.sim, env.episode
    is_planned = TASKS[episode.task].is_planned
    targets = list(episode.targets)
    if not is_planned:
        is_of_handle = episode.marker is not None
        targets = [] if is_of_handle else [episode.targets[episode.target_index]]
    goals = [t.goal for t in targets if is_planned or episode.start_holding]
    if episode.marker is not None:
        goals = [tuple(sim.marker_pos_w(episode.marker))]
    return {
        "bounds": [round(float(value), 3) for value in map_bounds(sim)],
        "robot": [round(value, 3) for value in sim.base_pose],
        "things": [sim.object_pos_w(t.object)[:2].round(3).tolist() for t in targets],
        "goals": [[round(float(value), 3) for value in goal[:2]] for goal in goals],
        "focus": next((i for i, t in enumerate(targets) if t.object == focus), None),
    }
