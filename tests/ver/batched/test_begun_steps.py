"""Environments whose steps have two halves are stepped while the last steps are stored."""

from functools import partial

import gymnasium
import pytest
from batched_pools import batched_pool
from fake_env import MakeFake
from fake_run import E, Run, same
from gymnasium.vector import AsyncVectorEnv

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


@pytest.mark.parametrize("kind", ["wrapped", "in groups"])
def test_what_a_wrapper_does_to_a_step_is_not_left_out(kind):
    """Nor is a group begun by a thread that is not its own."""
    called = []
    if kind == "wrapped":
        pool = halved_pool(called, gymnasium.wrappers.vector.RecordEpisodeStatistics)
    else:
        pool = halved_pool(called, groups=2)
    Run(pool, "batched").collect(2)
    assert set(called) == {"step"}
    pool.close()
