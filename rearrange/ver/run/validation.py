"""Periodic evaluation on episodes that are not used for learning.

    every so many steps:  checkpoint --> measure --> {"validation/success": ...}, a film
                                                         |
                          the checkpoint's score <-------+   the best stays

The caller supplies `measure`: the trainer depends neither on the home nor on the evaluation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rearrange.ver.run.tensorboard import Film


@dataclass(frozen=True)
class ValidationResult:
    metrics: dict[str, float]
    """Under their names in metrics.jsonl."""
    score: str
    """The one that ranks checkpoints; higher is better."""
    film: Film | None = None


Measure = Callable[[Path, int], ValidationResult | None]
"""Manifest file and step -> result; None if nothing could be measured."""


@dataclass(frozen=True)
class Validation:
    every: int
    """Environment steps."""
    measure: Callable[[Path, int, Callable[[], bool]], ValidationResult | None]
    """As `Measure`; the last argument is checked to stop early."""

    def next_step(self, step: int) -> int:
        """Step of the next validation: a multiple of `every`, also in a resumed training."""
        return (step // self.every + 1) * self.every
