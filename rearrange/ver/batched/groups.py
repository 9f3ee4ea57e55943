"""GroupedPool: the environments of mode batched in groups, which take turns with the policy.

    policy             group 0   group 1   group 0   group 1   ...
    environments                 group 0   group 1   group 0   ...

While the policy decides for one group, the others take their step, each in its own thread. Groups
answer in the order in which they were asked, so that nothing depends on how long anything takes, as
long as environments do not draw from random generators that others draw from, such as torch's own.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from rearrange.ver.batched.pool import ACTIONS, BatchedPool, Part
from rearrange.ver.batched.single_envs import SingleEnvs
from rearrange.ver.rollout.staggered import EpisodeTracker
from rearrange.ver.workers.environment_worker import MakeEnv, WorkerCfg
from rearrange.ver.workers.pool import Fault
from rearrange.ver.workers.shared_memory import SlotLayout, StepSlots

CLOSE_S = 5.0  # longest wait for steps under way and for environments to close

log = logging.getLogger(__name__)

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


class GroupThread:
    """One thread for the calls of a group, in the order in which they come.

    It is a daemon: a call that never returns does not keep the process from ending.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """What `function(*args)` returns or raises."""
        future: Future[Any] = Future()
        self._calls.put((future, partial(function, *args)))
        return future

    def end(self, timeout_s: float) -> None:
        """Ends after the calls so far; waits no longer than this for it."""
        self._calls.put(None)
        self._thread.join(timeout_s)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            future, function = call
            try:
                future.set_result(function())
            except BaseException as error:  # also SystemExit: it is raised where the result is read
                future.set_exception(error)


class GroupedPool:
    """The environments, with the interface of `BatchedPool`, which each group has.

    A group's environments are made, reset and stepped by one thread, always the same.

    Args:
        make_envs: the environments of a group, as for `BatchedPool`.
        episode_numbers: of the next episodes, [N].
        trackers: environments of each group -> what decides when their episodes begin and end.
    """

    restarts = 0
    keeps_until_receive = False

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
        self._threads = [GroupThread(f"group-{i}") for i in range(len(self.groups))]
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
                Part(group, layout.num_envs),
            )  # fmt: skip

        try:
            for thread, group in zip(self._threads, self.groups, strict=True):
                self.pools.append(thread.submit(make, group).result())
        except BaseException:
            self.close()
            raise

    def start(self) -> None:
        """Begins all episodes, and takes the random steps of the start mode."""
        self._of_all(lambda pool: pool.start())
        ready = self._of_all(lambda pool: pool.receive(0.0))
        for group, envs in zip(self.groups, ready, strict=True):
            self._ready += [group.start + e for e in envs]

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
        group, pool = self.groups[self._turn], self.pools[self._turn]
        assert all(e in group for e in envs), "it is another group's turn"
        pool.send([e - group.start for e in envs])
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
        values, parts = zip(*(pool.state() for pool in self.pools), strict=True)
        times = [time for value in values for time in value["batched"]["times"]]
        actions = [part.pop(ACTIONS) for part in parts]  # of each the newest ones, [T, n, A]
        steps = max(len(own) for own in actions)
        padded = [np.pad(own, ((steps - len(own), 0), (0, 0), (0, 0))) for own in actions]
        arrays = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        batched = {"num_groups": len(self.groups), "turn": self._turn, "times": times}
        return {"batched": batched}, arrays | {ACTIONS: np.concatenate(padded, axis=1)}

    def restore(self, values: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Replays all episodes; none is announced."""
        self._turn = values["batched"]["turn"] % len(self.groups)
        time_of = dict(zip(self.groups, values["batched"]["times"], strict=True))

        def restore(pool: BatchedPool) -> None:
            group = pool.part.envs
            rows = slice(group.start, group.stop)
            own = {name: array[rows] for name, array in arrays.items() if name != ACTIONS}
            own[ACTIONS] = arrays[ACTIONS][:, rows]
            pool.restore({"batched": {"times": [time_of[group]]}}, own)

        self._of_all(restore)

    def close(self) -> None:
        """Closes the environments and ends the threads. May be called again.

        A group whose step does not end is left as it is after CLOSE_S.
        """
        pools, self.pools = self.pools, []
        closing = [t.submit(p.close) for t, p in zip(self._threads, pools, strict=False)]
        done, hanging = wait(closing, CLOSE_S)
        if hanging:
            log.warning("%d groups of environments hang and are not closed", len(hanging))
        for thread in self._threads:
            thread.end(0.0 if hanging else CLOSE_S)
        for future in done:
            future.result()  # raises what closing raised

    def _of_all(self, function: Callable[[BatchedPool], Any]) -> list[Any]:
        """Calls it with each group's pool, in their threads, all at once."""
        pairs = zip(self._threads, self.pools, strict=True)
        futures = [thread.submit(function, pool) for thread, pool in pairs]
        wait(futures)
        return [future.result() for future in futures]
