"""Compiled jobs of a step, which threads take in turn without the interpreter's lock.

    one thread: Python, posts jobs --> rows [J, 6], done by whoever is free --> Python goes on

Threads that take turns at Python wait for its lock, and Python's objects move between the cores'
caches: two threads were 1.6 times as fast as one. Here one thread does all of Python, and jobs
whenever it waits for one; the others stay in compiled code for the whole step.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache

import numpy as np
from numba import njit

from rearrange.sim.native.addresses import bytes_at, call_number, load, store, swap
from rearrange.sim.native.substep_kernel import run_worlds
from rearrange.sim.robot.depth_kernel import draw_pictures

# A job: tables of `run_worlds` and of `draw_pictures`, 0: none; from where to where bytes are
# copied then, and how many; 1 when it is done.
WORLD, PICTURE, SOURCE, TARGET, SIZE, IS_DONE, JOB_SIZE = range(7)
# What threads share, each number in a cache line of its own: how many jobs are posted, and taken;
# 1 when no more will come; the address of `usleep`.
POSTED, TAKEN, IS_CLOSED, SLEEP, SHARED_SIZE = 0, 16, 32, 48, 64
LOOKS = 20_000  # for a job, some 50 us, before a thread sleeps between two of them
NAP_US = 50


class JobBoard:
    """The jobs of one step. Jobs are numbered from 0 and taken in that order.

    Args:
        most: of them.
    """

    def __init__(self, most: int) -> None:
        self._rows = np.zeros((most, JOB_SIZE), np.int64)
        self._shared = np.zeros(SHARED_SIZE, np.int64)
        self._shared[SLEEP] = _usleep()
        self._count = 0

    def post(
        self, world: int = 0, picture: int = 0, source: int = 0, target: int = 0, size: int = 0
    ) -> int:
        """A job for whoever is free; returns its number.

        Args:
            world: what `run_worlds` takes; 0: none.
            picture: what `draw_pictures` takes; 0: none.
            source, target, size: addresses; so many bytes are copied when these are done.
        """
        number = self._count
        self._rows[number, :IS_DONE] = world, picture, source, target, size
        self._count += 1
        post_jobs(self._shared, self._count)
        return number

    def finish(self, number: int) -> None:
        """Returns when this job is done; until then does jobs itself.

        Raises RuntimeError if the board is closed before.
        """
        self._finish(number, number + 1)

    def finish_all(self) -> None:
        """Returns when all jobs are done. Raises as `finish`."""
        self._finish(0, self._count)

    def _finish(self, first: int, end: int) -> None:
        if not finish_jobs(self._rows, self._shared, first, end):
            raise RuntimeError("the homes were closed during a step")

    def help_out(self) -> None:
        """Does jobs until `close`."""
        do_jobs(self._rows, self._shared)

    def close(self) -> None:
        """Returns when no job is being done any more; those that nobody has taken stay undone."""
        close_jobs(self._rows, self._shared)


@lru_cache(maxsize=1)
def _usleep() -> int:
    """The address of the function that sleeps for microseconds; 0: there is none."""
    try:
        return ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p).value or 0
    except (AttributeError, OSError, TypeError):
        return 0


# --- what threads do -----------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def _place(array, index):
    """The address of a number of an array, [.] or [., JOB_SIZE], counted row by row."""
    return array.ctypes.data + 8 * index


@njit(cache=True, nogil=True)
def post_jobs(shared, count):
    """Those before number `count` may be taken."""
    store(_place(shared, POSTED), count)


@njit(cache=True, nogil=True)
def take_job(shared):
    """The number of a job that is now the caller's, -1: none is left."""
    while True:
        taken = load(_place(shared, TAKEN))
        if taken >= load(_place(shared, POSTED)):
            return -1
        if swap(_place(shared, TAKEN), taken, taken + 1) == taken:
            return taken


@njit(cache=True, nogil=True)
def do_job(rows, number):
    """Does it, whoever's it is, and says so."""
    job = rows[number]
    if job[WORLD] != 0:
        run_worlds(job[WORLD : WORLD + 1])
    if job[PICTURE] != 0:
        draw_pictures(job[PICTURE : PICTURE + 1])
    if job[SIZE] > 0:
        source, target = bytes_at(job[SOURCE], job[SIZE]), bytes_at(job[TARGET], job[SIZE])
        for i in range(job[SIZE]):
            target[i] = source[i]
    store(_place(rows, number * JOB_SIZE + IS_DONE), 1)


@njit(cache=True, nogil=True)
def _is_done(rows, number):
    return load(_place(rows, number * JOB_SIZE + IS_DONE)) != 0


@njit(cache=True, nogil=True)
def finish_jobs(rows, shared, first, end):
    """Whether jobs `first` to `end` - 1 are done; until they are or the board is closed does jobs
    itself."""
    for number in range(first, end):
        looks = 0
        while not _is_done(rows, number):
            job = take_job(shared)
            if job >= 0:
                do_job(rows, job)
            elif load(_place(shared, IS_CLOSED)) == 0:
                looks = _wait(shared, looks)
            else:
                return False
    return True


@njit(cache=True, nogil=True)
def do_jobs(rows, shared):
    """Does jobs until the board is closed."""
    looks = 0
    while load(_place(shared, IS_CLOSED)) == 0:
        job = take_job(shared)
        if job < 0:
            looks = _wait(shared, looks)
        else:
            do_job(rows, job)
            looks = 0


@njit(cache=True, nogil=True)
def close_jobs(rows, shared):
    """No job can be taken from now on; returns when those that were are done."""
    if swap(_place(shared, IS_CLOSED), 0, 1) != 0:
        return
    taken = load(_place(shared, TAKEN))
    while swap(_place(shared, TAKEN), taken, len(rows)) != taken:
        taken = load(_place(shared, TAKEN))
    for number in range(min(taken, len(rows))):
        looks = 0
        while not _is_done(rows, number):
            looks = _wait(shared, looks)


@njit(cache=True, nogil=True)
def _wait(shared, looks):
    """Returns how often a thread has looked for a job in vain; from some number on it sleeps."""
    sleep = load(_place(shared, SLEEP))
    if looks < LOOKS or sleep == 0:
        return looks + 1
    call_number(sleep, NAP_US)
    return looks
