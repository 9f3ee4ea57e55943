"""Imitation: the policy learns the actions that a teacher gives as labels.

    storage -> returns -> epochs x [packed minibatches -> squared error to the labels -> step]
       |                              |
       +--> the last M rollouts ------+     each epoch after the first is over an older rollout

The labels are part of the observation. As in DAgger (Ross et al. 2011) they are collected while
policy and teacher alternate, and aggregated: here over the last M rollouts, to bound the memory.
Those are in the checkpoints (of several ranks only rank 0's; the others start empty). The standard
deviations are not trained: they are for exploration afterwards.

    loss = 1/B sum_b [ 1/2 sum_a w_ba (mean_ba - label_ba)^2 + value_coef / 2 (V_b - R_b)^2 ]

With huber_delta = d, |mean_ba - label_ba| - d / 2 stands for the halved square beyond d, and the
square by 2 d within.
A policy that chooses from several means learns which explain a label, `_choice_loss`.
R_b are the returns of policy and teacher mixed: only an initial estimate for the critic.
B: steps of a minibatch, A: action dimensions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from rearrange.ver.ranks.distributed import ALONE, Ranks
from rearrange.ver.rollout.storage import RolloutStorage
from rearrange.ver.rollout.types import Components, Evaluation, Minibatch, Policy
from rearrange.ver.update.algorithm import ALGORITHMS, LearnerCfg, Sequences
from rearrange.ver.update.learner import Learner, Pass
from rearrange.ver.update.rollout_memory import RolloutMemory

ERROR_SCALE = 0.1  # of a label's error summed over dimensions: with less, components share it
CHOICE_COEF = 0.2  # weight of the choice's cross entropy


@dataclass(kw_only=True)
class ImitationCfg:
    total_steps: int = 0
    """Environment steps of the first stage of method=imitation_ver; 0: as its recipe says."""
    value_coef: float = 0.02
    """Weight of the value loss; returns are an order of magnitude larger than actions."""
    memory_rollouts: int = 100
    """Earlier rollouts that are learned from again."""
    huber_delta: float = 0.0
    """Error beyond which the loss is linear instead of quadratic (Huber 1964); 0: never."""

    def __post_init__(self) -> None:
        if self.total_steps < 0:
            raise ValueError(f"total_steps must not be negative, got {self.total_steps}")
        if self.value_coef < 0.0:
            raise ValueError(f"value_coef must not be negative, got {self.value_coef}")
        if self.memory_rollouts < 1:
            raise ValueError(f"memory_rollouts must be at least 1, got {self.memory_rollouts}")
        if self.huber_delta < 0.0:
            raise ValueError(f"huber_delta must not be negative, got {self.huber_delta}")


class Imitable(Policy, Protocol):
    """The interface that imitation needs of a policy."""

    def means(self, minibatch: Minibatch) -> tuple[Tensor, Tensor]:
        """Mean actions [B, A] and values [B], with gradients."""
        ...


class Choosing(Imitable, Protocol):
    """Of a policy that chooses from several means."""

    def components(self, minibatch: Minibatch) -> tuple[Components, Tensor]:
        """Means [B, C, A] with logits [B, C], and values [B], with gradients."""
        ...


class Imitation(Learner):
    """Learns from the teacher's labels.

    Args:
        policy: one with a method `means`; or, to learn several means, with `components`.
        imitation: settings.
        label, weight: names of the observations with labels and their weights, [A].
        Others: as in `Algorithm`.
    """

    def __init__(
        self,
        policy: Imitable,
        cfg: LearnerCfg,
        num_envs: int,
        device: torch.device,
        rng: np.random.Generator,
        ranks: Ranks = ALONE,
        *,
        imitation: ImitationCfg,
        label: str = "oracle_action",
        weight: str = "oracle_weight",
    ) -> None:
        super().__init__(policy, cfg, num_envs, device, rng, ranks)
        self._imitable = policy
        has_several = getattr(policy, "num_components", 1) > 1
        self._choosing = cast("Choosing", policy) if has_several else None
        self._imitation, self._label, self._weight = imitation, label, weight
        self._rollouts = self.memory = RolloutMemory(imitation.memory_rollouts)

    def _passes(self, storage: RolloutStorage, sequences: Sequences) -> Iterator[Pass]:
        """One pass over the new rollout, the others over rollouts drawn from the memory.

        Metrics are those of new data only.
        """
        memory = self._rollouts
        memory.add(storage, *sequences)
        newest = memory[-1]
        chosen = self.rng.integers(len(memory), size=self.cfg.ppo.num_epochs - 1)
        for rollout in [newest, *(memory[i] for i in chosen)]:
            order = np.arange(len(rollout.rows))
            rows = rollout.rows.on(self.device)
            yield Pass(rows, Sequences(order, rollout.lengths), rollout is newest)

    def _loss(self, minibatch: Minibatch) -> tuple[Tensor, dict[str, Tensor], Evaluation]:
        label = minibatch.observation[self._label]
        weight = minibatch.observation[self._weight]
        if self._choosing is not None:
            components, value = self._choosing.components(minibatch)
            mean = components.likeliest()
            action_loss = self._choice_loss(components, label, weight)
        else:
            mean, value = self._imitable.means(minibatch)
            action_loss = self._errors(mean, label, weight).mean()
        error = weight * (mean - label).square()
        log_prob = -0.5 * error.sum(
            -1
        )  # log-likelihood of the label for standard deviation 1, without the constant
        value_loss = 0.5 * (value - minibatch.returns).square().mean()
        with torch.no_grad():
            is_sure = weight > 0.0
            is_wrong = ((mean > 0.0) != (label > 0.0)) & is_sure
            stats = {
                "loss/imitation": action_loss.detach(),
                "loss/value": value_loss.detach(),
                "imitation/labelled": is_sure.any(-1).float().mean(),
                "imitation/error": (error.sum() / weight.sum().clamp(min=1.0)).sqrt(),
                "imitation/wrong_sign": is_wrong.sum() / is_sure.sum().clamp(min=1),
            }
        loss = action_loss + self._imitation.value_coef * value_loss
        return loss, stats, Evaluation(log_prob, torch.zeros_like(value), value)

    def _errors(self, mean: Tensor, label: Tensor, weight: Tensor) -> Tensor:
        """Weighted errors of [..., A], summed over A.

        If similar observations have two kinds of labels, the squared error is least in between: a
        robot that should go on or go back stands still. The absolute error picks the majority.
        """
        delta = self._imitation.huber_delta
        if delta > 0.0:
            error = functional.huber_loss(mean, label, reduction="none", delta=delta) / delta
        else:
            error = 0.5 * (mean - label).square()
        return (weight * error).sum(-1)

    def _choice_loss(self, components: Components, label: Tensor, weight: Tensor) -> Tensor:
        """Each component learns the labels that are its own, the choice whose they are.

        A label is that component's that explains it best: shares as in expectation maximisation,
        with the errors' scale fixed.
        """
        shape = components.means.shape
        label, weight = (part.unsqueeze(1).expand(shape) for part in (label, weight))
        errors = self._errors(components.means, label, weight)  # [B, C]
        log_choice = components.logits.log_softmax(-1)
        share = (log_choice - errors / ERROR_SCALE).softmax(-1).detach()
        surprise = -(share * log_choice).sum(-1)
        return ((share * errors).sum(-1) + CHOICE_COEF * surprise).mean()


ALGORITHMS.add("imitation", Imitation)
