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
    """The arguments of the action that the skill gets; the first is its object."""
    shown: str = ""
    """Its name in a printed plan; empty: the skill's name."""


class Phrases(NamedTuple):
    """How a step is described to people. In braces: `thing`, its object with an article; `what`,
    without; `place`, its destination."""

    do: str
    """"pick up {thing}"."""
    doing: str
    """"picking up {thing}"."""
    done: str
    """"{thing} was in the hand"."""


@dataclass(frozen=True, kw_only=True)
class DeploymentRules:
    """When a trained skill ends in a chain, and which of its outputs are suppressed."""

    has_ended: Callable[[Any], bool] = lambda senses: False
    """Whether it has ended, from `skills.deployed.deployment.Senses`."""
    may_stop: Callable[[Mapping[str, Any]], bool] = lambda seen: True
    """Whether its own stop may end it, given its observation."""
    grip: Callable[[float, bool, bool], float] = lambda grip, is_holding, is_released: grip
    """The grip command that is sent, from the skill's, whether something is held, and whether the
    hand was empty at some time since the skill began."""
    watched: tuple[str, ...] = ()
    """Sensors that show whether it stands still, which is a failure."""
    is_driving: bool = False
    """Whether it must get nearer to the target of its compass."""


@dataclass(frozen=True, kw_only=True)
class SkillDefinition:
    """A skill. Functions and objects may be given as "module:Name".

    `Robot` is `rearrange.skills.motion.robot.Robot`, the robot as rules and programs see it.
    """

    name: str
    task: str
    """Name of the task that it is trained and evaluated in."""
    recipe: Path
    """A YAML file like configs/skill/pick.yaml: its training settings."""
    program: Callable[[Any, EpisodeSpec], Program] | str
    """The oracle, which reads the simulator's state: `Robot` and an episode -> program."""
    teacher: Callable[[Any, EpisodeSpec], Any] | str | None = None
    """The same arguments -> rules with an action in every state (`act()`, [11]), for
    method=imitation; None: the skill is learned from its reward alone."""
    deployment: DeploymentRules | str = DeploymentRules()
    """When it ends in a chain, and which of its outputs are suppressed."""
    operators: Mapping[str, Operator] = field(default_factory=dict[str, Operator])
    """Actions of the planner's domain that it carries out."""
    predicates: str = ""
    """Predicates that it adds to the planning domain, PDDL: "(pressed ?c)"."""
    actions: str = ""
    """Actions that it adds: "(:action press_button ...)"."""
    phrases: Phrases | None = None
    """How its steps are described to people; None: by its name."""
    trained_steps: int | None = None
    """Time limit of the trained skill in a chain, control steps; None: its task's."""
    oracle_steps: int = 700
    """Time limit of the oracle."""
    step: Callable[..., Program] | str | None = None
    """The oracle for a step of a plan: `Robot`, episode, the step's `Call` and the next step's or
    None -> program; None: `program` with an episode for this step alone."""
    reach: Callable[..., Any] | str | None = None
    """`Robot`, episode and `Call` -> the `ReachPlan` for its object, so that Navigate ends where
    the skill starts best; None: unknown."""

    def __post_init__(self) -> None:
        lower = {name.lower(): operator for name, operator in self.operators.items()}  # as in PDDL
        object.__setattr__(self, "operators", lower)

    def start_program(self, robot: Any, episode: EpisodeSpec) -> Program:
        """The oracle's program for an episode."""
        return resolved(self.program)(robot, episode)

    def start_teacher(self, robot: Any, episode: EpisodeSpec) -> Any:
        """The rules for an episode. Raises UserError for a skill without, or without `act`."""
        if self.teacher is None:
            raise UserError(f"skill {self.name} has no teacher to imitate: train it by method=ver")
        teacher = resolved(self.teacher)(robot, episode)
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
