"""Recipes and stages: how a skill is trained, as data in `stages.yaml` and `skill/NAME.yaml`.

A recipe is for one kind of training with the `small` network:

    fresh       VER from fresh weights
    imitation   of the teacher
    blind       VER without pictures, from weights that can do something already
    tuning      the same with pictures

A stage is one training of a skill's whole way from nothing, such as `laptop`'s: it begins with the
recipe of its kind, and says what differs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rearrange.configs.checks import MISSING

KINDS = ("fresh", "imitation", "blind", "tuning")
PRESETS = ("laptop", "paper")  # of stages: for two cores, and for a GPU as in the paper
METHODS = ("imitation", "ver", "average")  # of a stage
BEFORE = "before"  # the stage before this one


@dataclass(kw_only=True)
class Recipe:
    total_steps: int | None = None
    """Environment steps; none: as said below it."""
    env_kwargs: dict[str, Any] = field(default_factory=dict[str, Any])
    """What the environment is made with."""
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    """Settings of `train-skill`, nested: {ppo: {learning_rate: 1e-3}}."""


@dataclass(kw_only=True)
class Stage(Recipe):
    name: str = MISSING
    """Of the stage, and of the folder of its run."""
    like: str | None = None
    """A stage of `stages.yaml` whose values hold where this one says nothing."""
    method: str = "ver"
    """imitation, ver, or average: the mean of the weights of other stages."""
    warm_start: str = BEFORE
    """With whose weights it begins: an earlier stage's, `before`, or `none`: fresh ones. The first
    stage of all has fresh ones in any case."""
    average: list[str] = field(default_factory=list[str])
    """method=average: of which stages."""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, got {self.method}")
        if (self.method == "average") != bool(self.average):
            raise ValueError("average names the stages of method=average, and of no other")
        if self.total_steps is not None and self.total_steps < 1:
            raise ValueError(f"total_steps must be at least 1, got {self.total_steps}")
