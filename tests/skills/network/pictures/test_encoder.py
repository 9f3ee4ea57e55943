"""The depth encoder against counting by hand and a plain second implementation."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from tiny_encoder import TINY, perturbed

from rearrange.skills.network.pictures.convolutions import MatrixConv
from rearrange.skills.network.pictures.encoder import CHUNK, DepthEncoder, EncoderCfg
from rearrange.skills.network.policy_cfg import PRESETS

SMALL, PAPER = PRESETS["small"].encoder, PRESETS["paper"].encoder


def count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def plain(encoder: DepthEncoder, picture: torch.Tensor, cfg: EncoderCfg) -> torch.Tensor:
    """The encoder once more: ordinary convolutions in ordinary memory, weights from `encoder`."""

    def conv(module, x, dilation):
        kernel = module.weight
        if isinstance(module, MatrixConv):
            kernel = kernel.permute(3, 2, 0, 1)
        return F.conv2d(x, kernel.contiguous(), padding=dilation, dilation=dilation)

    def norm(module, x):  # by the formula
        groups = x.reshape(len(x), module.num_groups, -1)
        mean, var = groups.mean(-1, keepdim=True), groups.var(-1, unbiased=False, keepdim=True)
        unit = ((groups - mean) / (var + 1e-5).sqrt()).reshape(x.shape)
        return unit * module.weight.view(1, -1, 1, 1) + module.bias.view(1, -1, 1, 1)

    x = picture.permute(0, 3, 1, 2).contiguous()
    x = norm(encoder.stem_norm, F.conv2d(x, encoder.stem.weight, encoder.stem.bias, stride=4))
    for part in [*encoder.fine, *encoder.coarse]:
        if hasattr(part, "blocks"):
            dilation = min(cfg.dilation, x.shape[2] // 2)
            for block in part.blocks:
                y = F.relu(norm(block.norm1, conv(block.conv1, x, dilation)))
                x = F.relu(x + norm(block.norm2, conv(block.conv2, y, dilation)))
        else:
            x = F.conv2d(norm(part.norm, x), part.conv.weight, part.conv.bias, stride=2)
    x = F.relu(norm(encoder.compress_norm, conv(encoder.compress, x, 1)))
    return F.relu(encoder.linear(x.permute(0, 2, 3, 1).flatten(1)))


@pytest.mark.parametrize(("groups", "dilation"), [(1, 2), (2, 2), (1, 1)])
def test_equals_a_plain_implementation(groups, dilation):
    torch.manual_seed(0)
    cfg = replace(TINY, norm_groups=groups, dilation=dilation)
    encoder, picture = perturbed(DepthEncoder(64, 64, 2, cfg)), torch.rand(3, 64, 64, 2)
    expected = plain(encoder, picture, cfg)
    torch.testing.assert_close(encoder(picture), expected, atol=1e-4, rtol=1e-4)


def test_parameters_of_small_counted_by_hand():
    stem = 4 * 4 * 1 * 16 + 16 + 2 * 16  # kernel, bias, norm
    stage_1 = 4 * 9 * 16 * 16 + 4 * 2 * 16  # four convolutions and their norms
    stage_2 = (2 * 16 + 4 * 16 * 32 + 32) + 4 * 9 * 32 * 32 + 4 * 2 * 32  # after down-sampling
    stage_3 = (2 * 32 + 4 * 32 * 64 + 64) + 4 * 9 * 64 * 64 + 4 * 2 * 64
    stage_4 = (2 * 64 + 4 * 64 * 128 + 128) + 4 * 9 * 128 * 128 + 4 * 2 * 128
    end = 9 * 128 * 128 + 2 * 128 + 2 * 2 * 128 * 256 + 256  # 512 numbers of 2x2 positions
    total = stem + stage_1 + stage_2 + stage_3 + stage_4 + end
    assert count(DepthEncoder(64, 64, 1, SMALL)) == total == 1_108_080


def test_parameters_of_paper_counted_by_hand():
    stem = 4 * 4 * 1 * 32 + 32 + 2 * 32
    stage_1 = 4 * 9 * 32 * 32 + 4 * 2 * 32
    stage_2 = (2 * 32 + 4 * 32 * 64 + 64) + 4 * 9 * 64 * 64 + 4 * 2 * 64
    stage_3 = (2 * 64 + 4 * 64 * 128 + 128) + 4 * 9 * 128 * 128 + 4 * 2 * 128
    stage_4 = (2 * 128 + 4 * 128 * 256 + 256) + 4 * 9 * 256 * 256 + 4 * 2 * 256
    end = 9 * 256 * 128 + 2 * 128 + 4 * 4 * 128 * 512 + 512  # 2048 numbers of 4x4 positions
    total = stem + stage_1 + stage_2 + stage_3 + stage_4 + end
    assert count(DepthEncoder(128, 128, 1, PAPER)) == total == 4_655_072


@pytest.mark.parametrize(
    "size", [(8, 8), (9, 13), (16, 16), (20, 64), (36, 36), (64, 64), (48, 100)]
)
def test_any_picture_from_8_pixels_on(size):
    encoder = DepthEncoder(*size, 3, TINY)
    assert encoder(torch.rand(2, *size, 3)).shape == (2, 16)


def test_larger_picture_is_averaged_down():
    torch.manual_seed(0)
    encoder, picture = DepthEncoder(128, 128, 1, TINY), torch.rand(2, 128, 128, 1)
    halved = picture.reshape(2, 64, 2, 64, 2, 1).mean((2, 4))
    torch.testing.assert_close(encoder(picture), encoder(halved), atol=1e-5, rtol=1e-5)


def test_bytes_are_255ths():
    encoder = DepthEncoder(16, 16, 3, TINY)
    picture = torch.randint(0, 256, (2, 16, 16, 3), dtype=torch.uint8)
    assert torch.equal(encoder(picture), encoder(picture.float() / 255.0))


def test_chunks_do_not_show():
    torch.manual_seed(0)
    encoder, picture = perturbed(DepthEncoder(16, 16, 1, TINY)), torch.rand(CHUNK + 3, 16, 16, 1)
    together = encoder(picture)
    apart = torch.cat([encoder(picture[:100]), encoder(picture[100:])])
    torch.testing.assert_close(together, apart, atol=1e-5, rtol=1e-5)


def test_bfloat16_is_close():
    torch.manual_seed(0)
    exact = perturbed(DepthEncoder(64, 64, 1, TINY))
    rounded = DepthEncoder(64, 64, 1, TINY, torch.bfloat16)
    rounded.load_state_dict(exact.state_dict())
    picture = torch.rand(8, 64, 64, 1)
    expected, got = exact(picture), rounded(picture)
    assert got.dtype == torch.float32
    # 8 bits of mantissa, 21 layers: some per cent
    assert (got - expected).norm() < 0.05 * expected.norm()


def test_bad_settings_are_one_clear_line():
    with pytest.raises(ValueError, match="norm_groups must divide base_width"):
        EncoderCfg(norm_groups=3)
    with pytest.raises(ValueError, match="image_size must lie in .8, 65536., got 4"):
        EncoderCfg(image_size=4)
    with pytest.raises(ValueError, match="layer_scale must lie in"):
        EncoderCfg(layer_scale=0.0)
    with pytest.raises(ValueError, match="at least 8x8, got 7x64"):
        DepthEncoder(7, 64, 1, TINY)


@pytest.mark.parametrize("shape", [(128, 128), (96, 128), (128, 64), (256, 192), (100, 128)])
def test_pictures_are_averaged_down_as_adaptive_pooling_does(shape):
    """To the last bit."""
    encoder = DepthEncoder(*shape, 2, EncoderCfg(image_size=64))
    picture = torch.rand(3, *shape, 2, generator=torch.Generator().manual_seed(0))
    before = picture.clone()
    wanted = F.adaptive_avg_pool2d(picture.permute(0, 3, 1, 2), encoder.size)
    torch.testing.assert_close(
        encoder.sized(picture), wanted.permute(0, 2, 3, 1),
        rtol=0.0, atol=0.0,
    )  # fmt: skip
    assert torch.equal(picture, before)
