"""Interleaving of collecting and learning: generators of full rollouts; learn between yields.

    alternating   collect | learn | collect | learn          ver, nover, ddppo
    overlapped    collect | learn                            htsrl: the policy that collects is one
                          | collect | learn                  rollout old
                                    | collect | ...
    free          collecting never waits for learning        async: weights change under way

Each yields (storage, report). The storage is the caller's until it requests the next one. Several
ranks `synchronise` after each rollout, in the caller's thread; see `rank_sync.py`.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor, wait

import torch

from rearrange.ver.rollout.collector import Collector
from rearrange.ver.rollout.report import CollectReport
from rearrange.ver.rollout.storage import RolloutStorage

Rollouts = Generator[tuple[RolloutStorage, CollectReport], None, None]
Synchronise = Callable[[Callable[[], CollectReport], RolloutStorage, RolloutStorage], CollectReport]
"""Collector, its storage and the previous one -> the collector's report."""


def alone(
    collect: Callable[[], CollectReport], storage: RolloutStorage, previous: RolloutStorage
) -> CollectReport:
    """Does nothing: there is one process."""
    return collect()


def alternating(
    collector: Collector, storage: RolloutStorage, synchronise: Synchronise = alone
) -> Rollouts:
    """One storage, filled repeatedly."""
    while True:
        report = synchronise(lambda: collector.collect(storage), storage, storage)
        yield storage, report
        collector.carry(storage, storage)


def overlapped(
    collector: Collector,
    storages: list[RolloutStorage],  # two
    refresh: Callable[[], None],  # refreshes the acting policy's weights
    synchronise: Synchronise = alone,
) -> Rollouts:
    """The next rollout is collected while the caller learns from this one."""
    full, empty = storages
    with ThreadPoolExecutor(1, "collector", _one_torch_thread) as thread:
        report = synchronise(thread.submit(collector.collect, full).result, full, empty)
        while True:
            collector.carry(full, empty)
            refresh()
            job = thread.submit(collector.collect, empty)
            try:
                yield full, report
            finally:  # also when the caller stops: nothing else may run the policy then
                wait([job])
            report = synchronise(job.result, empty, full)
            full, empty = empty, full


def free_running(collector: Collector, storages: list[RolloutStorage]) -> Rollouts:
    """Collects while a storage is free; the caller refreshes weights at any time."""
    free: queue.Queue[RolloutStorage] = queue.Queue()
    full: queue.Queue[tuple[RolloutStorage, CollectReport] | BaseException] = queue.Queue()
    is_over = threading.Event()

    def collect() -> None:
        _one_torch_thread()
        try:
            storage: RolloutStorage | None = free.get()
            while storage is not None and not is_over.is_set():
                report = collector.collect(storage)
                target: RolloutStorage | None = None
                while target is None and not is_over.is_set():
                    try:
                        target = free.get(timeout=0.1)
                    except queue.Empty:
                        continue
                if target is not None:
                    collector.carry(storage, target)
                full.put((storage, report))
                storage = target
        except BaseException as error:
            full.put(error)

    for storage in storages:
        free.put(storage)
    thread = threading.Thread(target=collect, name="collector", daemon=True)
    thread.start()
    try:
        while True:
            found = full.get()
            if isinstance(found, BaseException):
                raise found
            yield found
            free.put(found[0])
    finally:
        is_over.set()
        thread.join()


def _one_torch_thread() -> None:
    torch.set_num_threads(1)
