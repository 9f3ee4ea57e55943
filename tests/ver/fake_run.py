"""Rollouts of the fake environments, collected by the real collector."""

import numpy as np
import torch
from fake_env import make_pool
from fake_policy import FakePolicy

from rearrange.ver.rollout.actor import Actor
from rearrange.ver.rollout.collector import Collector, CollectorCfg
from rearrange.ver.rollout.storage import RolloutStorage

E, T, S = 4, 8, 32
MODES = {
    "ver": (True, False), "nover": (False, False), "ddppo": (False, True), "batched": (True, True),
}  # fmt: skip
NAMES = (
    "env_id", "episode_id", "step_id", "policy_version", "reward", "terminated", "truncated",
    "next_value", "observation", "prev_action", "is_first", "state", "action", "log_prob", "value",
)  # fmt: skip


def same(one, other):
    """Whether rollouts are equal, but for the versions of the policy."""
    return all(
        np.array_equal(a[name], b[name])
        for a, b in zip(one, other, strict=True)
        for name in a
        if name != "policy_version"
    )


class Run:
    """Rollouts collected one after another; `rows` of each are {name: [S, ...]}."""

    def __init__(self, pool, mode="ver", policy=None, cfg=None, **options):
        self.pool, self.policy = pool, policy or FakePolicy()
        is_variable, is_lockstep = MODES[mode]
        self.collector = Collector(
            pool, Actor(self.policy), cfg or CollectorCfg(), torch.device("cpu"),
            is_variable=is_variable, is_lockstep=is_lockstep, **options,
        )  # fmt: skip
        spec = pool.slots.layout.observation
        self.storage = RolloutStorage(
            S, E, spec, pool.slots.layout.action, self.policy.state_size, torch.device("cpu")
        )
        self.rollouts, self.reports, self.open_rows = [], [], []

    def collect(self, count):
        for _ in range(count):
            self.collector.actor.refresh(len(self.rollouts), 0)
            self.reports.append(self.collector.collect(self.storage))
            self.rollouts.append(self.read(self.storage.complete_rows()))
            is_open = self.collector.open_row >= 0
            self.open_rows.append(self.read(self.collector.open_row[is_open]))
            self.collector.carry(self.storage, self.storage)
        return self

    def read(self, rows):
        kept = self.storage.read(rows)
        kept["observation"] = kept.pop("observation/observation")
        return {name: kept[name].numpy() for name in NAMES}

    def close(self):
        self.collector.close()
        self.pool.close()


def collect(kind, mode="ver", count=8, make_env=None, **options):
    run = Run(make_pool(kind, E, make_env), mode, **options)
    try:
        return run.collect(count)
    finally:
        run.close()
