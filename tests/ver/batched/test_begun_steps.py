"""Environments whose steps have two halves are stepped while the last steps are stored."""

import os
import signal
import time
from functools import partial

import gymnasium
import numpy as np
import pytest
from batched_pools import batched_pool
from fake_env import MakeFake
from fake_run import E, Run, same
from gymnasium.vector import AsyncVectorEnv

from rearrange.ver.batched import halves
from rearrange.ver.batched.single_envs import FreezeAfterEnd, SingleEnvs


class Halved(SingleEnvs):
    """Says which half was called, and has nothing to wait for."""

    def __init__(self, make_env, num_envs, called):
        super().__init__(make_env, num_envs)
        self.called = called

    def step_async(self, actions):
        self.called.append("async")
        self.given = actions

    def step_wait(self):
        self.called.append("wait")
        return super().step(self.given)

    def step(self, actions):
        self.called.append("step")
        return super().step(actions)


def halved_pool(called, wrap=lambda envs: envs, **more):
    return batched_pool(make_envs=lambda n: wrap(Halved(MakeFake(), n, called)), **more)


def processes(num_envs):
    makers = [partial(lambda e: FreezeAfterEnd(MakeFake()(e)), e) for e in range(num_envs)]
    return AsyncVectorEnv(makers, autoreset_mode="Disabled")


def test_a_step_begins_when_it_is_sent():
    called = []
    pool = halved_pool(called)
    pool.receive(0.0)
    for n in (1, 2):
        pool.send(list(range(E)))
        assert called == ["async", "wait"] * (n - 1) + ["async"]
        pool.receive(0.0)
        assert called == ["async", "wait"] * n
    pool.close()


@pytest.mark.parametrize(
    "make_envs", [partial(Halved, MakeFake(), called=[]), processes], ids=["halved", "processes"]
)
def test_rollouts_do_not_depend_on_it(make_envs):
    whole = Run(batched_pool(), "batched").collect(6)
    pool = batched_pool(make_envs=make_envs)
    assert same(whole.rollouts, Run(pool, "batched").collect(6).rollouts)
    pool.close()


class Shaped(Halved):
    def step(self, actions):
        observations, rewards, *rest = super().step(actions)
        return observations, rewards + 1000.0, *rest


class Passing(gymnasium.vector.VectorWrapper):
    def __getattr__(self, name):
        return getattr(self.env, name)


@pytest.mark.parametrize("kind", ["wrapped", "passing", "in groups"])
def test_what_a_wrapper_does_to_a_step_is_not_left_out(kind):
    """Nor is a group begun by a thread that is not its own."""
    called = []
    if kind == "in groups":
        pool = halved_pool(called, groups=2)
    else:
        statistics = gymnasium.wrappers.vector.RecordEpisodeStatistics
        pool = halved_pool(called, Passing if kind == "passing" else statistics)
    Run(pool, "batched").collect(2)
    assert set(called) == {"step"}
    pool.close()


def test_nor_is_what_a_subclass_does():
    called = []
    pool = batched_pool(make_envs=lambda n: Shaped(MakeFake(), n, called))
    pool.receive(0.0)
    pool.send(list(range(E)))
    pool.receive(0.0)
    assert called == ["step"] and (pool.slots.reward > 900.0).all()
    pool.close()


class Trouble(gymnasium.Env):
    """Its second step sleeps, raises, or kills its process."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (2,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))

    def __init__(self, kind):
        self.kind, self.steps = kind, 0

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.steps == 2 and self.kind == "sleeps":
            time.sleep(60.0)
        if self.steps == 2 and self.kind == "raises":
            raise ValueError("out of order")
        if self.steps == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.zeros(2, np.float32), 0.0, False, False, {}


@pytest.mark.parametrize("is_received", [False, True], ids=["under way", "received"])
@pytest.mark.parametrize("kind", ["sleeps", "raises", "dies"])
def test_environments_in_trouble_are_closed_soon_whatever_they_do(kind, is_received, monkeypatch):
    if kind == "sleeps" and is_received:
        pytest.skip("it would be waited for")
    monkeypatch.setattr(halves, "CLOSE_S", 1.0)
    envs = AsyncVectorEnv([lambda: Trouble(kind)] * 2, autoreset_mode="Disabled")
    pool = batched_pool(lambda e: Trouble(kind), make_envs=lambda n: envs, started=False)
    envs.reset()
    envs.step(np.zeros((2, 2), np.float32))
    pool._begin_step(np.zeros((2, 2), np.float32))
    if is_received:
        with pytest.raises((ValueError, OSError, EOFError)):
            pool._step_envs(np.zeros((2, 2), np.float32))
    begin = time.monotonic()
    pool.close()
    assert time.monotonic() - begin < 5.0
    for process in envs.processes:
        process.join(5.0)
        assert not process.is_alive()
