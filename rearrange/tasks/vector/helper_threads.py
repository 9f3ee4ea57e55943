"""Threads that help out when they are called, beside the caller's own.

Python's executor takes a tenth of a millisecond to hand over a call and to take its answer back, a
hundredth of a step of 32 homes. Here nobody waits for an answer.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread


class HelperThreads:
    """So many threads, which wait for `call`. They end when this is closed, or forgotten."""

    def __init__(self, count: int) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads = [
            Thread(target=_serve, args=(self._calls,), name=f"helper_{i}", daemon=True)
            for i in range(count)
        ]
        for thread in self._threads:
            thread.start()
        self._end = weakref.finalize(self, _end, self._calls, count)

    def __len__(self) -> int:
        return len(self._threads)

    def call(self, job: Callable[[], None]) -> None:
        """Each thread does this job, which must not raise, as soon as it is free.

        Returns at once. Raises RuntimeError after `close`.
        """
        if not self._end.alive:
            raise RuntimeError("the threads have ended: they were closed")
        for _ in self._threads:
            self._calls.put(job)

    def __reduce__(self) -> tuple[type[HelperThreads], tuple[int]]:
        """Copies and pickles have threads of their own."""
        return HelperThreads, (len(self),)

    def close(self) -> None:
        """Ends the threads. May be called again."""
        self._end()
        for thread in self._threads:
            thread.join()


def _end(calls: SimpleQueue[Callable[[], None] | None], count: int) -> None:
    for _ in range(count):
        calls.put(None)


def _serve(calls: SimpleQueue[Callable[[], None] | None]) -> None:
    while (call := calls.get()) is not None:
        call()
        del call  # it holds a board, and with that a step's addresses
