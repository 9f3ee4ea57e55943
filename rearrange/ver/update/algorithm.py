"""Algorithm: turns rollouts into new weights, with four methods that the trainer calls.

    act              actions for the environments that wait              [E] at a time, any thread
    store            stores an environment's answer in the rollout       a step at a time
    compute_returns  advantages, returns and weights of a full rollout   [S] at a time
    update           the policy learns from it; returns metrics

All but `update` have a default: the policy's own actions, stored as they are, with generalised
advantage estimation. PPO (`ppo_learner.py`) and imitation (`imitation.py`) are algorithms; your own
is chosen by `algorithm=my_module:MyAlgorithm`.

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
    """The trainer's settings for learning."""

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

    A sequence is consecutive steps of one episode. Stale ones, from an earlier rollout, come last.
    """

    rows: np.ndarray  # [S] int64
    lengths: np.ndarray  # [Q] int64, their sum is S


class Columns(NamedTuple):
    """Arguments of `compute_advantages`, along the sequences, [S] each."""

    rewards: Tensor
    values: Tensor
    next_values: Tensor
    terminated: Tensor
    ended: Tensor


@dataclass(kw_only=True)
class UpdateContext:
    """The trainer's arguments to an update."""

    lr_factor: float = 1.0
    """Factor on the learning rate, from the schedule."""
    num_updates: int = 0
    """Updates before this one, including those of earlier processes of the same training."""
    should_cut: Callable[[], bool] = lambda: False
    """Call before each optimiser step, equally often on all ranks; if true, end the update: the
    training is being stopped."""
    after_step: Callable[[], None] = lambda: None
    """Call after each optimiser step; mode async then acts with the new weights."""


class Algorithm(ABC):
    """Learns a policy.

    Args:
        policy: a torch Module, whose weights the algorithm updates.
        cfg: the settings of the trainer.
        num_envs: environments of this rank.
        device: of the policy and the training data.
        rng: random numbers for learning; restored when a training is resumed.
        ranks: the processes that learn the same policy; average gradients over them.

    Attributes:
        num_applied: optimiser steps so far, counted by `update`.
        memory: earlier rollouts to learn from again; saved beside the checkpoints.
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
        """Actions for E environments.

        Called without gradients by the collector's threads, in overlapping modes also during
        `update`: the two must not share mutable state.

        Args:
            policy: the acting one: the algorithm's own, or a copy with older weights.
        """
        return policy.act(*inputs)

    def store(
        self, storage: RolloutStorage, row: int, reward: float, terminated: bool, truncated: bool
    ) -> None:
        """Stores the environment's answer to the step in a row of the storage.

        The decision is stored already. Must complete the row, or the rollout never ends.
        """
        storage.complete(row, reward, terminated, truncated)

    def store_all(
        self, storage: RolloutStorage, rows: np.ndarray, reward: np.ndarray,
        terminated: np.ndarray, truncated: np.ndarray,
    ) -> None:  # fmt: skip
        """Stores several answers, [n] each: at once, or by `store` where a class has its own."""
        if type(self).store is Algorithm.store:
            storage.complete(rows, reward, terminated, truncated)
            return
        for row, value, *ends in zip(rows, reward, terminated, truncated, strict=True):
            self.store(storage, int(row), float(value), *map(bool, ends))

    def compute_returns(self, storage: RolloutStorage) -> Sequences:
        """Computes the learning targets of a full rollout.

        Writes the columns `advantage`, `returns` and `is_weight` of the storage, [S] each, and
        returns the sequences they were computed along. Stale steps keep their values.
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
        """Learns from a rollout after `compute_returns`; returns metrics, `group/name`.

        Raises NonFinite for a loss or gradient that is not finite.
        """

    def learn(
        self, storage: RolloutStorage, context: UpdateContext | None = None
    ) -> dict[str, float]:
        """`compute_returns`, then `update`."""
        return self.update(storage, self.compute_returns(storage), context or UpdateContext())

    # --- contents of checkpoints ---------------------------------------------------------------

    def optimizers(self) -> dict[str, Optimizer]:
        """By name; their moments are saved and restored bit for bit."""
        return {}

    def modules(self) -> dict[str, nn.Module]:
        """Modules learned beside the policy, by name."""
        return {}

    def values(self) -> dict[str, Any]:
        """Further state for resuming, as JSON-able values."""
        return {"reward_scaler": self.scaler.state()}

    def restore_values(self, values: dict[str, Any]) -> None:
        """Restores the result of `values`."""
        self.scaler.load(values["reward_scaler"])

    # --- advantages ----------------------------------------------------------------------------

    def scaled(self, rewards: np.ndarray) -> np.ndarray:
        """Rewards, scaled for learning."""
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
    """The sequences of this rollout's own steps, which come first."""
    num_fresh = len(sequences.rows) - int(storage.is_stale[sequences.rows].sum())
    lengths = sequences.lengths[np.cumsum(sequences.lengths) <= num_fresh]
    return Sequences(sequences.rows[:num_fresh], lengths)


ALGORITHMS: Registry[Callable[..., Algorithm]] = Registry("algorithm")
"""Called like `Algorithm`, with `algorithm_kwargs` as keywords."""
