"""One update: what it computes before the epochs, and that it teaches."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rearrange.skills.network.policy import build_policy
from rearrange.skills.network.policy_cfg import PolicyCfg
from rearrange.ver.rollout.report import NonFinite
from rearrange.ver.rollout.storage import RolloutStorage
from rearrange.ver.update.algorithm import LearnerCfg, UpdateContext
from rearrange.ver.update.entropy import EntropyCfg
from rearrange.ver.update.ppo import PPOCfg
from rearrange.ver.update.ppo_learner import PPO
from rearrange.ver.update.returns import ReturnsCfg
from rearrange.ver.workers.spaces import action_spec, observation_spec

CPU = torch.device("cpu")
OBSERVATION = observation_spec(spaces.Box(-1.0, 1.0, (3,)))
ACTION = action_spec(spaces.Discrete(4))
SMALL = PolicyCfg(
    vector_size=0, prev_action_size=4, hidden_sizes=[16], lstm_hidden=8, lstm_layers=1
)
E, S = 4, 32


def make(lr=1e-3, seed=0, policy_cfg=SMALL, **settings):
    torch.manual_seed(seed)
    policy = build_policy(OBSERVATION, ACTION, policy_cfg)
    ppo = PPOCfg(num_epochs=3, num_minibatches=2, learning_rate=lr, normalize_advantages=True)
    entropy = EntropyCfg(learned=False, initial=0.0)
    cfg = LearnerCfg(**({"ppo": ppo, "entropy": entropy} | settings))
    return policy, PPO(policy, cfg, E, CPU, np.random.default_rng(seed))


def collect(policy, reward_of, seed=0, p_end=0.1):
    """A rollout by hand, uneven between environments; rows are shuffled like those of workers."""
    rng = np.random.default_rng(seed)
    storage = RolloutStorage(S, E, OBSERVATION, ACTION, policy.state_size, CPU)
    rows = iter(rng.permutation(storage.allocate(S + E))[:S])
    shares = [2, 6, 10, 14]
    for e, share in enumerate(shares):
        state, prev = torch.zeros(1, policy.state_size), torch.zeros(1, 1, dtype=torch.int64)
        is_first, episode, step, row = torch.ones(1, dtype=torch.bool), 1, 0, None
        for _ in range(share):
            observation = torch.from_numpy(rng.uniform(-1.0, 1.0, (1, 3)).astype(np.float32))
            with torch.inference_mode():
                decided = policy.act({"observation": observation}, prev, is_first, state)
            if row is not None and not is_first:
                storage.next_value[row] = decided.value.item()
            row = next(rows)
            storage.observation["observation"][row] = observation[0]
            storage.prev_action[row], storage.is_first[row] = prev[0], is_first[0]
            storage.state[row], storage.action[row] = state[0], decided.action[0]
            storage.log_prob[row], storage.value[row] = decided.log_prob[0], decided.value[0]
            storage.env_id[row], storage.episode_id[row] = e, episode
            storage.step_id[row] = step
            is_end = rng.random() < p_end
            reward = reward_of(observation[0].numpy(), int(decided.action))
            storage.complete(row, reward, is_end, False)
            storage.next_value[row] = 0.3  # of the rollout's last steps
            state, prev, step = decided.state.clone(), decided.action.clone(), step + 1
            is_first = torch.tensor([is_end])
            if is_end:
                state, prev = torch.zeros_like(state), torch.zeros_like(prev)
                episode, step = episode + 1, 0
    return storage


def sorted_rows(storage):
    rows = storage.complete_rows().tolist()
    return sorted(
        rows, key=lambda r: (storage.env_id[r], storage.episode_id[r], storage.step_id[r])
    )


def expected_advantages(storage, scale, cfg):
    """Each by its definition: a sum over the rest of its episode in this rollout."""
    rows = sorted_rows(storage)
    found = {}
    for i, row in enumerate(rows):
        total, factor = 0.0, 1.0
        for other in rows[i:]:
            if (storage.env_id[other], storage.episode_id[other]) != (
                storage.env_id[row], storage.episode_id[row],
            ):  # fmt: skip
                break
            after = 0.0 if storage.terminated[other] else storage.next_value[other]
            delta = storage.reward[other] * scale + cfg.gamma * after - float(storage.value[other])
            total += factor * delta
            factor *= cfg.gamma * cfg.gae_lambda
        found[row] = total
    return found


def test_advantages_returns_and_weights_reach_their_rows():
    cfg = ReturnsCfg(gamma=0.9, gae_lambda=0.7)
    policy, learner = make(returns=cfg, reward_scale=2.0)
    storage = collect(policy, lambda o, a: o[0] + a)
    learner.learn(storage)
    for row, advantage in expected_advantages(storage, 2.0, cfg).items():
        assert storage.advantage[row] == pytest.approx(advantage, abs=1e-5)
        value = float(storage.value[row])
        assert storage.returns[row] == pytest.approx(advantage + value, abs=1e-5)
        share = {0: 1.0, 1: 1.0, 2: 0.8, 3: 8 / 14}[int(storage.env_id[row])]  # min(1, 8 / n)
        assert storage.is_weight[row] == pytest.approx(share)


def test_the_ratios_of_fresh_data_are_one():
    policy, learner = make(lr=1e-30)
    metrics = learner.learn(collect(policy, lambda o, a: a))
    assert metrics["ppo/ratio_max"] == pytest.approx(1.0, abs=1e-5)
    assert metrics["ppo/ratio_min"] == pytest.approx(1.0, abs=1e-5)
    assert metrics["ppo/clip_fraction"] == 0.0


def test_the_staleness_of_gradients_is_measured():
    """Optimiser steps between the weights that decided a step and those it changes."""
    policy, learner = make()  # three epochs of two minibatches
    storage = collect(policy, lambda o, a: a)
    assert learner.learn(storage)["ver/gradient_staleness"] == 2.5  # 0, 1, ... 5
    assert learner.learn(storage)["ver/gradient_staleness"] == 8.5  # the same steps once more
    storage.weights_step[:] = learner.num_applied - 3
    assert learner.learn(storage)["ver/gradient_staleness"] == 5.5


def test_at_first_the_critic_alone_may_learn():
    ppo = PPOCfg(learning_rate=1e-2, critic_updates=1)
    policy, learner = make(entropy=EntropyCfg(learned=True), ppo=ppo)
    storage = collect(policy, lambda o, a: o[0] + a)
    before = {name: tensor.clone() for name, tensor in policy.state_dict().items()}
    coefficient = learner.entropy.value.item()
    learner.learn(storage, UpdateContext(num_updates=0))
    changed = {n for n, tensor in policy.state_dict().items() if not torch.equal(tensor, before[n])}
    assert changed == {"critic.weight", "critic.bias"}
    assert learner.entropy.value.item() == coefficient
    learner.learn(storage, UpdateContext(num_updates=1))
    changed = {n for n, tensor in policy.state_dict().items() if not torch.equal(tensor, before[n])}
    assert len(changed) > 6 and learner.entropy.value.item() != coefficient


def test_the_policy_starts_with_full_steps_and_no_more_once_it_learns_too():
    """Adam's first step is the learning rate, whatever the gradient (Kingma and Ba 2015, 2.1)."""
    ppo = PPOCfg(learning_rate=1e-2, critic_updates=2, num_epochs=1, num_minibatches=1)
    policy, learner = make(ppo=ppo)
    storage = collect(policy, lambda o, a: o[0] + a)
    for number in range(2):
        learner.learn(storage, UpdateContext(num_updates=number))
    before = {name: tensor.clone() for name, tensor in policy.named_parameters()}
    learner.learn(storage, UpdateContext(num_updates=2))
    moved = [
        float((now - before[name]).abs().max())
        for name, now in policy.named_parameters()
        if not name.startswith("critic")
    ]
    assert 0.9e-2 < max(moved) <= 1.001e-2


