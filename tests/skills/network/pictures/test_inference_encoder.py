"""The encoder without its modules against the encoder with them."""

from __future__ import annotations

import copy

import pytest
import torch
from tiny_encoder import TINY, perturbed

from rearrange.skills.network.pictures.encoder import CHUNK, DepthEncoder, EncoderCfg
from rearrange.skills.network.policy_cfg import PRESETS


def agrees(encoder: DepthEncoder, picture: torch.Tensor) -> bool:
    """Up to the order of sums, which on maps of a few pixels hangs on how they lie in memory."""
    with torch.inference_mode():
        acting = encoder(picture)
    expected = copy.deepcopy(encoder)(picture)  # with gradients: by the modules
    tolerance = 1e-6 if encoder.dtype == torch.float32 else 1e-2
    assert expected.norm() > 0.1
    return bool((acting - expected).norm() <= tolerance * expected.norm())


def is_straight(encoder: DepthEncoder, picture: torch.Tensor) -> bool:
    """Whether it acts without its modules."""
    called = []
    hook = encoder.stem.register_forward_hook(lambda *args: called.append(1))
    with torch.inference_mode():
        encoder(picture)
    hook.remove()
    return not called


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("size", "cfg"),
    [
        ((64, 64), EncoderCfg()),
        ((64, 64), EncoderCfg(dilation=1)),
        ((48, 100), TINY),  # padded on its way down
        ((9, 13), TINY),
        ((128, 128), PRESETS["paper"].encoder),
    ],
)
def test_the_same_numbers(size, cfg, dtype):
    torch.manual_seed(0)
    encoder = perturbed(DepthEncoder(*size, 2, cfg, dtype))
    encoder.refresh()
    for batch in (1, 5):
        assert is_straight(encoder, torch.rand(batch, *size, 2))
        assert agrees(encoder, torch.rand(batch, *size, 2))


def test_runs_without_modules_only_without_gradients_and_for_few_pictures():
    encoder, picture = DepthEncoder(16, 16, 1, TINY), torch.rand(CHUNK + 1, 16, 16, 1)
    called = []
    encoder.stem.register_forward_hook(lambda *args: called.append(1))
    encoder.refresh()
    with torch.no_grad():
        encoder(picture[:CHUNK])
        assert not called
        encoder(picture)
        assert len(called) == 2  # chunks
    assert encoder(picture[:3]).requires_grad
    assert len(called) == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("learned", [2, CHUNK + 1])
def test_acts_with_what_an_optimiser_made_of_it(dtype, learned):
    torch.manual_seed(1)
    encoder = perturbed(DepthEncoder(32, 32, 1, TINY, dtype))
    picture = torch.rand(2, 32, 32, 1)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=0.1, fused=True)
    for _ in range(2):
        encoder.refresh()
        assert is_straight(encoder, picture)
        optimizer.zero_grad()
        encoder(torch.rand(learned, 32, 32, 1)).mean().neg().backward()
        optimizer.step()
        assert not is_straight(encoder, picture) and agrees(encoder, picture)
        encoder.refresh()
        assert is_straight(encoder, picture) and agrees(encoder, picture)


def test_acts_with_what_was_loaded_averaged_or_moved():
    torch.manual_seed(1)
    encoder, other = (perturbed(DepthEncoder(32, 32, 1, TINY)) for _ in range(2))
    picture = torch.rand(2, 32, 32, 1)
    averaged = {
        name: 0.5 * (weight + other.state_dict()[name])
        for name, weight in encoder.state_dict().items()
    }

    def in_place():
        with torch.no_grad():
            for mine, its in zip(encoder.parameters(), other.parameters(), strict=True):
                mine.lerp_(its, 0.5)

    for change in (
        lambda: encoder.load_state_dict(other.state_dict()),
        lambda: encoder.load_state_dict(averaged),
        lambda: encoder.double().float(),
        in_place,
    ):
        encoder.refresh()
        change()
        if change is not in_place:  # the one thing that only the explicit call can tell
            assert not is_straight(encoder, picture) and agrees(encoder, picture)
        encoder.refresh()
        assert is_straight(encoder, picture) and agrees(encoder, picture)


def test_copy_goes_its_own_way():
    encoder, picture = perturbed(DepthEncoder(32, 32, 1, TINY)), torch.rand(2, 32, 32, 1)
    encoder.refresh()
    with torch.inference_mode():
        before = encoder(picture)
    other = copy.deepcopy(encoder)
    with torch.no_grad():
        other.linear.weight.zero_()
        other.linear.bias.zero_()
        assert other(picture).abs().max() == 0
        assert torch.equal(encoder(picture), before)


def test_a_copy_of_a_compiled_encoder_acts_by_its_own_weights():
    encoder = perturbed(DepthEncoder(16, 16, 1, TINY))
    encoder.compile(backend="eager")
    own = copy.deepcopy(encoder)
    picture = torch.rand(2, 16, 16, 1)
    before = own(picture)
    with torch.no_grad():
        encoder.linear.weight.zero_()
    assert torch.equal(own(picture), before) and not torch.equal(encoder(picture), before)
