"""Rewards over the spread of the discounted return, counted again from all of it."""

import json

import numpy as np
import pytest

from rearrange.ver.update.reward_scaling import RewardScaler

GAMMA = 0.9


def random_steps(seed, size=300, num_envs=4):
    rng = np.random.default_rng(seed)
    env_ids = rng.integers(0, num_envs, size)
    return env_ids, rng.normal(5.0, 30.0, size), rng.random(size) < 0.1


def all_returns(env_ids, rewards, is_first):
    """G of each step by its definition, a sum over the episode so far."""
    found = []
    for t in range(len(rewards)):
        own = np.flatnonzero(env_ids[: t + 1] == env_ids[t])
        starts = own[is_first[own]]
        own = own[own >= (starts.max() if len(starts) else 0)]
        found.append(sum(GAMMA ** (len(own) - 1 - k) * rewards[i] for k, i in enumerate(own)))
    return np.array(found)


def test_the_scale_is_one_over_the_spread_of_the_discounted_return():
    steps = random_steps(0)
    scaler = RewardScaler(4, GAMMA)
    for part in np.split(np.arange(300), [10, 11, 150]):
        scaler.update(*(column[part] for column in steps))
    assert scaler.scale == pytest.approx(1.0 / all_returns(*steps).std(), rel=1e-9)


def test_there_is_no_scale_before_there_is_a_spread():
    scaler = RewardScaler(1, GAMMA)
    assert scaler.scale == 1.0
    scaler.update(np.array([0]), np.array([1000.0]), np.array([False]))
    assert scaler.scale == 1.0


def test_a_saved_scaler_goes_on_as_if_it_had_not_been_saved():
    env_ids, rewards, is_first = random_steps(1)
    one, two = RewardScaler(4, GAMMA), RewardScaler(4, GAMMA)
    one.update(env_ids[:100], rewards[:100], is_first[:100])
    two.load(json.loads(json.dumps(one.state())))
    for scaler in (one, two):
        scaler.update(env_ids[100:], rewards[100:], is_first[100:])
    assert one.scale == two.scale and one.state() == two.state()
