"""Our observation embedding for other trainers: images and vectors to one vector.

The peers do not feed the previous action back; the vectors' embedding is wider by as much, so that
the memory gets as many inputs as in our own policy.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rearrange.skills.network.embedding import Embedding
from rearrange.skills.network.policy_cfg import PRESETS
from rearrange.ver.workers.spaces import ActionSpec, observation_spec

_NO_ACTION = ActionSpec("box", 0, (), np.empty(0), np.empty(0))


class PeerFeatures(nn.Module):
    """{name: [B, ...]} -> [B, `size`]."""

    def __init__(self, space: spaces.Dict, preset: str) -> None:
        super().__init__()
        cfg = PRESETS[preset]
        cfg = replace(cfg, vector_size=cfg.vector_size + cfg.prev_action_size, prev_action_size=0)
        self.embedding = Embedding(observation_spec(space), _NO_ACTION, cfg)
        self.size = self.embedding.size

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        nothing = torch.empty(0)
        return self.embedding(observation, nothing, nothing)


def count_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
