"""What the leader makes of the followers' steps, against the paper's formulas in numpy."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rearrange.skills.network.policy import build_policy
from rearrange.skills.network.policy_cfg import PolicyCfg
from rearrange.ver.rollout.storage import RolloutStorage
from rearrange.ver.sapg.aggregation import draw_followers
from rearrange.ver.sapg.blocks import BLOCK, SapgCfg, with_block
from rearrange.ver.sapg.sapg_learner import SAPG
from rearrange.ver.update.algorithm import LearnerCfg, Sequences
from rearrange.ver.update.entropy import EntropyCfg
from rearrange.ver.update.packing import minibatch_rows
from rearrange.ver.update.ppo import PPOCfg
from rearrange.ver.update.ppo_learner import PPO
from rearrange.ver.update.returns import ReturnsCfg
from rearrange.ver.workers.spaces import action_spec, observation_spec

CPU = torch.device("cpu")
ACTION = action_spec(spaces.Discrete(4))
PLAIN = PolicyCfg(
    vector_size=0, prev_action_size=0, hidden_sizes=[8], activation="tanh", lstm_layers=0
)
E, T, M, GAMMA, EPS, ALPHA, STEP = 6, 5, 3, 0.9, 0.2, 0.01, 0.1
ENTROPY = EntropyCfg(learned=False, initial=ALPHA)


def make(algorithm=None, num_blocks=M, num_minibatches=1, seed=0, **sapg):
    """A policy, and SAPG (or another algorithm) for it."""
    torch.manual_seed(seed)
    seen = with_block(observation_spec(spaces.Box(-1.0, 1.0, (3,))), num_blocks)
    policy = build_policy(seen, ACTION, replace(PLAIN, num_blocks=num_blocks, block_size=5))
    ppo = PPOCfg(num_minibatches=num_minibatches, clip_coef=EPS, learning_rate=1e-2)
    returns = ReturnsCfg(gamma=GAMMA, gae_lambda=0.8)
    cfg = LearnerCfg(ppo=ppo, returns=returns, entropy=ENTROPY, reward_scale=2.0)
    sapg_cfg = SapgCfg(num_blocks=num_blocks, entropy_step=STEP, **sapg)
    algorithm = algorithm or partial(SAPG, sapg=sapg_cfg)
    return policy, algorithm(policy, cfg, E, CPU, np.random.default_rng(seed))


def collect(policy, num_blocks=M, seed=1):
    """T steps of each environment, some of which end their episode."""
    rng = np.random.default_rng(seed)
    seen = with_block(observation_spec(spaces.Box(-1.0, 1.0, (3,))), num_blocks)
    storage = RolloutStorage(T * E, E, seen, ACTION, 0, CPU)
    for e in range(E):
        episode = step = 0
        for row in storage.allocate(T):
            observation = {"observation": torch.from_numpy(rng.uniform(-1, 1, (1, 3))).float()}
            if num_blocks > 1:
                observation[BLOCK] = torch.tensor([[e % num_blocks]], dtype=torch.uint8)
            for name, value in observation.items():
                storage.observation[name][row] = value[0]
            with torch.inference_mode():
                first = torch.ones(1, dtype=torch.bool)
                decided = policy.act(
                    observation, torch.zeros(1, 1, dtype=torch.int64), first, torch.zeros(1, 0)
                )
            storage.action[row], storage.is_first[row] = decided.action[0], step == 0
            storage.log_prob[row], storage.value[row] = decided.log_prob[0], decided.value[0]
            storage.env_id[row], storage.episode_id[row] = e, episode
            storage.step_id[row] = step
            end = rng.random()
            storage.complete(row, rng.normal(), end < 0.2, 0.2 <= end < 0.4)
            storage.next_value[row] = rng.normal()
            episode, step = (episode + 1, 0) if end < 0.4 else (episode, step + 1)
    return storage


def judged_by_hand(policy, observation, block):
    """Log-probabilities [B, 4] and values [B] of a block's policy, in float64."""
    weights = {name: w.double().numpy() for name, w in policy.state_dict().items()}
    vector = np.broadcast_to(weights["embedding.block_vectors"][block], (len(observation), 5))
    inputs = np.concatenate([observation, vector], axis=1)
    hidden = inputs @ weights["trunks.0.hidden.0.0.weight"].T + weights["trunks.0.hidden.0.0.bias"]
    hidden = np.tanh(hidden)
    logits = hidden @ weights["actor.linear.weight"].T + weights["actor.linear.bias"]
    values = hidden @ weights["critic.weight"][0] + weights["critic.bias"][0]
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)), values


def followers_by_hand(policy, storage):
    """{row: (advantage, return, pi_old / mu, log pi_old)} of all that the leader can judge."""
    observation = storage.observation["observation"].double().numpy()
    log_probs, values = judged_by_hand(policy, observation, 0)
    found = {}
    for row in range(T * E):
        if storage.env_id[row] % M == 0:
            continue
        is_last = row % T == T - 1 or storage.truncated[row]
        if is_last and not storage.terminated[row]:
            continue  # what came after it is not stored
        after = 0.0 if storage.terminated[row] else values[row + 1]
        target = 2.0 * storage.reward[row] + GAMMA * after
        log_prob = log_probs[row, storage.action[row, 0]]
        ratio = np.exp(log_prob - float(storage.log_prob[row]))
        found[row] = target - values[row], target, ratio, log_prob
    return found


