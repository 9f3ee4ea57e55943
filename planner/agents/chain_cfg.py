"""Settings of a chain of skills: what runs its steps, and when it replans or gives up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rearrange.errors import UserError
from rearrange.skills.definition import SKILLS

LOOKS = ("none", "own", "privileged")


@dataclass(frozen=True, kw_only=True)
class ChainCfg:
    """Settings of a chain; `looks="none"` is Habitat's rule.

    Raises UserError for an unknown skill or value of looks, and for numbers below 1.
    """

    skills: str | None = None
    """Folder of trained skills; None: the package's."""
    oracle_skills: tuple[str, ...] = ()
    """Skills that the oracle carries out."""
    is_sampling: bool = False
    """Draw actions as in training instead of taking the most likely ones."""
    looks: str = "privileged"
    """Facts that are checked after each skill, to replan if needed: none, own or privileged
    (`planner.agents.fact_sources`)."""
    max_failures: int | None = None
    """Failed skills after which an episode is given up; None: 1 with looks=none, else 20."""
    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    """Skill -> time limit in control steps, instead of the default."""

    @property
    def most_failures(self) -> int:
        """`max_failures` as a number."""
        assert self.max_failures is not None  # set by `__post_init__`
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
