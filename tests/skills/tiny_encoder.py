"""An encoder that is quick to test."""

from __future__ import annotations

import torch

from rearrange.skills.network.pictures.encoder import DepthEncoder, EncoderCfg

TINY = EncoderCfg(base_width=4, compressed_size=32, feature_size=16)


def perturbed(encoder: DepthEncoder) -> DepthEncoder:
    """All biases and norms off their starting values, so that each of them counts."""
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return encoder
