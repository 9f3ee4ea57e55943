"""Learner: one update from one rollout.

    storage -> advantages -> epochs x [packed minibatches -> loss -> gradient -> step] -> statistics

VER paper, section 2.2 and table A1; the losses are in `ppo.py`, the minibatches in `packing.py`.
S steps of a rollout, B steps of a minibatch.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from rearrange.ver.ranks.distributed import ALONE, Ranks
from rearrange.ver.rollout.collector import NonFinite
from rearrange.ver.rollout.rows import RolloutRows
from rearrange.ver.rollout.storage import RolloutStorage
from rearrange.ver.rollout.types import Evaluation, Minibatch, Policy
from rearrange.ver.update.entropy import EntropyCfg, EntropyCoefficient
from rearrange.ver.update.packing import PackedRows, find_sequences, minibatch_rows
from rearrange.ver.update.ppo import PPOCfg, ppo_loss, vtrace
from rearrange.ver.update.returns import ReturnsCfg, compute_advantages, importance_weights
from rearrange.ver.update.reward_scaling import RewardScaler
from rearrange.ver.update.rollout_memory import RolloutMemory


@dataclass(kw_only=True)
class LearnerCfg:
    """All that an update needs to know."""

    ppo: PPOCfg = field(default_factory=PPOCfg)
    returns: ReturnsCfg = field(default_factory=ReturnsCfg)
    entropy: EntropyCfg = field(default_factory=EntropyCfg)
    max_importance_weight: float = 1.0
    reward_scale: float = 1.0
    normalize_rewards: bool = False
    uses_vtrace: bool = False
    on_nonfinite: str = "stop"


class Learner:
    """Holds the optimisers of a policy.

    Args:
        rng: shuffles sequences into minibatches.
        ranks: those that learn the same; what is learned from is averaged over them.
    """

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
        self.parameters = [p for p in policy.parameters() if p.requires_grad]
        self.optimizer = torch.optim.Adam(
            self.parameters, lr=cfg.ppo.learning_rate, eps=cfg.ppo.adam_eps, fused=True
        )
        self.entropy = EntropyCoefficient(cfg.entropy).to(device)
        self.entropy_optimizer = torch.optim.Adam(
            self.entropy.parameters(), lr=cfg.entropy.learning_rate, eps=cfg.ppo.adam_eps
        )
        self.scaler = RewardScaler(num_envs, cfg.returns.gamma)
        self.num_skipped = 0  # minibatches whose loss or gradient was not finite
        self.num_applied = 0  # optimiser steps so far
        self.memory: RolloutMemory | None = None  # of rollouts that are learned from again
        self._critic_only = False

    def update(
        self,
        storage: RolloutStorage,
        lr_factor: float = 1.0,
        should_cut: Callable[[], bool] = lambda: False,
        after_step: Callable[[], None] = lambda: None,
        critic_only: bool = False,
    ) -> dict[str, float]:
        """Learns from a full storage; figures to log.

        Args:
            lr_factor: of the learning rate's schedule.
            critic_only: nothing but the policy's `critic` changes.
            should_cut: asked before each minibatch; the update ends early if it says so.
            after_step: called after each optimiser step.

        Raises:
            NonFinite: if a loss or gradient is not finite, unless such minibatches are skipped.
        """
        cfg = self.cfg.ppo
        self._begin(lr_factor)
        self._critic_only = critic_only
        order, lengths = self._prepare(storage)
        stats: dict[str, list[float]] = defaultdict(list)
        for _ in range(cfg.num_epochs):
            parts = minibatch_rows(
                order, lengths, cfg.num_minibatches, self.rng, cfg.max_sequence_length
            )
            kls = []
            for part in parts:
                if should_cut():
                    break
                figures = self._step(storage, part)
                after_step()
                for name, value in figures.items():
                    stats[name].append(value)
                kls.append(figures.get("ppo/approx_kl", 0.0))
            if should_cut() or (cfg.target_kl and np.mean(kls) > cfg.target_kl):
                break
        if divergences := stats.get("ppo/approx_kl"):
            # 0 bar what was carried over, if who acted had the weights that are learned.
            stats["ppo/first_kl"] = divergences[:1]
        fresh = order[~storage.is_stale[order]]
        index = torch.from_numpy(fresh).to(self.device)
        seen = {name: array[index] for name, array in storage.observation.items()}
        self.policy.observe(seen, self.ranks.gather_rows)
        return {name: float(np.mean(values)) for name, values in stats.items()} | self._figures(
            storage, order, lengths, lr_factor
        )

    # --- private -------------------------------------------------------------------------------

    def _begin(self, lr_factor: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = self.cfg.ppo.learning_rate * lr_factor

    def _prepare(self, storage: RolloutStorage) -> tuple[np.ndarray, np.ndarray]:
        """Advantages, returns and weights into the storage; the order of its sequences."""
        cfg = self.cfg
        rows = storage.complete_rows()
        # Stale steps come last, in sequences of their own: fresh ones begin with their own memory.
        groups = storage.env_id[rows] + self.num_envs * storage.is_stale[rows]
        order, lengths = find_sequences(groups, storage.episode_id[rows], storage.step_id[rows])
        order = rows[order]
        self._judge(storage, order, lengths)
        weights = importance_weights(
            torch.from_numpy(storage.env_id[order]), self.num_envs, cfg.max_importance_weight
        )
        storage.is_weight[order] = weights.numpy()
        return order, lengths

    def _judge(self, storage: RolloutStorage, order: np.ndarray, lengths: np.ndarray) -> None:
        """Advantages and returns of the fresh steps; stale ones keep theirs."""
        cfg = self.cfg
        num_fresh = len(order) - int(storage.is_stale[order].sum())
        lengths = lengths[np.cumsum(lengths) <= num_fresh]
        order = order[:num_fresh]
        terminated = storage.terminated[order]
        is_over = terminated | storage.truncated[order]
        rewards = storage.reward[order] * cfg.reward_scale
        if cfg.normalize_rewards:
            is_first = storage.is_first.cpu().numpy()[order]
            self.scaler.update(storage.env_id[order], rewards, is_first, self.ranks.gather_rows)
            rewards = rewards * self.scaler.scale
        ended = is_over.copy()
        ended[np.cumsum(lengths) - 1] = True
        columns = [
            torch.from_numpy(column)
            for column in (
                rewards.astype(np.float32),
                storage.value.cpu().numpy()[order],
                storage.next_value[order],
                terminated,
                ended,
            )
        ]
        if cfg.uses_vtrace:
            log_rhos = self._log_rhos(storage, order, lengths)
            returns, advantages = vtrace(log_rhos, *columns, gamma=cfg.returns.gamma)
        else:
            advantages = compute_advantages(*columns, cfg.returns)
            returns = columns[1] + advantages
        storage.advantage[order], storage.returns[order] = advantages.numpy(), returns.numpy()

    def _step(self, storage: RolloutRows, part: PackedRows) -> dict[str, float]:
        """One optimiser step on one minibatch."""
        minibatch = storage.minibatch(*part)
        loss, stats, evaluation = self._loss(minibatch)
        learned = self.parameters
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if self._critic_only:
            critic = {id(parameter) for parameter in self.policy.critic.parameters()}
            for parameter in self.parameters:
                if id(parameter) not in critic and parameter.grad is not None:
                    parameter.grad.zero_()
        if self.cfg.entropy.learned and not self._critic_only:
            self.entropy_optimizer.zero_grad()
            self.entropy.loss(evaluation.entropy.mean()).backward()
            learned = [*learned, *self.entropy.parameters()]
        # The loss among them: one that is not finite is then seen by all ranks.
        kl = [stats[name] for name in ("ppo/approx_kl",) if name in stats]  # it ends epochs
        self.ranks.average_gradients(learned, [loss.detach(), *kl], len(part.rows))
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.cfg.ppo.max_grad_norm)
        values = torch.stack([loss.detach(), norm, *stats.values()]).tolist()
        if not (math.isfinite(values[0]) and math.isfinite(values[1])):
            return self._nonfinite(storage, part, minibatch, evaluation, values[0], values[1])
        # Optimiser steps between the weights that decided a step and those it changes now.
        staleness = float(self.num_applied - storage.weights_step[part.rows].mean())
        self.optimizer.step()
        self.num_applied += 1
        if self.cfg.entropy.learned and not self._critic_only:
            self.entropy_optimizer.step()
            self.entropy.project()
        return {
            "loss/total": values[0],
            "ppo/grad_norm": values[1],
            "ver/gradient_staleness": staleness,
        } | dict(zip(stats, values[2:], strict=True))

    def _loss(self, minibatch: Minibatch) -> tuple[Tensor, dict[str, Tensor], Evaluation]:
        """What is minimised, scalars to log, and what the policy thinks of the steps now."""
        evaluation = self.policy.evaluate(minibatch)
        advantages = None
        if self.cfg.ppo.normalize_advantages and not self.ranks.is_alone:
            advantages = torch.cat(self.ranks.gather_rows(minibatch.advantage))
        loss, stats = ppo_loss(evaluation, minibatch, self.entropy.value, self.cfg.ppo, advantages)
        return loss, stats, evaluation

    def _nonfinite(
        self,
        storage: RolloutRows,
        part: PackedRows,
        minibatch: Minibatch,
        evaluation: Evaluation,
        loss: float,
        norm: float,
    ) -> dict[str, float]:
        """Names the step that is to blame; the optimiser is not stepped."""
        self.optimizer.zero_grad(set_to_none=True)
        error = (evaluation.value.detach() - minibatch.returns).abs() + minibatch.advantage.abs()
        error = error + (evaluation.log_prob.detach() - minibatch.log_prob).abs()
        row = part.rows[int(error.nan_to_num(nan=torch.inf).argmax())]
        what = (
            f"loss {loss}, gradient norm {norm}, the worst step being environment "
            f"{storage.env_id[row]}, episode {storage.episode_id[row]}, step {storage.step_id[row]}"
        )
        if self.cfg.on_nonfinite == "stop":
            raise NonFinite(self._name_culprit(what, float(error.sum())))
        self.num_skipped += 1
        return {}

    def _name_culprit(self, what: str, error: float) -> str:
        """Of several ranks' words those of the one whose own numbers are not finite."""
        if self.ranks.is_alone:
            return what
        found = self.ranks.gather([math.isfinite(error), what])
        rank = next((rank for rank, (is_finite, _) in enumerate(found) if not is_finite), 0)
        return f"rank {rank}: {found[rank][1]}"

    @torch.no_grad()
    def _log_rhos(self, storage: RolloutStorage, order: np.ndarray, lengths: np.ndarray) -> Tensor:
        """log pi - log mu of each step, [S] in `order`, for the policy as it is now."""
        log_rhos = np.zeros(len(storage.reward), np.float32)
        parts = minibatch_rows(order, lengths, self.cfg.ppo.num_minibatches, self.rng)
        for part in parts:
            minibatch = storage.minibatch(*part)
            now = self.policy.evaluate(minibatch).log_prob
            log_rhos[part.rows] = (now - minibatch.log_prob).float().cpu().numpy()
        return torch.from_numpy(log_rhos[order])

    def _figures(
        self, storage: RolloutStorage, order: np.ndarray, lengths: np.ndarray, lr_factor: float
    ) -> dict[str, float]:
        returns, values = storage.returns[order], storage.value.cpu().numpy()[order]
        spread = float(returns.var())
        explained = 1.0 - float((returns - values).var()) / spread if spread > 0.0 else 0.0
        return {
            "ppo/explained_variance": explained,
            "ppo/learning_rate": self.cfg.ppo.learning_rate * lr_factor,
            "ppo/entropy_coef": float(self.entropy.value),
            "ppo/returns_mean": float(returns.mean()),
            "ppo/advantage_std": float(storage.advantage[order].std()),
            "ppo/skipped_minibatches": float(self.num_skipped),
            "ver/importance_weight_mean": float(storage.is_weight[order].mean()),
            "ver/importance_weight_min": float(storage.is_weight[order].min()),
            "ver/learned_steps": float(len(order)),
            "ver/sequences": float(len(lengths)),
            "ver/longest_sequence": float(lengths.max()),
            "ver/fraction_stale": float(storage.is_stale[order].mean()),
        }
