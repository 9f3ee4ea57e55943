"""GroupedPool: the environments of mode batched in groups, which take turns with the policy.

    policy             group 0   group 1   group 0   group 1   ...
    environments                 group 0   group 1   group 0   ...

While the policy decides for one group, the others take their step, each in its own thread. Groups
answer in the order in which they were asked, so that nothing depends on how long anything takes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from rearrange.ver.batched.pool import ACTIONS, BatchedPool
from rearrange.ver.batched.single_envs import SingleEnvs
from rearrange.ver.rollout.staggered import EpisodeTracker
from rearrange.ver.workers.environment_worker import MakeEnv, WorkerCfg
from rearrange.ver.workers.pool import Fault
from rearrange.ver.workers.shared_memory import SlotLayout, StepSlots

MakeEnvs = Callable[[int], VectorEnv | None]
"""num_envs -> environments with autoreset disabled; None: there is no way to make them at once."""

MakeGroup = Callable[[range], VectorEnv]


def make_batch(make_envs: MakeEnvs | None, make_env: MakeEnv, envs: range) -> VectorEnv:
    """Environments of these indices, one after another where there is no better way."""
    made = None if make_envs is None else make_envs(len(envs))
    return SingleEnvs(make_env, len(envs), envs.start) if made is None else made


def make_pool(
    make_envs: MakeGroup,
    layout: SlotLayout,
    cfg: WorkerCfg,
    episode_numbers: np.ndarray,
    trackers: dict[range, EpisodeTracker],
) -> BatchedPool | GroupedPool:
    """The pool of one group or several; for arguments see `GroupedPool`."""
    if len(trackers) > 1:
        return GroupedPool(make_envs, layout, cfg, episode_numbers, trackers)
    (group,) = trackers
    return BatchedPool(make_envs(group), layout, cfg, episode_numbers, trackers[group])


class GroupedPool:
    """The environments, with the interface of `BatchedPool`, which each group has.

    A group's environments are made, reset and stepped by one thread, always the same.

    Args:
        make_envs: the environments of a group, as for `BatchedPool`.
        episode_numbers: of the next episodes, [N].
        trackers: environments of each group -> what decides when their episodes begin and end.
    """

    restarts = 0

    def __init__(
        self,
        make_envs: MakeGroup,
        layout: SlotLayout,
        cfg: WorkerCfg,
        episode_numbers: np.ndarray,
        trackers: dict[range, EpisodeTracker],
    ) -> None:
        self.num_envs, self.cfg, self.slots = layout.num_envs, cfg, StepSlots.allocate(layout)
        self.groups = list(trackers)
        self._threads = [ThreadPoolExecutor(1, f"group-{i}") for i in range(len(self.groups))]
        # Groups and their answers, in the order in which they were asked.
        self._asked: deque[tuple[int, Future[list[int]]]] = deque()
        self._ready: list[int] = []  # of the start
        self._turn = 0  # the group that the policy decides for next
        self.pools: list[BatchedPool] = []

        def make(group: range) -> BatchedPool:
            slots = self.slots.part(group)
            return BatchedPool(
                make_envs(group), slots.layout,
                replace(cfg, first_env=cfg.first_env + group.start),
                episode_numbers[group.start : group.stop], trackers[group], slots,
            )  # fmt: skip

        try:
            for thread, group in zip(self._threads, self.groups, strict=True):
                self.pools.append(thread.submit(make, group).result())
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        """Begins all episodes, and takes the random steps of the start mode."""
        for thread, group, pool in zip(self._threads, self.groups, self.pools, strict=True):
            thread.submit(pool.start).result()
            ready = thread.submit(pool.receive, 0.0).result()
            self._ready += [group.start + e for e in ready]

    @property
    def round_size(self) -> int:
        """Environments that do not wait for a reset, of the group whose turn it is."""
        return self.pools[self._turn].round_size

    @property
    def announced(self) -> list[int]:
        """What `receive` will give, when no step is under way."""
        return list(self._ready)

    def send(self, envs: list[int]) -> None:
        """Steps all of the group whose turn it is that do not wait."""
        first = self.groups[self._turn].start
        pool = self.pools[self._turn]
        pool.send([e - first for e in envs])
        self._asked.append((self._turn, self._threads[self._turn].submit(pool.receive, 0.0)))
        self._turn = (self._turn + 1) % len(self.groups)

    def receive(self, timeout_s: float) -> list[int]:
        """The next group's answers, or none after so long (s)."""
        if self._ready or not self._asked:
            ready, self._ready = self._ready, []
            return ready
        i, answer = self._asked[0]
        if not wait([answer], timeout_s).done:
            return []
        self._asked.popleft()
        return [self.groups[i].start + e for e in answer.result()]

    def take_faults(self) -> list[Fault]:
        return []

    def failed_resets(self) -> dict[int, int]:
        """As of `BatchedPool`."""
        return dict(self.cfg.failed_resets)

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What `restore` needs beside the slots: JSON values, and arrays by name."""
        parts = [pool.state()[1] for pool in self.pools]
        actions = [part.pop(ACTIONS) for part in parts]  # of each the newest ones, [T, n, A]
        steps = max(len(own) for own in actions)
        padded = [np.pad(own, ((steps - len(own), 0), (0, 0), (0, 0))) for own in actions]
        arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        values = {"batched": {"num_groups": len(self.groups), "turn": self._turn}}
        return values, arrays | {ACTIONS: np.concatenate(padded, axis=1)}

    def restore(self, values: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Replays all episodes; none is announced."""
        self._turn = values["batched"]["turn"] % len(self.groups)
        for thread, group, pool in zip(self._threads, self.groups, self.pools, strict=True):
            rows = slice(group.start, group.stop)
            own = {name: array[rows] for name, array in arrays.items() if name != ACTIONS}
            own[ACTIONS] = arrays[ACTIONS][:, rows]
            thread.submit(pool.restore, values, own).result()

    def close(self) -> None:
        """Ends the threads after the steps that are under way. May be called again."""
        for thread, pool in zip(self._threads, self.pools, strict=False):
            thread.submit(pool.close).result()
        self.pools.clear()
        for thread in self._threads:
            thread.shutdown()
