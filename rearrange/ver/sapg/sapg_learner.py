"""SAPG: PPO of several policies on shared layers, one of which learns from all of them.

    blocks   0          1            2            ...    each by PPO on its own steps
             ^----------+------------+--- some of the followers' steps, evaluated by the leader

Singla et al. 2024, "SAPG: Split and Aggregate Policy Gradients". Per rollout as many steps of the
followers as the leader has itself (`off_policy_ratio`), in the same minibatches as all others, each
step with the same weight. Followers have different entropy bonuses, for diversity; a learned
coefficient controls the leader's entropy. Unlike the paper, which uses three-step returns for own
steps, these are PPO's.

S steps of a rollout, B steps of a minibatch, M blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rearrange.ver.rollout.storage import RolloutStorage
from rearrange.ver.rollout.types import Evaluation, Minibatch
from rearrange.ver.sapg.aggregation import (
    WithFollowers,
    draw_followers,
    judge_as_leader,
    judge_steps,
)
from rearrange.ver.sapg.blocks import BLOCK, LEADER, SapgCfg
from rearrange.ver.update.algorithm import Sequences, UpdateContext, fresh_sequences
from rearrange.ver.update.learner import Metrics, Pass
from rearrange.ver.update.ppo_learner import PPO


class SAPG(PPO):
    """With one block it is PPO. Args as of `Algorithm`; `sapg`: the blocks."""

    def __init__(self, *args: Any, sapg: SapgCfg, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sapg = sapg
        bonuses = sapg.entropy_step * torch.arange(sapg.num_blocks, dtype=torch.float32)
        self._bonuses = bonuses.to(self.device)  # [M]
        self._told: Metrics = {}

    def _passes(self, storage: RolloutStorage, sequences: Sequences) -> Iterator[Pass]:
        if self.sapg.num_blocks == 1:
            yield from super()._passes(storage, sequences)
            return
        whole = self._with_followers(storage, sequences)  # before the first step: pi_old, V_old
        for _ in range(self.cfg.ppo.num_epochs):
            yield whole

    def _with_followers(self, storage: RolloutStorage, sequences: Sequences) -> Pass:
        """A rollout's own steps, followed by the followers' steps for the leader."""
        own = fresh_sequences(storage, sequences)
        blocks = storage.observation[BLOCK][:, 0].cpu().numpy()[own.rows]
        wanted = round(self.sapg.off_policy_ratio * int((blocks == LEADER).sum()))
        self._told = {"sapg/follower_steps": 0.0}
        drawn = draw_followers(storage, own, wanted, self.rng) if wanted else None
        if drawn is None or not len(drawn.rows):
            return Pass(storage, sequences)
        parts, most = self.cfg.ppo.num_minibatches, self.cfg.ppo.max_sequence_length
        log_prob, value = judge_as_leader(self.policy, storage, drawn, parts, self.rng, most)
        (rows, lengths), judged = judge_steps(
            storage, drawn, log_prob, value, self.scaled(storage.reward),
            gamma=self.cfg.returns.gamma, max_ratio=self.sapg.max_ratio, most=wanted,
        )  # fmt: skip
        if not len(rows):
            return Pass(storage, sequences)
        self._told = {
            "sapg/follower_steps": float(len(rows)),
            # of as many steps of the leader's own, the share that weights of this spread are worth
            # (Kong 1992): (sum rho)^2 / (F sum rho^2), 1 where followers act as the leader
            "sapg/effective_share": float(judged.ratio.mean() ** 2 / judged.ratio.square().mean()),
            "sapg/ratio_at_most": float((judged.ratio >= self.sapg.max_ratio).float().mean()),
        }
        behind = len(storage) + np.arange(len(rows))
        whole = Sequences(
            np.concatenate([sequences.rows, behind]), np.concatenate([sequences.lengths, lengths])
        )
        return Pass(WithFollowers(storage, rows, judged), whole)

    def _entropy_bonus(self, minibatch: Minibatch) -> Tensor | None:
        if self.sapg.num_blocks == 1:
            return None
        return self._bonuses[minibatch.observation[BLOCK][:, 0].long()]

    def _entropy_to_keep(self, minibatch: Minibatch, evaluation: Evaluation) -> Tensor:
        if self.sapg.num_blocks == 1:
            return super()._entropy_to_keep(minibatch, evaluation)
        is_leader = minibatch.observation[BLOCK][:, 0] == LEADER
        if not is_leader.any():  # nothing to say about it
            return evaluation.entropy.new_tensor(self.cfg.entropy.target)
        return evaluation.entropy[is_leader].mean()

    def _metrics(
        self,
        storage: RolloutStorage,
        sequences: Sequences,
        context: UpdateContext,
        stats: dict[str, list[float]],
    ) -> Metrics:
        return super()._metrics(storage, sequences, context, stats) | self._told
