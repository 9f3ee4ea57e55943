"""Periodic evaluation on episodes that are not used for learning.

    every so many steps:  checkpoint --> measure --> {"validation/success": ...}, a film
                                                         |
                          the checkpoint's score <-------+   the best stays

Who measures is the caller's: the trainer knows neither the home nor how a policy is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rearrange.ver.run.tensorboard import Film


@dataclass(frozen=True)
class ValidationResult:
    metrics: dict[str, float]
    """By their names in metrics.jsonl."""
    score: str
    """The one of them that is to be high."""
    film: Film | None = None


Measure = Callable[[Path, int], ValidationResult | None]
"""Of a checkpoint's manifest and its step; None where nothing could be measured."""


@dataclass(frozen=True)
class Validation:
    every: int
    """Environment steps."""
    measure: Callable[[Path, int, Callable[[], bool]], ValidationResult | None]
    """As `Measure`; the last argument says whether to stop."""

    def next_step(self, step: int) -> int:
        """When the next one is due: a multiple of `every`, also after a training was stopped."""
        return (step // self.every + 1) * self.every
