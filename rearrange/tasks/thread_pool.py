"""A thread pool that shares jobs 0 to N - 1; each thread takes the next one when it is free.

Jobs help each other only as far as they let go of the interpreter's lock: `mj_step` and compiled
kernels do, Python does not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait


class ThreadPool:
    """So many threads, the caller's among them: a crew of one starts none."""

    def __init__(self, num_threads: int) -> None:
        self.num_threads = num_threads
        self._helpers: ThreadPoolExecutor | None = None
        if num_threads > 1:
            self._helpers = ThreadPoolExecutor(num_threads - 1, "crew")

    def run(self, job: Callable[[int], None], count: int) -> None:
        """Does job(0) to job(count - 1), in any order, and comes back when all are done.

        What a job raises is raised when the others are done, that of the first one of several.
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
        finally:  # Ctrl-C: no job may go on behind the caller's back
            left.clear()
            wait(futures)
        if errors:
            raise errors[min(errors)]

    def close(self) -> None:
        """Ends the threads. Harmless when called again."""
        if self._helpers is not None:
            self._helpers.shutdown()
