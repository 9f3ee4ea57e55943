"""Turns a task's episodes into planning problems of its domain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rearrange.errors import UserError
from rearrange.skills.definition import SKILLS
from rearrange.system.registry import Registry, resolved
from rearrange.tasks.rules.definition import TASKS

if TYPE_CHECKING:
    from rearrange.planner.strips.pddl import Domain
    from rearrange.tasks.rules.episode import EpisodeSpec


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
    skills = [SKILLS[name] for name in TASKS[task].skills]
    predicates = " ".join(skill.predicates for skill in skills)
    actions = " ".join(skill.actions for skill in skills)
    text = path.read_text(encoding="utf-8").rstrip().removesuffix(")")
    text = text.replace("(:predicates", f"(:predicates {predicates}", 1)
    return _parsed(f"{text} {actions})", path.name)


@cache
def _parsed(text: str, source: str) -> Domain:
    from rearrange.planner.strips.pddl import parse_domain  # its parser is slow to import

    return parse_domain(text, source)
