"""How the vectors have changed since the step before: whether the robot moves as it was told.

    c_t = clip(20 (v_t - v_{t-1}) / std(v)),   0 in an episode's first step

A robot that is stuck sees what it saw and is told what it was told; that nothing has changed by so
much as a millimetre is all that tells it apart from one that moves, and a memory of embeddings does
not resolve it. It is not for imitation alone: who stands still then goes on standing still, as the
teacher that it copies does while its arm works. HAB's sensors hold it: positions of things that
stand still, seen from the base and from the hand. The vectors of the step before are part of the
policy's state.

B: steps   V: numbers
"""

from __future__ import annotations

import torch
from torch import Tensor

GAIN = 20.0  # of changes, which are small beside the spread: driving at full speed 0.6 to 2
CLIP = 10.0


def changes(vectors: Tensor, before: Tensor, is_first: Tensor, scale: Tensor | None) -> Tensor:
    """Scaled differences, [B, V].

    Args:
        vectors, before: of each step and of the one before it, [B, V].
        is_first: [B] bool, where there is no step before.
        scale: 1 / standard deviation of each number, [V]; None: 1.
    """
    difference = vectors - before
    if scale is not None:
        difference = difference * scale
    # where, not a product: what comes before an episode's first step is undefined
    return torch.where(is_first.unsqueeze(-1), 0.0, (GAIN * difference).clamp(-CLIP, CLIP))
