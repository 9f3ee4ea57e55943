"""When to stop collecting, against trying every S; what fills a rollout that was stopped."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rearrange.ver.packing import minibatch_rows
from rearrange.ver.preemption import PreemptionCfg, choose_steps, newest_first, step_ends
from rearrange.ver.rollout_storage import RolloutStorage
from rearrange.ver.spaces import action_spec, observation_spec

S, E = 24, 4


def simulated_times(step_s, quota, is_variable):
    """When each step of all ranks comes, by stepping every environment on its own clock."""
    times = []
    for rank in step_s:
        clocks, counts = np.array(rank, float), np.zeros(len(rank), int)
        for _ in range(quota):
            is_free = np.full(len(rank), True) if is_variable else counts < quota // len(rank)
            e = min(np.flatnonzero(is_free), key=lambda e: clocks[e])
            times.append(clocks[e])
            clocks[e] += rank[e]
            counts[e] += 1
    return np.sort(times)


@pytest.mark.parametrize("is_variable", [True, False])
@pytest.mark.parametrize("is_overlapped", [True, False])
def test_the_choice_is_as_good_as_the_best_of_all(is_variable, is_overlapped):
    rng = np.random.default_rng(is_variable)
    for _ in range(25):
        num_ranks, num_envs, steps = rng.integers(1, 9), rng.integers(1, 9), rng.integers(1, 33)
        quota = int(num_envs * steps)
        # lognormal environments on ranks of which some are much slower
        step_s = 0.02 * np.exp(rng.normal(0.0, 0.5, (num_ranks, num_envs)))
        step_s *= np.exp(rng.normal(0.0, 1.0, (num_ranks, 1)))
        learn_s = float(rng.uniform(0.0, 2.0) * 0.02 * steps)
        times = simulated_times(step_s, quota, is_variable)
        cost = np.maximum(times, learn_s) if is_overlapped else times + learn_s
        best = (np.arange(1, len(times) + 1) / cost).max()
        choice = choose_steps(list(step_s), learn_s, quota, is_variable, is_overlapped)
        in_time = np.searchsorted(times, choice.seconds * (1.0 + 1e-9), side="right")
        assert abs(int(in_time) - choice.num_steps) <= 1 and choice.num_steps <= len(times)
        spent = max(choice.seconds, learn_s) if is_overlapped else choice.seconds + learn_s
        assert in_time / spent >= 0.97 * best


def test_a_rank_that_hangs_is_not_waited_for_and_equal_ones_are():
    step_s = [np.full(4, 0.01), np.full(4, 0.01), np.full(4, 10.0)]
    assert choose_steps(step_s, 0.2, 64, True) == (128, pytest.approx(0.16))
    assert choose_steps(step_s[:2], 0.2, 64, True) == (128, pytest.approx(0.16))
    # a dear update is worth waiting for
    assert choose_steps(step_s, 1e6, 64, True).num_steps == 192


def test_steps_of_a_rank_come_in_the_order_of_its_environments():
    assert step_ends(np.array([1.0, 3.0]), 5, is_variable=True).tolist() == [1, 2, 3, 3, 4]
    assert step_ends(np.array([1.0, 3.0]), 4, is_variable=False).tolist() == [1, 2, 3, 6]
    assert len(step_ends(np.array([0.0, 1.0]), 8, is_variable=True)) == 8


def test_the_newest_policy_comes_first_and_its_latest_steps():
    version, decided = np.array([0, 2, 1, 2, 1]), np.array([9, 3, 1, 4, 2])
    assert newest_first(np.array([0, 1, 2, 3]), version, decided).tolist() == [3, 1, 2, 0]


@pytest.mark.parametrize(
    "settings", [{"rule": "never"}, {"fraction": 0.0}, {"fraction": 1.5}, {"min_share": -0.1}]
)
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(ValueError, match="preemption"):
        PreemptionCfg(**settings)


def make_storage(keeps_previous):
    observation = observation_spec(spaces.Box(-1.0, 1.0, (1,)))
    action = action_spec(spaces.Discrete(2))
    cpu = torch.device("cpu")
    return RolloutStorage(S, E, observation, action, 0, cpu, keeps_previous)


def collect(storage, version, num_steps, num_open, next_id):
    """Completes steps whose ids grow; so many more stay under way."""
    rows = storage.allocate(num_steps - storage.num_complete + num_open)
    for row in rows:
        storage.policy_version[row], storage.step_id[row] = version, next_id
        storage.observation["observation"][row] = float(next_id)
        storage.env_id[row], next_id = next_id % E, next_id + 1
    for row in rows[: num_steps - storage.num_complete]:
        storage.complete(row, 1.0, False, False)
    return rows[len(rows) - num_open :], next_id


@pytest.mark.parametrize("is_same", [True, False])
@pytest.mark.parametrize("num_open", [0, 3, E])
def test_a_stopped_rollout_is_filled_with_the_newest_steps_of_the_last(is_same, num_open):
    storages = [make_storage(is_same) for _ in range(1 if is_same else 2)]
    full, next_id = storages[0], 0
    opened, next_id = collect(full, 0, S, num_open, next_id)
    expected = list(range(S))  # ids of the rollout, oldest first
    for version, fresh in ((1, 7), (2, 20), (3, 5), (4, 5), (5, S)):
        now = full if is_same else storages[version % 2]
        begun = full.carry(opened, now)
        carried = now.step_id[begun].tolist()
        for row in begun:
            now.complete(row, 1.0, False, False)
        first = next_id
        opened, next_id = collect(now, version, fresh, num_open, next_id)
        assert now.num_complete == fresh
        if fresh < S:
            now.fill(full)
        rows = now.complete_rows()
        is_stale = now.is_stale[rows]
        assert now.num_complete == len(rows) == S and is_stale.sum() == S - fresh
        made = carried + list(range(first, next_id - num_open))
        assert sorted(now.step_id[rows[~is_stale]]) == sorted(made)
        assert sorted(now.step_id[rows[is_stale]]) == sorted(expected[len(expected) - S + fresh :])
        seen = now.observation["observation"][rows, 0]
        assert seen.tolist() == now.step_id[rows].tolist()  # all of a step came along
        lengths = np.ones(S, int)
        parts = minibatch_rows(rows, lengths, 4, np.random.default_rng(0))
        assert {len(part.rows) for part in parts} == {S // 4}
        assert sorted(np.concatenate([part.rows for part in parts])) == sorted(rows)
        expected = expected[len(expected) - S + fresh :] + sorted(made)
        full = now


def test_what_was_never_collected_cannot_fill():
    storage = make_storage(True)
    storage.carry(np.zeros(0, np.int64), storage)
    with pytest.raises(RuntimeError, match="missing"):
        storage.fill(storage)
