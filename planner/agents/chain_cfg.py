"""Settings of a chain of skills: who runs its steps, and when it replans or gives up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rearrange.errors import UserError
from rearrange.skills.definition import SKILLS

LOOKS = ("none", "own", "privileged")


@dataclass(frozen=True, kw_only=True)
class ChainCfg:
    """Settings of a chain; `looks="none"` is Habitat's rule.

    Raises UserError for a skill or a way of looking that does not exist and for numbers below 1.
    """

    skills: str | None = None
    """Folder of trained skills; None: those of the package."""
    oracle_skills: tuple[str, ...] = ()
    """Skills that the oracle stands in for."""
    is_sampling: bool = False
    """Draw actions as in training instead of taking the most likely ones."""
    looks: str = "privileged"
    """What is known after each skill, so that a plan that no longer leads to the goal is made anew:
    none, own or privileged (`planner.agents.looks`)."""
    max_failures: int | None = None
    """With so many failed skills an episode is given up; None: 1 with looks=none, else 20."""
    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    """Skill -> control steps that it may take, instead of the usual ones."""

    @property
    def most_failures(self) -> int:
        """`max_failures` as a number."""
        assert self.max_failures is not None  # `__post_init__` has put one
        return self.max_failures

    def __post_init__(self) -> None:
        for what, names in (("oracle_skills", self.oracle_skills), ("limits", self.limits)):
            if unknown := [name for name in names if name not in SKILLS]:
                known = ", ".join(SKILLS)
                raise UserError(f"{what}: there is no skill '{unknown[0]}': choose from {known}")
        if self.looks not in LOOKS:
            raise UserError(f"looks must be one of {', '.join(LOOKS)}, got {self.looks}")
        if self.max_failures is None:
            object.__setattr__(self, "max_failures", 1 if self.looks == "none" else 20)
        if self.most_failures < 1:
            raise UserError(f"max_failures must be at least 1, got {self.max_failures}")
        for name, limit in self.limits.items():
            if limit < 1:
                raise UserError(f"limits.{name} must be at least 1 control step, got {limit}")
