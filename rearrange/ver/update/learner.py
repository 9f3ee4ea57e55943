"""Learner: the minibatch loop shared by algorithms.

    passes x [packed minibatches -> loss -> gradient, of all ranks -> optimiser step] -> statistics

Algorithms differ in the data of a pass and in the loss: `ppo_learner.py`, `imitation.py`.
S steps of a rollout, B steps of a minibatch.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rearrange.ver.ranks.distributed import ALONE, Ranks
from rearrange.ver.rollout.report import NonFinite
from rearrange.ver.rollout.storage import RolloutStorage
from rearrange.ver.rollout.types import Evaluation, Minibatch, Policy
from rearrange.ver.update.adam import Adam
from rearrange.ver.update.algorithm import (
    Algorithm,
    LearnerCfg,
    Sequences,
    UpdateContext,
    fresh_sequences,
)
from rearrange.ver.update.packing import PackedRows, minibatch_rows

Metrics = dict[str, float]


class Rows(Protocol):
    """The source of minibatches: `RolloutRows` or something similar."""

    env_id: np.ndarray
    episode_id: np.ndarray
    step_id: np.ndarray
    weights_step: np.ndarray

    def minibatch(
        self, rows: np.ndarray, batch_sizes: np.ndarray, first_rows: np.ndarray
    ) -> Minibatch: ...


class Pass(NamedTuple):
    """One pass over some sequences."""

    rows: Rows
    sequences: Sequences
    is_reported: bool = True
    """Whether its metrics are logged."""


class Step(NamedTuple):
    """The result of one minibatch."""

    metrics: Metrics
    is_last: bool = False
    """The policy has moved far enough in this update: the optimiser was not stepped."""


class Learner(Algorithm):
    """Owns a policy's optimiser, Adam. Args as in `Algorithm`."""

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
        self.parameters = [p for p in policy.parameters() if p.requires_grad]
        self.optimizer: Optimizer = Adam(
            self.parameters, lr=cfg.ppo.learning_rate, eps=cfg.ppo.adam_eps, fused=True
        )
        self.num_skipped = 0  # minibatches whose loss or gradient was not finite

    def optimizers(self) -> dict[str, Optimizer]:
        return {"optimizer": self.optimizer}

    def values(self) -> dict[str, Any]:
        return {**super().values(), "skipped_minibatches": self.num_skipped}

    def restore_values(self, values: dict[str, Any]) -> None:
        """As restored, but for what the settings say now: a training may go on with others."""
        super().restore_values(values)
        self.num_skipped = values.get("skipped_minibatches", 0)  # older checkpoints have none
        for group in self.optimizer.param_groups:
            group["eps"] = self.cfg.ppo.adam_eps  # the learning rate is set in each update

    def update(
        self, storage: RolloutStorage, sequences: Sequences, context: UpdateContext
    ) -> Metrics:
        cfg = self.cfg.ppo
        for group in self.optimizer.param_groups:
            group["lr"] = cfg.learning_rate * context.lr_factor
        stats: dict[str, list[float]] = defaultdict(list)
        for one, part in self._parts(storage, sequences):
            if context.should_cut():
                break
            step = self._step(one.rows, part, is_first=not stats)
            context.after_step()
            for name, value in step.metrics.items() if one.is_reported else ():
                stats[name].append(value)
            if step.is_last:
                break
        fresh = torch.from_numpy(fresh_sequences(storage, sequences).rows).to(self.device)
        seen = {name: array[fresh] for name, array in storage.observation.items()}
        self.policy.observe(seen, self.ranks.gather_rows)
        metrics = {name: float(np.mean(values)) for name, values in stats.items()}
        return metrics | self._metrics(storage, sequences, context, stats)

    def _parts(
        self, storage: RolloutStorage, sequences: Sequences
    ) -> Iterator[tuple[Pass, PackedRows]]:
        """The minibatches of all passes, cut when their pass begins."""
        cfg = self.cfg.ppo
        for one in self._passes(storage, sequences):
            for part in minibatch_rows(
                *one.sequences, cfg.num_minibatches, self.rng, cfg.max_sequence_length
            ):
                yield one, part

    # --- to be overridden ----------------------------------------------------------------------

    @abstractmethod
    def _passes(self, storage: RolloutStorage, sequences: Sequences) -> Iterator[Pass]:
        """The passes of an update, in order."""

    @abstractmethod
    def _loss(self, minibatch: Minibatch) -> tuple[Tensor, dict[str, Tensor], Evaluation]:
        """The loss, scalars to log, and the policy's evaluation of the steps."""

    def _is_far_enough(self, metrics: Metrics) -> bool:
        """Whether an update ends before the step on a minibatch with these metrics. Not called for
        the first minibatch: without a step nothing would ever change."""
        return False

    def _after_backward(self, minibatch: Minibatch, evaluation: Evaluation) -> list[nn.Parameter]:
        """Modifies gradients before the optimiser step, also those of other parameters."""
        return []

    def _after_step(self) -> None:
        """Called after the optimiser step, to step further optimisers."""

    def _metrics(
        self,
        storage: RolloutStorage,
        sequences: Sequences,
        context: UpdateContext,
        stats: dict[str, list[float]],
    ) -> Metrics:
        """Metrics of the whole rollout. `stats`: those of its minibatches."""
        order, lengths = sequences
        returns, values = storage.returns[order], storage.value.cpu().numpy()[order]
        spread = float(returns.var())
        explained = 1.0 - float((returns - values).var()) / spread if spread > 0.0 else 0.0
        return {
            "ppo/explained_variance": explained,
            "ppo/learning_rate": self.cfg.ppo.learning_rate * context.lr_factor,
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

    # --- one minibatch -------------------------------------------------------------------------

    def _step(self, storage: Rows, part: PackedRows, is_first: bool) -> Step:
        """One optimiser step on one minibatch; no metrics for one that was skipped."""
        minibatch = storage.minibatch(*part)
        loss, stats, evaluation = self._loss(minibatch)
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)  # Tensor.backward has no types
        learned = [*self.parameters, *self._after_backward(minibatch, evaluation)]
        # Including the loss, so that all ranks see one that is not finite.
        kl = [stats[name] for name in ("ppo/approx_kl",) if name in stats]  # it ends updates
        self.ranks.average_gradients(learned, [loss.detach(), *kl], len(part.rows))
        norm = nn.utils.clip_grad_norm_(self.parameters, self.cfg.ppo.max_grad_norm)
        values = torch.stack([loss.detach(), norm, *stats.values()]).tolist()
        if not (math.isfinite(values[0]) and math.isfinite(values[1])):
            self._nonfinite(storage, part, minibatch, evaluation, values[0], values[1])
            return Step({})
        metrics = dict(zip(stats, values[2:], strict=True))
        if not is_first and self._is_far_enough(metrics):
            self.optimizer.zero_grad(set_to_none=True)
            return Step(metrics, is_last=True)
        # Optimiser steps between the weights that decided a step and those it changes now.
        staleness = float(self.num_applied - storage.weights_step[part.rows].mean())
        self.optimizer.step()
        self.num_applied += 1
        self._after_step()
        metrics["loss/total"], metrics["ppo/grad_norm"] = values[:2]
        return Step(metrics | {"ver/gradient_staleness": staleness})

    def _nonfinite(
        self,
        storage: Rows,
        part: PackedRows,
        minibatch: Minibatch,
        evaluation: Evaluation,
        loss: float,
        norm: float,
    ) -> None:
        """Names the step at fault; the optimiser is not stepped."""
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

    def _name_culprit(self, what: str, error: float) -> str:
        """Among the ranks' messages, that of the rank whose own numbers are not finite."""
        if self.ranks.is_alone:
            return what
        found = self.ranks.gather([math.isfinite(error), what])
        rank = next((rank for rank, (is_finite, _) in enumerate(found) if not is_finite), 0)
        return f"rank {rank}: {found[rank][1]}"
