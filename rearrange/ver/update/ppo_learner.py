"""PPO: epochs over a rollout with the clipped objective and an entropy target.

VER paper, section 2.2 and table A1; the losses are in `ppo.py`, the minibatches in `packing.py`.
S steps of a rollout.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rearrange.ver.ranks.distributed import ALONE, Ranks
from rearrange.ver.rollout.storage import RolloutStorage
from rearrange.ver.rollout.types import Evaluation, Minibatch, Policy
from rearrange.ver.update.adam import Adam
from rearrange.ver.update.algorithm import ALGORITHMS, Columns, LearnerCfg, Sequences, UpdateContext
from rearrange.ver.update.entropy import EntropyCoefficient
from rearrange.ver.update.learner import Learner, Metrics, Pass
from rearrange.ver.update.packing import minibatch_rows
from rearrange.ver.update.ppo import ppo_loss, vtrace

STANDARD = "ppo"


class PPO(Learner):
    """Args as in `Algorithm`; in the first `cfg.ppo.critic_updates` updates only the policy's
    `critic` learns, a Module."""

    def __init__(
        self,
        policy: Policy,
        cfg: LearnerCfg,
        num_envs: int,
        device: torch.device,
        rng: np.random.Generator,
        ranks: Ranks = ALONE,
    ) -> None:
        super().__init__(policy, cfg, num_envs, device, rng, ranks)
        if cfg.ppo.critic_updates and not isinstance(getattr(policy, "critic", None), nn.Module):
            raise ValueError(
                "ppo.critic_updates above 0 needs a network with a Module `critic`, which alone "
                f"learns then; {type(policy).__name__} has none, got {cfg.ppo.critic_updates}"
            )
        self.entropy = EntropyCoefficient(cfg.entropy).to(device)
        self.entropy_optimizer: Optimizer = Adam(
            self.entropy.parameters(), lr=cfg.entropy.learning_rate, eps=cfg.ppo.adam_eps
        )
        self._critic_only = False

    def optimizers(self) -> dict[str, Optimizer]:
        return {**super().optimizers(), "entropy_optimizer": self.entropy_optimizer}

    def modules(self) -> dict[str, nn.Module]:
        return {"entropy": self.entropy}

    def restore_values(self, values: dict[str, Any]) -> None:
        super().restore_values(values)
        for group in self.entropy_optimizer.param_groups:
            group["lr"], group["eps"] = self.cfg.entropy.learning_rate, self.cfg.ppo.adam_eps
        if not self.cfg.entropy.learned:
            self.entropy.begin()
        self.entropy.project()

    def update(
        self, storage: RolloutStorage, sequences: Sequences, context: UpdateContext
    ) -> Metrics:
        self._critic_only = context.num_updates < self.cfg.ppo.critic_updates
        return super().update(storage, sequences, context)

    def _passes(self, storage: RolloutStorage, sequences: Sequences) -> Iterator[Pass]:
        for _ in range(self.cfg.ppo.num_epochs):
            yield Pass(storage, sequences)

    def _is_far_enough(self, metrics: Metrics) -> bool:
        most = self.cfg.ppo.target_kl
        return most is not None and metrics["ppo/approx_kl"] > most

    def _loss(self, minibatch: Minibatch) -> tuple[Tensor, dict[str, Tensor], Evaluation]:
        evaluation = self.policy.evaluate(minibatch)
        advantages = None
        if self.cfg.ppo.normalize_advantages and not self.ranks.is_alone:
            advantages = torch.cat(self.ranks.gather_rows(minibatch.advantage))
        bonus = self._entropy_bonus(minibatch)
        loss, stats = ppo_loss(
            evaluation, minibatch, self.entropy.value, self.cfg.ppo, advantages, bonus
        )
        return loss, stats, evaluation

    def _entropy_bonus(self, minibatch: Minibatch) -> Tensor | None:
        """Extra entropy coefficient of each step, added to the shared one, [B]."""
        return None

    def _entropy_to_keep(self, minibatch: Minibatch, evaluation: Evaluation) -> Tensor:
        """Scalar: the entropy that a learned coefficient keeps at its target."""
        return evaluation.entropy.mean()

    def _after_backward(self, minibatch: Minibatch, evaluation: Evaluation) -> list[nn.Parameter]:
        if self._critic_only:
            last: nn.Module = getattr(self.policy, "critic")  # noqa: B009 - only here is it asked for
            critic = {id(parameter) for parameter in last.parameters()}
            for parameter in self.parameters:
                if id(parameter) not in critic:
                    # Not 0: Adam's moments would decay meanwhile and count these steps, so
                    # that the first ones of the policy would be up to twice its learning rate.
                    parameter.grad = None
        elif self.cfg.entropy.learned:
            self.entropy_optimizer.zero_grad()
            loss = self.entropy.loss(self._entropy_to_keep(minibatch, evaluation))
            torch.autograd.backward(loss)
            return list(self.entropy.parameters())
        return []

    def _after_step(self) -> None:
        if self.cfg.entropy.learned and not self._critic_only:
            self.entropy_optimizer.step()
            self.entropy.project()

    def _metrics(
        self,
        storage: RolloutStorage,
        sequences: Sequences,
        context: UpdateContext,
        stats: dict[str, list[float]],
    ) -> Metrics:
        metrics = super()._metrics(storage, sequences, context, stats)
        if divergences := stats.get("ppo/approx_kl"):
            # 0 except for carried-over steps, if the acting policy had the current weights.
            metrics["ppo/first_kl"] = divergences[0]
        return metrics | {"ppo/entropy_coef": float(self.entropy.value)}

    # --- off-policy data -----------------------------------------------------------------------

    def _estimate(
        self, storage: RolloutStorage, sequences: Sequences, columns: Columns
    ) -> tuple[Tensor, Tensor]:
        if not self.cfg.uses_vtrace:
            return super()._estimate(storage, sequences, columns)
        log_rhos = self._log_rhos(storage, sequences)
        returns = self.cfg.returns
        return vtrace(log_rhos, *columns, gamma=returns.gamma, gae_lambda=returns.gae_lambda)

    @torch.no_grad()
    def _log_rhos(self, storage: RolloutStorage, sequences: Sequences) -> Tensor:
        """log pi - log mu of each step, [S] along the sequences, with pi the current policy."""
        log_rhos = np.zeros(len(storage.reward), np.float32)
        cfg = self.cfg.ppo  # cut as for learning: memories begin anew at the same rows
        for part in minibatch_rows(
            *sequences, cfg.num_minibatches, self.rng, cfg.max_sequence_length
        ):
            minibatch = storage.minibatch(*part)
            now = self.policy.evaluate(minibatch).log_prob
            log_rhos[part.rows] = (now - minibatch.log_prob).float().cpu().numpy()
        return torch.from_numpy(log_rhos[sequences.rows])


ALGORITHMS.add(STANDARD, PPO)
