"""Jobs are done once, whoever does them; and helper threads come and go."""

import copy
import gc
import pickle
import threading
import time

import numpy as np
import pytest

from rearrange.sim.native.addresses import address_of
from rearrange.tasks.vector.helper_threads import HelperThreads
from rearrange.tasks.vector.job_board import JobBoard, take_job

JOBS = 400
BYTES = 2048


def copies(board, count=JOBS, size=BYTES):
    """Posts jobs that copy rows; the rows [J, B], and where they are copied to."""
    source = np.random.default_rng(0).integers(0, 256, (count, size), np.uint8)
    target = np.zeros_like(source)
    for i in range(count):
        number = board.post(
            source=address_of(source) + i * size, target=address_of(target) + i * size, size=size
        )
        assert number == i
    return source, target


@pytest.mark.parametrize("count", [0, 1, 3])
def test_all_jobs_are_done_when_it_says_so(count):
    helpers = HelperThreads(count)
    for _ in range(20):
        board = JobBoard(JOBS)
        helpers.call(board.help_out)
        source, target = copies(board)
        board.finish_all()
        assert np.array_equal(source, target)
        board.close()
    helpers.close()


def test_a_job_is_done_when_it_says_so_and_those_before_it_are_taken_first():
    board = JobBoard(JOBS)
    source, target = copies(board)
    board.finish(7)
    assert np.array_equal(source[:8], target[:8]) and not target[8:].any()
    board.finish(3)
    assert not target[8:].any()
    board.close()


def test_no_job_is_taken_twice():
    board, taken = JobBoard(40_000), [[] for _ in range(4)]
    together = threading.Barrier(len(taken), timeout=10)

    def take(numbers):
        together.wait()
        while (number := take_job(board._shared)) >= 0:
            numbers.append(number)

    for _ in range(40_000):
        board.post()
    threads = [threading.Thread(target=take, args=(numbers,)) for numbers in taken]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30.0)
    assert sorted(sum(taken, [])) == list(range(40_000))
    assert all(numbers == sorted(numbers) for numbers in taken)


def test_what_nobody_has_taken_stays_undone_when_it_is_closed_and_helpers_go():
    board = JobBoard(JOBS)
    source, target = copies(board)
    board.finish(4)
    board.close()
    board.close()
    board.help_out()  # at once, as with every later one
    assert np.array_equal(source[:5], target[:5]) and not target[5:].any()


def test_who_waits_for_a_job_of_a_closed_board_is_told():
    board = JobBoard(JOBS)
    board.post()
    board.close()
    board.post()
    for wait in (lambda: board.finish(1), board.finish_all):
        with pytest.raises(RuntimeError, match="the homes were closed during a step"):
            wait()


def test_closing_waits_for_what_is_being_done():
    helpers, size = HelperThreads(1), 200_000_000
    board = JobBoard(1)
    source = np.full(size, 7, np.uint8)
    target = np.zeros_like(source)
    board.post(source=address_of(source), target=address_of(target), size=size)
    helpers.call(board.help_out)
    until = time.monotonic() + 20.0
    while target[0] == 0 and time.monotonic() < until:
        time.sleep(0)
    board.close()
    assert target[-1] == 7
    helpers.close()


def test_threads_do_what_they_are_called_for_all_of_them_until_closed():
    helpers, together = HelperThreads(3), threading.Barrier(4, timeout=10)
    assert len(helpers) == 3
    for _ in range(2):
        helpers.call(together.wait)
        together.wait()  # or it raises
    helpers.close()
    helpers.close()
    with pytest.raises(RuntimeError, match="closed"):
        helpers.call(print)


@pytest.mark.parametrize(
    "twin", [copy.deepcopy, lambda threads: pickle.loads(pickle.dumps(threads))]
)
def test_copies_have_threads_of_their_own(twin):
    helpers = HelperThreads(2)
    other = twin(helpers)
    helpers.close()
    together = threading.Barrier(3, timeout=10)
    other.call(together.wait)
    together.wait()
    other.close()


def test_threads_end_when_they_are_forgotten():
    helpers = HelperThreads(2)
    threads = helpers._threads
    del helpers
    gc.collect()
    for thread in threads:
        thread.join(10.0)
        assert not thread.is_alive()
