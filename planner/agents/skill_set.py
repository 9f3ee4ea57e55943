"""The skills of a chain: trained ones by name, the oracle's, and those left out.

    agent               navigate    pick, place, drawers           fridge
    tp_srl              trained     trained, base free             trained
    tp_srl_nonav        left out    trained, base free             trained
    tp_srl_fixed_base   trained     trained as NAME_fixed_base     trained

The fridge's door cannot be opened by the arm alone, so `action_space=stationary` includes the base.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rearrange.errors import UserError
from rearrange.planner.agents.agent import AGENTS
from rearrange.planner.agents.chain_cfg import ChainCfg
from rearrange.planner.agents.skill_view import IMAGE, SIGHTS
from rearrange.skills.definition import SKILLS
from rearrange.skills.deployed.own_way import is_made
from rearrange.skills.deployed.trained_skills import FIXED_BASE, find_skill_path, skill_path
from rearrange.tasks.actions import action_slots
from rearrange.tasks.floor_way import FLOOR_WAY
from rearrange.tasks.ranges import BASE_SCAN, CAMERA_ONLY, COARSE_DEPTH
from rearrange.tasks.rules.definition import TASKS
from rearrange.tasks.rules.names import HOME_TASKS
from rearrange.tasks.rules.rulebook import make_task
from rearrange.tasks.rules.task import HANDLE_SENSORS

if TYPE_CHECKING:
    from rearrange.skills.deployed.learned import LearnedPolicy


def is_arm_enough(skill: str) -> bool:
    """Whether the skill's task can be done with the base held still: action_space=stationary."""
    return not {8, 9} & set(action_slots(SKILLS[skill].task, "stationary"))


class Variant(NamedTuple):
    """The properties of an agent that chains trained skills."""

    skipped: frozenset[str] = frozenset()
    is_fixed_base: bool = False


def variant_of(agent: str) -> Variant | None:
    """The properties of an agent; None for one that chains no trained skills.

    Raises UserError for an unknown agent.
    """
    return getattr(AGENTS.find(agent), "variant", None)


def accepted_settings_of(agent: str) -> tuple[str, ...]:
    """An agent class's `accepted_settings`; a user-defined agent without that attribute has none.

    Raises UserError for an unknown agent.
    """
    return getattr(AGENTS.find(agent), "accepted_settings", ())


def chaining_agents() -> list[str]:
    """The agents that chain trained skills."""
    return [agent for agent in AGENTS if variant_of(agent) is not None]


@dataclass
class SkillSet:
    """What carries out each skill, and the options of their environment."""

    policies: dict[str, LearnedPolicy] = field(default_factory=lambda: {})
    oracle: frozenset[str] = frozenset()
    skipped: frozenset[str] = frozenset()
    env_options: dict[str, Any] = field(default_factory=lambda: {"depth": False})


def _known_variant(agent: str) -> Variant:
    variant = variant_of(agent)
    assert variant is not None, f"{agent} chains no skills"
    return variant


def skill_paths(task: str, agent: str, cfg: ChainCfg) -> dict[str, Path]:
    """Skill -> the file or run's folder it is loaded from, for trained skills.

    Raises UserError for a task without a plan and for a skill that is missing.
    """
    definition, variant = TASKS.find(task), _known_variant(agent)
    if not definition.is_planned:
        known = ", ".join(HOME_TASKS)
        raise UserError(f"agent={agent} plans: task must be one of {known}; got {task}")
    others = variant.skipped | set(cfg.oracle_skills)
    paths: dict[str, Path] = {}
    for skill in definition.skills:
        if skill not in others:
            paths[skill] = skill_path(_file_name(skill, variant), cfg.skills)
    for skill in definition.more_skills:
        path = find_skill_path(_file_name(skill, variant), cfg.skills)
        if skill not in others and path is not None:
            paths[skill] = path
    return paths


def _file_name(skill: str, variant: Variant) -> str:
    return skill + FIXED_BASE if variant.is_fixed_base and is_arm_enough(skill) else skill


def load_skill_set(task: str, agent: str, cfg: ChainCfg) -> SkillSet:
    """The skills of an agent for a task, ready to act.

    Raises UserError for a skill that is missing, damaged, of another task or action space, or with
    another camera or delay than the others.
    """
    variant = _known_variant(agent)
    chosen = SkillSet(oracle=frozenset(cfg.oracle_skills), skipped=variant.skipped)
    for skill, path in skill_paths(task, agent, cfg).items():
        chosen.policies[skill] = _load(skill, path, variant, cfg.is_sampling)
    seeing = {skill for skill, policy in chosen.policies.items() if IMAGE in policy.observation}
    for name, skills in (("camera_size", seeing), ("observation_delay", set(chosen.policies))):
        values = {skill: getattr(chosen.policies[skill], name) for skill in sorted(skills)}
        if len(set(values.values())) > 1:
            listed = ", ".join(f"{skill} {value}" for skill, value in values.items())
            raise UserError(f"skills that are chained must share one {name}, got {listed}")
        if values:
            chosen.env_options[name] = next(iter(values.values()))
    chosen.env_options["depth"] = bool(seeing)
    sensed = {name for policy in chosen.policies.values() for name in policy.observation}
    chosen.env_options["ranges"] = BASE_SCAN in sensed or (COARSE_DEPTH in sensed and CAMERA_ONLY)
    chosen.env_options["handle_sensors"] = not sensed.isdisjoint(HANDLE_SENSORS)
    return chosen


def _load(skill: str, path: Path, variant: Variant, is_sampling: bool) -> LearnedPolicy:
    from rearrange.skills.deployed.learned import LearnedPolicy  # torch: only where it is used
    from rearrange.skills.deployed.skill_files import find_skill

    policy = LearnedPolicy(find_skill(path), is_sampling)
    task = SKILLS[skill].task
    if policy.task != task:
        raise UserError(f"{path} was trained in task {policy.task}, not in {task}")
    is_fixed = policy.action_space == "stationary"
    if is_arm_enough(skill) and is_fixed != variant.is_fixed_base:
        wanted = "action_space=stationary" if variant.is_fixed_base else "a base that moves"
        got = policy.action_space
        raise UserError(f"{path} must be trained with {wanted}, got action_space={got}")
    rules = make_task(task)
    known = {*rules.sensors, *rules.handle_sensors, *SIGHTS}
    if is_made(policy.observation):
        known.add(FLOOR_WAY)
    if unknown := sorted(set(policy.observation) - known):
        raise UserError(f"{path} was trained with sensors that {skill} lacks: {', '.join(unknown)}")
    return policy
