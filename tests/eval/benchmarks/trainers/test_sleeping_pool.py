"""Environments without processes that sleep as those with processes do."""

import time

import numpy as np
import pytest

from rearrange.eval.benchmarks.trainers.sleeping_pool import (
    DeferredSleepEnv,
    DeferredSleepFactory,
    LockstepSleepers,
    SleepingPool,
)
from rearrange.ver.workers.environment_worker import WorkerCfg
from rearrange.ver.workers.shared_memory import SlotLayout
from rearrange.ver.workers.spaces import action_spec, observation_spec
from rearrange.workloads.straggler import StepTimes, StragglerCfg

E = 3
CFG = StragglerCfg(base_step_s=0.01, spread=0.5, reset_low_s=0.03, reset_high_s=0.05, seed=2)


def make_pool(cfg=CFG, first=0):
    env = DeferredSleepEnv()
    spec = observation_spec(env.observation_space), action_spec(env.action_space)
    layout = SlotLayout(E, *spec, 0)
    pool = SleepingPool(
        DeferredSleepFactory(cfg, first),
        layout,
        WorkerCfg(0, (), "off", 1),
        np.zeros(E, np.int64),
        True,
    )
    pool.start()
    assert sorted(pool.receive(0.0)) == [0, 1, 2] and pool.slots.is_start.all()
    return pool


def wait_for(pool, count):
    """(environment, when) as they come."""
    came = []
    while len(came) < count:
        came += [(e, time.perf_counter()) for e in pool.receive(0.1)]
    return came


@pytest.mark.parametrize("first", [0, 5])
def test_steps_come_after_their_times_and_in_their_order(first):
    pool = make_pool(first=first)
    expected = [StepTimes(CFG, first + e).next_step_s() for e in range(E)]
    begin = time.perf_counter()
    pool.send([0, 1, 2])
    came = wait_for(pool, E)
    assert [e for e, _ in came] == np.argsort(expected).tolist()
    assert pool.slots.step_seconds.tolist() == pytest.approx(expected)
    assert all(when - begin >= expected[e] for e, when in came)
    assert not pool.slots.is_start.any() and pool.receive(0.0) == []


def test_a_reset_is_part_of_the_step_that_ends_the_episode():
    pool = make_pool(StragglerCfg(base_step_s=0.0, reset_low_s=0.03, episode_steps=1))
    begin = time.perf_counter()
    pool.send([1])
    assert wait_for(pool, 1)[0][0] == 1 and pool.slots.truncated[1]
    assert time.perf_counter() - begin >= pool.slots.step_seconds[1] >= 0.03


def test_waiting_ends_in_time():
    pool = make_pool(StragglerCfg(base_step_s=60.0))
    pool.send([0])
    begin = time.perf_counter()
    assert pool.receive(0.02) == []
    assert 0.02 <= time.perf_counter() - begin < 10.0


def test_in_lockstep_a_step_takes_as_long_as_its_slowest():
    envs = LockstepSleepers(DeferredSleepFactory(CFG), E)
    times = [StepTimes(CFG, index) for index in range(E)]
    envs.reset()
    for _ in range(3):
        wanted = max(one.next_step_s() for one in times)
        begin = time.perf_counter()
        envs.step(envs.action_space.sample())
        assert wanted <= time.perf_counter() - begin < wanted + 0.05
