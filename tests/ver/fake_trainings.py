"""Trainings of ranks that are threads, which learn nothing and write down from what.

A trainer with its collector, storages, synchronisation and checkpoints is the real one. Its
learner takes every minibatch for learned, and looks whether all of a step came along.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

import numpy as np
from fake_env import SEED_RANGE
from fake_faults import BreakableEnv, BreakablePool, Diary, Killed
from fake_policy import FakePolicy
from fake_ranks import FakeTime, ThreadRanks, World

from rearrange.ver.ranks.distributed import RanksLost
from rearrange.ver.rollout.collector import Collector
from rearrange.ver.rollout.report import CollectReport, NonFinite
from rearrange.ver.run.metrics import SilentLog
from rearrange.ver.trainer import Trainer
from rearrange.ver.trainer_cfg import TrainerCfg
from rearrange.ver.update.learner import Step
from rearrange.ver.update.ppo_learner import PPO
from rearrange.ver.workers.environment_worker import episode_seed
from rearrange.ver.workers.pool import TooManyRestarts

SEED = 5
TIME = FakeTime()
seed_of = cache(partial(episode_seed, SEED))


@dataclass
class Update:
    """What a rank learned from in one update; a step is (environment of all, episode, step)."""

    fresh: list
    stale: list
    ends: int  # fresh steps that end an episode
    report: CollectReport = None


@dataclass
class Training:
    """One life of the trainer."""

    cfg: TrainerCfg
    world: World
    events: list
    updates: dict = field(default_factory=lambda: defaultdict(dict))  # number -> rank -> Update
    diary: Diary = field(default_factory=Diary)
    errors: list = field(default_factory=list)
    trainers: dict = field(default_factory=dict)  # rank -> Trainer
    is_exact: bool = False  # it went on in the middle of the episodes of the one before


class AccountLearner(PPO):
    """Learns nothing, and writes down from what."""

    def __init__(self, policy, cfg, num_envs, device, rng, ranks, training):
        super().__init__(policy, cfg, num_envs, device, rng, ranks)
        self._training, self._rows = training, []

    def update(self, storage, *args, **kwargs):
        self._rows = []
        metrics = super().update(storage, *args, **kwargs)
        rows = storage.complete_rows()
        assert storage.num_complete == len(rows)
        learned = Counter(np.concatenate(self._rows).tolist())
        assert learned == dict.fromkeys(rows.tolist(), self.cfg.ppo.num_epochs)
        first = self.ranks.rank * self.num_envs
        keys = list(
            zip(
                (storage.env_id[rows] + first).tolist(), storage.episode_id[rows].tolist(),
                storage.step_id[rows].tolist(), strict=True,
            )
        )  # fmt: skip
        for row, (env, episode, step) in zip(rows, keys, strict=True):
            seen = storage.observation["observation"][row, :3].tolist()
            assert seen == [env, seed_of(env, episode) % SEED_RANGE, step]
        is_stale = storage.is_stale[rows]
        ends = (storage.terminated[rows] | storage.truncated[rows])[~is_stale]
        number = self._training.trainers[self.ranks.rank].updates
        self._training.updates[number][self.ranks.rank] = Update(
            [key for key, old in zip(keys, is_stale, strict=True) if not old],
            [key for key, old in zip(keys, is_stale, strict=True) if old],
            int(ends.sum()),
        )
        return metrics

    def _step(self, storage, part, is_first):
        self._rows.append(part.rows)
        return Step({})


class AccountPolicy(FakePolicy):
    def observe(self, seen, gather):
        gather(next(iter(seen.values())))


class AccountTrainer(Trainer):
    """Tells of its rollouts; one that is killed saves nothing."""

    is_killed = False

    def __init__(self, training, *args, ranks, **kwargs):
        self.training = training
        training.trainers[ranks.rank] = self
        super().__init__(*args, ranks=ranks, **kwargs)
        records, log_update, save = self.records, self.records.log_update, self.records.save

        def log_update_of(metrics, report, *rest):
            training.updates[self.updates - 1][ranks.rank].report = report
            log_update(metrics, report, *rest)

        def save_if_alive(*args, **kwargs):
            if not self.is_killed:
                save(*args, **kwargs)

        records.log_update, records.save = log_update_of, save_if_alive
        records.summary = lambda *args, **kwargs: {}

    def _make_pool(self):
        pool, training = super()._make_pool(), self.training
        pool.prepare(self.ranks.rank, training.world, training.diary, training.events, self)
        return pool


class SilentRunLog(SilentLog):
    def __init__(self, *args):
        super().__init__()


class AccountCollector(Collector):
    def collect(self, storage):
        world, rank = self.pool.world, self.pool.rank
        TIME.bind(world, rank)
        with world.collecting(rank):
            return super().collect(storage)


def live(training, rank, step_s, folder):
    """A rank's process."""
    world = training.world
    TIME.bind(world, rank)
    try:
        one = AccountTrainer(
            training, BreakableEnv, lambda *spec: AccountPolicy(), training.cfg,
            Path(folder), make_algorithm=partial(AccountLearner, training=training),
            pool_factory=partial(BreakablePool, step_s=step_s), ranks=ThreadRanks(world, rank),
            is_quiet=True,
        )  # fmt: skip
        goes_on = one.records.resumed is not None and one.records.inexact is None
        training.is_exact |= training.cfg.serial and goes_on
        one.run()
    except Killed:
        world.leave_for_good()
    except BaseException as error:
        training.errors.append(error)
        if not isinstance(error, NonFinite | TooManyRestarts | RanksLost):
            world.leave_for_good()
