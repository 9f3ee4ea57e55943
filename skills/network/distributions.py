"""The policy's action distributions, and the layers that parametrise them.

    box:       independent Gaussians, mean in [-1, 1] by tanh, log-std a separate parameter;
               switches, dimensions of which only the sign matters, are binary
    discrete:  one categorical distribution per action dimension

`sample`, `mode`, `log_prob`, `entropy` are the same for both; actions are [B, A], the other two
[B]. A Gaussian's samples are not clipped, so that their density is exact; the environment clips
them to the limits.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from rearrange.ver.workers.spaces import ActionSpec

MIN_LOG_STD, MAX_LOG_STD = -5.0, 2.0  # M3 (Gu et al. 2023), released configuration
HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
SHARPNESS = 16.0  # a mean of 0.5 leaves the other side 3 in 10,000
ACTOR_GAIN = 0.01  # habitat-baselines: the first actions are near the middle


class DiagonalGaussian:
    """Independent Gaussians of mean [B, A] and log-std [A] or [B, A]."""

    def __init__(self, mean: Tensor, log_std: Tensor) -> None:
        self.mean, self.log_std = mean, log_std

    def sample(self) -> Tensor:
        """[B, A], not clipped, without gradient."""
        with torch.no_grad():
            return torch.addcmul(self.mean, torch.randn_like(self.mean), self.log_std.exp())

    def mode(self) -> Tensor:
        """The most likely action, [B, A]."""
        return self.mean

    def log_prob(self, action: Tensor) -> Tensor:
        """-((a - mean) / std)^2 / 2 - log std - log(2 pi) / 2, summed over the dimensions: [B]."""
        scaled = (action - self.mean) * torch.exp(-self.log_std)
        constant = self.log_std.sum(-1) + HALF_LOG_TWO_PI * self.mean.shape[-1]
        return -0.5 * scaled.square().sum(-1) - constant

    def entropy(self) -> Tensor:
        """1/2 + log(2 pi) / 2 + log std, summed over the dimensions: [B]."""
        total = self.log_std.sum(-1) + (0.5 + HALF_LOG_TWO_PI) * self.mean.shape[-1]
        return total.expand(self.mean.shape[0])


class Switches(NamedTuple):
    """Which dimensions are switches, and their numbers: a GPU would wait to count a mask's."""

    mask: Tensor
    """[A] bool."""
    own: Tensor
    """int64, of those that are."""
    others: Tensor
    """int64, of those that are not."""

    @staticmethod
    def of(switches: Collection[int], size: int) -> Switches:
        mask = [n in switches for n in range(size)]
        parts = [[n for n in range(size) if mask[n] == is_own] for is_own in (True, False)]
        return Switches(torch.tensor(mask), *(torch.tensor(p, dtype=torch.int64) for p in parts))


class SwitchedGaussian(DiagonalGaussian):
    """Gaussians and switches: dimensions of which the environment uses only the sign.

    They are +1 with probability sigmoid(SHARPNESS mean), else -1. The mean of a Gaussian that never
    crosses 0 would drift with gradient noise, as no reward depends on it; the gradient of a
    saturated switch is 0. The policy sees its previous action, so the most likely action is +1 or
    -1 too: other values would be inputs that it never had in training.
    """

    def __init__(self, mean: Tensor, log_std: Tensor, switches: Switches) -> None:
        super().__init__(mean, log_std)
        self.switches = switches
        self.logits = SHARPNESS * mean.index_select(-1, switches.own)
        of = switches.others
        self.others = DiagonalGaussian(mean.index_select(-1, of), log_std.index_select(-1, of))

    def sample(self) -> Tensor:
        drawn = super().sample()
        with torch.no_grad():
            signs = 2.0 * torch.bernoulli(self.logits.sigmoid()) - 1.0
            drawn.index_copy_(-1, self.switches.own, signs)
        return drawn

    def mode(self) -> Tensor:
        is_on = self.mean > 0.0
        return torch.where(self.switches.mask, 2.0 * is_on - 1.0, self.mean)

    def log_prob(self, action: Tensor) -> Tensor:
        is_on = (action.index_select(-1, self.switches.own) > 0.0).to(self.logits.dtype)
        others = action.index_select(-1, self.switches.others)
        return self.others.log_prob(others) - self._surprise(is_on)

    def entropy(self) -> Tensor:
        return self.others.entropy() + self._surprise(self.logits.sigmoid())

    def _surprise(self, share_on: Tensor) -> Tensor:
        """Entropy, switches by their probability, summed over the dimensions: [B]."""
        loss = nn.functional.binary_cross_entropy_with_logits
        return loss(self.logits, share_on, reduction="none").sum(-1)


