"""When stragglers stop collecting, and what takes the place of the steps they did not take.

    rule       stops a rank that still collects
    optimal    after Time(S) seconds, S being the best of S / (Time(S) + LT)       VER, equation 1
    fraction   once 60% of the ranks have finished and it has a quarter of its steps      DD-PPO

Time(S): seconds in which all ranks together collect S steps, from the mean step times of all their
environments in the last rollout; LT: seconds that learning took. Every rank computes the same from
the same numbers, so that none has to decide for the others. A rollout that was stopped is filled
with steps of the one before ("stale"), so that all minibatches keep their size.

Wijmans et al. 2022 (VER), section 2.3; Wijmans et al. 2020 (DD-PPO), section 3.
R: ranks, E: environments of a rank, S: steps of all ranks, Q: those a rank's rollout holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

RULES = ("auto", "off", "fraction", "optimal")
_SHORTEST_STEP_S = 1e-6  # a step that took no time at all would fill any rollout at once


@dataclass(kw_only=True)
class PreemptionCfg:
    rule: str = "auto"
    """optimal, fraction or off; auto: optimal in mode ver, fraction in ddppo, else off."""
    fraction: float = 0.6
    """Rule fraction: so many of the ranks have finished before the others are stopped."""
    min_share: float = 0.25
    """Rule fraction: so much of its steps a rank takes in any case."""
    fill: bool = True
    """Fill stopped rollouts with the previous one's steps; false: learn from fewer."""

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ValueError(
                f"preemption rule must be one of {', '.join(RULES)}; got '{self.rule}'"
            )
        if not 0.0 < self.fraction <= 1.0:
            raise ValueError(f"preemption fraction must lie in (0, 1], got {self.fraction}")
        if not 0.0 <= self.min_share <= 1.0:
            raise ValueError(f"preemption min_share must lie in [0, 1], got {self.min_share}")

    def rule_for(self, mode: str) -> str:
        """optimal, fraction or off."""
        if self.rule != "auto":
            return self.rule
        return {"ver": "optimal", "ddppo": "fraction"}.get(mode, "off")


class Choice(NamedTuple):
    """Where the ranks together stop collecting."""

    num_steps: int  # S
    seconds: float  # Time(S), from the beginning of collecting


def choose_steps(
    step_s: Sequence[np.ndarray],  # R times [E], mean seconds of a step of each environment
    learn_s: float,  # LT
    quota: int,  # Q
    is_variable: bool,
    is_overlapped: bool = False,
) -> Choice:
    """The S of the highest S / (Time(S) + LT), S at most R Q.

    Args:
        is_variable: quick environments take more steps than slow ones; else all take Q / E.
        is_overlapped: learning goes on beside collecting: S / max(Time(S), LT).
    """
    ends = np.sort(np.concatenate([step_ends(times, quota, is_variable) for times in step_s]))
    seconds = np.maximum(ends, learn_s) if is_overlapped else ends + learn_s
    rates = np.arange(1, len(ends) + 1) / seconds
    # Of equal rates the largest S, which learns from more for the same price.
    best = len(rates) - 1 - int(rates[::-1].argmax())
    return Choice(best + 1, float(ends[best]))


def step_ends(step_s: np.ndarray, quota: int, is_variable: bool) -> np.ndarray:
    """Seconds after which a rank has 1, 2, ..., Q steps if each takes its mean time, [Q]."""
    step_s = np.maximum(np.asarray(step_s, np.float64), _SHORTEST_STEP_S)
    if is_variable:
        # After so long there are Q steps, even where each environment has just missed one.
        horizon = (quota + len(step_s)) / (1.0 / step_s).sum() * (1.0 + 1e-9)
        counts = np.minimum(horizon / step_s, quota).astype(np.int64)
    else:
        counts = np.full(len(step_s), quota // len(step_s))
    ends = [times * np.arange(1, count + 1) for times, count in zip(step_s, counts, strict=True)]
    return np.sort(np.concatenate(ends))[:quota]


def newest_first(
    candidates: np.ndarray,  # [n] rows
    policy_version: np.ndarray,  # of each row of the storage
    decided: np.ndarray,  # of each row: a number that grows with every step decided
) -> np.ndarray:
    """The rows, those of the newest policy first and of the same policy the latest first, [n]."""
    order = np.lexsort((decided[candidates], policy_version[candidates]))
    return candidates[order[::-1]]
