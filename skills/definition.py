"""SkillDefinition: all parts of a skill in one object, and the registry of skills."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rearrange.errors import UserError
from rearrange.skills.skill import Program
from rearrange.system.registry import Registry, resolved

if TYPE_CHECKING:
    from rearrange.tasks.rules.episode import EpisodeSpec


class Operator(NamedTuple):
    """An action of the planner's domain as a use of a skill."""

    arguments: tuple[int, ...]
    """Which of the action's arguments the skill gets; the first is what it is about."""
    shown: str = ""
    """How a plan shows it; empty: by the skill's name."""


class Phrases(NamedTuple):
    """What people read of a step. In braces: `thing`, what it is about, with its article; `what`,
    without; `place`, where to."""

    do: str
    """"pick up {thing}"."""
    doing: str
    """"picking up {thing}"."""
    done: str
    """"{thing} was in the hand"."""


@dataclass(frozen=True, kw_only=True)
class DeploymentRules:
    """What ends a trained skill in a chain, and what of its output is held back."""

    has_ended: Callable[[Any], bool] = lambda senses: False
    """Whether it is over by what the robot senses, `skills.deployed.deployment.Senses`."""
    may_stop: Callable[[Mapping[str, Any]], bool] = lambda seen: True
    """Whether its own stop ends it, by what it sees."""
    grip: Callable[[float, bool, bool], float] = lambda grip, is_holding, is_released: grip
    """The grip command that is sent: of the skill's, whether something is held, and whether it was
    not at some time since the skill began."""
    watched: tuple[str, ...] = ()
    """Sensors that tell whether it stands still, which is a failure."""
    is_driving: bool = False
    """Whether it has to come nearer to what its compass shows."""


@dataclass(frozen=True, kw_only=True)
class SkillDefinition:
    """A skill. Where a function or object is asked for, "module:Name" of it does as well.

    `Body` is `rearrange.skills.motion.body.Body`, the robot as rules and programs see it.
    """

    name: str
    task: str
    """The task that it is trained and evaluated in: its name."""
    recipe: Path
    """A YAML file as configs/skill/pick.yaml: what it is trained with."""
    program: Callable[[Any, EpisodeSpec], Program] | str
    """The oracle, who reads the simulator's state: from `Body` and an episode of the task."""
    teacher: Callable[[Any, EpisodeSpec], Any] | str | None = None
    """From the same to rules with an answer in every state (`act()`, [11]), which method=imitation
    learns from; None: there are none, and it is learned by its reward alone."""
    deployment: DeploymentRules | str = DeploymentRules()
    """What ends it in a chain once trained, and what of its output is held back."""
    operators: Mapping[str, Operator] = field(default_factory=dict[str, Operator])
    """Actions of the planner's domain that it carries out."""
    predicates: str = ""
    """What it adds to the predicates of the domain of a task that has it, PDDL: "(pressed ?c)"."""
    actions: str = ""
    """The same of actions: "(:action press_button ...)"."""
    phrases: Phrases | None = None
    """What people read of its steps; None: its name."""
    trained_steps: int | None = None
    """Control steps that the trained skill may take in a chain; None: an episode's of its task."""
    oracle_steps: int = 700
    """The same of the oracle."""
    step: Callable[..., Program] | str | None = None
    """The oracle for a step of a plan: of `Body`, episode, the step's `Call` and that of the step
    after it or None; None: `program`, with an episode that begins here and asks for this step."""
    reach: Callable[..., Any] | str | None = None
    """How it will reach its thing, a `ReachPlan`, so that Navigate leads where it is best started:
    of `Body`, episode and `Call`; None: it is not known."""

    def start_program(self, body: Any, episode: EpisodeSpec) -> Program:
        """The oracle's program for an episode."""
        return resolved(self.program)(body, episode)

    def start_teacher(self, body: Any, episode: EpisodeSpec) -> Any:
        """The rules for an episode. Raises UserError for a skill without, or without `act`."""
        if self.teacher is None:
            raise UserError(f"skill {self.name} has no teacher to imitate: train it by method=ver")
        teacher = resolved(self.teacher)(body, episode)
        if not callable(getattr(teacher, "act", None)):
            kind = type(teacher).__name__
            raise UserError(f"the teacher of skill {self.name} has no method act(): it is a {kind}")
        return teacher


SKILLS: Registry[SkillDefinition] = Registry("skill", lambda it: isinstance(it, SkillDefinition))
"""What the robot can learn: its task, teacher, rules of deployment and recipe."""


def skill_for(task: str) -> SkillDefinition:
    """The skill that is trained in a task. Raises ValueError if there is none."""
    for skill in SKILLS.values():
        if skill.task == task:
            return skill
    raise ValueError(f"no single skill solves task {task!r}")
