"""The packed LSTM layer against torch's, values and gradients."""

from __future__ import annotations

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from rearrange.skills.network.packed_lstm import packed_lstm_layer


@pytest.mark.parametrize("lengths", [(5, 5), (9, 7, 7, 3, 1), (4,), (1, 1, 1)])
def test_layer_and_its_gradients_equal_those_of_torch(lengths):
    torch.manual_seed(0)
    lstm = torch.nn.LSTM(6, 5)
    packed = pack_sequence([torch.randn(length, 6) for length in lengths])
    h, c = torch.randn(2, len(lengths), 5)
    goal = torch.randn(sum(lengths), 5)
    x = packed.data.requires_grad_()
    inputs = [x, *lstm.parameters()]

    theirs = lstm(packed._replace(data=x), (h[None], c[None]))[0].data
    ours = packed_lstm_layer(x, packed.batch_sizes.tolist(), h, c, lstm.all_weights[0])
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)
    expected = torch.autograd.grad((theirs * goal).sum(), inputs)
    got = torch.autograd.grad((ours * goal).sum(), inputs)
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)


def test_works_without_gradients():
    lstm = torch.nn.LSTM(6, 5)
    x, start = torch.randn(3, 6), torch.zeros(2, 5)
    with torch.inference_mode():
        assert packed_lstm_layer(x, [2, 1], start, start, lstm.all_weights[0]).shape == (3, 5)
