"""How collecting and learning interleave, from when each begins and ends."""

import threading
from types import SimpleNamespace

import pytest

from rearrange.ver.rollout.interleaving import alternating, free_running, overlapped


class Storage:
    """Holds the number of the rollout that it was filled with."""

    def __init__(self):
        self.content = None


class FakeCollector:
    """Fills storages with 0, 1, 2, ...; `carries` says what was carried from where to where."""

    def __init__(self, fail_at=None):
        self.count, self.carries, self.fail_at = 0, [], fail_at
        self.weights, self.used, self.is_free = 0, [], threading.Semaphore(1000)

    def collect(self, storage):
        self.is_free.acquire()
        if self.count == self.fail_at:
            raise ZeroDivisionError
        self.used.append(self.weights)
        storage.content = self.count
        self.count += 1
        return SimpleNamespace(number=storage.content)

    def carry(self, source, target):
        self.carries.append((source, target))


def test_alternating_collects_only_when_asked():
    collector, storage = FakeCollector(), Storage()
    rollouts = alternating(collector, storage)
    for number in range(4):
        found, report = next(rollouts)
        assert found is storage and found.content == report.number == number
        assert collector.count == number + 1 and len(collector.carries) == number


def test_overlapped_is_one_rollout_ahead_with_the_weights_of_then():
    collector, storages = FakeCollector(), [Storage(), Storage()]
    learned = 0

    def publish():
        collector.weights = learned

    rollouts = overlapped(collector, storages, publish)
    for number in range(6):
        found, report = next(rollouts)
        assert found is storages[number % 2] and found.content == report.number == number
        learned += 1
    rollouts.close()
    # rollout n was collected while the caller learned from n - 1, with what n - 2 had taught
    assert collector.used[:6] == [0, 0, 1, 2, 3, 4]
    assert all(source is not target for source, target in collector.carries)


def test_a_rollout_stays_as_it_is_until_the_next_is_asked_for():
    for make in (
        lambda c: overlapped(c, [Storage(), Storage()], lambda: None),
        lambda c: free_running(c, [Storage(), Storage(), Storage()]),
    ):
        collector = FakeCollector()
        rollouts = make(collector)
        for number in range(20):
            found, report = next(rollouts)
            for _ in range(50):
                assert found.content == report.number == number
        rollouts.close()


def test_free_running_collects_until_no_storage_is_free():
    collector, storages = FakeCollector(), [Storage(), Storage(), Storage()]
    rollouts = free_running(collector, storages)
    first, _ = next(rollouts)
    for _ in range(1000):
        if collector.count == 3:
            break
        threading.Event().wait(0.01)
    assert collector.count == 3 and first.content == 0
    assert next(rollouts)[0].content == 1
    rollouts.close()
    assert threading.active_count() == 1 or "collector" not in {
        thread.name for thread in threading.enumerate()
    }


@pytest.mark.parametrize("number", [0, 1, 3])
def test_what_goes_wrong_while_collecting_reaches_the_caller(number):
    for make in (
        lambda c: alternating(c, Storage()),
        lambda c: overlapped(c, [Storage(), Storage()], lambda: None),
        lambda c: free_running(c, [Storage(), Storage(), Storage()]),
    ):
        rollouts = make(FakeCollector(fail_at=number))
        with pytest.raises(ZeroDivisionError):
            for _ in range(number + 1):
                next(rollouts)
        assert next(rollouts, None) is None
