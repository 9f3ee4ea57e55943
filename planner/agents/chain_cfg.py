"""How a chain of skills is run: what carries its steps out, and when it plans again or gives up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rearrange.errors import UserError
from rearrange.skills.definition import SKILLS


@dataclass(frozen=True, kw_only=True)
class ChainCfg:
    """Settings of a chain; the defaults are ours, `replan=False, max_failures=1` is Habitat's.

    Raises UserError for a skill that does not exist and for numbers below 1.
    """

    skills: str | None = None
    """Folder of trained skills; None: those of the package."""
    oracle_skills: tuple[str, ...] = ()
    """Skills that the oracle stands in for."""
    is_sampling: bool = False
    """Draw actions as in training instead of taking the most likely ones."""
    replan: bool = True
    """Whether the plan is checked against the observed facts after each skill, and made anew."""
    max_failures: int = 20
    """With so many failed skills an episode is given up."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """Skill -> control steps that it may take, instead of the usual ones."""

    def __post_init__(self) -> None:
        for what, names in (("oracle_skills", self.oracle_skills), ("limits", self.limits)):
            if unknown := [name for name in names if name not in SKILLS]:
                known = ", ".join(SKILLS)
                raise UserError(f"{what}: there is no skill '{unknown[0]}': choose from {known}")
        if self.max_failures < 1:
            raise UserError(f"max_failures must be at least 1, got {self.max_failures}")
        for name, limit in self.limits.items():
            if limit < 1:
                raise UserError(f"limits.{name} must be at least 1 control step, got {limit}")