def test_an_update_ends_before_the_minibatch_that_the_policy_has_left():
    ppo = PPOCfg(learning_rate=1e-2, num_epochs=3, num_minibatches=4)
    policy, learner = make(ppo=ppo)
    learner.learn(collect(policy, lambda o, a: o[0] + a))
    assert learner.num_applied == 12
    policy, learner = make(ppo=replace(ppo, target_kl=1e-9))
    metrics = learner.learn(collect(policy, lambda o, a: o[0] + a))
    assert learner.num_applied == 1, "the first step is always taken"
    assert metrics["ppo/first_kl"] < 1e-9 < metrics["ppo/approx_kl"]


@pytest.mark.parametrize("max_length", [1, 3])
def test_cut_sequences_start_from_the_stored_memory(max_length):
    ppo = PPOCfg(num_minibatches=2, learning_rate=1e-30, max_sequence_length=max_length)
    policy, learner = make(ppo=ppo)
    metrics = learner.learn(collect(policy, lambda o, a: a))
    assert metrics["ppo/ratio_max"] == pytest.approx(1.0, abs=1e-5)


def bandit(observation, action):
    return float(action == 2)


@pytest.mark.parametrize("uses_vtrace", [False, True])
def test_a_bandit_is_learned_in_a_few_updates(uses_vtrace):
    policy, learner = make(lr=3e-2, uses_vtrace=uses_vtrace)
    rates = []
    for n in range(10):
        storage = collect(policy, bandit, seed=n, p_end=1.0)
        learner.learn(storage)
        rates.append(storage.reward[storage.complete_rows()].mean())
    assert np.mean(rates[:2]) < 0.5 and np.mean(rates[-2:]) > 0.9


