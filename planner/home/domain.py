"""Turns a task's episodes into planning problems of its domain."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rearrange.errors import UserError
from rearrange.skills.definition import SKILLS, SkillDefinition
from rearrange.system.registry import Registry, resolved
from rearrange.tasks.rules.definition import TASKS

if TYPE_CHECKING:
    from rearrange.planner.strips.pddl import Domain
    from rearrange.tasks.rules.episode import EpisodeSpec


_PREDICATES = re.compile(r"\(\s*:predicates(?![\w-])", re.IGNORECASE)  # where the section begins


@dataclass(frozen=True, kw_only=True)
class PlannerDomain:
    """A planning domain of tasks. Functions may be given as "module:Name"."""

    pddl: Path
    """Its PDDL file, for all tasks. A task's skills may add to it, see `SkillDefinition`."""
    problem: Callable[..., str] | str
    """Episode, `HomeFacts`, and the entity the robot is at or None -> remaining problem, PDDL."""
    entities: Callable[[EpisodeSpec], dict[str, str]] | str
    """PDDL name -> entity name, for everything that a plan of the episode can mention."""


DOMAINS: Registry[PlannerDomain] = Registry(
    "planner domain", lambda thing: isinstance(thing, PlannerDomain)
)
"""The planning domains of tasks of several skills."""


def problem_text(episode: EpisodeSpec, facts: Any, robot_at: str | None = None) -> str:
    """The remaining problem of an episode, as PDDL; `facts`: `planner.home.facts.HomeFacts`."""
    return resolved(domain_of(episode.task).problem)(episode, facts, robot_at)


def entity_table(episode: EpisodeSpec) -> dict[str, str]:
    """PDDL name -> entity name, for everything that a plan of an episode can mention."""
    return resolved(domain_of(episode.task).entities)(episode)


def domain_of(task: str) -> PlannerDomain:
    """The domain of a task. Raises UserError for a task of one skill."""
    name = TASKS[task].domain
    if name is None:
        raise UserError(f"task '{task}' is one skill and has no plan: try tidy_house")
    return DOMAINS[name]


@cache
def task_domain(task: str) -> Domain:
    """A task's domain with the predicates and actions that its skills add, parsed.

    Raises UserError as `domain_of`, and for invalid PDDL.
    """
    path = domain_of(task).pddl
    home = path.read_text(encoding="utf-8")
    skills = [SKILLS[name] for name in task_skills(task)]
    predicates = "\n".join(skill.predicates for skill in skills)  # which may end in a comment
    try:
        actions = "\n".join(skill.actions for skill in skills)
        domain = _parsed(_extended(home, predicates, actions), path.name)
    except UserError:
        # In one line what comes before: the lines of an error are then those of the skill's text.
        home = _without_comments(home).replace("\n", " ")
        _parsed(home, path.name)
        for skill in skills:
            _parsed(_extended(home, skill.predicates, ""), f"the predicates of skill {skill.name}")
        for skill in skills:
            text = _extended(home, _without_comments(predicates).replace("\n", " "), skill.actions)
            _parsed(text, f"the actions of skill {skill.name}")
        raise
    for skill in skills:
        _check_operators(skill, domain)
    return domain


def task_skills(task: str) -> tuple[str, ...]:
    """The skills that may occur in a task's plans."""
    definition = TASKS[task]
    return *definition.skills, *definition.more_skills


def _check_operators(skill: SkillDefinition, domain: Domain) -> None:
    """Raises UserError unless a skill gets arguments that its actions have."""
    for name, operator in skill.operators.items():
        if name not in domain.actions:  # of another domain
            continue
        count, places = len(domain.actions[name].parameters), operator.arguments
        if not places or not all(0 <= place < count for place in places):
            raise UserError(
                f"the operator {name} of skill {skill.name} must name arguments of the action from "
                f"0 to {count - 1}, at least one, got {places}"
            )


def _extended(domain: str, predicates: str, actions: str) -> str:
    """A domain's PDDL with further predicates and actions, without comments."""
    text, added, actions = map(_without_comments, (domain, predicates, actions))
    text = text.rstrip().removesuffix(")")
    section = _PREDICATES.search(text)
    if section is None:
        return f"{text} (:predicates {added}) {actions})" if added.strip() else f"{text} {actions})"
    return f"{text[: section.end()]} {added} {text[section.end() :]} {actions})"


def _without_comments(text: str) -> str:
    """PDDL in the same lines, without what follows a semicolon."""
    return "\n".join(line.partition(";")[0] for line in text.splitlines())


@cache
def _parsed(text: str, source: str) -> Domain:
    from rearrange.planner.strips.pddl import parse_domain  # its parser is slow to import

    return parse_domain(text, source)
