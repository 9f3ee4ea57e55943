"""Pools of mode batched, and a policy that chooses one of three actions."""

from functools import partial

import numpy as np
import torch
from fake_env import SEED, MakeFake
from fake_policy import FakePolicy
from fake_run import E

from rearrange.ver.batched.groups import make_batch, make_pool
from rearrange.ver.batched.start_cfg import StaggeredStartCfg, trackers_of
from rearrange.ver.workers.environment_worker import WorkerCfg
from rearrange.ver.workers.shared_memory import SlotLayout
from rearrange.ver.workers.spaces import action_spec, observation_spec

CHAIN = {"horizon": 20, "num_actions": 3, "progression": 1.0}


class Choosing(FakePolicy):
    """Takes one of the chain's actions, whatever it sees."""

    def act(self, observation, prev_action, is_first, state, deterministic=False):
        step = super().act(observation, prev_action, is_first, state)
        step.action = torch.randint(3, prev_action.shape, generator=self.generator)
        return step


def batched_pool(
    make_env=None, start_mode="off", horizon=8, make_envs=None, started=True, groups=1, **cfg
):
    """A pool of E environments, as `fake_env.make_pool` makes others."""
    make_env = make_env or MakeFake()
    env = make_env(0)
    spec = observation_spec(env.observation_space), action_spec(env.action_space)
    worker_cfg = WorkerCfg(SEED, ("success",), start_mode, horizon)
    trackers = trackers_of(worker_cfg, StaggeredStartCfg(**cfg), E, 8, num_groups=groups)
    pool = make_pool(
        partial(make_batch, make_envs, make_env), SlotLayout(E, *spec, 1), worker_cfg,
        np.zeros(E, np.int64), trackers,
    )  # fmt: skip
    if started:
        pool.start()
    return pool
