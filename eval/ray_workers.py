"""Episodes on a Ray cluster: the counterpart of `workers.py`, with the same records.

    this process -- index --> a Ray actor, anywhere: run_episode(env, agent, index) -- record -->

A worker that dies, alone or with its machine, or is silent for too long is replaced by another, for
which Ray finds a place, and its episode repeated; the others go on meanwhile. An exception in a
worker is a defect: it reaches us with its traceback and ends the run.
"""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rearrange.errors import UserError
from rearrange.eval.workers import (
    EpisodeRunner,
    EpisodeWorker,
    MakeEnvAndAgent,
    note_acting,
    record_of,
)

START_LIMIT_S = 120.0  # without any worker, for want of room in the cluster


@dataclass
class _Worker:
    actor: Any
    index: int | None = None  # of its episode; None while it starts, or has none
    deadline: float = float("inf")  # on the monotonic clock (s)


class RayPool:
    """Takes the place of `WorkerPool`; Ray has to be connected.

    Args:
        num_workers: 0: one for each core of the cluster.
        timeout_s: longest time for one episode.
        max_restarts: how many workers may be replaced for one episode's sake.
    """

    def __init__(
        self,
        cfg: EpisodeRunner,
        num_workers: int,
        make_env_and_agent: MakeEnvAndAgent,
        timeout_s: float,
        max_restarts: int,
    ) -> None:
        import ray.exceptions

        self.lost = 0
        self.acting: list[dict[str, Any]] = []  # what trained skills acted with, each kind once
        self._ray, self._cfg, self._make_env_and_agent = ray, cfg, make_env_and_agent
        self.num_workers = num_workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._timeout_s, self._max_restarts, self._folder = timeout_s, max_restarts, os.getcwd()
        self._losses: Counter[int | None] = Counter()  # by the episode; None: before any
        self._busy: dict[Any, _Worker] = {}  # by what it will answer
        self._idle: list[_Worker] = []

    def run(
        self, indices: list[int], on_steps: Callable[[int], None] = lambda steps: None
    ) -> Iterator[Any]:
        """The records of the episodes, in the order in which they end. Raises as `WorkerPool`.

        Nothing is told of the steps of running episodes: a worker answers when one is over.
        """
        todo, num_open = deque(indices), len(indices)
        limit = time.monotonic() + START_LIMIT_S
        try:
            for _ in range(min(self.num_workers, num_open)):
                self._start()
            while num_open:
                while self._idle and todo:
                    self._hand_out(self._idle.pop(), todo.popleft())
                for answer in self._answered():
                    worker = self._busy.pop(answer)
                    try:
                        message = self._ray.get(answer)
                    except self._ray.exceptions.RayError as error:
                        self._replace(worker, todo, f"died: {str(error).splitlines()[0]}")
                        continue
                    index, worker.index, worker.deadline = worker.index, None, float("inf")
                    self._idle.append(worker)
                    note_acting(message, self.acting)
                    record = record_of(self._cfg, message, index)
                    if record is not None:
                        num_open -= 1
                        yield record
                self._replace_silent(todo)
                if any(worker.index is not None for worker in self._busy.values()):
                    limit = time.monotonic() + START_LIMIT_S
                elif time.monotonic() > limit:
                    raise UserError(
                        f"no worker could start within {START_LIMIT_S:g} s: has the Ray cluster "
                        "a free core?"
                    )
        finally:
            self.close()

    def close(self) -> None:
        """Ends all workers; calling it again does nothing."""
        workers = [*self._busy.values(), *self._idle]
        self._busy, self._idle = {}, []
        for worker in workers:
            with suppress(self._ray.exceptions.RayError):
                self._ray.kill(worker.actor)

    def _start(self) -> None:
        actor = (
            self._ray.remote(EpisodeWorker)
            .options(num_cpus=1, max_restarts=0)
            .remote(self._cfg, self._make_env_and_agent, self._folder)
        )
        self._busy[actor.open.remote()] = _Worker(actor)

    def _hand_out(self, worker: _Worker, index: int) -> None:
        worker.index, worker.deadline = index, time.monotonic() + self._timeout_s
        self._busy[worker.actor.run.remote(index)] = worker

    def _answered(self) -> list[Any]:
        """What has been answered, after a second at the latest."""
        return self._ray.wait(list(self._busy), num_returns=1, timeout=1.0)[0]

    def _replace_silent(self, todo: deque[int]) -> None:
        now = time.monotonic()
        for answer, worker in list(self._busy.items()):
            if worker.deadline <= now:
                del self._busy[answer]
                self._ray.kill(worker.actor)
                self._replace(worker, todo, f"gave no result in {self._timeout_s:g} s")

    def _replace(self, worker: _Worker, todo: deque[int], why: str) -> None:
        """Starts another one; a lost episode is to be run again."""
        index = worker.index
        self.lost += 1
        self._losses[index] += 1
        if self._losses[index] > self._max_restarts:
            where = "at their start" if index is None else f"in episode {index}"
            raise UserError(
                f"{self._losses[index]} workers were lost {where}; out of memory? try fewer "
                f"num_workers, or a larger episode_timeout_s. The last one {why}"
            )
        if index is not None:
            todo.appendleft(index)
        self._start()
