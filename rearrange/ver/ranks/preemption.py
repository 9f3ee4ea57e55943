"""Preemption: when stragglers stop collecting, and what completes their rollouts.

    rule       stops a rank that still collects
    optimal    after Time(S) + margin, S being the best of S / (Time(S) + LT)      VER, equation 1
    fraction   once 60% of the ranks have finished and it has a quarter of its steps      DD-PPO

Time(S): seconds in which all ranks together collect S steps, from the mean step times of all their
environments in the last rollouts; LT: seconds of learning. The margin is the error of earlier
predictions: it spares ranks that are as quick as the others but late by chance. Every rank computes
the same from the same numbers, so no rank decides for the others. In VER a stopped rollout is
filled with steps of the previous one ("stale"), so that all minibatches keep their size; DD-PPO
learns from fewer steps.

Wijmans et al. 2022 (VER), section 2.3; Wijmans et al. 2020 (DD-PPO), section 3.
R: ranks, E: environments of a rank, S: steps of all ranks, Q: those a rank's rollout holds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

RULES = ("auto", "off", "fraction", "optimal")
_SHORTEST_STEP_S = 1e-6  # steps of zero duration would fill any rollout at once
_WARM_UP = 1  # not representative: processes start, memory is allocated
_SMOOTHED = 5  # rollouts whose mean times count, as in Habitat's implementation of VER
_JUDGED = 16  # rollouts that predictions are compared with, as there
_LEAST_JUDGED = 3
_DEVIATIONS = 3.0  # of the errors, in the margin
# Errors count as no larger than this many times the median one (four deviations, if they are
# normal): one rollout in which a process was started anew changes little.
_LARGEST_ERROR = 4.0 * 1.4826


@dataclass(kw_only=True)
class PreemptionCfg:
    rule: str = "auto"
    """optimal, fraction or off; auto: optimal in mode ver, fraction in ddppo, else off."""
    fraction: float = 0.6
    """Rule fraction: share of the ranks that finish before the others are stopped."""
    min_share: float = 0.25
    """Rule fraction: share of its steps that a rank takes in any case."""
    fill: bool | None = None
    """Fill stopped rollouts with the previous one's steps; false: learn from fewer; null: in all
    modes but ddppo, which has no such steps."""

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

    def fills(self, mode: str) -> bool:
        """Whether stopped rollouts are filled."""
        return mode != "ddppo" if self.fill is None else self.fill


class Choice(NamedTuple):
    """The point at which all ranks stop collecting."""

    num_steps: int  # S
    seconds: float  # Time(S), from the beginning of collecting
    margin_s: float = 0.0

    @property
    def deadline_s(self) -> float:
        """The point at which ranks that still collect are stopped."""
        return self.seconds + self.margin_s


class RankTimes(NamedTuple):
    """A rank's report of a rollout; sent in this order."""

    num_steps: int  # complete ones, fewer than Q if it was stopped
    wall_s: float  # of collecting
    learn_s: float
    step_s: Sequence[float]  # [E] mean seconds from one step of an environment to its next


class Forecast:
    """Predicts from the last rollouts when to stop the next one.

    Args:
        quota: Q.
        is_variable, is_overlapped: see `choose_steps`.
    """

    def __init__(self, quota: int, is_variable: bool, is_overlapped: bool) -> None:
        self._quota, self._is_variable, self._is_overlapped = quota, is_variable, is_overlapped
        self._num_seen = 0
        self._times: deque[np.ndarray] = deque(maxlen=_SMOOTHED)  # [R, E] each
        self._learn_s: deque[float] = deque(maxlen=_SMOOTHED)
        # Relative error of the predicted collecting time, [R] each
        self._errors: deque[list[float]] = deque(maxlen=_JUDGED)

    def add(self, ranks: Sequence[RankTimes]) -> None:
        """Adds the reports of a rollout, in the order of the ranks."""
        self._num_seen += 1
        if self._num_seen <= _WARM_UP:
            return
        if self._times:
            expected = [self._ends(step_s) for step_s in self._step_s()]
            self._errors.append(
                [
                    rank.wall_s / float(ends[rank.num_steps - 1]) - 1.0
                    for rank, ends in zip(ranks, expected, strict=True)
                    if 0 < rank.num_steps <= self._quota
                ]
            )
        self._times.append(np.array([rank.step_s for rank in ranks]))
        self._learn_s.append(float(np.mean([rank.learn_s for rank in ranks])))

    def choose(self) -> Choice | None:
        """Where to stop the next rollout; None while too little is known."""
        if len(self._errors) < _LEAST_JUDGED:
            return None
        learn_s = float(np.mean(self._learn_s))
        choice = choose_steps(
            self._step_s(), learn_s, self._quota, self._is_variable, self._is_overlapped
        )
        return choice._replace(margin_s=self._margin() * choice.seconds)

    def _margin(self) -> float:
        """The margin, as a share of the predicted time."""
        errors = np.concatenate(self._errors)
        middle = np.median(errors)
        sizes: np.ndarray = np.abs(errors - middle)
        sizes = np.minimum(sizes, _LARGEST_ERROR * np.median(sizes))
        return max(0.0, float(middle + _DEVIATIONS * np.sqrt(np.mean(sizes**2))))

    def _step_s(self) -> np.ndarray:
        """Mean over the rollouts that are remembered, [R, E]."""
        return np.mean(self._times, axis=0)

    def _ends(self, step_s: np.ndarray) -> np.ndarray:
        return step_ends(step_s, self._quota, self._is_variable)


def choose_steps(
    step_s: Sequence[np.ndarray]
    | np.ndarray,  # R times [E], mean seconds of a step of each environment
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
    # Of equal rates the largest S: more data at the same cost.
    best = len(rates) - 1 - int(rates[::-1].argmax())
    return Choice(best + 1, float(ends[best]))


def step_ends(step_s: np.ndarray, quota: int, is_variable: bool) -> np.ndarray:
    """Seconds after which a rank has 1, 2, ..., Q steps if each takes its mean time, [Q]."""
    step_s = np.maximum(np.asarray(step_s, np.float64), _SHORTEST_STEP_S)
    if is_variable:
        # By then there are Q steps, even if each environment has just missed one.
        horizon = (quota + len(step_s)) / (1.0 / step_s).sum() * (1.0 + 1e-9)
        counts = np.minimum(horizon / step_s, quota).astype(np.int64)
    else:
        counts = np.full(len(step_s), quota // len(step_s))
    ends: list[np.ndarray] = [
        times * np.arange(1, count + 1) for times, count in zip(step_s, counts, strict=True)
    ]
    return np.sort(np.concatenate(ends))[:quota]


def newest_first(
    candidates: np.ndarray,  # [n] rows
    policy_version: np.ndarray,  # of each row of the storage
    decided: np.ndarray,  # of each row: a number that grows with every step decided
) -> np.ndarray:
    """The rows, those of the newest policy first and of the same policy the latest first, [n]."""
    order = np.lexsort((decided[candidates], policy_version[candidates]))
    return candidates[order[::-1]]
