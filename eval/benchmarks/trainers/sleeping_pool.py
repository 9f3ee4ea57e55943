"""Sleeping environments without processes: a step is ready when its time has passed.

    send([3, 7])     the environments step at once and say how long they would have slept
    receive()        waits for the next of these times, and gives whose have passed

A rank's environments then cost no memory and next to no processor time, so that a small machine
has room for many ranks. What the trainer sees is what worker processes would show it.
"""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass
from typing import Any

from rearrange.ver.batched.single_envs import SingleEnvs
from rearrange.ver.workers.environment_worker import SlotEnvironment
from rearrange.ver.workers.pool import Fault
from rearrange.ver.workers.shared_memory import StepSlots
from rearrange.workloads.straggler import StragglerCfg, StragglerEnv


class DeferredSleepEnv(StragglerEnv):
    """Does not sleep, but counts up for how long it would have."""

    def __init__(self, index: int = 0, **settings: Any) -> None:
        super().__init__(index, **settings)
        self._deferred_s, self.sleep = 0.0, self._defer

    def take_deferred_s(self) -> float:
        """What has been counted up since the last call (s)."""
        deferred_s, self._deferred_s = self._deferred_s, 0.0
        return deferred_s

    def _defer(self, duration: float) -> None:
        self._deferred_s += duration


class LockstepSleepers(SingleEnvs):
    """N of them for mode=batched: all sleep at once, and a step takes as long as its slowest."""

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        result = super().reset(**kwargs)
        self._sleep()
        return result

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        result = super().step(actions)
        self._sleep()
        return result

    def _sleep(self) -> None:
        owing = [env for env in self._inner if isinstance(env, DeferredSleepEnv)]
        time.sleep(max(env.take_deferred_s() for env in owing))


@dataclass(frozen=True)
class DeferredSleepFactory:
    """Makes environment `first` + index."""

    cfg: StragglerCfg
    first: int = 0

    def __call__(self, index: int) -> DeferredSleepEnv:
        return DeferredSleepEnv(self.first + index, **vars(self.cfg))


class SleepingPool:
    """Takes the place of the trainer's WorkerPool; its environments are `DeferredSleepEnv`s.

    Args: those of WorkerPool; what is for worker processes has no use here.
    """

    restarts = 0
    keeps_until_receive = False

    def __init__(
        self, make_env, layout, cfg, episode_numbers, is_fresh, pool_cfg=None, preload=()
    ) -> None:
        self.num_envs = self.round_size = layout.num_envs
        self.slots = StepSlots.allocate(layout)
        self._environments = [
            SlotEnvironment(make_env, e, self.slots, cfg, int(episode_numbers[e]), is_fresh)
            for e in range(self.num_envs)
        ]
        self._stepping: list[tuple[float, int]] = []  # heap of (when it is ready, environment)

    def start(self) -> None:
        """The environments begin their first episodes, as those of R1 without sleeping."""
        for e, environment in enumerate(self._environments):
            environment.start()
            self._stepping.append((0.0, e))

    def send(self, envs: list[int]) -> None:
        now = time.perf_counter()
        for e in envs:
            environment = self._environments[e]
            environment.step()
            environment.actions.clear()  # nothing is ever played again
            owing = environment.env
            assert isinstance(owing, DeferredSleepEnv)
            seconds = owing.take_deferred_s()
            self.slots.step_seconds[e] = seconds
            heapq.heappush(self._stepping, (now + seconds, e))

    def receive(self, timeout_s: float) -> list[int]:
        """Environments whose steps are over, possibly none; waits no longer than `timeout_s`."""
        left_s = self._stepping[0][0] - time.perf_counter() if self._stepping else timeout_s
        time.sleep(max(0.0, min(timeout_s, left_s)))
        ready, now = [], time.perf_counter()
        while self._stepping and self._stepping[0][0] <= now:
            ready.append(heapq.heappop(self._stepping)[1])
        return ready

    def take_faults(self) -> list[Fault]:
        """None: nothing breaks here."""
        return []

    def close(self) -> None:
        """Nothing is left to end."""
