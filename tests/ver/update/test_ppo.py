"""PPO's loss against arithmetic by hand, V-trace against the sums of its paper."""

import math

import numpy as np
import pytest
import torch
from torch import tensor

from rearrange.ver.rollout.types import Evaluation, Minibatch
from rearrange.ver.update.ppo import PPOCfg, ppo_loss, vtrace
from rearrange.ver.update.returns import ReturnsCfg, compute_advantages


def random_case(seed, size=32):
    """What the policy says now (with gradients) and a minibatch of what it said then."""
    rng = np.random.default_rng(seed)

    def column(scale=1.0):
        return torch.from_numpy(scale * rng.normal(size=size)).float()

    log_prob, value = column(), column()
    minibatch = Minibatch(
        observation={},
        prev_action=torch.zeros(size, 1),
        is_first=torch.zeros(size, dtype=torch.bool),
        action=torch.zeros(size, 1),
        log_prob=log_prob,
        value=value,
        advantage=column(),
        returns=column(),
        is_weight=torch.from_numpy(rng.uniform(0.2, 1.0, size)).float(),
        is_stale=torch.zeros(size, dtype=torch.bool),
        start_state=torch.zeros(size, 0),
        batch_sizes=tensor([size]),
    )
    evaluation = Evaluation(
        log_prob=(log_prob + column(0.3)).requires_grad_(),
        entropy=column().requires_grad_(),
        value=(value + column(0.3)).requires_grad_(),
    )
    return evaluation, minibatch


@pytest.mark.parametrize("normalize_advantages", [False, True])
@pytest.mark.parametrize("clip_values", [False, True])
def test_loss_equals_arithmetic_by_hand(normalize_advantages, clip_values):
    evaluation, minibatch = random_case(0)
    cfg = PPOCfg(
        clip_coef=0.1,
        value_coef=0.7,
        normalize_advantages=normalize_advantages,
        clip_values=clip_values,
    )
    loss, stats = ppo_loss(evaluation, minibatch, 0.03, cfg)

    now = {k: v.detach().double().numpy() for k, v in vars(evaluation).items()}
    columns = {k: v for k, v in vars(minibatch).items() if isinstance(v, torch.Tensor)}
    then = {k: v.double().numpy() for k, v in columns.items()}
    advantages = then["advantage"]
    if normalize_advantages:
        mean = sum(advantages) / 32
        advantages = (advantages - mean) / math.sqrt(sum((advantages - mean) ** 2) / 32)
    ratios, policy, value, entropy, kl = [], 0.0, 0.0, 0.0, 0.0
    for b in range(32):
        weight, advantage = then["is_weight"][b] / 32, advantages[b]
        ratio = math.exp(now["log_prob"][b] - then["log_prob"][b])
        ratios.append(ratio)
        kl += (ratio - 1 - math.log(ratio)) / 32
        # more than 1 + clip is not rewarded, less than 1 - clip not forgiven
        surrogate = min(ratio, 1.1) * advantage if advantage > 0 else max(ratio, 0.9) * advantage
        policy -= weight * surrogate
        error = abs(now["value"][b] - then["returns"][b])
        if clip_values:
            held = min(max(now["value"][b], then["value"][b] - 0.1), then["value"][b] + 0.1)
            error = max(error, abs(held - then["returns"][b]))
        value += weight * error**2 / 2
        entropy += weight * now["entropy"][b]

    expected = {
        "loss/policy": policy,
        "loss/value": value,
        "loss/entropy": entropy,
        "ppo/approx_kl": kl,
        "ppo/clip_fraction": sum(1 for ratio in ratios if not 0.9 <= ratio <= 1.1) / 32,
        "ppo/ratio_max": max(ratios),
        "ppo/ratio_min": min(ratios),
        "ppo/entropy": sum(now["entropy"]) / 32,
    }
    assert loss.item() == pytest.approx(policy + 0.7 * value - 0.03 * entropy, rel=1e-5)
    assert {name: stat.item() for name, stat in stats.items()} == pytest.approx(expected, rel=1e-4)
    assert not any(stat.requires_grad for stat in stats.values())


def test_gradient_stops_where_the_ratio_left_the_clip_range_for_good():
    evaluation, minibatch = random_case(1, size=4)
    minibatch.is_weight = torch.ones(4)
    minibatch.log_prob = torch.zeros(4)
    evaluation.log_prob = tensor([1.5, 0.5, 1.5, 0.5]).log().requires_grad_()
    minibatch.advantage = tensor([1.0, 1.0, -1.0, -1.0])
    loss, _ = ppo_loss(evaluation, minibatch, 0.0, PPOCfg(value_coef=0.0))
    loss.backward()
    # d(-ratio A / 4) / d log_prob = -ratio A / 4; good moves too far up, bad ones too far down: 0
    torch.testing.assert_close(evaluation.log_prob.grad, tensor([0.0, -0.125, 0.375, 0.0]))


def test_weights_scale_every_term_and_are_not_renormalised():
    evaluation, minibatch = random_case(2)
    minibatch.is_weight = torch.ones(32)
    whole = ppo_loss(evaluation, minibatch, 0.1, PPOCfg())[0]
    minibatch.is_weight = torch.full((32,), 0.25)
    assert ppo_loss(evaluation, minibatch, 0.1, PPOCfg())[0].item() == pytest.approx(
        0.25 * whole.item(), rel=1e-5
    )
    minibatch.is_weight = torch.zeros(32)
    minibatch.is_weight[5] = 1.0
    ppo_loss(evaluation, minibatch, 0.1, PPOCfg())[0].backward()
    for column in (evaluation.entropy, evaluation.value):
        assert column.grad.nonzero().tolist() == [[5]]
    assert evaluation.log_prob.grad.nonzero().tolist() in ([], [[5]])


