"""The calculated upper bound of each training mode on a workload of stragglers.

    ideal    every environment at its own mean rate, none ever waits for another:
             S / (S / sum_i rate_i + learning),  rate_i = 1 / (step_i + reset_i + inference)
    ddppo    T rounds of (inference, slowest of all steps), then learning
    nover    each environment at its own pace to T steps; the slowest ends the rollout
    ver      S = T x N steps by whoever is there; steps in flight go on while the learner learns
    htsrl    as nover, but a rollout is learned from while the next one is collected
    async    nobody ever stops; learning goes on beside

An inference worker takes all requests that wait (at least `min_batch`), and any batch takes the
same time. The calculation shares no code with the trainer: a discrete-event simulation on the very
times that `StragglerEnv` sleeps.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from rearrange.workloads.straggler import StepTimes, StragglerCfg

MODES = ("ver", "nover", "ddppo", "htsrl", "async")


@dataclass(kw_only=True)
class Workload:
    """The reference workload R1 by default; times in s."""

    straggler: StragglerCfg = field(default_factory=StragglerCfg)
    num_envs: int = 16
    num_steps: int = 128
    """Steps per environment and rollout, T."""
    inference_s: float = 0.002
    """A batch, however large."""
    learning_s: float = 0.5
    """A rollout."""

    @property
    def rollout_steps(self) -> int:
        return self.num_envs * self.num_steps


def ideal_rate(work: Workload) -> float:
    """Steps per second if no environment ever waited for another, or for a batch to end."""
    rate = 0.0
    for index in range(work.num_envs):
        times = StepTimes(work.straggler, index)
        reset_s = times.mean_reset_s / work.straggler.episode_steps
        rate += 1.0 / (times.mean_step_s + reset_s + work.inference_s)
    return work.rollout_steps / (work.rollout_steps / rate + work.learning_s)


def calculate(
    mode: str,
    work: Workload,
    num_rollouts: int = 20,
    warmup_rollouts: int = 1,
    min_batch: int = 1,
    num_inference_workers: int = 1,
) -> float:
    """Steps per second of a mode over `num_rollouts` after the warm-up.

    `ddppo` has one inference worker by its nature: each batch is of all environments.
    Raises ValueError for an unknown mode.
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}; got {mode!r}")
    if mode == "ddppo":
        ends = _synchronous(work)
    else:
        ends = _asynchronous(mode, work, min_batch, num_inference_workers)
    times = [0.0] + [next(ends) for _ in range(warmup_rollouts + num_rollouts)]
    return num_rollouts * work.rollout_steps / (times[-1] - times[warmup_rollouts])


class EnvTimes:
    """The times of one environment, resets where they belong."""

    def __init__(self, cfg: StragglerCfg, index: int) -> None:
        self._times = StepTimes(cfg, index)
        self._until_reset = self._times.first_episode_steps
        self._episode_steps = cfg.episode_steps

    def next_s(self) -> float:
        """From an action to the observation that follows it."""
        duration = self._times.next_step_s()
        self._until_reset -= 1
        if self._until_reset == 0:
            duration += self._times.next_reset_s()
            self._until_reset = self._episode_steps
        return duration


def _synchronous(work: Workload) -> Iterator[float]:
    """When each rollout has been learned from."""
    envs = [EnvTimes(work.straggler, index) for index in range(work.num_envs)]
    now = 0.0
    while True:
        for _ in range(work.num_steps):
            now += work.inference_s + max(env.next_s() for env in envs)
        now += work.learning_s
        yield now


def _asynchronous(mode: str, work: Workload, min_batch: int, num_workers: int) -> Iterator[float]:
    """When each rollout has been learned from; `async` and `htsrl` learn while collecting."""
    envs = [EnvTimes(work.straggler, index) for index in range(work.num_envs)]
    is_fixed = mode in ("nover", "htsrl")
    is_overlapped = mode in ("htsrl", "async")
    waiting = list(range(work.num_envs))  # they ask for an action
    stepping: list[tuple[float, int]] = []  # heap of (end of the step, environment)
    counts = [0] * work.num_envs  # steps of this rollout
    workers = [0.0] * num_workers  # heap of when each inference worker is free
    now = learned = 0.0
    while True:
        # Requests that came in until now; environments with all their steps are left alone.
        while stepping and stepping[0][0] <= now and sum(counts) < work.rollout_steps:
            _, env = heapq.heappop(stepping)
            counts[env] += 1
            waiting.append(env)
        if sum(counts) >= work.rollout_steps:
            counts = [0] * work.num_envs
            now = max(now, *workers)  # batches under way end first
            if is_overlapped:
                # The learner takes one rollout at a time.
                now = max(now, learned) if is_fixed else now
                learned = max(now, learned) + work.learning_s
            else:
                now = learned = now + work.learning_s
            yield learned
            continue
        ready = [env for env in waiting if not is_fixed or counts[env] < work.num_steps]
        is_enough = bool(ready) and (len(ready) >= min_batch or not stepping)
        if is_enough and workers[0] <= now:
            answered = now + work.inference_s
            heapq.heapreplace(workers, answered)
            for env in ready:
                heapq.heappush(stepping, (answered + envs[env].next_s(), env))
                waiting.remove(env)
        else:
            now = workers[0] if is_enough else stepping[0][0]
