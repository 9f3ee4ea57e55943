"""A thread pool for jobs 0 to N - 1; each free thread takes the next one.

Jobs run in parallel only while they release the interpreter's lock: `mj_step` and compiled kernels
do, Python does not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait


class ThreadPool:
    """This many threads, including the caller's: a pool of one starts none."""

    def __init__(self, num_threads: int) -> None:
        self.num_threads = num_threads
        self._helpers: ThreadPoolExecutor | None = None
        if num_threads > 1:
            self._helpers = ThreadPoolExecutor(num_threads - 1, "crew")

    def run(self, job: Callable[[int], None], count: int) -> None:
        """Does job(0) to job(count - 1), in any order; returns when all are done.

        An exception of a job is raised when the others are done; of several, the first job's.
        """
        left, errors = deque(range(count)), {}

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

        num_helpers = min(self.num_threads, count) - 1
        futures = [self._helpers.submit(work) for _ in range(num_helpers)] if self._helpers else []
        try:
            work()
        finally:  # Ctrl-C: no job may continue unnoticed
            left.clear()
            wait(futures)
        if errors:
            raise errors[min(errors)]

    def __reduce__(self) -> tuple[type[ThreadPool], tuple[int]]:
        """Copies and pickles have threads of their own."""
        return ThreadPool, (self.num_threads,)

    def close(self) -> None:
        """Ends the threads. May be called again."""
        if self._helpers is not None:
            self._helpers.shutdown()
