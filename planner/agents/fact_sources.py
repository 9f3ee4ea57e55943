"""Sources of a chain's facts: the simulator's state, or the robot's own senses.

looks          after each skill                              source of facts
none           nothing: the first plan to its end            (Habitat's rule)
own            replans if the plan no longer leads to goals  the robot's memory
privileged     the same                                      the simulator's state
"""

from __future__ import annotations

from typing import Protocol

from rearrange.planner.agents.memory import Memory
from rearrange.planner.home.calls import Call, place_of
from rearrange.planner.home.domain import problem_text, task_domain
from rearrange.planner.home.facts import HomeFacts, read_facts
from rearrange.planner.home.problems import home_domain
from rearrange.planner.strips.pddl import GroundAction, Problem, parse_problem
from rearrange.sim.simulation import Simulation
from rearrange.tasks.rules.episode import EpisodeSpec
from rearrange.tasks.rules.predicates import robot_at
from rearrange.tasks.rules.task import Task

STATE_OF_PREDICATE = {  # of the home's domain -> the state of the handle in `HomeFacts.states`
    "opened_cab": "open", "opened_fridge": "open",
    "closed_cab": "closed", "closed_fridge": "closed",
}  # fmt: skip


class FactSource(Protocol):
    """The interface of a source of facts."""

    def facts(self) -> HomeFacts:
        """The current facts."""
        ...

    def is_at(self, entity: str) -> bool:
        """Whether the robot, which has just navigated there, is at an entity."""
        ...

    def end(self, step: GroundAction, call: Call, failure: str | None) -> None:
        """Call when the skill of a step has ended, by itself or with `failure`."""
        ...


class PrivilegedFacts:
    """The simulator's state."""

    def __init__(self, sim: Simulation, episode: EpisodeSpec, task: Task | None = None) -> None:
        self._sim, self._episode, self._task = sim, episode, task

    def facts(self) -> HomeFacts:
        """HAB's predicates, and further facts from the task's rules."""
        return read_facts(self._sim, self._episode, self._task)

    def is_at(self, entity: str) -> bool:
        """By the entity's actual position, not the believed one."""
        return robot_at(self._sim, place_of(self._sim, self._episode, entity))

    def end(self, step: GroundAction, call: Call, failure: str | None) -> None:
        """Does nothing: the state needs no memory."""


class SensedFacts:
    """The robot's memory."""

    def __init__(self, memory: Memory, episode: EpisodeSpec) -> None:
        self._memory, self._episode = memory, episode

    def facts(self) -> HomeFacts:
        """Facts from its memory."""
        return self._memory.facts

    def is_at(self, entity: str) -> bool:
        """Navigate only stops by itself if its compass shows the target within 2 m."""
        return True

    def end(self, step: GroundAction, call: Call, failure: str | None) -> None:
        """Updates the memory. For predicates outside the home's domain the skill is believed."""
        self._memory.end(call, failure, handle_state(step))
        if failure is None:
            facts, known = self._memory.facts, home_domain().predicates
            facts.more -= {fact for fact in step.del_effects if fact[0] not in known}
            facts.more |= {fact for fact in step.add_effects if fact[0] not in known}


def handle_state(step: GroundAction) -> str | None:
    """The state in which a step leaves the handle that it acts on, by its effects: open, closed or,
    for one that moves none, None."""
    for predicate, *_ in step.add_effects:
        state = STATE_OF_PREDICATE.get(predicate)
        if state is not None:
            return state
    return None


def has_worked(source: FactSource, episode: EpisodeSpec, step: GroundAction, call: Call) -> bool:
    """Whether a step that has ended achieved its planned effect."""
    if call.is_driving and not source.is_at(call.entity):
        return False
    if call.skill == "navigate":
        return True  # in a domain of its own it may be at places by another predicate
    others = {fact for fact in step.add_effects if fact[0] != "robot_at"}
    return not others or others <= problem(source, episode, None).init


def problem(source: FactSource, episode: EpisodeSpec, at: str | None) -> Problem:
    """The remaining plan, by a source's facts; `at`: the entity that the robot is at."""
    return parse_problem(problem_text(episode, source.facts(), at), task_domain(episode.task))