def test_values_learn_what_an_episode_of_one_step_is_worth():
    policy, learner = make(lr=3e-2)
    for n in range(12):
        metrics = learner.learn(collect(policy, lambda o, a: o[0], seed=n, p_end=1.0))
    assert metrics["ppo/explained_variance"] > 0.8


def test_vtrace_with_the_same_policy_is_the_discounted_sum_of_rewards():
    # on-policy, V-trace's target is the n-step return (Espeholt et al. 2018, remark 1)
    cfg = ReturnsCfg(gamma=0.9, gae_lambda=1.0)
    policy, learner = make(uses_vtrace=True, returns=cfg)
    storage = collect(policy, lambda o, a: o[0] + a)
    learner.learn(storage)
    for row, advantage in expected_advantages(storage, 1.0, cfg).items():
        assert storage.returns[row] == pytest.approx(
            advantage + float(storage.value[row]), abs=1e-4
        )


def test_normalised_rewards_are_those_of_the_spread():
    cfg = ReturnsCfg(gamma=0.9, gae_lambda=0.7)
    policy, learner = make(normalize_rewards=True, returns=cfg)
    storage = collect(policy, lambda o, a: 100.0 * a)
    learner.learn(storage)
    spread, returns = [], {}
    for row in sorted_rows(storage):
        e = int(storage.env_id[row])
        returns[e] = 0.9 * returns.get(e, 0.0) + storage.reward[row]
        spread.append(returns[e])
        if storage.terminated[row]:
            returns[e] = 0.0
    scale = 1.0 / np.std(spread)
    for row, advantage in expected_advantages(storage, scale, cfg).items():
        assert storage.advantage[row] == pytest.approx(advantage, rel=1e-4, abs=1e-4)


def test_every_weight_moves_and_the_learning_rate_is_scheduled():
    policy, learner = make()
    before = [p.detach().clone() for p in learner.parameters]
    metrics = learner.learn(collect(policy, bandit), UpdateContext(lr_factor=0.5))
    assert metrics["ppo/learning_rate"] == pytest.approx(5e-4)
    assert all((p != b).any() for p, b in zip(learner.parameters, before, strict=True))
    moved = max((p - b).abs().max() for p, b in zip(learner.parameters, before, strict=True))
    assert moved < 6 * 5e-4 * 1.5  # Adam: six steps of about one learning rate


def test_statistics_take_in_exactly_the_complete_rows():
    cfg = PolicyCfg(vector_size=0, lstm_layers=0, hidden_sizes=[8], normalize_observations=True)
    policy, learner = make(policy_cfg=cfg)
    storage = collect(policy, bandit)
    storage.observation["observation"][~storage.is_complete] = 1e6
    learner.learn(storage)
    seen = storage.observation["observation"][storage.complete_rows()].double()
    normalizer = policy.embedding.normalizer
    state = {name: value for name, value in normalizer.state_dict().items()}
    mean = next(value for name, value in state.items() if "mean" in name)
    torch.testing.assert_close(mean.double(), seen.mean(0), atol=1e-2, rtol=1e-3)


def test_an_update_that_is_cut_ends_before_the_next_minibatch():
    policy, learner = make()
    asked = []

    def should_cut():
        asked.append(None)
        return len(asked) > 1

    steps = []
    context = UpdateContext(should_cut=should_cut, after_step=lambda: steps.append(None))
    learner.learn(collect(policy, bandit), context)
    assert len(steps) == 1


@pytest.mark.parametrize("on_nonfinite", ["stop", "drop"])
def test_a_loss_that_is_not_finite_is_named_or_skipped(on_nonfinite):
    policy, learner = make(on_nonfinite=on_nonfinite)
    storage = collect(policy, bandit)
    bad = sorted_rows(storage)[20]
    storage.log_prob[bad] = float("nan")
    before = {name: value.clone() for name, value in policy.state_dict().items()}
    if on_nonfinite == "stop":
        place = f"environment {storage.env_id[bad]}, episode {storage.episode_id[bad]}, step "
        with pytest.raises(NonFinite, match=place + str(storage.step_id[bad])):
            learner.learn(storage)
        return
    metrics = learner.learn(storage)
    assert metrics["ppo/skipped_minibatches"] == 3  # one in each epoch
    assert all(value.isfinite().all() for value in policy.state_dict().values())
    assert any((value != before[name]).any() for name, value in policy.state_dict().items())
