"""A plan step as a skill call: `open_cab(cab_push_point_5)` calls `open_drawer`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rearrange.planner.home.facts import goal_name
from rearrange.planner.home.problems import entities_of, skill_call, skill_of
from rearrange.planner.strips.pddl import GroundAction
from rearrange.sim.home import furniture as fur
from rearrange.sim.simulation import Simulation
from rearrange.tasks.rules.episode import EpisodeSpec

_GOAL = goal_name("")


class Call(NamedTuple):
    """A skill and its entity."""

    skill: str
    """Its name."""
    entity: str
    """HAB's name: a target such as `any_targets|0`, its goal `TARGET_any_targets|0`, a handle."""
    line: str
    """The step in readable form."""
    goal: str = ""
    """For what places: the target at whose goal; empty: at the entity's own.

    To empty the hand, any reachable goal will do: the fridge may be shut.
    """
    needs_hold: bool = False
    """Whether the plan needs something held, as it may for a skill of your own."""
    takes: bool = False
    """Whether its effect is that the entity is held, as of a skill of your own that picks up."""
    drives: bool = False
    """Whether its effect is that the robot is at the entity, as of a Navigate of your own."""
    moves: str = ""
    """The target that its effects take or bring somewhere, which may not be its entity; empty: the
    entity's own."""

    @property
    def is_driving(self) -> bool:
        """Whether it is to end with the robot at its entity."""
        return self.skill == "navigate" or self.drives

    @property
    def is_carrying(self) -> bool:
        """Whether the plan expects something in the hand when the skill begins. What pushes its
        target to a goal carries nothing."""
        is_way_to_goal = self.skill == "navigate" and self.is_at_goal
        return self.skill == "place" or is_way_to_goal or self.needs_hold

    @property
    def is_picking(self) -> bool:
        """Whether it is to end with its target in the hand."""
        return self.skill == "pick" or self.takes

    @property
    def is_placing(self) -> bool:
        """Whether it is to end with its target at a goal."""
        return self.skill == "place" or bool(self.goal)

    @property
    def is_at_goal(self) -> bool:
        """Whether the entity is a target's goal and not the target itself."""
        return self.entity.startswith(_GOAL)

    @property
    def target(self) -> str:
        """The name of the target that it is about; of a handle that it acts on alone, its name."""
        return self.moves or self.entity.removeprefix(_GOAL)

    @property
    def destination(self) -> str:
        """The target at whose goal a place ends."""
        return self.goal or self.target


def call_of(
    step: GroundAction,
    entities: Mapping[str, str],
    rest: Sequence[GroundAction] = (),
    skills: Sequence[str] = (),
) -> Call:
    """The call of a step.

    Args:
        entities: PDDL name -> HAB's name, as of `facts.entities`.
        rest: the plan after it.
        skills: those that carry out its actions before all others.

    Raises UserError as `skill_of` and `entities_of`.
    """
    shown, arguments = skill_call(step, skills)
    skill = skill_of(step, skills).name
    names = entities_of(skill, arguments, entities)
    line = f"{shown}({', '.join(names)})"
    goals = [entities.get(fact[2], "") for fact in step.add_effects if fact[0] == "object_at"]
    goal = next((name.removeprefix(_GOAL) for name in goals if name.startswith(_GOAL)), "")
    effects = {fact[0] for fact in step.add_effects}
    takes, drives = "holding" in effects, "robot_at" in effects
    moved = (fact[1] for fact in step.add_effects if fact[0] in ("object_at", "holding"))
    moves = next((entities[name] for name in moved if name in entities), "")
    return Call(skill, names[0], line, goal, _needs_hold(step, rest), takes, drives, moves)


def _needs_hold(step: GroundAction, rest: Sequence[GroundAction]) -> bool:
    """Whether a step needs something held, or is the way to one that does."""
    for later in (step, *rest):
        if any(fact[0] == "holding" for fact in later.preconditions_pos):
            return True
        if not any(fact[0] == "robot_at" for fact in later.add_effects):
            return False
    return False


def place_of(sim: Simulation, episode: EpisodeSpec, entity: str) -> np.ndarray:
    """Where an entity is now, [3] world: a handle, an object or a goal."""
    if entity in fur.MARKERS:
        return sim.marker_pos_w(entity)
    for target in episode.targets:
        if entity == target.name:
            return sim.object_pos_w(target.object)
        if entity == goal_name(target.name):
            return np.array(target.goal)
    raise ValueError(f"the episode has no {entity!r}")
