"""Distributions against torch.distributions and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from rearrange.skills.network.actions.distributions import (
    MAX_LOG_STD,
    SHARPNESS,
    Categoricals,
    DiagonalGaussian,
    SwitchedGaussian,
    Switches,
)
from rearrange.skills.network.actions.heads import GaussianHead, action_head
from rearrange.ver.workers.spaces import ActionSpec


def box(low, high) -> ActionSpec:
    low, high = np.array(low, np.float32), np.array(high, np.float32)
    return ActionSpec(kind="box", size=len(low), num_choices=(), low=low, high=high)


def test_gaussian_agrees_with_torch():
    torch.manual_seed(0)
    mean, log_std, action = torch.randn(7, 3), torch.randn(3), torch.randn(7, 3)
    ours = DiagonalGaussian(mean, log_std)
    theirs = torch.distributions.Normal(mean, log_std.exp())
    torch.testing.assert_close(ours.log_prob(action), theirs.log_prob(action).sum(-1))
    torch.testing.assert_close(ours.entropy(), theirs.entropy().sum(-1))
    assert torch.equal(ours.mode(), mean)


@pytest.mark.parametrize("switches", [(), (1,)])
def test_each_policy_on_the_same_layers_has_a_width_of_its_own(switches):
    torch.manual_seed(0)
    spec, features = box([-1.0] * 3, [1.0] * 3), torch.randn(5, 4)
    head = GaussianHead(4, spec, -0.5, switches=switches, num_blocks=2)
    with torch.no_grad():
        head.log_std[1] = torch.tensor([0.3, -1.0, 0.7])
    together = head(features, torch.tensor([0, 1, 1, 0, 1]))
    action = together.sample()
    for block in (0, 1):
        one = GaussianHead(4, spec, -0.5, switches=switches)
        one.load_state_dict(head.state_dict() | {"log_std": head.log_std[block]})
        rows = [0, 3] if block == 0 else [1, 2, 4]
        alone = one(features[rows])
        torch.testing.assert_close(together.log_prob(action)[rows], alone.log_prob(action[rows]))
        torch.testing.assert_close(together.entropy()[rows], alone.entropy())


def test_entropy_of_unit_gaussians():
    entropy = DiagonalGaussian(torch.zeros(2, 4), torch.zeros(4)).entropy()
    torch.testing.assert_close(entropy, torch.full((2,), 4 * 0.5 * math.log(2 * math.pi * math.e)))


def test_samples_have_mean_and_deviation_and_are_not_clipped():
    torch.manual_seed(0)
    mean, log_std = torch.tensor([0.5, -1.0]), torch.tensor([0.0, -2.0])
    sample = DiagonalGaussian(mean.expand(20_000, 2), log_std).sample()
    # standard error of the mean 1 / sqrt(20000) = 0.007
    torch.testing.assert_close(sample.mean(0), mean, atol=0.03, rtol=0)
    torch.testing.assert_close(sample.std(0), log_std.exp(), atol=0.03, rtol=0)
    assert sample.max() > 2.0


def test_switches_agree_with_torch_and_are_drawn_as_often_as_they_should():
    torch.manual_seed(0)
    mean, log_std = torch.tensor([[0.3, 0.05, -0.02]]), torch.tensor([-1.0, 9.0, 9.0])
    ours = SwitchedGaussian(mean, log_std, Switches.of([1, 2], 3))
    gaussian = torch.distributions.Normal(mean[:, :1], log_std[:1].exp())
    switches = torch.distributions.Bernoulli(logits=SHARPNESS * mean[:, 1:])
    action = torch.tensor([[0.1, 1.0, -1.0]])
    expected = gaussian.log_prob(action[:, :1]).sum(-1)
    expected = expected + switches.log_prob(torch.tensor([[1.0, 0.0]])).sum(-1)
    torch.testing.assert_close(ours.log_prob(action), expected)
    entropy = gaussian.entropy().sum(-1) + switches.entropy().sum(-1)
    torch.testing.assert_close(ours.entropy(), entropy)
    assert torch.equal(ours.mode(), torch.tensor([[0.3, 1.0, -1.0]]))
    many = SwitchedGaussian(mean.expand(20_000, 3), log_std, ours.switches).sample()
    assert set(many[:, 1:].unique().tolist()) == {-1.0, 1.0}
    share = (many[:, 1:] > 0.0).float().mean(0)
    torch.testing.assert_close(share, switches.probs[0], atol=0.02, rtol=0)  # 5 standard errors


def test_a_switch_that_is_sure_is_left_alone():
    """Where a Gaussian's gradient is the noise that it was drawn with."""
    mean = torch.tensor([[-0.9]], requires_grad=True)
    for kind, largest in ((DiagonalGaussian, 1.0), (SwitchedGaussian, 1e-4)):
        args = (Switches.of([0], 1),) if kind is SwitchedGaussian else ()
        torch.manual_seed(1)
        drawn = kind(mean, torch.tensor([-2.0]), *args)
        (gradient,) = torch.autograd.grad(drawn.log_prob(drawn.sample()).sum(), mean)
        assert (gradient.abs().item() > largest) == (kind is DiagonalGaussian)


