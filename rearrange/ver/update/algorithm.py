"""Algorithm: turns rollouts into new weights, with four methods that the trainer calls.

    act              what the environments that wait are told to do      [E] at a time, any thread
    store            what one of them answered goes into the rollout     a step at a time
    compute_returns  a full rollout's steps are judged: advantages,      [S] at a time
                     returns, weights
    update           the policy learns from it; metrics to log

All but `update` have an answer here already: the policy's own actions, stored as they are, judged
by generalised advantage estimation. PPO (`ppo_learner.py`) and imitation (`imitation.py`) are two
of them; others are named `algorithm=my_module:MyAlgorithm`.

E environments that wait, S steps of a rollout, Q sequences, A action dims, K floats of memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rearrange.system.registry import Registry
from rearrange.ver.ranks.distributed import ALONE, Ranks
from rearrange.ver.rollout.storage import RolloutStorage
from rearrange.ver.rollout.types import Policy, PolicyInputs, PolicyStep
from rearrange.ver.update.entropy import EntropyCfg
from rearrange.ver.update.packing import find_sequences
from rearrange.ver.update.ppo import PPOCfg
from rearrange.ver.update.returns import ReturnsCfg, compute_advantages, importance_weights
from rearrange.ver.update.reward_scaling import RewardScaler
from rearrange.ver.update.rollout_memory import RolloutMemory


@dataclass(kw_only=True)
class LearnerCfg:
    """The trainer's settings, as far as they are about learning."""

    ppo: PPOCfg = field(default_factory=PPOCfg)
    returns: ReturnsCfg = field(default_factory=ReturnsCfg)
    entropy: EntropyCfg = field(default_factory=EntropyCfg)
    max_importance_weight: float = 1.0
    reward_scale: float = 1.0
    normalize_rewards: bool = False
    uses_vtrace: bool = False
    on_nonfinite: str = "stop"


class Sequences(NamedTuple):
    """Rows of a rollout, sequence after sequence, each oldest step first.

    A sequence is consecutive steps of one episode. Stale ones, of an earlier rollout, come last.
    """

    rows: np.ndarray  # [S] int64
    lengths: np.ndarray  # [Q] int64, their sum is S


class Columns(NamedTuple):
    """What `compute_advantages` takes, along the sequences, [S] each."""

    rewards: Tensor
    values: Tensor
    next_values: Tensor
    terminated: Tensor
    ended: Tensor


@dataclass(kw_only=True)
class UpdateContext:
    """What an update is told by the trainer."""

    lr_factor: float = 1.0
    """Of the learning rate, by the schedule."""
    num_updates: int = 0
    """Updates before this one, those of earlier processes of the same training among them."""
    should_cut: Callable[[], bool] = lambda: False
    """To be asked before each optimiser step, by all ranks equally often; if it says so, the update
    ends: the training is being stopped."""
    after_step: Callable[[], None] = lambda: None
    """To be called after each optimiser step; mode async then acts with the new weights."""


