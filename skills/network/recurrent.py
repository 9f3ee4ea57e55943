"""The LSTM: single steps for acting, packed sequences for learning, one flat state.

    state [E, K], K = 2 * layers * hidden:   h of every layer, then c of every layer

E: environments   Q: sequences   B: steps of a packed minibatch   I: inputs   H: hidden
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from rearrange.skills.network.packed_lstm import packed_lstm_layer

MOST_PADDED = 2.0  # times the steps: up to here zeros cost less than another kernel


class Memory(nn.Module):
    """An LSTM (Hochreiter and Schmidhuber 1997) of some layers.

    Args:
        dtype: of the products' factors while learning on a CPU.
    """

    def __init__(
        self, inputs: int, hidden: int, layers: int, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__()
        self.hidden, self.layers, self._dtype = hidden, layers, dtype
        self.lstm = nn.LSTM(inputs, hidden, layers)
        for name, parameter in self.lstm.named_parameters():
            # habitat-baselines: orthogonal weights, zero bias
            if name.startswith("weight"):
                nn.init.orthogonal_(parameter)
            else:
                nn.init.zeros_(parameter)

    @property
    def state_size(self) -> int:
        """K, floats of state per environment."""
        return 2 * self.layers * self.hidden

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step of every environment: [E, I], [E, K] -> outputs [E, H], state [E, K]."""
        rows = state.view(-1, 2 * self.layers, self.hidden).unbind(1)
        after_h, after_c = [], []
        for layer, weights in enumerate(self.lstm.all_weights):
            h, c = torch.lstm_cell(x, (rows[layer], rows[self.layers + layer]), *weights)
            after_h.append(h)
            after_c.append(c)
            x = h
        return x, torch.cat(after_h + after_c, dim=1)

    def sequences(self, x: Tensor, batch_sizes: Tensor, start_state: Tensor) -> Tensor:
        """Packed steps [B, I], batch_sizes [L] on the CPU, start [Q, K] -> outputs [B, H]."""
        rows = start_state.view(-1, 2, self.layers, self.hidden).permute(1, 2, 0, 3).contiguous()
        if x.device.type == "cpu":
            # torch's kernel for equal lengths, in float32, takes three quarters of the time of our
            # own, and its one call for all steps leaves Python to the threads that act meanwhile.
            size = len(batch_sizes) * len(start_state)
            if self._dtype == torch.float32 and size <= MOST_PADDED * len(x):
                full, lengths = pad_packed_sequence(PackedSequence(x, batch_sizes))
                out = self.lstm(full, (rows[0], rows[1]))[0]
                return pack_padded_sequence(out, lengths).data
            sizes = batch_sizes.tolist()
            for weights, h, c in zip(self.lstm.all_weights, rows[0], rows[1], strict=True):
                x = packed_lstm_layer(x, sizes, h, c, weights, self._dtype)
            return x
        return self.lstm(PackedSequence(x, batch_sizes), (rows[0], rows[1]))[0].data