class Categoricals:
    """One categorical distribution per action dimension, from logits [B, sum of num_choices]."""

    def __init__(self, logits: Tensor, num_choices: tuple[int, ...]) -> None:
        self.log_probs = [part.log_softmax(-1) for part in logits.split(num_choices, dim=-1)]

    def sample(self) -> Tensor:
        """[B, A] int64. The first of exponential clocks of rate p to ring is i with p_i."""
        with torch.no_grad():
            rings = [torch.empty_like(p).exponential_().log_() - p for p in self.log_probs]
            return torch.stack([ring.argmin(-1) for ring in rings], dim=-1)

    def mode(self) -> Tensor:
        """The most likely action, [B, A] int64."""
        return torch.stack([p.argmax(-1) for p in self.log_probs], dim=-1)

    def log_prob(self, action: Tensor) -> Tensor:
        """Log-probability of actions [B, A], summed over the dimensions: [B]."""
        columns = action.long().unsqueeze(-1).unbind(-2)
        parts = [p.gather(-1, a) for p, a in zip(self.log_probs, columns, strict=True)]
        return torch.cat(parts, dim=-1).sum(-1)

    def entropy(self) -> Tensor:
        """Entropy, summed over the dimensions: [B]."""
        total = torch.zeros_like(self.log_probs[0][:, 0])
        for p in self.log_probs:
            total = total + (p.exp() * p).sum(-1)
        return -total


Distribution = DiagonalGaussian | Categoricals


class GaussianHead(nn.Module):
    """Features [B, H] -> DiagonalGaussian over the box `spec`.

    `initial_means`, one per dimension, are the means at the start; empty: 0. Only the sign of the
    dimensions `switches` matters. Several policies on the same layers have a log-std each.
    """

    bounded: Tensor  # [A] bool
    switches_mask: Tensor  # these three as `Switches`
    switches_own: Tensor
    switches_others: Tensor

    def __init__(
        self,
        features: int,
        spec: ActionSpec,
        initial_log_std: float,
        initial_means: Sequence[float] = (),
        switches: Sequence[int] = (),
        num_blocks: int = 1,
    ) -> None:
        super().__init__()
        if not set(switches) <= set(range(spec.size)):
            raise ValueError(
                f"switches must be among the action's dimensions, 0 to {spec.size - 1}, got "
                f"{list(switches)}"
            )
        self.has_switches = bool(switches)
        for name, part in Switches.of(switches, spec.size)._asdict().items():
            self.register_buffer(f"switches_{name}", part, persistent=False)
        self.linear = _actor_layer(features, spec.size)
        shape = (spec.size,) if num_blocks == 1 else (num_blocks, spec.size)
        self.log_std = nn.Parameter(torch.full(shape, float(initial_log_std)))
        # [-1, 1] is the whole range of a bounded dimension; an unbounded one has no such range.
        is_bounded = np.isfinite(spec.low) & np.isfinite(spec.high)
        self.is_bounded = bool(is_bounded.all())
        bounded = torch.tensor(is_bounded.tolist(), dtype=torch.bool)
        self.register_buffer("bounded", bounded, persistent=False)
        if initial_means:
            means = torch.tensor(initial_means, dtype=torch.float32)
            if means.shape != (spec.size,):
                raise ValueError(
                    f"initial_means must be {spec.size} numbers, one for each dimension of the "
                    f"action, got {len(means)}"
                )
            with torch.no_grad():
                self.linear.bias.copy_(torch.where(bounded, means.atanh(), means))

    def project(self) -> None:
        """Clamp the log-std parameter to its range, so that clamping never hides its gradient."""
        with torch.no_grad():
            self.log_std.clamp_(MIN_LOG_STD, MAX_LOG_STD)

    def forward(self, features: Tensor, block: Tensor | None = None) -> DiagonalGaussian:
        mean = self.linear(features)
        squashed = mean.tanh()
        mean = squashed if self.is_bounded else torch.where(self.bounded, squashed, mean)
        log_std = self.log_std if block is None else self.log_std[block]
        log_std = log_std.clamp(MIN_LOG_STD, MAX_LOG_STD)
        if self.has_switches:
            switches = Switches(self.switches_mask, self.switches_own, self.switches_others)
            return SwitchedGaussian(mean, log_std, switches)
        return DiagonalGaussian(mean, log_std)


class CategoricalHead(nn.Module):
    """Features [B, H] -> Categoricals over the discrete `spec`."""

    def __init__(self, features: int, spec: ActionSpec) -> None:
        super().__init__()
        self.num_choices = tuple(spec.num_choices)
        self.linear = _actor_layer(features, sum(self.num_choices))

    def project(self) -> None:
        """Does nothing."""

    def forward(self, features: Tensor, block: Tensor | None = None) -> Categoricals:
        return Categoricals(self.linear(features), self.num_choices)


def action_head(
    features: int,
    spec: ActionSpec,
    initial_log_std: float,
    initial_means: Sequence[float] = (),
    switches: Sequence[int] = (),
    num_blocks: int = 1,
) -> GaussianHead | CategoricalHead:
    """The layer for the kind of action; all arguments but the first two are for Gaussians."""
    if spec.kind == "box":
        return GaussianHead(features, spec, initial_log_std, initial_means, switches, num_blocks)
    if switches:
        raise ValueError(
            f"switches are for Box actions, got {list(switches)} for a {spec.kind} one"
        )
    return CategoricalHead(features, spec)


def _actor_layer(features: int, outputs: int) -> nn.Linear:
    layer = nn.Linear(features, outputs)
    nn.init.orthogonal_(layer.weight, ACTOR_GAIN)
    nn.init.zeros_(layer.bias)
    return layer