class Algorithm(ABC):
    """Learns a policy.

    Args:
        policy: a torch Module; its weights are the algorithm's to change.
        cfg: the settings of the trainer.
        num_envs: environments of this rank.
        device: where the policy and what is learned from are.
        rng: for what is drawn while learning; a training that goes on has it as it was.
        ranks: the processes that learn the same policy. Gradients are to be averaged over them.

    Attributes:
        num_applied: optimiser steps so far; to be counted by `update`.
        memory: rollouts that are learned from again; saved beside the checkpoints.
    """

    num_applied: int = 0
    memory: RolloutMemory | None = None

    def __init__(
        self,
        policy: Policy,
        cfg: LearnerCfg,
        num_envs: int,
        device: torch.device,
        rng: np.random.Generator,
        ranks: Ranks = ALONE,
    ) -> None:
        self.policy, self.cfg, self.device, self.rng = policy, cfg, device, rng
        self.num_envs, self.ranks = num_envs, ranks
        self.scaler = RewardScaler(num_envs, cfg.returns.gamma)

    # --- the four verbs ------------------------------------------------------------------------

    def act(self, policy: Policy, inputs: PolicyInputs) -> PolicyStep:
        """What E environments are told to do.

        Called without gradients, by the collector's threads, and in the modes that overlap while
        the algorithm updates: nothing that changes may be shared with `update`.

        Args:
            policy: the one that acts: the algorithm's own, or a copy with older weights.
        """
        return policy.act(*inputs)

    def store(
        self, storage: RolloutStorage, row: int, reward: float, terminated: bool, truncated: bool
    ) -> None:
        """What the environment answered to the step in a row of the storage.

        What was decided stands there already. Has to complete the row, or the rollout never ends.
        """
        storage.complete(row, reward, terminated, truncated)

    def compute_returns(self, storage: RolloutStorage) -> Sequences:
        """Judges a full rollout.

        Writes the columns `advantage`, `returns` and `is_weight` of the storage, [S] each, and
        gives the sequences that they were computed along. Stale steps keep what they had.
        """
        rows = storage.complete_rows()
        # Stale steps come last, in sequences of their own: fresh ones begin with their own memory.
        groups = storage.env_id[rows] + self.num_envs * storage.is_stale[rows]
        order, lengths = find_sequences(groups, storage.episode_id[rows], storage.step_id[rows])
        sequences = Sequences(rows[order], lengths)
        self._judge(storage, sequences)
        weights = importance_weights(
            torch.from_numpy(storage.env_id[sequences.rows]),
            self.num_envs,
            self.cfg.max_importance_weight,
        )
        storage.is_weight[sequences.rows] = weights.numpy()
        return sequences

    @abstractmethod
    def update(
        self, storage: RolloutStorage, sequences: Sequences, context: UpdateContext
    ) -> dict[str, float]:
        """Learns from a rollout that `compute_returns` has judged; metrics to log, `group/name`.

        Raises NonFinite for a loss or gradient that is not finite.
        """

    def learn(
        self, storage: RolloutStorage, context: UpdateContext | None = None
    ) -> dict[str, float]:
        """The last two verbs, one after the other, as the trainer does."""
        return self.update(storage, self.compute_returns(storage), context or UpdateContext())

    # --- what checkpoints hold -----------------------------------------------------------------

    def optimizers(self) -> dict[str, Optimizer]:
        """By name; their moments are saved, and restored to the last bit."""
        return {}

    def modules(self) -> dict[str, nn.Module]:
        """What else is learned beside the policy, by name."""
        return {}

    def values(self) -> dict[str, Any]:
        """What else it has to know to go on, as JSON-able values."""
        return {"reward_scaler": self.scaler.state()}

    def restore_values(self, values: dict[str, Any]) -> None:
        """Puts back what `values` gave."""
        self.scaler.load(values["reward_scaler"])

    # --- advantages ----------------------------------------------------------------------------

    def scaled(self, rewards: np.ndarray) -> np.ndarray:
        """Rewards as they are learned from."""
        rewards = rewards * self.cfg.reward_scale
        return rewards * self.scaler.scale if self.cfg.normalize_rewards else rewards

    def _judge(self, storage: RolloutStorage, sequences: Sequences) -> None:
        """Advantages and returns of the fresh steps; stale ones keep theirs."""
        fresh = fresh_sequences(storage, sequences)
        order, lengths = fresh
        terminated = storage.terminated[order]
        if self.cfg.normalize_rewards:
            rewards = storage.reward[order] * self.cfg.reward_scale
            is_first = storage.is_first.cpu().numpy()[order]
            self.scaler.update(storage.env_id[order], rewards, is_first, self.ranks.gather_rows)
        rewards = self.scaled(storage.reward[order])
        ended = terminated | storage.truncated[order]
        ended[np.cumsum(lengths) - 1] = True
        columns = Columns(
            torch.from_numpy(rewards.astype(np.float32)),
            torch.from_numpy(storage.value.cpu().numpy()[order]),
            torch.from_numpy(storage.next_value[order]),
            torch.from_numpy(terminated),
            torch.from_numpy(ended),
        )
        returns, advantages = self._estimate(storage, fresh, columns)
        storage.advantage[order], storage.returns[order] = advantages.numpy(), returns.numpy()

    def _estimate(
        self, storage: RolloutStorage, sequences: Sequences, columns: Columns
    ) -> tuple[Tensor, Tensor]:
        """Returns and advantages, [S] each, along the sequences."""
        advantages = compute_advantages(*columns, self.cfg.returns)
        return columns.values + advantages, advantages


def fresh_sequences(storage: RolloutStorage, sequences: Sequences) -> Sequences:
    """Those of this rollout's own steps, which come first."""
    num_fresh = len(sequences.rows) - int(storage.is_stale[sequences.rows].sum())
    lengths = sequences.lengths[np.cumsum(sequences.lengths) <= num_fresh]
    return Sequences(sequences.rows[:num_fresh], lengths)


ALGORITHMS: Registry[Callable[..., Algorithm]] = Registry("algorithm")
"""Called as `Algorithm`, with the words of `algorithm_kwargs` as keywords."""
