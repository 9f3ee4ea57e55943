"""Ranks that are threads of one process, on a clock that nobody has to wait for.

    rank 0  --- collects until 0.3 s ---|                 |--- ...
    rank 1  --- collects until 0.5 s -------|  they sync  |--- ...

Who collects runs alone until its own time passes another's: all that happens while ranks collect
happens in the order of these times, and the same in each run. Threads that collect or learn beside
a rank's own have its clock. A rank that is killed leaves the others where they wait for it.
"""

import json
import threading
from contextlib import contextmanager

import torch

from rearrange.ver.ranks.distributed import RankInfo, Ranks, RanksLost

PATIENCE_S = 180.0  # of the real clock: only a mistake lets ranks wait for so long


class World:
    """What the ranks of one training have in common."""

    def __init__(self, size):
        self.size, self.times = size, [0.0] * size
        self.counters, self.is_broken = {}, False
        self._values, self._barrier = [None] * size, threading.Barrier(size)
        self._turn, self._begun, self._active = threading.Condition(), [0] * size, set()

    def exchange(self, rank, value):
        """The values of all ranks."""
        try:
            self._values[rank] = value
            self._barrier.wait(PATIENCE_S)
            values = list(self._values)
            self._barrier.wait(PATIENCE_S)
        except threading.BrokenBarrierError:
            raise RanksLost(f"rank {rank} lost the others") from None
        return values

    def leave_for_good(self):
        """A rank is gone."""
        with self._turn:
            self.is_broken = True
            self._turn.notify_all()
        self._barrier.abort()

    @contextmanager
    def collecting(self, rank):
        """No rank begins before all do, as after a synchronisation."""
        with self._turn:
            self._begun[rank] += 1
            self._active.add(rank)
            self._turn.notify_all()
            self._wait(lambda: min(self._begun) >= self._begun[rank])
        try:
            self.advance(rank, self.times[rank])
            yield
        finally:
            with self._turn:
                self._active.discard(rank)
                self._turn.notify_all()

    def advance(self, rank, now):
        """It is later for a rank; others whose turn it is go on before it does."""
        with self._turn:
            self.times[rank] = max(now, self.times[rank])
            if self.size > 1:
                self._turn.notify_all()
                self._wait(lambda: rank == min(self._active, key=lambda r: (self.times[r], r)))

    def _wait(self, is_over):
        assert self._turn.wait_for(lambda: self.is_broken or is_over(), PATIENCE_S), "a deadlock"


class FakeTime:
    """Takes the place of the module `time`; a thread sees the clock it was bound to."""

    def __init__(self):
        self._thread = threading.local()

    def bind(self, world, rank):
        self._thread.clock = world, rank

    def perf_counter(self):
        world, rank = getattr(self._thread, "clock", (None, 0))
        return 0.0 if world is None else world.times[rank]

    monotonic = perf_counter


class TickingTime:
    """The same for a rank's own thread, beside which others may collect: each look takes 10 ms."""

    def __init__(self):
        self._thread = threading.local()

    def perf_counter(self):
        self._thread.now = getattr(self._thread, "now", 0.0) + 0.01
        return self._thread.now

    monotonic = perf_counter


class ThreadRanks(Ranks):
    """As one of the threads sees the ranks."""

    def __init__(self, world, rank):
        place = RankInfo(rank, world.size, rank, world.size)
        super().__init__(place, object() if world.size > 1 else None)
        self._world = world

    def gather_rows(self, rows):
        return self._world.exchange(self.rank, rows)

    def gather(self, value):
        return [json.loads(text) for text in self._world.exchange(self.rank, json.dumps(value))]

    def any(self, is_true):
        return any(self._world.exchange(self.rank, bool(is_true)))

    def share(self, content):
        return self._world.exchange(self.rank, content)[0]

    @torch.no_grad()
    def copy_from_first(self, tensors):
        first = self._world.exchange(self.rank, {n: t.clone() for n, t in tensors.items()})[0]
        for name, tensor in tensors.items():
            tensor.copy_(first[name])

    def _count(self, name, more):
        if self.is_alone:
            return 0
        counters = self._world.counters
        counters[name] = counters.get(name, 0) + more  # by whose turn it is
        return counters[name]
