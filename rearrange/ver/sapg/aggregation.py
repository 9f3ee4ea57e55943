"""What the leader learns from beside its own steps: some of the followers', judged as its own.

    step (o, a, r, o') of a follower with policy mu;  pi_old, V_old: the leader before the update

    rho     = pi_old(a | o) / mu(a | o)
    R       = r + gamma V_old(o') (1 - terminated)     A = R - V_old(o)
    policy  = -rho min(x A, clip(x, 1 - eps, 1 + eps) A)   with x = pi(a | o) / pi_old(a | o)

Singla et al. 2024 (SAPG), section 4: min(y A, clip(y, rho (1 - eps), rho (1 + eps)) A) with
y = pi / mu is the same, as y = rho x. So these are ordinary rows of PPO, with pi_old as the acting
policy and rho as a weight of the policy's term. The observation after a sequence's last step is not
stored, so the leader cannot evaluate that step, and it is left out. A sequence's initial memory is
the follower's.

N rows of a rollout, S of its steps, Q sequences, F steps of followers, B steps of a minibatch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rearrange.ver.rollout.rows import RolloutRows
from rearrange.ver.rollout.types import Minibatch, Policy
from rearrange.ver.sapg.blocks import BLOCK, LEADER
from rearrange.ver.update.algorithm import Sequences
from rearrange.ver.update.packing import minibatch_rows


class LeaderEstimates(NamedTuple):
    """Steps of followers, evaluated by the leader, [F] each."""

    log_prob: Tensor  # log pi_old(a | o)
    value: Tensor  # V_old(o)
    advantage: Tensor
    returns: Tensor
    ratio: Tensor  # rho, truncated


class WithFollowers:
    """The rows of a rollout, and behind them F that repeat rows of it as the leader's.

    Nothing large is copied.

    Args:
        source: which rows are repeated, [F].
    """

    def __init__(self, storage: RolloutRows, source: np.ndarray, judged: LeaderEstimates) -> None:
        self._storage, self._judged, self._num_own = storage, judged, len(storage)
        self._source = np.concatenate([np.arange(len(storage)), source])
        self.env_id = storage.env_id[self._source]
        self.episode_id = storage.episode_id[self._source]
        self.step_id = storage.step_id[self._source]
        self.weights_step = storage.weights_step[self._source]

    def minibatch(
        self, rows: np.ndarray, batch_sizes: np.ndarray, first_rows: np.ndarray
    ) -> Minibatch:
        """As of `RolloutRows`."""
        stored = self._storage.minibatch(self._source[rows], batch_sizes, self._source[first_rows])
        device, judged = self._storage.device, self._judged
        is_repeated = torch.from_numpy(rows >= self._num_own).to(device)
        index = torch.from_numpy(np.maximum(rows - self._num_own, 0)).to(device)

        def mixed(own: Tensor, other: Tensor) -> Tensor:
            return torch.where(is_repeated, other[index], own)

        block = stored.observation[BLOCK].masked_fill(is_repeated.unsqueeze(-1), LEADER)
        return replace(
            stored,
            observation=stored.observation | {BLOCK: block},
            log_prob=mixed(stored.log_prob, judged.log_prob),
            value=mixed(stored.value, judged.value),
            advantage=mixed(stored.advantage, judged.advantage),
            returns=mixed(stored.returns, judged.returns),
            policy_weight=mixed(torch.ones_like(stored.advantage), judged.ratio),
        )


def draw_followers(
    storage: RolloutRows, sequences: Sequences, wanted: int, rng: np.random.Generator
) -> Sequences:
    """Whole sequences of followers, in random order, until they have `wanted` usable steps.

    All sequences if there are fewer steps.
    """
    starts = np.cumsum(sequences.lengths) - sequences.lengths
    first_rows = sequences.rows[starts]
    blocks = storage.observation[BLOCK][torch.from_numpy(first_rows).to(storage.device), 0]
    followers = rng.permutation(np.flatnonzero(blocks.cpu().numpy() != LEADER))
    lengths = sequences.lengths[followers]
    last_rows = sequences.rows[starts[followers] + lengths - 1]
    num_usable = np.cumsum(lengths - 1 + storage.terminated[last_rows])
    count = int(np.searchsorted(num_usable, wanted)) + 1
    chosen = [slice(starts[q], starts[q] + sequences.lengths[q]) for q in followers[:count]]
    rows = [sequences.rows[part] for part in chosen]
    return Sequences(np.concatenate([np.zeros(0, np.int64), *rows]), lengths[:count])


@torch.no_grad()
def judge_as_leader(
    policy: Policy, storage: RolloutRows, sequences: Sequences, num_parts: int,
    rng: np.random.Generator, max_length: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """log pi_old(a | o) and V_old(o) of the steps in sequences, in their rows, [N] each.

    Args:
        max_length: at which learning cuts sequences: at the same rows memories begin anew, and
            until the first optimiser step the leader is its old self.
    """
    log_prob, value = np.zeros((2, len(storage)), np.float32)
    parts = min(num_parts, len(sequences.rows))
    for part in minibatch_rows(*sequences, parts, rng, max_length):
        seen = storage.minibatch(*part)
        block = torch.full_like(seen.observation[BLOCK], LEADER)
        now = policy.evaluate(replace(seen, observation=seen.observation | {BLOCK: block}))
        log_prob[part.rows] = now.log_prob.float().cpu().numpy()
        value[part.rows] = now.value.float().cpu().numpy()
    return log_prob, value


def judge_steps(
    storage: RolloutRows,
    sequences: Sequences,
    log_prob: np.ndarray,  # [N], as `judge_as_leader` gives it
    value: np.ndarray,  # [N]
    rewards: np.ndarray,  # [N], scaled
    *,
    gamma: float,
    max_ratio: float,
    most: int,
) -> tuple[Sequences, LeaderEstimates]:
    """At most so many steps that the leader can evaluate, with its values."""
    rows, lengths = sequences
    starts = np.cumsum(lengths) - lengths
    is_last = np.zeros(len(rows), bool)
    is_last[starts + lengths - 1] = True
    terminated = storage.terminated[rows]
    next_value = np.append(value[rows[1:]], 0.0)
    next_value[is_last] = 0.0
    returns = rewards[rows] + gamma * next_value

    is_usable = ~is_last | terminated
    is_usable &= np.cumsum(is_usable) <= most
    lengths = np.add.reduceat(is_usable, starts)
    rows, returns = rows[is_usable], returns[is_usable]
    behaviour = storage.log_prob.cpu().numpy()[rows]
    with np.errstate(over="ignore"):
        ratio = np.minimum(np.exp(log_prob[rows] - behaviour), max_ratio)
    columns = (log_prob[rows], value[rows], returns - value[rows], returns, ratio)
    judged = LeaderEstimates(
        *(torch.from_numpy(column.astype(np.float32)).to(storage.device) for column in columns)
    )
    return Sequences(rows, lengths[lengths > 0]), judged
