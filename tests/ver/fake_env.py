"""An environment and its pools whose every number says where it comes from. No torch here.

observation   environment, episode's seed, step, action it answers (0 at the start)
reward        100 environment + step + action / 4
length        LENGTHS[seed % 5]; odd seeds terminate, even ones are truncated
"""

import time
from dataclasses import dataclass

import gymnasium
import numpy as np

from rearrange.ver.batched.start_cfg import StaggeredStartCfg, staggered_worker_cfg
from rearrange.ver.workers.environment_worker import WorkerCfg, episode_seed
from rearrange.ver.workers.pool import Fault, PoolCfg, SerialPool, WorkerPool
from rearrange.ver.workers.shared_memory import SlotLayout
from rearrange.ver.workers.spaces import action_spec, observation_spec

LENGTHS = (1, 4, 7, 11, 30)
SEED_RANGE = 1 << 20  # float32 counts so far


class FakeEnv(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = gymnasium.spaces.Box(-2.0, 2.0, (1,), np.float32)

    def __init__(self, index, step_s=0.0, lengths=LENGTHS, poison=()):
        self.index, self.step_s, self.lengths, self.poison = index, step_s, lengths, poison

    def reset(self, *, seed=None, options=None):
        self.seed, self.count = seed, 0
        return observation(self.index, seed, 0, 0.0), {}

    def step(self, action):
        assert self.action_space.contains(action) and self.count < self.length
        if self.step_s:
            time.sleep(self.step_s)
        self.count += 1
        is_over = self.count == self.length
        given = observation(self.index, self.seed, self.count, action[0])
        reward = reward_of(self.index, self.count, action[0])
        if (self.index, self.seed, self.count) in self.poison:
            reward = np.nan
        is_odd = bool(self.seed % 2)
        return given, reward, is_over and is_odd, is_over and not is_odd, {"success": is_odd}

    @property
    def length(self):
        return self.lengths[self.seed % len(self.lengths)]


class PictureEnv(gymnasium.Env):
    """Sees 16 x 16 lots."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (16, 16, 1), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, index):
        self.count = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self.look(), {}

    def step(self, action):
        self.count += 1
        return self.look(), float(action), self.count == 5, False, {}

    def look(self):
        return self.np_random.random((16, 16, 1), np.float32)


def observation(index, seed, step, action):
    return np.array([index, seed % SEED_RANGE, step, action], np.float32)


def reward_of(index, step, action):
    return 100.0 * index + step + 0.25 * float(action)


@dataclass(frozen=True)
class MakeFake:
    """Environment e sleeps e times `step_s`."""

    step_s: float = 0.0
    lengths: tuple = LENGTHS
    poison: tuple = ()

    def __call__(self, index):
        return FakeEnv(index, index * self.step_s, self.lengths, self.poison)


class UnevenPool(SerialPool):
    """Announces what is done in an order and at a pace of its own, as slow workers would."""

    def __init__(self, *args):
        super().__init__(*args)
        self.rng = np.random.default_rng(0)

    def receive(self, timeout_s):
        is_done = self.rng.random(len(self._ready)) < 1.0 / (1.0 + np.array(self._ready, float))
        ready = [e for e, done in zip(self._ready, is_done, strict=True) if done]
        self._ready = [e for e in self._ready if e not in ready]
        return ready


class FaultyPool(UnevenPool):
    """Replaces an environment every now and then, as if its worker had died."""

    def receive(self, timeout_s):
        ready, self.faults = super().receive(timeout_s), []
        if self.rng.random() < 0.05:
            e = int(self.rng.integers(self.num_envs))
            self.environments[e].start()
            self.faults = [Fault([e], "died")]
            ready = [other for other in ready if other != e]
            self._ready = [*(other for other in self._ready if other != e), e]
        return ready

    def take_faults(self):
        return self.faults


SEED = 7
POOLS = {"serial": SerialPool, "uneven": UnevenPool, "faulty": FaultyPool}


def make_pool(
    kind, num_envs, make_env=None, start_mode="off", horizon=8, repeat_failed=0.0, **stagger
):
    """A pool that has been started; staggered ones collect 8 steps of each environment."""
    make_env = make_env or MakeFake()
    env = make_env(0)
    spec = observation_spec(env.observation_space), action_spec(env.action_space)
    layout = SlotLayout(num_envs, *spec, 1)
    cfg = WorkerCfg(SEED, ("success",), start_mode, horizon, repeat_failed=repeat_failed)
    cfg = staggered_worker_cfg(cfg, StaggeredStartCfg(**stagger), num_envs, 8)
    numbers = np.zeros(num_envs, np.int64)
    if kind == "workers":
        pool = WorkerPool(make_env, layout, cfg, numbers, True, PoolCfg(), ("fake_env",))
    else:
        pool = POOLS[kind](make_env, layout, cfg, numbers, True)
    pool.start()
    return pool


def seed_of(env, number):
    return episode_seed(SEED, env, number)
