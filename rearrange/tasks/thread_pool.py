"""A thread pool for jobs 0 to N - 1; each free thread takes the next one.

Jobs run in parallel only while they release the interpreter's lock: `mj_step` and compiled kernels
do, Python does not. Python's own executor takes a tenth of a millisecond to hand over a job and to
take it back, a hundredth of a step of 32 homes.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread


class ThreadPool:
    """This many threads, including the caller's: a pool of one starts none."""

    def __init__(self, num_threads: int) -> None:
        self.num_threads = num_threads
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._helpers = [
            Thread(target=_serve, args=(self._calls,), name=f"crew_{i}", daemon=True)
            for i in range(num_threads - 1)
        ]
        for helper in self._helpers:
            helper.start()
        self._end = weakref.finalize(self, _end, self._calls, len(self._helpers))

    def run(self, job: Callable[[int], None], count: int) -> None:
        """Does job(0) to job(count - 1), in any order; returns when all are done.

        An exception of a job is raised when the others are done; of several, the first job's.
        Raises RuntimeError for a pool that is closed.
        """
        if not self._end.alive:
            raise RuntimeError("the threads have ended: the pool is closed")
        left, done = deque(range(count)), SimpleQueue[None]()
        errors: dict[int, BaseException] = {}

        def work() -> None:
            while True:
                try:
                    number = left.popleft()
                except IndexError:
                    return
                try:
                    job(number)
                except Exception as error:
                    errors[number] = error

        def help_out() -> None:
            try:
                work()
            except BaseException as error:  # the thread must go on
                errors[count] = error
            finally:
                done.put(None)

        num_helpers = min(len(self._helpers), count - 1)
        for _ in range(num_helpers):
            self._calls.put(help_out)
        try:
            work()
        finally:  # Ctrl-C: no job may continue unnoticed
            left.clear()
            for _ in range(num_helpers):
                done.get()
        if errors:
            raise errors[min(errors)]

    def __reduce__(self) -> tuple[type[ThreadPool], tuple[int]]:
        """Copies and pickles have threads of their own."""
        return ThreadPool, (self.num_threads,)

    def close(self) -> None:
        """Ends the threads. May be called again. Threads of a pool that is forgotten end too."""
        self._end()
        for helper in self._helpers:
            helper.join()


def _end(calls: SimpleQueue[Callable[[], None] | None], num_threads: int) -> None:
    for _ in range(num_threads):
        calls.put(None)


def _serve(calls: SimpleQueue[Callable[[], None] | None]) -> None:
    while (call := calls.get()) is not None:
        call()
        del call  # it may hold an error, and with that the pool
