"""The packed LSTM against one step at a time."""

from __future__ import annotations

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from rearrange.skills.network.recurrent import Memory


@pytest.mark.parametrize(
    "lengths",
    [(9, 7, 7, 3, 1), (4, 4, 4, 4, 4), (9, 1, 1, 1, 1)],
    ids=["padded", "equal", "too much to pad"],
)
def test_packed_equals_stepwise_from_a_given_state(lengths):
    torch.manual_seed(0)
    memory = Memory(inputs=6, hidden=5, layers=2)
    assert memory.state_size == 20
    sequences = [torch.randn(length, 6) for length in lengths]
    start = torch.randn(5, 20)
    packed = pack_sequence(sequences)
    wanted = torch.randn(len(packed.data), 5)  # makes some loss
    got = memory.sequences(packed.data, packed.batch_sizes, start)
    gradients = torch.autograd.grad((got * wanted).sum(), list(memory.parameters()))
    stepwise = []
    for sequence, state in zip(sequences, start.split(1), strict=True):
        outputs = []
        for x in sequence:
            out, state = memory.step(x[None], state)
            outputs.append(out[0])
        stepwise.append(torch.stack(outputs))
    expected = pack_sequence(stepwise).data
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=1e-5)
    expected = torch.autograd.grad((expected * wanted).sum(), list(memory.parameters()))
    torch.testing.assert_close(gradients, expected, atol=1e-5, rtol=1e-4)


def test_state_holds_h_of_every_layer_then_c():
    torch.manual_seed(0)
    memory = Memory(inputs=3, hidden=4, layers=2)
    h, c = torch.randn(2, 6, 4), torch.randn(2, 6, 4)  # [layers, E, H], as torch has it
    x = torch.randn(6, 3)
    _, state = memory.step(x, torch.cat([h[0], h[1], c[0], c[1]], dim=1))
    _, (h, c) = memory.lstm(x[None], (h, c))
    expected = torch.cat([h[0], h[1], c[0], c[1]], dim=1)
    torch.testing.assert_close(state, expected, atol=1e-6, rtol=1e-5)
