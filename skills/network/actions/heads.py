"""The layers that parametrise the action's distribution, and which one an action needs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from rearrange.skills.network.actions.distributions import (
    MAX_LOG_STD,
    MIN_LOG_STD,
    Categoricals,
    DiagonalGaussian,
    SwitchedGaussian,
    Switches,
)
from rearrange.skills.network.actions.mixture import Mixture
from rearrange.ver.rollout.types import Components
from rearrange.ver.workers.spaces import ActionSpec

ACTOR_GAIN = 0.01  # habitat-baselines: the first actions are near the middle


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
        num_components: int = 1,
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
        self.mixture = Mixture(features, spec.size, num_components) if num_components > 1 else None
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
        mean, components = self.linear(features), None
        if self.mixture is None:
            mean = self._squashed(mean)
        else:
            means, logits = self.mixture(features, mean)
            components = Components(self._squashed(means), logits)
            mean = components.likeliest()
        log_std = self.log_std if block is None else self.log_std[block]
        log_std = log_std.clamp(MIN_LOG_STD, MAX_LOG_STD)
        if self.has_switches:
            switches = Switches(self.switches_mask, self.switches_own, self.switches_others)
            gaussian = SwitchedGaussian(mean, log_std, switches)
        else:
            gaussian = DiagonalGaussian(mean, log_std)
        gaussian.components = components
        return gaussian

    def _squashed(self, mean: Tensor) -> Tensor:
        """Of [..., A], into (-1, 1) where the action is bounded."""
        squashed = mean.tanh()
        return squashed if self.is_bounded else torch.where(self.bounded, squashed, mean)


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
    num_components: int = 1,
) -> GaussianHead | CategoricalHead:
    """The layer for the kind of action; all arguments but the first two are for Gaussians."""
    if spec.kind == "box":
        return GaussianHead(
            features, spec, initial_log_std, initial_means, switches, num_blocks, num_components
        )
    if switches:
        raise ValueError(
            f"switches are for Box actions, got {list(switches)} for a {spec.kind} one"
        )
    if num_components > 1:
        raise ValueError(
            f"num_components are for Box actions, got {num_components} for a {spec.kind} one"
        )
    return CategoricalHead(features, spec)


def _actor_layer(features: int, outputs: int) -> nn.Linear:
    layer = nn.Linear(features, outputs)
    nn.init.orthogonal_(layer.weight, ACTOR_GAIN)
    nn.init.zeros_(layer.bias)
    return layer
