"""A discrete-event simulation of many ranks that collect, stop and learn.

    each rank, on its own clock                                all ranks together
    an environment's step ends -> it waits for an action       the last one has stopped collecting
    the policy takes all that wait, and they step again   ->   learn: M x (a part + all-reduce(R))
    Q steps, or time to stop: the rank is done                 costs of synchronising; the next

Open steps continue while the ranks learn and count for the next rollout, as in the trainer. The
simulation shares only the forecast with it, which is under test. Ranks are simulated together in
arrays: until a rollout ends they are independent.

R ranks, E environments of each, Q = T x E steps of a rank's rollout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rearrange.eval.benchmarks.trainers.bench_ideal import EnvTimes, Workload
from rearrange.ver.ranks.preemption import Forecast, RankTimes

NOTICE_S = 0.03  # by then a rank has seen that others finished; it polls the store every 0.05 s
_FEWEST = 2  # steps without which a rank does not stop: one for each minibatch of an epoch
_BLOCK = 64  # steps of every environment drawn at once


class Variant(NamedTuple):
    """A mode of the trainer with a rule for stragglers."""

    mode: str
    rule: str
    title: str


WAYS = {
    "ver": Variant("ver", "optimal", "VER, optimal preemption"),
    "ver_waits": Variant("ver", "off", "VER, no preemption"),
    "nover": Variant("nover", "off", "NoVER"),
    "nover_stops": Variant("nover", "optimal", "NoVER, optimal preemption"),
    "ddppo": Variant("ddppo", "fraction", "DD-PPO, preemption at 60%"),
}


@dataclass(frozen=True)
class Costs:
    """Measured costs beyond the workload's own times (s)."""

    batch_s: float = 0.0
    """The collector's own work on each batch of requests."""
    rollout_s: tuple[float, float] = (0.0, 0.0)
    """(a, b) of a + b R: synchronisation and logging between two rollouts."""
    hop_s: float = 0.0
    """An all-reduce in a ring takes 2 (R - 1) hops."""
    bytes_s: float = 0.0
    """And in it all of the gradient but 1 / R passes each rank twice; this is for passing once."""
    minibatches: int = 6
    """All-reduces of a rollout."""

    def all_reduce_s(self, num_ranks: int) -> float:
        """2 (R - 1) (hop + bytes / R): the ring of Patarasu and Yuan, 2009."""
        return 2.0 * (num_ranks - 1) * (self.hop_s + self.bytes_s / num_ranks)

    def between_s(self, num_ranks: int) -> float:
        """From the end of learning to the next rollout."""
        return self.rollout_s[0] + self.rollout_s[1] * num_ranks

    def learning_s(self, work: Workload, num_ranks: int) -> float:
        """A whole update."""
        return work.learning_s + self.minibatches * self.all_reduce_s(num_ranks)


@dataclass
class Rollouts:
    """Results of a simulated training, one entry per rollout."""

    ends_s: list[float]
    steps: list[int]  # so far, of all ranks
    collect_s: list[float]  # the slowest rank's
    stopped: list[float]  # share of the ranks that were stopped

    def rate(self, warmup: int) -> float:
        """Steps per second after the warm-up rollouts."""
        first = warmup - 1
        return (self.steps[-1] - self.steps[first]) / (self.ends_s[-1] - self.ends_s[first])


class StepTable:
    """The workload's times per environment, drawn once for all simulations."""

    def __init__(self, work: Workload, num_ranks: int) -> None:
        self.work, self.num_ranks = work, num_ranks
        self._envs = [EnvTimes(work.straggler, e) for e in range(num_ranks * work.num_envs)]
        self._times = np.zeros((len(self._envs), 0))

    def get(self, ranks: np.ndarray, envs: np.ndarray, number: np.ndarray) -> np.ndarray:
        """Seconds of these environments' step of that number, from 0; all [n]."""
        while len(number) and number.max() >= self._times.shape[1]:
            block = [[env.next_s() for _ in range(_BLOCK)] for env in self._envs]
            self._times = np.concatenate([self._times, block], axis=1)
        return self._times[ranks * self.work.num_envs + envs, number]