def test_the_followers_steps_are_judged_as_the_leaders():
    policy, learner = make(off_policy_ratio=10.0)
    storage = collect(policy)
    expected = followers_by_hand(policy, storage)
    rows = learner._with_followers(storage, learner.compute_returns(storage))
    size = len(storage)
    repeated = rows.rows._source[size:]
    assert sorted(repeated.tolist()) == sorted(expected)
    judged = rows.rows._judged
    for i, row in enumerate(repeated.tolist()):
        numbers = judged.advantage[i], judged.returns[i], judged.ratio[i], judged.log_prob[i]
        assert [float(n) for n in numbers] == pytest.approx(expected[row], abs=1e-5)
    assert {round(ratio, 3) for *_, ratio, _ in expected.values()} != {1.0}
    # a sequence that is learned from is consecutive steps of one episode
    at = 0
    for length in rows.sequences.lengths[len(storage.complete_rows()) :]:
        part = repeated[at : at + length]
        assert (np.diff(part) == 1).all()
        assert len(set(zip(storage.env_id[part], storage.episode_id[part], strict=True))) == 1
        at += length


def test_the_loss_is_that_of_the_paper():
    """Own steps of each block by PPO, those of followers clipped around pi_old / mu."""
    policy, learner = make(off_policy_ratio=10.0)
    storage = collect(policy)
    sequences = learner.compute_returns(storage)
    old = followers_by_hand(policy, storage)
    whole = learner._with_followers(storage, sequences)
    with torch.no_grad():  # far enough that clipping counts
        for weight in policy.parameters():
            weight += 0.3 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(5))
    (part,) = minibatch_rows(*whole.sequences, 1, learner.rng)
    loss = learner._loss(whole.rows.minibatch(*part))[0].item()

    observation = storage.observation["observation"].double().numpy()
    now = [judged_by_hand(policy, observation, block) for block in range(M)]
    terms, num_clipped = [], 0

    def add(row, block, advantage, target, behaviour, center):
        nonlocal num_clipped
        log_probs, values = now[block]
        ratio = np.exp(log_probs[row, storage.action[row, 0]] - behaviour)
        clipped = np.clip(ratio, center * (1 - EPS), center * (1 + EPS))
        num_clipped += clipped != ratio and block == 0
        entropy = -(np.exp(log_probs[row]) * log_probs[row]).sum()
        terms.append(
            -min(ratio * advantage, clipped * advantage)
            + 0.5 * 0.5 * (values[row] - target) ** 2
            - (ALPHA + STEP * block) * entropy
        )

    for row in range(T * E):
        behaviour = float(storage.log_prob[row])
        own = storage.advantage[row], storage.returns[row]
        add(row, storage.env_id[row] % M, *own, behaviour, 1.0)
        if row in old:
            advantage, target, ratio, _ = old[row]
            add(row, 0, advantage, target, behaviour, ratio)
    assert num_clipped > 5 and len(old) > 5
    assert loss == pytest.approx(np.mean(terms), abs=1e-5)


def test_what_a_follower_did_moves_its_own_vector_and_once_more_the_leaders():
    policy, learner = make(off_policy_ratio=10.0)
    storage = collect(policy)
    whole = learner._with_followers(storage, learner.compute_returns(storage))
    num_own = len(storage.complete_rows())
    behind = Sequences(whole.sequences.rows[num_own:], np.ones(len(whole.sequences.rows) - num_own))
    (part,) = minibatch_rows(behind.rows, behind.lengths.astype(int), 1, learner.rng)
    learner._loss(whole.rows.minibatch(*part))[0].backward()
    moved = policy.embedding.block_vectors.grad.abs().sum(dim=1) > 0
    assert moved.tolist() == [True, False, False]


def test_as_many_followers_as_wanted_are_drawn_in_whole_sequences():
    policy, learner = make()
    storage = collect(policy)
    sequences = learner.compute_returns(storage)
    for wanted in (1, 7, 1000):
        drawn = draw_followers(storage, sequences, wanted, np.random.default_rng(wanted))
        assert (storage.env_id[drawn.rows] % M != 0).all()
        num_usable = sum(row in followers_by_hand(policy, storage) for row in drawn.rows.tolist())
        assert num_usable == len(followers_by_hand(policy, storage)) or num_usable >= wanted
        assert drawn.lengths.sum() == len(drawn.rows) == len(set(drawn.rows.tolist()))
    metrics = learner.learn(storage)
    assert metrics["sapg/follower_steps"] == E * T / M  # as many as the leader's own
    assert metrics["ver/learned_steps"] == E * T


def test_weights_are_truncated():
    policy, learner = make(off_policy_ratio=10.0, max_ratio=1.0)
    storage = collect(policy)
    whole = learner._with_followers(storage, learner.compute_returns(storage))
    assert 0 < float(whole.rows._judged.ratio.min()) < float(whole.rows._judged.ratio.max()) == 1.0


def test_one_block_is_ppo_to_the_last_bit():
    weights = []
    for algorithm in (PPO, None):
        policy, learner = make(algorithm, num_blocks=1, num_minibatches=2)
        for seed in range(3):
            torch.manual_seed(seed)
            learner.learn(collect(policy, num_blocks=1, seed=seed))
        weights.append(policy.state_dict())
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert weights[0].keys() == weights[1].keys()


def test_blocks_without_differences_are_one_policy():
    """Equal vectors: each action is as probable for the leader as for who took it."""
    policy, learner = make(off_policy_ratio=10.0)
    with torch.no_grad():
        policy.embedding.block_vectors[:] = policy.embedding.block_vectors[0]
    storage = collect(policy)
    whole = learner._with_followers(storage, learner.compute_returns(storage))
    judged = whole.rows._judged
    torch.testing.assert_close(judged.ratio, torch.ones_like(judged.ratio))
    torch.testing.assert_close(judged.value, storage.value[whole.rows._source[len(storage) :]])
