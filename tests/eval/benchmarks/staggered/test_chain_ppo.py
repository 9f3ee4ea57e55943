"""PPO on the chain against slow ways to say the same."""

import numpy as np
import pytest
import torch
from torch import nn

from rearrange.eval.benchmarks.staggered import chain_ppo
from rearrange.eval.benchmarks.staggered.chain_ppo import ChainRun
from rearrange.eval.benchmarks.staggered.networks import ChainNetwork, Networks, Table

RUN = ChainRun(horizon=40, progression=1.0, is_staggered=True, seed=3, num_envs=40, num_updates=2)
NUM_BLOCKS = RUN.horizon // 5


def run_of(**values):
    return ChainRun(**(vars(RUN) | values))


def rollout_of(run, table):
    chains, _ = chain_ppo.make_chains(run)
    blocks, _ = chains.reset(seed=0)
    return chain_ppo.collect(chains, blocks, table, np.random.default_rng(0))


def uniform(values=0.0):
    return Table(np.full((NUM_BLOCKS, 20), -np.log(20.0)), np.full(NUM_BLOCKS, values))


def knowing(chance, num_actions=20):
    """The right action with this chance, the others alike."""
    targets = chain_ppo.make_chains(RUN)[1]
    probs = np.full((NUM_BLOCKS, num_actions), (1.0 - chance) / (num_actions - 1))
    probs[np.arange(NUM_BLOCKS), targets] = chance
    with np.errstate(divide="ignore"):
        return Table(np.log(probs), np.zeros(NUM_BLOCKS))


def test_a_rollout_shows_one_slice_of_the_episode_or_all_of_it():
    naive, at = rollout_of(run_of(is_staggered=False), uniform())
    assert set(naive.blocks) == {0} and set(at) == {1}
    staggered, _ = rollout_of(RUN, uniform())
    counts = np.bincount(staggered.blocks, minlength=NUM_BLOCKS)
    assert counts.tolist() == [25] * NUM_BLOCKS  # 5 steps of each chain, 5 chains a block


def test_nothing_is_expected_after_an_episodes_end():
    rollout, _ = rollout_of(RUN, uniform(values=7.0))
    last = rollout.blocks == NUM_BLOCKS - 1  # the five steps before the end, at 7 less nothing
    value, trace = 7.0, 0.0
    rewards = np.where(rollout.actions == chain_ppo.make_chains(RUN)[1][-1], 1, -1)
    for t in (4, 3, 2, 1, 0):
        delta = 0.5 * rewards[last][t] + (0.99 * value if t < 4 else 0.0) - value
        trace = delta + 0.99 * 0.95 * trace
        assert rollout.advantages[last][t] == pytest.approx(trace, abs=1e-5)
        assert rollout.returns[last][t] == pytest.approx(trace + value, abs=1e-5)


def slow_update(network, rollout, old, rng):
    """PPO's epochs with a network that is asked for each step."""
    optimizer = torch.optim.SGD(network.parameters(), chain_ppo.PPO.learning_rate)
    before = torch.from_numpy(old.log_probs[rollout.blocks, rollout.actions])
    for _ in range(4):
        for rows in np.array_split(rng.permutation(len(rollout.blocks)), 4):
            log_probs, values = network(torch.from_numpy(rollout.blocks[rows]))
            of_actions = log_probs[torch.arange(len(rows)), torch.from_numpy(rollout.actions[rows])]
            ratio = (of_actions - before[rows]).exp()
            a = rollout.advantages[rows]
            a = torch.from_numpy((a - a.mean()) / (a.std() + 1e-8))
            policy = -torch.minimum(ratio * a, ratio.clamp(0.8, 1.2) * a).mean()
            value = 0.5 * (values - torch.from_numpy(rollout.returns[rows])).square().mean()
            entropy = torch.distributions.Categorical(logits=log_probs).entropy().mean()
            optimizer.zero_grad()
            (policy + 0.5 * value - 0.01 * entropy).backward()
            nn.utils.clip_grad_norm_(network.parameters(), 0.5)
            optimizer.step()


def test_stacked_networks_asked_for_each_block_learn_as_single_ones_asked_for_each_step():
    networks = Networks([5, 6], NUM_BLOCKS, 20, chain_ppo.PPO)
    networks.optimizer = torch.optim.SGD(networks.weights.values(), chain_ppo.PPO.learning_rate)
    singles = []
    for seed in (5, 6):
        torch.manual_seed(seed)
        singles.append(ChainNetwork(NUM_BLOCKS, 20))
    old = networks.tables()
    runs = [RUN, run_of(is_staggered=False)]  # eight blocks, and one
    rollouts = [rollout_of(run, table)[0] for run, table in zip(runs, old, strict=True)]
    chain_ppo.update(networks, rollouts, old, [np.random.default_rng(i) for i in (1, 2)])
    for i, single in enumerate(singles):
        slow_update(single, rollouts[i], old[i], np.random.default_rng(i + 1))
        for name, weight in single.named_parameters():
            one = networks.weights[name][i]
            one = one.T if weight.dim() == 2 and "embedding" not in name else one
            torch.testing.assert_close(one, weight, rtol=1e-4, atol=1e-6)


def test_who_knows_all_succeeds_and_who_knows_nothing_is_held_by_hard_gates():
    rng = np.random.default_rng(0)
    hard = run_of(progression=0.0)
    assert chain_ppo.success(hard, knowing(1.0), rng) == 1.0
    assert chain_ppo.success(hard, knowing(0.0), rng) == 0.0
    # three of five right at 0.9: 99.1%, else one or more steps late; the last block has five
    assert 0.9 < chain_ppo.success(hard, knowing(0.9), rng) <= 1.0


def test_a_training_is_made_again_by_its_seed_and_measures_each_update():
    both = [RUN, run_of(seed=4)]
    one, other = chain_ppo.train(both)
    assert [one, other] == chain_ppo.train(both) and one != other
    (alone,) = chain_ppo.train([RUN])  # the same but for rounding
    np.testing.assert_allclose(alone.value_error, one.value_error, rtol=1e-4)
    assert len(one.value_error) == len(one.policy_kl) == 2
    assert np.shape(one.accuracy) == (2, NUM_BLOCKS)
    assert min(one.policy_kl) > 0.0
