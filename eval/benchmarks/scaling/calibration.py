"""Fits the simulation's costs to measurements, and reports the remaining error.

    cost                        from
    all-reduce                  the ranks' own timing of it, R >= 2: a ring's hops and bytes
    between two rollouts        the rest of a rollout's time after collecting and learning: a + b R
    a batch of requests         collecting time of VER on single ranks

All other measurements are predicted: other variants, all collecting of several ranks.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rearrange.eval.benchmarks.scaling.measure import Measured
from rearrange.eval.benchmarks.scaling.simulation import (
    WAYS,
    Costs,
    StepTable,
    simulate,
    simulate_alone,
)

Measurements = dict[int, dict[str, Measured]]  # ranks -> way -> what was measured
_LONGEST_BATCH_S = 0.5  # range of the search


def calibrate(measured: Measurements, table: StepTable, num_rollouts: int, warmup: int) -> Costs:
    """Costs that best explain the measurements with several ranks, and VER on single ones.

    Args:
        table: the workload, of at least as many ranks as trained on their own.
        num_rollouts: of each training, including its `warmup`.
    """
    costs = fit_all_reduce(
        {
            ranks: float(np.median([figure.all_reduce_s for figure in ways.values()]))
            for ranks, ways in measured.items()
            if ranks > 1
        }
    )
    work, left = table.work, []
    for ranks, ways in measured.items():
        learning_s = costs.learning_s(work, ranks)
        for figure in ways.values():
            left.append((ranks, figure.rollout_s - figure.collect_s - learning_s))
    costs = replace(costs, rollout_s=fit_line(*zip(*left, strict=True)))
    alone = measured[1].get("ver") or measured[1].get("ver_waits")
    if alone is None:
        return costs
    return replace(costs, batch_s=fit_batch(alone, table, costs, num_rollouts, warmup))


def fit_all_reduce(times_s: dict[int, float]) -> Costs:
    """Costs with the hop and the bytes of the ring nearest to the times; ranks -> s."""
    if not times_s:
        return Costs()
    ranks, times = np.array(list(times_s), float), np.array(list(times_s.values()))
    hops, passes = 2.0 * (ranks - 1.0), 2.0 * (ranks - 1.0) / ranks
    # relative errors, so that short and long times count the same
    hop_s, bytes_s = _not_negative(np.stack([hops, passes], axis=1) / times[:, None])
    return Costs(hop_s=hop_s, bytes_s=bytes_s)


def fit_line(ranks: tuple[int, ...], seconds: tuple[float, ...]) -> tuple[float, float]:
    """(a, b) of the a + b R nearest to the seconds, neither below 0."""
    columns = np.stack([np.ones(len(ranks)), np.array(ranks, float)], axis=1)
    if len(set(ranks)) == 1:
        return max(0.0, float(np.mean(seconds))), 0.0
    a, b = _solve(columns, np.array(seconds))
    return a, b


def fit_batch(
    alone: Measured, table: StepTable, costs: Costs, num_rollouts: int, warmup: int
) -> float:
    """The collector's own time on a batch (s) that explains the collecting time of single ranks."""
    low, high = 0.0, _LONGEST_BATCH_S
    for _ in range(14):  # to 0.03 ms
        middle = 0.5 * (low + high)
        runs = simulate_alone(
            "ver", table, len(alone.rates_alone), replace(costs, batch_s=middle), num_rollouts
        )
        collect_s = np.mean([run.collect_s[warmup:] for run in runs])
        low, high = (low, middle) if collect_s > alone.collect_s else (middle, high)
    return low


def predict(
    ranks: int, way: str, table: StepTable, costs: Costs, num_rollouts: int, warmup: int
) -> float:
    """Steps per second as in the bench: for one rank, the mean over all ranks on their own."""
    if ranks == 1:
        return float(np.mean(rates_alone(way, table, costs, num_rollouts, warmup)))
    min_steps = num_rollouts * table.work.rollout_steps * ranks
    return simulate(way, table, ranks, costs, 0, min_steps).rate(warmup)


def rates_alone(
    way: str, table: StepTable, costs: Costs, num_rollouts: int, warmup: int
) -> list[float]:
    """Steps per second of each of the table's ranks on its own."""
    runs = simulate_alone(way, table, table.num_ranks, costs, num_rollouts)
    return [run.rate(warmup) for run in runs]


def errors(
    measured: Measurements, table: StepTable, costs: Costs, num_rollouts: int, warmup: int
) -> dict[int, dict[str, float]]:
    """Simulated / measured - 1 of every measured point, ranks -> way."""
    return {
        ranks: {
            way: predict(ranks, way, table, costs, num_rollouts, warmup) / figure.rate - 1.0
            for way, figure in ways.items()
        }
        for ranks, ways in measured.items()
    }


def assumptions(costs: Costs, table: StepTable, largest: int) -> list[str]:
    """The assumptions of the simulation, as lines to print."""
    work, way = table.work, WAYS["ddppo"]
    all_reduce = [f"{1e3 * costs.all_reduce_s(r):.1f} ms for {r}" for r in (8, largest)]
    fixed, each = (1e3 * cost for cost in costs.rollout_s)
    return [
        "every rank has cores of its own; environments only sleep, so that learning and collecting "
        "do not slow each other down",
        f"step times as the workload draws them, {table.work.num_envs} environments a rank; ranks "
        "beyond those measured are other draws of the same distribution",
        f"a batch of requests: {1e3 * work.inference_s:.1f} ms of the policy and "
        f"{1e3 * costs.batch_s:.2f} ms of the collector (fitted to VER on single ranks)",
        f"an update: {work.learning_s:.2f} s and {costs.minibatches} all-reduces; one all-reduce "
        f"2 (R - 1) ({1e3 * costs.hop_s:.3f} ms + {1e3 * costs.bytes_s:.2f} ms / R), a ring "
        f"(fitted): {', '.join(all_reduce)}",
        f"between rollouts {fixed:.0f} ms + {each:.2f} ms x R (fitted): each rank tells all others "
        "how long its environments' steps took",
        f"{way.title}: stragglers notice 0.03 s late; all ranks are there, none fails",
    ]


def _not_negative(columns: np.ndarray) -> tuple[float, float]:
    return _solve(columns, np.ones(len(columns)))


def _solve(columns: np.ndarray, target: np.ndarray) -> tuple[float, float]:
    """Least squares with two unknowns of which neither may be negative."""
    both = np.linalg.lstsq(columns, target, rcond=None)[0]
    if (both >= 0.0).all() and np.linalg.matrix_rank(columns) == 2:
        return float(both[0]), float(both[1])
    singles = []
    for index in range(2):
        column = columns[:, index]
        value = max(0.0, float(column @ target / (column @ column)))
        singles.append((float(((column * value - target) ** 2).sum()), index, value))
    _, index, value = min(singles)
    return (value, 0.0) if index == 0 else (0.0, value)
