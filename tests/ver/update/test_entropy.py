"""The entropy coefficient, on a Gaussian whose spread is learned."""

import math

import pytest
import torch
from torch import nn, tensor

from rearrange.ver.update.entropy import EntropyCfg, EntropyCoefficient

ENTROPY_OF_UNIT_GAUSSIAN = 0.5 * math.log(2.0 * math.pi * math.e)


def simulate(coefficient, std, cost, num_steps=1500):
    """Learns a Gaussian that pays `cost` std^2 for its spread; entropy and alpha at every step."""
    log_std = nn.Parameter(tensor(math.log(std)))
    policy_optimizer = torch.optim.Adam([log_std], lr=0.02)
    optimizer = torch.optim.Adam(coefficient.parameters(), coefficient.cfg.learning_rate)
    history = []
    for _ in range(num_steps):
        entropy = log_std + ENTROPY_OF_UNIT_GAUSSIAN
        loss = cost * (2.0 * log_std).exp() - coefficient.value * entropy
        for each in (policy_optimizer, optimizer):
            each.zero_grad()
        (loss + coefficient.loss(entropy)).backward()
        for each in (policy_optimizer, optimizer):
            each.step()
        coefficient.project()
        history.append((entropy.item(), coefficient.value.item()))
    return history


@pytest.mark.parametrize("std", [0.05, 0.5])
def test_entropy_settles_at_its_target_from_both_sides(std):
    coefficient = EntropyCoefficient(EntropyCfg(target=0.0, initial=1e-3, learning_rate=0.01))
    history = simulate(coefficient, std, cost=0.1)
    starts_below = history[0][0] < 0.0
    assert starts_below == (std == 0.05)
    assert (history[1][1] > 1e-3) == starts_below
    # d/d log_std (cost std^2 - alpha log_std) = 0 where std is that of entropy 0
    balanced = 2.0 * 0.1 * math.exp(-2.0 * ENTROPY_OF_UNIT_GAUSSIAN)
    entropy, alpha = history[-1]
    assert entropy == pytest.approx(0.0, abs=0.05)
    assert alpha == pytest.approx(balanced, rel=0.1)


@pytest.mark.parametrize(("cost", "std", "bound"), [(100.0, 0.05, 1.0), (0.0, 2.0, 1e-4)])
def test_coefficient_stays_within_its_bounds(cost, std, bound):
    coefficient = EntropyCoefficient(EntropyCfg(target=0.0, initial=1e-3, learning_rate=0.05))
    alphas = [alpha for _, alpha in simulate(coefficient, std, cost, num_steps=400)]
    assert min(alphas) >= 1e-4 * (1 - 1e-5)  # float32 rounds the logarithm
    assert max(alphas) <= 1.0 * (1 + 1e-5)
    assert alphas[-1] == pytest.approx(bound, rel=1e-5)


def test_loss_is_alpha_times_the_entropy_over_the_target_and_moves_alpha_alone():
    coefficient = EntropyCoefficient(EntropyCfg(target=-2.0, initial=0.01))
    entropy = tensor(3.0, requires_grad=True)
    loss = coefficient.loss(entropy)
    assert loss.item() == pytest.approx(0.01 * 5.0)
    loss.backward()
    assert entropy.grad is None
    assert coefficient.log_alpha.grad.item() == pytest.approx(0.01 * 5.0)
    assert not coefficient.value.requires_grad


@pytest.mark.parametrize("initial", [0.0, 0.02])
def test_fixed_coefficient_never_moves(initial):
    coefficient = EntropyCoefficient(EntropyCfg(learned=False, initial=initial))
    coefficient.project()
    assert coefficient.loss(tensor(5.0)).item() == 0.0
    assert coefficient.value.item() == pytest.approx(initial)
    assert not coefficient.log_alpha.requires_grad


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"target": float("nan")}, "entropy target must be finite, got nan"),
        ({"initial": -1.0}, "entropy initial must not be negative, got -1.0"),
        ({"initial": 1e-5}, "needs 0 < minimum <= initial <= maximum, got 0.0001, 1e-05, 1.0"),
        ({"minimum": 0.0}, "needs 0 < minimum"),
        ({"learning_rate": 0.0}, "entropy learning_rate must be positive, got 0.0"),
    ],
)
def test_impossible_settings_are_refused_in_one_line(wrong, message):
    with pytest.raises(ValueError, match=message) as caught:
        EntropyCfg(**wrong)
    assert "\n" not in str(caught.value)
