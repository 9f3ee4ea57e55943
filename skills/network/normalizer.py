"""Running mean and variance of vector observations.

Batches are merged by Chan, Golub and LeVeque 1979 (`new` beside `old`, n counts):

    mean = mean_old + delta n_new / n,   M2 = M2_old + M2_new + delta^2 n_old n_new / n

which gives mean and variance of all the data together, however it is split. Each rank contributes a
part, and all ranks merge all parts in the same order.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rearrange.ver.rollout.types import Gather

CLIP = 10.0  # standard deviations
EPSILON = 1e-8  # added to the variance: a constant observation becomes 0, not infinite


def only_own(moments: Tensor) -> list[Tensor]:
    """The only part, of a single process."""
    return [moments]


class RunningNormalizer(nn.Module):
    """[B, size] -> (x - mean) / std, clipped to +-10. Before the first `update`: x, clipped."""

    count: Tensor
    mean: Tensor  # [size]
    variance: Tensor  # [size]

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("variance", torch.ones(size, dtype=torch.float64))

    @torch.no_grad()
    def update(self, x: Tensor, gather: Gather = only_own) -> None:
        """Merge the statistics of x, [B, size], and of the other ranks' batches."""
        x = x.double()
        count = x.new_full((1,), len(x))
        variance = mean = x.new_zeros(x.shape[1])
        if len(x):
            variance, mean = torch.var_mean(x, dim=0, correction=0)
        for part in gather(torch.cat([count, mean, variance])):
            if part[0] > 0.0:
                self._merge(part[0], *part[1:].chunk(2))

    def _merge(self, new: Tensor, mean: Tensor, variance: Tensor) -> None:
        total = self.count + new
        delta = mean - self.mean
        old_m2 = self.variance * self.count  # 0 before the first data, whatever the variance
        m2 = old_m2 + variance * new + delta.square() * (self.count * new / total)
        self.mean += delta * (new / total)
        self.variance.copy_(m2 / total)
        self.count.copy_(total)

    def scale(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """1 / standard deviation, [size]."""
        return torch.rsqrt(self.variance + EPSILON).to(dtype)

    def forward(self, x: Tensor) -> Tensor:
        return ((x - self.mean.to(x.dtype)) * self.scale(x.dtype)).clamp(-CLIP, CLIP)
