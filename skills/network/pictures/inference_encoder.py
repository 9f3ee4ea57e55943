"""The depth encoder without modules, for inference: the same numbers in two thirds of the time.

    DepthEncoder -- weights in the stages' type, once --> functions, one after another --> features

With few pictures an operation takes a few microseconds. Calling 80 modules and converting 50
weights to bfloat16 is then a third of the encoder's time, and the acting weights are constant for a
whole rollout. With gradients the modules are used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from rearrange.skills.network.pictures.convolutions import (
    Conv,
    MatrixConv,
    Norm,
    deinterleaved,
    interleaved,
)

Step = Callable[[Tensor], Tensor]


class InferenceEncoder:
    """A DepthEncoder with its current weights, made and called without gradients."""

    @torch.no_grad()
    def __init__(self, encoder: Any) -> None:  # DepthEncoder, whose module imports this one
        dtype = encoder.dtype
        self._steps: list[Step] = [
            _conv(encoder.stem, torch.float32),
            _norm(encoder.stem_norm, torch.float32),
            lambda x: x.to(dtype),
        ]
        for part in [*encoder.fine, *encoder.coarse]:
            if hasattr(part, "blocks"):
                self._steps.append(_stage(part, dtype))
            else:
                self._steps += [_norm(part.norm, dtype), part.padded, _conv(part.conv, dtype)]
        self._steps += [_conv(encoder.compress, dtype), _norm(encoder.compress_norm, dtype)]
        self._last = encoder.linear.weight, encoder.linear.bias

    def __call__(self, x: Tensor) -> Tensor:
        """Sized and padded pictures [B, C, h, w], channels last in memory -> [B, feature_size]."""
        for step in self._steps:
            x = step(x)
        x = x.relu_().permute(0, 2, 3, 1).reshape(len(x), -1)
        return functional.linear(x.float(), *self._last).relu_()


def _conv(conv: Conv | MatrixConv, dtype: torch.dtype) -> Step:
    if isinstance(conv, MatrixConv):
        matrix = conv.matrix(dtype)
        return lambda x: conv.multiplied(x, matrix)
    weight = conv.weight.to(dtype)
    bias = None if conv.bias is None else conv.bias.to(dtype)
    stride, padding, dilation = conv.stride, conv.padding, conv.dilation
    return lambda x: functional.conv2d(x, weight, bias, stride, padding, dilation)


def _norm(norm: Norm, dtype: torch.dtype) -> Step:
    weight, bias = norm.weight.to(dtype), norm.bias.to(dtype)
    groups, eps = norm.num_groups, norm.eps
    return lambda x: torch.group_norm(x, groups, weight, bias, eps)


def _stage(stage: Any, dtype: torch.dtype) -> Step:
    blocks = [
        (_conv(b.conv1, dtype), _norm(b.norm1, dtype), _conv(b.conv2, dtype), _norm(b.norm2, dtype))
        for b in stage.blocks
    ]

    def step(x: Tensor) -> Tensor:
        if stage.is_interleaved:
            x = interleaved(x, stage.dilation)
        for conv1, norm1, conv2, norm2 in blocks:
            branch = norm1(conv1(x)).relu_()
            x = norm2(conv2(branch)).add_(x).relu_()
        return deinterleaved(x, stage.dilation) if stage.is_interleaved else x

    return step
