"""A policy and a learner that only sleep, so that only the trainer's overhead remains."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rearrange.ver.rollout.storage import RolloutStorage
from rearrange.ver.rollout.types import Evaluation, Gather, Minibatch, Observation, PolicyStep
from rearrange.ver.update.algorithm import Algorithm, Sequences, UpdateContext
from rearrange.ver.workers.spaces import ActionSpec, ObservationSpec
from rearrange.workloads.straggler import Sleeper

OPTIMIZER_STEPS = 6  # 3 epochs of 2 minibatches, as the VER paper


class SleepPolicy(nn.Module):
    """Implements `Policy` of the trainer: every batch takes the same time, the action is 0."""

    state_size = 0

    def __init__(self, action_spec: ActionSpec, inference_s: float) -> None:
        super().__init__()
        self._size, self._kind = action_spec.size, action_spec.kind
        self._inference_s = inference_s
        self._sleeper = Sleeper()
        self.weight = nn.Parameter(torch.zeros(1))  # something for an optimizer and a checkpoint

    def act(
        self,
        observation: Observation,
        prev_action: Tensor,
        is_first: Tensor,
        state: Tensor,
        deterministic: bool = False,
    ) -> PolicyStep:
        """Zeros, after `inference_s`."""
        self._sleep()
        num_envs = len(is_first)
        action = torch.zeros(num_envs, self._size)
        zeros = torch.zeros(num_envs)
        return PolicyStep(
            action=action if self._kind == "box" else action.long(),
            log_prob=zeros,
            value=zeros.clone(),
            state=state,
        )

    def value(
        self, observation: Observation, prev_action: Tensor, is_first: Tensor, state: Tensor
    ) -> Tensor:
        """Zeros, [E], after `inference_s`."""
        self._sleep()
        return torch.zeros(len(is_first))

    def _sleep(self) -> None:
        if self._inference_s:  # a sleep of no time would take a tenth of a millisecond
            self._sleeper.sleep(self._inference_s)

    def evaluate(self, minibatch: Minibatch) -> Evaluation:
        """Zeros that depend on the one weight."""
        zeros = torch.zeros(len(minibatch.advantage)) + 0.0 * self.weight
        return Evaluation(log_prob=zeros, entropy=zeros, value=zeros)

    def observe(self, observation: Observation, gather: Gather) -> None:
        """Nothing to learn about observations."""

    def refresh(self) -> None:
        """Nothing is kept of the weights."""


@dataclass(frozen=True)
class SleepPolicyFactory:
    """Builds the policy; can be sent to another process."""

    inference_s: float

    def __call__(self, observation_spec: ObservationSpec, action_spec: ActionSpec) -> SleepPolicy:
        return SleepPolicy(action_spec, self.inference_s)


class SleepLearner(Algorithm):
    """An algorithm whose updates take `learning_s` and change nothing.

    It has nothing to be saved, and judges no steps.
    """

    def __init__(self, learning_s: float) -> None:
        self._learning_s = learning_s
        self._sleeper = Sleeper()

    def compute_returns(self, storage: RolloutStorage) -> Sequences:
        rows = storage.complete_rows()
        return Sequences(rows, np.ones(len(rows), np.int64))

    def update(
        self, storage: RolloutStorage, sequences: Sequences, context: UpdateContext
    ) -> dict[str, float]:
        """`metrics`, after `learning_s` in as many parts as there are optimiser steps."""
        for _ in range(OPTIMIZER_STEPS):
            self._sleeper.sleep(self._learning_s / OPTIMIZER_STEPS)
            self.end_step(context.should_cut)
            context.after_step()
        return self.metrics(storage)

    def end_step(self, should_cut: Callable[[], bool]) -> None:
        """What each part ends in: nothing."""

    def metrics(self, storage: RolloutStorage) -> dict[str, float]:
        """What an update tells: nothing."""
        return {}

    def values(self) -> dict[str, Any]:
        return {}

    def restore_values(self, values: dict[str, Any]) -> None:
        pass


@dataclass(frozen=True)
class SleepLearnerFactory:
    """Builds the learner, whatever the trainer would give to its own."""

    learning_s: float

    def __call__(self, *args: Any, **others: Any) -> SleepLearner:
        return SleepLearner(self.learning_s)