def test_switches_are_dimensions_of_the_action():
    head = GaussianHead(4, box([-1, -1], [1, 1]), -1.0, switches=[1])
    assert head(torch.zeros(2, 4)).sample()[:, 1].abs().tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match=r"0 to 1, got \[2\]"):
        GaussianHead(4, box([-1, -1], [1, 1]), -1.0, switches=[2])


def test_categoricals_agree_with_torch():
    torch.manual_seed(0)
    logits = torch.randn(6, 5)
    ours = Categoricals(logits, (2, 3))
    theirs = [torch.distributions.Categorical(logits=part) for part in logits.split((2, 3), -1)]
    action = torch.stack([part.sample() for part in theirs], -1)
    expected = sum(part.log_prob(a) for part, a in zip(theirs, action.unbind(-1), strict=True))
    torch.testing.assert_close(ours.log_prob(action), expected)
    torch.testing.assert_close(ours.entropy(), sum(part.entropy() for part in theirs))
    assert torch.equal(ours.mode(), torch.stack([p.logits.argmax(-1) for p in theirs], -1))


def test_categorical_samples_come_as_often_as_they_should():
    torch.manual_seed(0)
    probabilities = torch.tensor([0.1, 0.2, 0.7])
    sample = Categoricals(probabilities.log().expand(20_000, 3), (3,)).sample()
    assert sample.shape == (20_000, 1) and sample.dtype == torch.int64
    often = sample.flatten().bincount(minlength=3) / 20_000
    torch.testing.assert_close(often, probabilities, atol=0.02, rtol=0)


def test_mean_is_bounded_where_the_space_is():
    head = action_head(4, box([-1, -np.inf], [1, np.inf]), 0.0)
    with torch.no_grad():
        head.linear.weight.fill_(100.0)
    mean = head(torch.ones(1, 4)).mode()[0].tolist()
    assert mean == [1.0, 400.0]


def test_means_begin_where_they_are_told_to():
    torch.manual_seed(0)
    space = box([-1, 0, -np.inf], [1, 5, np.inf])
    head = GaussianHead(4, space, -1.0, initial_means=[0.0, -0.9, 0.5])
    mean = head(torch.zeros(1, 4)).mode()[0]
    torch.testing.assert_close(mean, torch.tensor([0.0, -0.9, 0.5]))
    with pytest.raises(ValueError, match="must be 3 numbers.* got 2"):
        GaussianHead(4, space, -1.0, initial_means=[0.0, -0.9])


def test_project_brings_the_log_std_back_where_it_has_a_gradient():
    head = GaussianHead(4, box([-1], [1]), initial_log_std=5.0)
    assert head(torch.ones(1, 4)).log_std.item() == MAX_LOG_STD
    head.project()
    head(torch.ones(1, 4)).entropy().sum().backward()
    assert head.log_std.item() == MAX_LOG_STD and head.log_std.grad.item() == 1.0
