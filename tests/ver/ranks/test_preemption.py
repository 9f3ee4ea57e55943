"""When to stop collecting, against trying every S; what fills a rollout that was stopped."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rearrange.ver.ranks.preemption import (
    Forecast,
    PreemptionCfg,
    RankTimes,
    choose_steps,
    newest_first,
    step_ends,
)
from rearrange.ver.rollout.storage import RolloutStorage
from rearrange.ver.update.packing import minibatch_rows
from rearrange.ver.workers.spaces import action_spec, observation_spec

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
    assert choose_steps(step_s, 0.2, 64, True)[:2] == (128, pytest.approx(0.16))
    assert choose_steps(step_s[:2], 0.2, 64, True)[:2] == (128, pytest.approx(0.16))
    # a dear update is worth waiting for
    assert choose_steps(step_s, 1e6, 64, True).num_steps == 192


class Fleet:
    """Ranks whose rollouts take their usual times, give or take 5%, and are told to a forecast."""

    num_envs, quota, learn_s = 8, 256, 0.5

    def __init__(self, step_s, seed=0):
        self.step_s, self.rng = np.array(step_s), np.random.default_rng(seed)
        self.forecast = Forecast(self.quota, is_variable=True, is_overlapped=False)

    def collect(self, stalled_s=()):
        """One rollout of all ranks; which of them were stopped, and when."""
        choice = self.forecast.choose()
        deadline_s = np.inf if choice is None else choice.deadline_s
        told, stopped = [], []
        for rank, base_s in enumerate(self.step_s):
            step_s = base_s * np.exp(0.05 * self.rng.normal()) * np.ones(self.num_envs)
            ends = step_ends(step_s, self.quota, True) + (stalled_s[rank] if stalled_s else 0.0)
            num_steps = int((ends <= deadline_s).sum())
            stopped.append(num_steps < self.quota)
            wall_s = min(deadline_s, ends[-1])
            means = np.full(self.num_envs, wall_s / max(1.0, num_steps / self.num_envs))
            told.append(RankTimes(num_steps, wall_s, self.learn_s, means))
        self.forecast.add(told)
        return stopped, deadline_s


@pytest.mark.parametrize("num_ranks", [2, 8])
def test_ranks_that_are_alike_are_hardly_ever_stopped(num_ranks):
    fleet = Fleet([0.06] * num_ranks)
    stopped = np.array([fleet.collect()[0] for _ in range(200)])
    assert stopped.mean() < 0.02


def test_stragglers_are_stopped_soon_after_the_others_have_finished():
    fleet = Fleet([0.06, 0.06, 0.15])
    rollouts = [fleet.collect() for _ in range(60)]
    assert not np.any([stopped for stopped, _ in rollouts[:5]])  # too little is known
    stopped = np.array([stopped for stopped, _ in rollouts[5:]])
    assert stopped[:, 2].all() and stopped[:, :2].mean() < 0.03
    quick_s = 0.06 * 256 / 8
    deadlines = np.array([deadline_s for _, deadline_s in rollouts[5:]])
    assert quick_s < deadlines.mean() < 1.25 * quick_s


def test_a_rank_that_stalls_once_is_stopped_and_changes_little():
    fleet = Fleet([0.06] * 4)
    for _ in range(20):
        fleet.collect()
    before = fleet.forecast.choose().deadline_s
    stopped, _ = fleet.collect(stalled_s=(0.0, 30.0, 0.0, 0.0))
    assert stopped == [False, True, False, False]
    assert fleet.forecast.choose().deadline_s == pytest.approx(before, rel=0.15)


def test_steps_of_a_rank_come_in_the_order_of_its_environments():
    assert step_ends(np.array([1.0, 3.0]), 5, is_variable=True).tolist() == [1, 2, 3, 3, 4]
    assert step_ends(np.array([1.0, 3.0]), 4, is_variable=False).tolist() == [1, 2, 3, 6]
    assert len(step_ends(np.array([0.0, 1.0]), 8, is_variable=True)) == 8


def test_the_newest_policy_comes_first_and_its_latest_steps():
    version, decided = np.array([0, 2, 1, 2, 1]), np.array([9, 3, 1, 4, 2])
    assert newest_first(np.array([0, 1, 2, 3]), version, decided).tolist() == [3, 1, 2, 0]


def test_ddppo_is_filled_only_if_told_to():
    assert not PreemptionCfg().fills("ddppo") and PreemptionCfg(fill=True).fills("ddppo")
    assert PreemptionCfg().fills("ver") and not PreemptionCfg(fill=False).fills("ver")


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
    assert storage.fill(storage) == 0 and len(storage.complete_rows()) == 0


@pytest.mark.parametrize("is_same", [True, False])
def test_dropped_steps_leave_what_is_left_of_the_last_rollout_to_fill(is_same):
    storages = [make_storage(is_same) for _ in range(1 if is_same else 2)]
    full, now = storages[0], storages[-1]
    opened, next_id = collect(full, 0, S, E, 0)
    before = set(full.step_id[full.complete_rows()])
    for row in full.carry(opened, now):
        now.complete(row, 1.0, False, False)
    opened, _ = collect(now, 1, 20, E, next_id)  # S + E rows: all but 4 of the last rollout's
    fresh = now.complete_rows()
    now.drop(np.append(fresh[:15], opened[0]))  # its environment's worker has died
    num_left = S if not is_same else S - 20
    assert now.fill(full) == min(num_left, S - 5)
    rows = now.complete_rows()
    assert now.num_complete == len(rows) == min(S, 5 + num_left)
    stale = rows[now.is_stale[rows]]
    assert set(now.step_id[stale]) <= before and len(set(now.step_id[rows])) == len(rows)
    assert not set(rows) & set(opened[1:]) and set(fresh[15:]) <= set(rows)
    # the next rollout is whole again
    for row in now.carry(opened[1:], now):
        now.complete(row, 1.0, False, False)
    collect(now, 2, S, E, 100)
    assert now.num_complete == S
