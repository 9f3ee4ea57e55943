"""3x3 convolutions in the cheapest form for small feature maps.

On a 2x2 map a 3x3 convolution connects all positions with each other: it is one matrix,

    [y x ci] -> [v u co],   M[y x ci, v u co] = kernel[y - v + 1, x - u + 1, ci, co]

and a dilated one (dilation d) on a map of 2d x 2d is the same matrix on d x d interleaved 2x2 maps.
Convolution libraries spend half their work there on padding, and more in the backward pass.

Everything here is [B, C, h, w] in channels-last memory, computed in the input's type.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

SLOW_DILATED = torch.backends.cpu.get_cpu_capability() in ("DEFAULT", "AVX2")
"""Whether this CPU has no fast kernel for the gradient of a dilated convolution's weights.

Of 256 maps of 16x16x16 with dilation 2 it takes 30 ms on one core with AVX2; on 1,024 interleaved
maps of 8x8x16, the same numbers, 11.
"""


class Conv(nn.Conv2d):
    """nn.Conv2d that converts its weights to the input's type."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        x = input
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return F.conv2d(x, self.weight.to(x.dtype), bias, self.stride, self.padding, self.dilation)


class DilatedConv(Conv):
    """A dilated 3x3 convolution without bias that keeps the map's size."""

    def __init__(self, channels: int, wider: int, dilation: int) -> None:
        super().__init__(channels, wider, 3, padding=dilation, dilation=dilation, bias=False)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        dilation = self.dilation[0]
        is_whole = input.shape[2] % dilation == input.shape[3] % dilation == 0
        is_learning = torch.is_grad_enabled() and not torch.compiler.is_compiling()
        if SLOW_DILATED and is_whole and is_learning and input.device.type == "cpu":
            apply = cast("Callable[..., Tensor]", _Dilated.apply)
            return apply(input, self.weight.to(input.dtype), dilation)
        return super().forward(input)


class Norm(nn.GroupNorm):
    """nn.GroupNorm that converts its weights to the input's type."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - torch's name
        x = input
        weight, bias = self.weight.to(x.dtype), self.bias.to(x.dtype)
        return F.group_norm(x, self.num_groups, weight, bias, self.eps)


class MatrixConv(nn.Module):
    """A 3x3 convolution without bias on 2x2 maps, contiguous in memory."""

    def __init__(self, channels: int, wider: int) -> None:
        super().__init__()
        # [ky, kx, ci, co]: the blocks of the matrix are contiguous, so building it is cheap
        self.weight = nn.Parameter(torch.empty(3, 3, channels, wider))

    def forward(self, x: Tensor) -> Tensor:
        return self.multiplied(x, self.matrix(x.dtype))

    def matrix(self, dtype: torch.dtype) -> Tensor:
        """M of the module's docstring, [4 ci, 4 co]."""
        return _matrix(self.weight.to(dtype))

    @staticmethod
    def multiplied(x: Tensor, matrix: Tensor) -> Tensor:
        """The convolution by its matrix."""
        batch, channels, h, w = x.shape
        y = x.permute(0, 2, 3, 1).reshape(-1, 4 * channels) @ matrix
        return y.view(batch, h, w, -1).permute(0, 3, 1, 2)


def conv3(channels: int, wider: int, height: int, width: int, dilation: int) -> Conv | MatrixConv:
    """A 3x3 convolution without bias that keeps the size of a map of height x width."""
    if is_matrix(height, width, dilation):
        conv: Conv | MatrixConv = MatrixConv(channels, wider)
    elif dilation > 1:
        conv = DilatedConv(channels, wider, dilation)
    else:
        conv = Conv(channels, wider, 3, padding=1, bias=False)
    draw_normal(conv.weight, math.sqrt(2.0 / (9 * wider)))  # He et al. 2015, fan out
    return conv


def draw_normal(weight: Tensor, std: float) -> None:
    """Draws fresh weights; those of a draft, on the meta device, stay as they are.

    PyTorch would load its compiler for these, 1 s.
    """
    if not weight.is_meta:
        nn.init.normal_(weight, std=std)


def is_matrix(height: int, width: int, dilation: int) -> bool:
    """Whether `conv3` is a matrix and needs its map in the order of `interleaved`."""
    return height == width == 2 * dilation


def interleaved(x: Tensor, dilation: int) -> Tensor:
    """Positions (y p, x q) of [B, C, h, w] in the order (p, q, y, x): d x d maps of h/d by w/d."""
    height, width = x.shape[2] // dilation, x.shape[3] // dilation
    return _reordered(x, (height, dilation, width, dilation), (0, 2, 4, 1, 3, 5))


def deinterleaved(x: Tensor, dilation: int) -> Tensor:
    """The inverse of `interleaved`."""
    return _reordered(x, (dilation, dilation, 2, 2), (0, 3, 1, 4, 2, 5))


class _Dilated(torch.autograd.Function):
    """A dilated convolution whose weights' gradient is that of an ordinary one.

    Every d-th row and column of a map is a map of its own, which the kernel does not mix with the
    others.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, dilation: int) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.dilation = dilation
        return F.conv2d(x, weight, None, 1, dilation, dilation)

    @staticmethod
    @once_differentiable  # the decorator's stub makes arguments positional:
    def backward(  # pyrefly: ignore[bad-override]
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor | None, ...]:
        (grad,) = grad_outputs
        x, weight = ctx.saved_tensors
        d, d_x, d_weight = ctx.dilation, None, None
        if ctx.needs_input_grad[0]:
            d_x = _gradients(grad, x, weight, d, [True, False, False])[0]
        if ctx.needs_input_grad[1]:
            parts = _parts(grad, d), _parts(x, d)
            d_weight = _gradients(*parts, weight, 1, [False, True, False])[1]
        return d_x, d_weight, None


def _gradients(
    grad: Tensor, x: Tensor, weight: Tensor, dilation: int, wanted: list[bool]
) -> list[Tensor | None]:
    """The library's own, for input, weights and bias, of a 3x3 convolution that keeps the size."""
    sides = [dilation, dilation]
    return torch.ops.aten.convolution_backward(
        grad, x, weight, None, [1, 1], sides, sides, False, [0, 0], 1, wanted
    )


def _parts(x: Tensor, dilation: int) -> Tensor:
    """The maps of `interleaved`, each by itself: [B, C, h, w] -> [B d d, C, h / d, w / d]."""
    channels, h, w = x.shape[1:]
    rows = interleaved(x, dilation).permute(0, 2, 3, 1)
    return rows.reshape(-1, h // dilation, w // dilation, channels).permute(0, 3, 1, 2)


def _matrix(kernel: Tensor) -> Tensor:
    columns = [
        kernel[1 - v : 3 - v, 1 - u : 3 - u].reshape(-1, kernel.shape[3])
        for v in (0, 1)
        for u in (0, 1)
    ]
    return torch.cat(columns, dim=1)


def _reordered(x: Tensor, sides: tuple[int, ...], order: tuple[int, ...]) -> Tensor:
    batch, channels, h, w = x.shape
    rows = x.permute(0, 2, 3, 1).reshape(batch, *sides, channels).permute(order)
    return rows.reshape(batch, h, w, channels).permute(0, 3, 1, 2)
