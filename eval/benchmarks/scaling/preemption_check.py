"""Compares the chosen S with the best S on the same timings.

    draw     ranks, environments, their differences and the time of learning, at random
    choose   from the mean step times of a rollout; the trainer takes those of several, and a margin
    try      each S: S / (when all ranks together have S steps + learning), step by step

The choice is tried on a rollout whose steps take exactly the means it was based on ("means"), on
the rollout with these means ("same"), and on the following one ("next"), for which it is used and
whose times differ. The best S is chosen with all times known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rearrange.ver.ranks.preemption import choose_steps
from rearrange.workloads.straggler import StepTimes, StragglerCfg


@dataclass(frozen=True)
class Draw:
    """Timings of one random group of ranks."""

    rollouts: list[list[np.ndarray]]
    """Two rollouts: for each rank when it has 1, 2, ..., Q steps [Q], from the rollout's begin."""
    step_s: list[np.ndarray]
    """Of the first rollout: each rank's mean seconds of a step of its environments [E]."""
    learn_s: float
    quota: int


class Score(NamedTuple):
    """Throughput at the chosen S over that at the best S."""

    means: float
    same: float
    next: float


def check(num_draws: int, seed: int) -> dict[str, dict[str, float]]:
    """{means, same, next} x {worst, low (5%), mean} over random draws."""
    scores = np.array([score(draw(np.random.default_rng([seed, i]))) for i in range(num_draws)])
    return {
        name: {
            "worst": float(column.min()),
            "low": float(np.quantile(column, 0.05)),
            "mean": float(column.mean()),
        }
        for name, column in zip(Score._fields, scores.T, strict=True)
    }


def score(drawn: Draw) -> Score:
    """Chooses from the first rollout and tries S on its means, on itself and on the second."""
    chosen_s = choose_steps(drawn.step_s, drawn.learn_s, drawn.quota, True).seconds
    means, ratios = [_steady(step_s, drawn.quota) for step_s in drawn.step_s], []
    chosen_s *= 1.0 + 1e-9  # sums of many means differ from products by rounding
    for rollout in (means, *drawn.rollouts):
        best = best_throughput(rollout, drawn.learn_s)
        ratios.append(throughput(rollout, chosen_s, drawn.learn_s) / best)
    return Score(*ratios)


def throughput(rollout: list[np.ndarray], stop_s: float, learn_s: float) -> float:
    """Steps per second if all ranks stop then, or earlier where they have all their steps."""
    num_steps = sum(int((ends <= stop_s).sum()) for ends in rollout)
    collect_s = max(min(stop_s, float(ends[-1])) for ends in rollout)
    return num_steps / (collect_s + learn_s)


def best_throughput(rollout: list[np.ndarray], learn_s: float) -> float:
    """The highest over all S."""
    all_ends = sorted(end_s for ends in rollout for end_s in ends)
    return max(num_steps / (end_s + learn_s) for num_steps, end_s in enumerate(all_ends, start=1))


def draw(rng: np.random.Generator) -> Draw:
    """2 to 16 ranks with small or large differences; learning takes 5 to 60% of collecting."""
    num_ranks, num_envs = int(rng.integers(2, 17)), int(rng.choice([4, 8, 16]))
    quota = num_envs * int(rng.integers(8, 65))
    cfg = StragglerCfg(
        spread=rng.uniform(0.0, 0.4), group_size=num_envs, group_spread=rng.uniform(0.0, 0.4),
        episode_spread=rng.uniform(0.0, 0.3), episode_steps=int(rng.integers(20, 200)),
        seed=int(rng.integers(1 << 20)),
    )  # fmt: skip
    rollouts: list[list[np.ndarray]] = [[], []]
    step_s = []
    for rank in range(num_ranks):
        clocks = [_Clock(cfg, rank * num_envs + e) for e in range(num_envs)]
        for rollout in rollouts:
            ends, means = _collect(clocks, quota)
            rollout.append(ends)
            if rollout is rollouts[0]:
                step_s.append(means)
    mean_s = float(np.mean([ends[-1] for ends in rollouts[0]]))
    return Draw(rollouts, step_s, rng.uniform(0.05, 0.6) * mean_s, quota)


def _steady(step_s: np.ndarray, quota: int) -> np.ndarray:
    """When a rank has 1, 2, ..., Q steps if every step takes its environment's mean, [Q]."""
    clocks, ends = step_s.copy(), []
    for _ in range(quota):
        e = int(clocks.argmin())
        ends.append(clocks[e])
        clocks[e] += step_s[e]
    return np.array(ends)


class _Clock:
    """One environment: the end of its current step."""

    def __init__(self, cfg: StragglerCfg, index: int) -> None:
        self._times, self._cfg = StepTimes(cfg, index), cfg
        self._left = self._times.first_episode_steps
        self.end_s, self.count = 0.0, 0
        self.begin_step()

    def begin_step(self) -> None:
        self.end_s += self._times.next_step_s()
        self._left -= 1
        if self._left == 0:
            self.end_s += self._times.next_reset_s()
            self._left = self._cfg.episode_steps


def _collect(clocks: list[_Clock], quota: int) -> tuple[np.ndarray, np.ndarray]:
    """Steps of one rank in order of completion: their ends [Q]; mean seconds of a step [E]."""
    ends, counts, last = [], np.zeros(len(clocks)), np.zeros(len(clocks))
    for _ in range(quota):
        e = min(range(len(clocks)), key=lambda e: clocks[e].end_s)
        ends.append(clocks[e].end_s)
        counts[e], last[e] = counts[e] + 1, clocks[e].end_s
        clocks[e].begin_step()
    over = ends[-1]
    for clock in clocks:  # the next rollout begins now; open steps continue
        clock.end_s -= over
    # an environment without a step takes longer than the rollout
    return np.array(ends), np.where(counts > 0, last / np.maximum(counts, 1), over)
