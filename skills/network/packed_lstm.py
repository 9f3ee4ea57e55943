"""An LSTM layer over packed sequences, fast on a CPU, with its own backward pass.

    i, f, o = sigmoid(z), g = tanh(z),   z = W_x x + W_h h + b
    c' = f c + i g,   h' = o tanh(c')

torch's kernel for packed sequences multiplies small matrices at each step, in the backward pass for
the weights as well. Here everything that does not depend on the previous step is one product over
all steps; each step is left with one product with W_h and a few passes over [Q, 4 H]. Products may
be in bfloat16, in half the time; sums, gates and states are always float32.

B: steps in PackedSequence layout   L: length of the longest   Q: sequences   I: inputs   H: hidden
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def packed_lstm_layer(
    x: Tensor,  # [B, I]
    batch_sizes: list[int],  # [L]
    h: Tensor,  # [Q, H] before the first step, as is c; no gradient goes there
    c: Tensor,
    weights: Sequence[Tensor],  # of torch's LSTM: [4 H, I], [4 H, H], [4 H], [4 H], gates i f g o
    dtype: torch.dtype = torch.float32,  # of the products' factors
) -> Tensor:
    """Outputs of all steps, [B, H] float32."""
    w_x, w_h, b_x, b_h = (_exchanged(weight) for weight in weights)
    return _PackedLayer.apply(x, batch_sizes, h, c, w_x, w_h, b_x + b_h, dtype)


class _PackedLayer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        batch_sizes: list[int],
        h: Tensor,
        c: Tensor,
        w_x: Tensor,
        w_h: Tensor,
        bias: Tensor,
        dtype: torch.dtype,
    ) -> Tensor:
        hidden, is_short = h.shape[1], dtype != torch.float32
        x, w_x, w_h = x.to(dtype), w_x.to(dtype), w_h.to(dtype)
        w_x_t, w_h_t = w_x.t(), w_h.t().contiguous()
        # [B, 4 H] in the order i f o g
        gates = bias + x @ w_x_t if is_short else torch.addmm(bias, x, w_x_t)
        cells = gates.new_empty(len(x), hidden)
        squashed, outputs = torch.empty_like(cells), torch.empty_like(cells)
        start = (h, c)
        for rows in _steps(batch_sizes):
            n, z = rows.stop - rows.start, gates[rows]
            if is_short:
                z.add_(h[:n].to(dtype) @ w_h_t)
            else:
                z.addmm_(h[:n], w_h_t)
            z[:, : 3 * hidden].sigmoid_()
            _tanh_(z[:, 3 * hidden :])
            i, f, o, g = z.split(hidden, dim=1)
            torch.mul(f, c[:n], out=cells[rows])
            c = cells[rows].addcmul_(i, g)
            h = torch.mul(o, _tanh_(squashed[rows].copy_(c)), out=outputs[rows])
        ctx.batch_sizes = batch_sizes
        ctx.save_for_backward(x, *start, w_x, w_h, gates, cells, squashed, outputs)
        return outputs

    @staticmethod
    @once_differentiable  # the decorator's stub makes arguments positional:
    def backward(  # pyrefly: ignore[bad-override]
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor | None, ...]:
        (grad,) = grad_outputs
        x, h_start, c_start, w_x, w_h, gates, cells, squashed, outputs = ctx.saved_tensors
        size, hidden = outputs.shape
        dtype = x.dtype
        i, f, o, g = gates.split(hidden, dim=1)
        h_before = shifted(h_start, outputs, ctx.batch_sizes)
        c_before = shifted(c_start, cells, ctx.batch_sizes)
        # What dL/dc' and dL/dh' have to be multiplied by, for all steps at once.
        by_c = torch.stack((g * i * (1 - i), c_before * f * (1 - f), i * (1 - g * g)), dim=1)
        by_h = squashed * o * (1 - o)
        h_to_c = o * (1 - squashed * squashed)
        keep = f.contiguous()
        d_gates = torch.empty(size, 4, hidden)  # i f g o: those of c' together
        w_h_ifgo = _exchanged(w_h)
        d_h, d_c = torch.zeros_like(h_start), torch.zeros_like(c_start)
        for rows in reversed(_steps(ctx.batch_sizes)):
            n, d_z = rows.stop - rows.start, d_gates[rows]
            dh, dc = d_h[:n].add_(grad[rows]), d_c[:n]
            dc.addcmul_(dh, h_to_c[rows])
            torch.mul(by_c[rows], dc.unsqueeze(1), out=d_z[:, :3])
            torch.mul(by_h[rows], dh, out=d_z[:, 3])
            dc.mul_(keep[rows])
            if dtype == torch.float32:
                torch.mm(d_z.view(n, 4 * hidden), w_h_ifgo, out=dh)
            else:
                dh.copy_(d_z.view(n, 4 * hidden).to(dtype) @ w_h_ifgo)
        full = d_gates.view(size, 4 * hidden)
        flat = full.to(dtype)
        d_x = (flat @ _exchanged(w_x)).float() if ctx.needs_input_grad[0] else None
        d_weights = (flat.t() @ x, flat.t() @ h_before.to(dtype))
        d_all = (*(d.float() for d in d_weights), full.sum(0))
        return d_x, None, None, None, *(_exchanged(d) for d in d_all), None


def _tanh_(x: Tensor) -> Tensor:
    """In place, as 2 sigmoid(2 x) - 1: on a CPU a quarter of the time of torch's tanh."""
    return x.mul_(2.0).sigmoid_().mul_(2.0).sub_(1.0)


def _steps(batch_sizes: list[int]) -> list[slice]:
    """Rows of each step."""
    ends = list(accumulate(batch_sizes))
    return [slice(end - n, end) for end, n in zip(ends, batch_sizes, strict=True)]


def shifted(start: Tensor, after: Tensor, batch_sizes: list[int]) -> Tensor:
    """[B, H]: the values before each step, from those after it."""
    steps = _steps(batch_sizes)
    before = [
        after[rows.start : rows.start + n] for rows, n in zip(steps, batch_sizes[1:], strict=False)
    ]
    return torch.cat([start, *before])


def _exchanged(weight: Tensor) -> Tensor:
    """Gates i f g o (torch's order) to i f o g, with the sigmoids adjacent, or back."""
    i_f, third, fourth = weight.split([len(weight) // 2, len(weight) // 4, len(weight) // 4])
    return torch.cat((i_f, fourth, third))
