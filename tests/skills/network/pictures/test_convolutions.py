"""The matrix form of small convolutions against torch's own convolution."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from rearrange.skills.network.pictures import convolutions
from rearrange.skills.network.pictures.convolutions import (
    Conv,
    DilatedConv,
    MatrixConv,
    conv3,
    deinterleaved,
    interleaved,
)


@pytest.mark.parametrize("dilation", [1, 2, 3])
def test_matrix_equals_convolution(dilation):
    torch.manual_seed(0)
    side = 2 * dilation
    conv = conv3(5, 7, side, side, dilation)
    assert isinstance(conv, MatrixConv)
    x = torch.randn(4, 5, side, side)
    kernel = conv.weight.permute(3, 2, 0, 1)  # [co, ci, ky, kx]
    expected = F.conv2d(x, kernel, padding=dilation, dilation=dilation)
    got = deinterleaved(conv(interleaved(x, dilation)), dilation)
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)


def test_interleaving_puts_every_second_position_together_and_back():
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    mixed = interleaved(x, 2)
    assert mixed.flatten().tolist() == [0, 2, 8, 10, 1, 3, 9, 11, 4, 6, 12, 14, 5, 7, 13, 15]
    assert torch.equal(deinterleaved(mixed, 2), x)


def test_other_maps_take_an_ordinary_convolution():
    for height, width, dilation in ((4, 4, 1), (2, 4, 1), (8, 8, 2), (1, 1, 1)):
        assert isinstance(conv3(3, 3, height, width, dilation), Conv)


@pytest.mark.parametrize("is_slow", [False, True])
@pytest.mark.parametrize(("height", "width", "dilation"), [(8, 8, 2), (6, 12, 3), (9, 8, 2)])
def test_dilated_convolutions_gradients_are_those_of_torch(
    monkeypatch, is_slow, height, width, dilation
):
    monkeypatch.setattr(convolutions, "SLOW_DILATED", is_slow)
    torch.manual_seed(0)
    conv = conv3(5, 7, height, width, dilation).double()
    assert isinstance(conv, DilatedConv)
    x = torch.randn(4, 5, height, width, dtype=torch.double, requires_grad=True)
    grad = torch.randn(4, 7, height, width, dtype=torch.double)
    expected = F.conv2d(x, conv.weight, padding=dilation, dilation=dilation)
    torch.testing.assert_close(conv(x), expected)
    got = torch.autograd.grad(conv(x), (x, conv.weight), grad)
    torch.testing.assert_close(got, torch.autograd.grad(expected, (x, conv.weight), grad))
    # The first layer's input has no gradient.
    (alone,) = torch.autograd.grad(conv(x.detach()), (conv.weight,), grad)
    torch.testing.assert_close(alone, got[1])
