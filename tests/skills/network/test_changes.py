"""How vectors change: by hand, in an episode's first step, and in packed order."""

from __future__ import annotations

import torch
from torch.nn.utils.rnn import pack_sequence

from rearrange.skills.network.changes import changes
from rearrange.skills.network.packed_lstm import shifted


def test_differences_are_scaled_clipped_and_0_at_the_beginning():
    now = torch.tensor([[1.0, 2.0], [1.0, 2.0], [5.0, 2.0]])
    before = torch.tensor([[0.99, 2.0], [float("nan"), 0.0], [0.0, 2.0]])
    is_first = torch.tensor([False, True, False])
    out = changes(now, before, is_first, torch.tensor([0.5, 3.0]))
    # 20 x 0.01 x 0.5 = 0.1; 20 x 5 x 0.5 = 50 is clipped
    torch.testing.assert_close(out, torch.tensor([[0.1, 0.0], [0.0, 0.0], [10.0, 0.0]]))
    torch.testing.assert_close(changes(now, before, is_first, None)[0], torch.tensor([0.2, 0.0]))


def test_each_step_of_a_sequence_gets_the_one_before_it():
    sequences = [torch.arange(10.0, 14), torch.arange(20.0, 23), torch.arange(30.0, 31)]
    packed = pack_sequence([sequence[:, None] for sequence in sequences])
    start = torch.tensor([[9.0], [19.0], [29.0]])
    before = shifted(start, packed.data, packed.batch_sizes.tolist())
    torch.testing.assert_close(before, packed.data - 1.0)
