"""Advantages and importance weights against sums written out step by step."""

import numpy as np
import pytest
import torch
from torch import tensor, zeros

from rearrange.ver.update.returns import ReturnsCfg, compute_advantages, importance_weights


def random_rows(seed, size):
    """Columns of a rollout whose sequences end by termination, time limit or cut."""
    rng = np.random.default_rng(seed)
    columns = [torch.from_numpy(rng.normal(size=size)).float() for _ in range(3)]
    ended = rng.random(size) < 0.2
    ended[-1] = True
    terminated = ended & (rng.random(size) < 0.5)
    return *columns, torch.from_numpy(terminated), torch.from_numpy(ended)


@pytest.mark.parametrize(("seed", "size"), [(0, 1), (1, 7), (2, 64), (3, 200)])
def test_advantage_is_the_discounted_sum_of_errors_to_the_end_of_the_sequence(seed, size):
    rewards, values, next_values, terminated, ended = random_rows(seed, size)
    cfg = ReturnsCfg(gamma=0.9, gae_lambda=0.8)
    expected = []
    for start in range(size):
        total, t = 0.0, start
        while True:
            bootstrap = 0.0 if terminated[t] else 0.9 * next_values[t].item()
            error = rewards[t].item() + bootstrap - values[t].item()
            total += (0.9 * 0.8) ** (t - start) * error
            if ended[t]:
                break
            t += 1
        expected.append(total)
    advantages = compute_advantages(rewards, values, next_values, terminated, ended, cfg)
    assert advantages.dtype == torch.float32
    np.testing.assert_allclose(advantages, expected, rtol=1e-5, atol=1e-6)


def test_truncation_bootstraps_and_termination_does_not():
    advantages = compute_advantages(
        tensor([1.0, 1.0, 1.0]),
        zeros(3),
        tensor([2.0, 2.0, 2.0]),
        terminated=tensor([False, True, False]),
        ended=tensor([False, True, True]),
        cfg=ReturnsCfg(gamma=0.5, gae_lambda=0.5),
    )
    # 2 + 1/4 of the next; 1 alone; 1 + 1/2 of 2
    assert advantages.tolist() == [2.25, 1.0, 2.0]


def test_lambda_one_gives_the_discounted_return_minus_the_value():
    advantages = compute_advantages(
        tensor([1.0, 2.0, 4.0]),
        tensor([10.0, 20.0, 30.0]),
        tensor([20.0, 30.0, 8.0]),
        terminated=tensor([False, False, False]),
        ended=tensor([False, False, True]),
        cfg=ReturnsCfg(gamma=0.5, gae_lambda=1.0),
    )
    # 1 + 2/2 + 4/4 + 8/8 - 10,  2 + 4/2 + 8/4 - 20,  4 + 8/2 - 30
    assert advantages.tolist() == [-6.0, -14.0, -22.0]


def test_nothing_passes_backwards_over_an_end():
    rewards, values, next_values, terminated, ended = random_rows(4, 40)
    first_end = int(ended.nonzero()[0])
    terminated[first_end] = True
    columns = rewards, values, next_values, terminated, ended
    cut = compute_advantages(*(column[: first_end + 1] for column in columns), ReturnsCfg())
    rewards[first_end + 1 :] = torch.nan
    next_values[first_end] = torch.nan  # nobody computes a value behind a termination
    whole = compute_advantages(*columns, ReturnsCfg())
    torch.testing.assert_close(whole[: first_end + 1], cut, rtol=0, atol=0)


def test_nan_within_a_sequence_is_not_hidden():
    rewards, values, next_values, _, _ = random_rows(5, 4)
    rewards[2] = torch.nan
    never = torch.zeros(4, dtype=torch.bool)
    ended = tensor([False, False, False, True])
    advantages = compute_advantages(rewards, values, next_values, never, ended, ReturnsCfg())
    assert advantages.isnan().tolist() == [True, True, True, False]


def test_terminated_row_must_be_ended():
    rewards, values, next_values, terminated, ended = random_rows(6, 10)
    terminated[3], ended[3] = True, False
    with pytest.raises(ValueError, match="terminated row must also be ended, row 3 is not"):
        compute_advantages(rewards, values, next_values, terminated, ended, ReturnsCfg())


def test_columns_must_have_one_shape():
    rewards, values, next_values, terminated, ended = random_rows(7, 10)
    with pytest.raises(ValueError, match="one shape"):
        compute_advantages(rewards[:, None], values, next_values, terminated, ended, ReturnsCfg())


@pytest.mark.parametrize("max_weight", [1.0, 2.5])
def test_importance_weight_is_the_fair_share_over_the_share_taken(max_weight):
    env_ids = np.random.default_rng(0).choice(6, size=90, p=[0.5, 0.2, 0.15, 0.1, 0.05, 0.0])
    expected = []
    for env_id in env_ids:
        taken = sum(1 for other in env_ids if other == env_id)
        expected.append(min(max_weight, (90 / 6) / taken))
    weights = importance_weights(torch.from_numpy(env_ids), 6, max_weight)
    assert weights.dtype == torch.float32
    np.testing.assert_allclose(weights, expected, rtol=1e-6)
    assert weights.min() < 1.0


def test_even_sampling_weighs_one():
    assert importance_weights(torch.arange(12) % 4, 4).tolist() == [1.0] * 12


def test_unknown_environment_is_refused():
    with pytest.raises(ValueError, match=r"env_ids must lie in 0..3, got 4"):
        importance_weights(tensor([0, 4]), 4)


@pytest.mark.parametrize(
    "wrong", [{"gamma": 1.1}, {"gamma": -0.1}, {"gamma": float("nan")}, {"gae_lambda": 2.0}]
)
def test_factors_outside_zero_to_one_are_refused_in_one_line(wrong):
    with pytest.raises(ValueError, match=rf"^{next(iter(wrong))} must lie in \[0, 1\], got .*$"):
        ReturnsCfg(**wrong)
