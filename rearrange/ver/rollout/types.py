"""The data exchanged between trainer and policy.

    collector  -- observation, memory -->  Policy.act       --> PolicyStep
    learner    -- Minibatch ------------>  Policy.evaluate  --> Evaluation

E environments, S steps of a rollout, Q sequences, B steps of a minibatch, A action dims, K floats
of memory per environment (0: a policy without memory). All tensors of one call are on one device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import torch
from torch import Tensor
from torch.nn import Parameter

Observation = dict[str, Tensor]
"""Name -> [E, ...] or [B, ...]."""
Gather = Callable[[Tensor], list[Tensor]]
"""A rank's tensor -> those of all ranks, in the same order everywhere."""


class PolicyInputs(NamedTuple):
    """The policy's input, for a batch of environments."""

    observation: Observation  # {name: [E, ...]}
    prev_action: Tensor  # [E, A]
    is_first: Tensor  # [E] bool, first step of an episode: there is no previous action
    state: Tensor  # [E, K] memory before this observation, zeros where is_first


@dataclass
class PolicyStep:
    """The policy's decision for a batch of environments."""

    action: Tensor  # [E, A]
    log_prob: Tensor  # [E] of the action, as sampled
    value: Tensor  # [E] expected discounted return from this observation on
    state: Tensor  # [E, K] memory after this observation


@dataclass
class Evaluation:
    """The current policy's evaluation of earlier steps."""

    log_prob: Tensor  # [B]
    entropy: Tensor  # [B]
    value: Tensor  # [B]


@dataclass
class Minibatch:
    """Steps of a rollout in the layout of torch's PackedSequence.

    Sequences are sorted by length, longest first; all first steps stand first, then all second
    steps, and so on. A sequence never spans two episodes.
    """

    observation: Observation  # {name: [B, ...]}
    prev_action: Tensor  # [B, A]
    is_first: Tensor  # [B] bool, first step of an episode: there is no previous action
    action: Tensor  # [B, A]
    log_prob: Tensor  # [B] when the action was chosen
    value: Tensor  # [B] when the action was chosen
    advantage: Tensor  # [B]
    returns: Tensor  # [B]
    is_weight: Tensor  # [B] truncated importance weight against uneven sampling
    is_stale: Tensor  # [B] bool, experience of an earlier rollout
    start_state: Tensor  # [Q, K] memory before each sequence's first step
    batch_sizes: Tensor  # [L] int64 on the CPU: how many sequences are at least 1, 2, ... L long
    policy_weight: Tensor | None = None  # [B] of the policy's term alone; None: 1 each


class Components(NamedTuple):
    """What a policy chooses its action from: means [B, C, A] and logits [B, C]."""

    means: Tensor
    logits: Tensor

    def likeliest(self) -> Tensor:
        """The mean of the likeliest component, [B, A]."""
        best = self.logits.argmax(-1)[:, None, None].expand(-1, 1, self.means.shape[-1])
        return self.means.gather(1, best).squeeze(1)


class Policy(Protocol):
    """The interface of a policy, a torch Module."""

    state_size: int
    """K."""

    def act(
        self,
        observation: Observation,
        prev_action: Tensor,  # [E, A]
        is_first: Tensor,  # [E] bool
        state: Tensor,  # [E, K], zeros where is_first
        deterministic: bool = False,
    ) -> PolicyStep:
        """Chooses actions; called without gradients."""
        ...

    def value(
        self, observation: Observation, prev_action: Tensor, is_first: Tensor, state: Tensor
    ) -> Tensor:
        """Expected returns, [E], for bootstrapping; the memory is not advanced."""
        ...

    def evaluate(self, minibatch: Minibatch) -> Evaluation:
        """Log-probabilities, entropies and values, with gradients."""
        ...

    def observe(self, observation: Observation, gather: Gather) -> None:
        """Updates running statistics with a rollout's observations, {name: [S, ...]}.

        Called after an update, so that collecting and learning see the same statistics. All ranks
        call it together, each with its own observations: `gather` returns the tensors of all.
        """

    def refresh(self) -> None:
        """Called when the weights have changed, before the policy acts with them.

        Rebuilds whatever is cached from the weights for acting, if anything is.
        """

    # What it has as a torch Module:

    def parameters(self) -> Iterator[Parameter]: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: dict[str, Any]) -> Any: ...
    def to(self, device: torch.device) -> Self: ...
