"""The policy's action distributions; `heads.py` has the layers that parametrise them.

    box:       independent Gaussians, mean in [-1, 1] by tanh, log-std a separate parameter;
               switches, dimensions of which only the sign matters, are binary
    discrete:  one categorical distribution per action dimension

`sample`, `mode`, `log_prob`, `entropy` are the same for both; actions are [B, A], the other two
[B]. A Gaussian's samples are not clipped, so that their density is exact; the environment clips
them to the limits.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rearrange.ver.rollout.types import Components

MIN_LOG_STD, MAX_LOG_STD = -5.0, 2.0  # M3 (Gu et al. 2023), released configuration
HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
SHARPNESS = 16.0  # a mean of 0.5 leaves the other side 3 in 10,000


class DiagonalGaussian:
    """Independent Gaussians of mean [B, A] and log-std [A] or [B, A].

    Attributes:
        components: of which the mean is the likeliest one's, if there are several.
    """

    components: Components | None = None

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