class Fleet:
    """The environments of all ranks and their collectors. Arrays are [R, E] or [R]."""

    def __init__(self, table: StepTable, num_ranks: int, mode: str, costs: Costs) -> None:
        work = table.work
        self._table, self._num_ranks, self._num_envs = table, num_ranks, work.num_envs
        self._quota, self._num_steps = work.rollout_steps, work.num_steps
        self._is_variable, self._is_lockstep = mode == "ver", mode == "ddppo"
        self._batch_s = work.inference_s + costs.batch_s
        shape = (num_ranks, work.num_envs)
        self._ready = np.full(shape, np.inf)  # end of the current step
        self._waits = np.ones(shape, bool)  # for an action
        self._begun = np.zeros(shape, np.int64)  # steps since the start

    def collect(
        self, begin: np.ndarray, stop: np.ndarray, least: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """One rollout of every rank, each from its `begin` [R] on.

        Args:
            stop: [R] when a rank that has `least` steps stops.

        Returns:
            ends [R]; steps [R]; mean seconds of a step of each environment [R, E].
        """
        now, ends = begin.astype(float), np.full(self._num_ranks, np.nan)
        count = np.zeros_like(self._begun)
        last = np.full(count.shape, np.inf)  # time of each environment's latest step
        while (active := np.isnan(ends)).any():
            self._take_arrivals(now, active, count, last)
            total = count.sum(axis=1)
            is_over = (total >= self._quota) | ((now >= stop) & (total >= least))
            ends[active & is_over] = now[active & is_over]
            active &= ~is_over
            batch = self._served(count) & active[:, None]
            is_serving = batch.any(axis=1)
            now[is_serving] += self._batch_s
            ranks, envs = np.nonzero(batch)
            times = self._table.get(ranks, envs, self._begun[ranks, envs])
            self._ready[ranks, envs] = now[ranks] + times
            self._begun[batch] += 1
            self._waits[batch] = False
            idle = active & ~is_serving
            nearest = self._ready[idle].min(axis=1)
            limit = np.where(total[idle] >= least, stop[idle], np.inf)
            now[idle] = np.maximum(now[idle], np.minimum(nearest, limit))
        walls = (ends - begin)[:, None]
        means = (last - begin[:, None]) / np.maximum(count, 1)
        return ends, count.sum(axis=1), np.minimum(means, walls)

    def copy_state(self) -> tuple[np.ndarray, ...]:
        return self._ready.copy(), self._waits.copy(), self._begun.copy()

    def set_state(self, state: tuple[np.ndarray, ...]) -> None:
        self._ready, self._waits, self._begun = (array.copy() for array in state)

    def _take_arrivals(
        self, now: np.ndarray, active: np.ndarray, count: np.ndarray, last: np.ndarray
    ) -> None:
        """Counts finished steps as far as the rollout has room; the rest go to the next one."""
        arrived = (self._ready <= now[:, None]) & active[:, None]
        room = self._quota - count.sum(axis=1)
        for rank in np.flatnonzero(arrived.sum(axis=1) > room):
            envs = np.flatnonzero(arrived[rank])
            by_time = envs[np.argsort(self._ready[rank, envs], kind="stable")]
            arrived[rank, by_time[room[rank] :]] = False
        count += arrived
        self._ready[arrived] = np.inf
        self._waits |= arrived
        last[arrived] = np.broadcast_to(now[:, None], last.shape)[arrived]

    def _served(self, count: np.ndarray) -> np.ndarray:
        """Environments that get an action now, [R, E]."""
        if self._is_variable:
            return self._waits
        served = self._waits & (count < self._num_steps)
        if self._is_lockstep:
            served &= self._waits.all(axis=1, keepdims=True)
        return served


def simulate(
    way: str, table: StepTable, num_ranks: int, costs: Costs, num_rollouts: int, min_steps: int = 0
) -> Rollouts:
    """Trains `num_ranks` ranks for this many rollouts, or longer, until they have `min_steps`."""
    work, (mode, rule, _) = table.work, WAYS[way]
    fleet = Fleet(table, num_ranks, mode, costs)
    learn_s, least = costs.learning_s(work, num_ranks), _FEWEST
    done = Rollouts([], [], [], [])
    forecast = Forecast(work.rollout_steps, mode == "ver", is_overlapped=False)
    now, chosen_s, num_steps = 0.0, np.inf, 0
    while len(done.steps) < num_rollouts or num_steps < min_steps:
        begin = np.full(num_ranks, now)
        fraction_s = np.inf
        if rule == "fraction" and done.steps and num_ranks > 1:
            least = max(_FEWEST, work.rollout_steps // 4)
            fraction_s = _time_of_fraction(fleet, begin, least)
        stop = np.full(num_ranks, min(now + chosen_s, fraction_s))
        ends, steps, step_s = fleet.collect(begin, stop, least)
        num_steps += int(steps.sum())
        done.collect_s.append(float(ends.max() - now))
        done.stopped.append(float((steps < work.rollout_steps).mean()))
        now = float(ends.max()) + learn_s + costs.between_s(num_ranks)
        done.ends_s.append(now)
        done.steps.append(num_steps)
        if rule == "optimal" and num_ranks > 1:
            walls = ends - begin
            forecast.add(
                [
                    RankTimes(int(n), float(wall_s), learn_s, times)
                    for n, wall_s, times in zip(steps, walls, step_s, strict=True)
                ]
            )
            choice = forecast.choose()
            chosen_s = np.inf if choice is None else choice.deadline_s
    return done


def simulate_alone(
    way: str, table: StepTable, num_ranks: int, costs: Costs, num_rollouts: int
) -> list[Rollouts]:
    """The same ranks, each training on its own."""
    work, mode = table.work, WAYS[way].mode
    fleet = Fleet(table, num_ranks, mode, costs)
    done = [Rollouts([], [], [], []) for _ in range(num_ranks)]
    now, never = np.zeros(num_ranks), np.full(num_ranks, np.inf)
    for rollout in range(num_rollouts):
        ends, steps, _ = fleet.collect(now, never, _FEWEST)
        collect_s = ends - now
        now = ends + work.learning_s + costs.between_s(1)
        for rank, own in enumerate(done):
            own.ends_s.append(float(now[rank]))
            own.steps.append((rollout + 1) * int(steps[rank]))
            own.collect_s.append(float(collect_s[rank]))
            own.stopped.append(0.0)
    return done


def _time_of_fraction(fleet: Fleet, begin: np.ndarray, least: int, fraction: float = 0.6) -> float:
    """When enough ranks have finished and the others have noticed; the fleet stays as it is."""
    state = fleet.copy_state()
    ends, _, _ = fleet.collect(begin, np.full(len(begin), np.inf), least)
    fleet.set_state(state)
    needed = int(np.ceil(fraction * len(begin) - 1e-9))
    return float(np.sort(ends)[needed - 1]) + NOTICE_S
