"""Learning-rate schedules over a training run.

Progress is steps done / total steps. The last rollout may overshoot, so progress is clamped to
0..1.
"""

import math
from collections.abc import Callable


def cosine(progress: float) -> float:
    """1 at the start, 0 at the end, half a cosine between (Loshchilov & Hutter 2017, eq. 5)."""
    return 0.5 * (1.0 + math.cos(math.pi * _clip(progress)))


def linear(progress: float) -> float:
    """1 at the start, 0 at the end, a straight line between."""
    return 1.0 - _clip(progress)


def constant(progress: float) -> float:
    """Always 1."""
    return 1.0


SCHEDULES: dict[str, Callable[[float], float]] = {
    "cosine": cosine,
    "linear": linear,
    "constant": constant,
}


def _clip(progress: float) -> float:
    return min(max(progress, 0.0), 1.0)
