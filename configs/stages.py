"""Recipes and stages: how a skill is trained, as data in `stages.yaml` and `skill/NAME.yaml`.

A recipe is for one kind of training with the `small` network:

    fresh       VER from fresh weights
    imitation   of the teacher
    blind       VER without pictures, from trained weights
    tuning      the same with pictures

A stage is one of the trainings that lead to a skill, such as preset `laptop`'s: it starts from the
recipe of its kind, and holds what differs.
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
    """Environment steps; none: from the layer below."""
    env_kwargs: dict[str, Any] = field(default_factory=dict[str, Any])
    """Options of the environment."""
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    """Settings of `train-skill`, nested: {ppo: {learning_rate: 1e-3}}."""


@dataclass(kw_only=True)
class Stage(Recipe):
    name: str = MISSING
    """Name of the stage, and of its run's folder."""
    like: str | None = None
    """A stage of `stages.yaml` with the default values."""
    method: str = "ver"
    """imitation, ver, or average: the mean of the weights of other stages."""
    warm_start: str = BEFORE
    """Initial weights: an earlier stage's, `before`, or `none`: fresh ones. The first stage always
    has fresh ones."""
    average: list[str] = field(default_factory=list[str])
    """method=average: the stages to average."""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, got {self.method}")
        if (self.method == "average") != bool(self.average):
            raise ValueError("average names the stages of method=average, and of no other")
        if self.total_steps is not None and self.total_steps < 1:
            raise ValueError(f"total_steps must be at least 1, got {self.total_steps}")
