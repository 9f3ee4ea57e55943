"""A collector that was saved and put back goes on as if nothing had happened."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fake_env import SEED, MakeFake, make_pool, seed_of
from fake_run import MODES, E, Run, S, same

from rearrange.ver.run.snapshot import (
    Snapshot,
    failed_resets,
    note_failed_resets,
    of_all_ranks,
    restore_exactly,
    restore_random,
    take_snapshot,
)
from rearrange.ver.workers.environment_worker import WorkerCfg
from rearrange.ver.workers.pool import SerialPool


def saved(run, rng):
    """A snapshot, by way of JSON and bytes, as a checkpoint keeps it."""
    snapshot = take_snapshot(run.collector, run.storage, rng)
    tensors = {name: value.clone() for name, value in snapshot.tensors.items()}
    return Snapshot(tensors, json.loads(json.dumps(snapshot.values)))


def restored(snapshot, run, mode, make_env):
    """A second run, in the state of the snapshot, as another process would make it."""
    numbers = np.array(snapshot.values["episode_numbers"])
    cfg = WorkerCfg(SEED, ("success",), "clock", 8)
    pool = SerialPool(make_env, run.pool.slots.layout, cfg, numbers, is_fresh=False)
    again = Run(pool, mode, on_nonfinite="drop")
    restore_exactly(snapshot, again.collector, again.storage)
    return again


POISON = tuple((1, seed_of(1, n), 2) for n in range(0, 9, 2))  # rollouts end between two steps


@pytest.mark.parametrize("poison", [(), POISON], ids=["clean", "dropping"])
@pytest.mark.parametrize("start_mode", ["clock", "advance"])
@pytest.mark.parametrize("mode", MODES)
def test_a_restored_collector_collects_the_same(mode, start_mode, poison):
    make_env = MakeFake(poison=poison)
    run = Run(make_pool("serial", E, make_env, start_mode), mode, on_nonfinite="drop")
    waited, snapshots = 0, []
    for _ in range(6):
        waited += len(run.collector.arrived)
        actions = run.policy.generator.get_state()
        snapshots.append((saved(run, np.random.default_rng(0)), actions))
        run.collect(1)
    for count, (snapshot, actions) in enumerate(snapshots):
        assert snapshot.values["is_exact"]
        again = restored(snapshot, run, mode, make_env)
        again.policy.generator.set_state(actions)
        again.collect(min(2, 6 - count))
        assert same(again.rollouts, run.rollouts[count : count + 2])
        for a, b in zip(again.reports, run.reports[count:], strict=False):
            ends = [[(e.env, e.total_return, e.length) for e in r.episodes] for r in (a, b)]
            assert ends[0] == ends[1]
    assert waited > 0 or not poison or mode != "ver"


def test_answers_of_workers_are_not_saved():
    run = Run(make_pool("workers", E), "ver").collect(2)
    try:
        snapshot = saved(run, np.random.default_rng(0))
    finally:
        run.close()
    assert not snapshot.values["is_exact"]
    assert len(snapshot.values["episode_numbers"]) == E
    assert set(snapshot.tensors) == {"random/torch"}


def test_random_numbers_go_on():
    rng = np.random.default_rng(5)
    rng.permutation(7)
    snapshot = saved(Run(make_pool("serial", E)), rng)
    expected = torch.rand(3), rng.permutation(100)
    torch.rand(9), rng.permutation(9)
    restore_random(snapshot, rng, torch.device("cpu"))
    assert torch.equal(torch.rand(3), expected[0]) and (rng.permutation(100) == expected[1]).all()


def test_first_episodes_that_start_modes_cut_short_are_told_apart():
    for start_mode, is_cut in (("off", False), ("clock", True), ("advance", True)):
        run = Run(make_pool("serial", E, MakeFake(lengths=(11,)), start_mode), "ver").collect(4)
        ends = [end for report in run.reports for end in report.episodes]
        firsts = {end.env: end.is_whole for end in reversed(ends)}
        assert len(ends) > len(firsts) == E and (False in firsts.values()) == is_cut
        assert sum(not end.is_whole for end in ends) <= E


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_random_numbers_of_a_gpu_go_on():
    rng, device = np.random.default_rng(5), torch.device("cuda", 0)
    torch.rand(7, device=device)
    run = Run(make_pool("serial", E))
    run.collector.device = device
    snapshot = saved(run, rng)
    expected = torch.rand(3, device=device)
    torch.rand(9, device=device)
    restore_random(snapshot, rng, device)
    assert torch.equal(torch.rand(3, device=device), expected)


def test_a_snapshot_does_not_change_with_what_comes_after():
    run = Run(make_pool("serial", E)).collect(1)
    snapshot = take_snapshot(run.collector, run.storage, np.random.default_rng(0))
    before = {name: value.clone() for name, value in snapshot.tensors.items()}
    run.collect(2)
    assert all(torch.equal(value, before[name]) for name, value in snapshot.tensors.items())
    assert len(run.rollouts[0]["env_id"]) == S


def test_of_an_episode_that_cannot_be_started_the_most_failures_are_kept():
    """Ranks know of each other's episodes as they were when the run was resumed."""

    def noted(counts, known=None):
        snapshot = Snapshot({}, {"random": {}, "episode_numbers": [5]})
        snapshot.values |= {} if known is None else {"failed_resets": known}
        note_failed_resets(snapshot, SimpleNamespace(failed_resets=lambda: counts))
        return snapshot

    first, second = noted({77: 1, 5: 2}), noted({77: 2})
    values = [
        [one.values["episode_numbers"], one.values["failed_resets"]] for one in (first, second)
    ]
    for parts in (values, values[::-1]):
        ranks = SimpleNamespace(is_alone=False, gather=lambda own, parts=parts: parts)
        assert failed_resets(of_all_ranks(first, ranks)) == {77: 2, 5: 2}
    assert failed_resets(noted({77: 1}, {"77": 2})) == {77: 2}