def test_equal_advantages_normalise_to_zero():
    evaluation, minibatch = random_case(3)
    for value in (2.0, 1.7, 77.7):  # of the latter the mean in single precision is another number
        minibatch.advantage = torch.full((32,), value)
        _, stats = ppo_loss(evaluation, minibatch, 0.0, PPOCfg(normalize_advantages=True))
        assert stats["loss/policy"].item() == 0.0


def random_rows(seed, size=50):
    """Columns of sorted rows in which each next value is the value of the row that follows."""
    rng = np.random.default_rng(seed)
    ended = rng.random(size) < 0.15
    ended[-1] = True
    terminated = ended & (rng.random(size) < 0.5)
    log_rhos, rewards, values, next_values = rng.normal(size=(4, size))
    next_values[~ended] = values[1:][~ended[:-1]]
    numbers = [torch.from_numpy(c).float() for c in (log_rhos, rewards, values, next_values)]
    return *numbers, torch.from_numpy(terminated), torch.from_numpy(ended)


@pytest.mark.parametrize(
    ("rho_bar", "c_bar", "gae_lambda"), [(1.0, 1.0, 1.0), (2.0, 0.7, 1.0), (1.5, 1.0, 0.6)]
)
def test_vtrace_is_the_sum_of_the_papers_equation_1(rho_bar, c_bar, gae_lambda):
    columns = random_rows(0)
    log_rhos, rewards, values, next_values, terminated, ended = (c.tolist() for c in columns)
    gamma = 0.9

    def rho(t):
        return min(rho_bar, math.exp(log_rhos[t]))

    def error(t):
        bootstrap = 0.0 if terminated[t] else next_values[t]
        return rewards[t] + gamma * bootstrap - values[t]

    def target(s):
        """v_s = V_s + sum over t of gamma^(t-s) c_s ... c_(t-1) rho_t error_t."""
        total, t = values[s], s
        while True:
            cs = [gae_lambda * min(c_bar, math.exp(log_rhos[i])) for i in range(s, t)]
            product = math.prod(cs)
            total += gamma ** (t - s) * product * rho(t) * error(t)
            if ended[t]:
                return total
            t += 1

    def next_target(s):
        if not ended[s]:
            return target(s + 1)
        return 0.0 if terminated[s] else next_values[s]

    targets, advantages = vtrace(*columns, gamma, rho_bar, c_bar, gae_lambda)
    assert targets.dtype == advantages.dtype == torch.float32
    steps = range(len(rewards))
    np.testing.assert_allclose(targets, [target(s) for s in steps], rtol=1e-5, atol=1e-5)
    if gae_lambda == 1.0:
        expected = [rewards[s] + gamma * next_target(s) - values[s] for s in steps]
        np.testing.assert_allclose(advantages, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("gae_lambda", [0.0, 0.8, 1.0])
def test_vtrace_on_policy_is_gae(gae_lambda):
    _, *rows = random_rows(1)
    targets, advantages = vtrace(torch.zeros(50), *rows, gamma=0.95, gae_lambda=gae_lambda)
    expected = compute_advantages(*rows, ReturnsCfg(gamma=0.95, gae_lambda=gae_lambda))
    torch.testing.assert_close(advantages, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(targets, rows[1] + expected, rtol=1e-5, atol=1e-5)


def test_the_gradient_of_stale_steps_is_the_policys_own():
    """A bandit of three arms, drawn by mu: PPO's first step on V-trace's advantages is the gradient
    of the expected reward, sum over a of pi(a) (r(a) - b) d log pi(a), by hand."""
    mu, rewards, baseline = tensor([0.5, 0.3, 0.2]), tensor([1.0, 2.0, -1.0]), 0.4
    logits = tensor([0.2, -0.3, 0.9]).requires_grad_()
    pi = logits.detach().softmax(0)
    log_prob = logits.log_softmax(0)
    columns = [
        (log_prob.detach() - mu.log()), rewards, torch.full((3,), baseline), torch.zeros(3),
        torch.ones(3).bool(), torch.ones(3).bool(),
    ]  # fmt: skip
    _, advantages = vtrace(*columns, gamma=0.9)
    evaluation, minibatch = random_case(4, size=3)
    evaluation.log_prob, minibatch.log_prob = log_prob, mu.log()
    minibatch.advantage, minibatch.is_weight = advantages, 3.0 * mu  # drawn so often
    ppo_loss(evaluation, minibatch, 0.0, PPOCfg(value_coef=0.0, clip_coef=100.0))[0].backward()
    worth = pi * (rewards - baseline)
    torch.testing.assert_close(-logits.grad, worth - pi * worth.sum())


def test_vtrace_refuses_traces_longer_than_its_corrections():
    with pytest.raises(ValueError, match="0 < c_bar <= rho_bar, got 2.0 and 1.0"):
        vtrace(*random_rows(2), gamma=0.9, c_bar=2.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"clip_coef": 0.0},
        {"value_coef": -0.5},
        {"num_epochs": 0},
        {"num_minibatches": 0},
        {"max_grad_norm": -1.0},
        {"learning_rate": float("nan")},
        {"adam_eps": 0.0},
        {"max_sequence_length": 0},
        {"target_kl": 0.0},
    ],
)
def test_impossible_settings_are_refused_in_one_line(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=rf"^{name} must .*, got \S+$"):
        PPOCfg(**wrong)
