"""The chain of gates against the paper's words, worked out by hand and by a slow loop."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import SyncVectorEnv

import rearrange  # noqa: F401  (registers the id)
from rearrange.errors import UserError
from rearrange.workloads.skill_chain import ENV_ID

SETTINGS = {"horizon": 20, "block_steps": 4, "num_actions": 5}  # 5 blocks


def make(num_envs, **more):
    return gymnasium.make_vec(ENV_ID, num_envs=num_envs, **(SETTINGS | more))


def play(env, num_right, **more):
    """One episode that takes the right action `num_right` times in each block, then a wrong one."""
    chain = env.unwrapped.chain
    block, _ = env.reset(seed=0, **more)
    blocks, total, done, before, count = [], 0.0, False, -1, 0
    while not done:
        count = 0 if block != before else count
        before = block
        wrong = (chain.targets[block] + 1) % chain.num_actions
        action = chain.targets[block] if count < num_right else wrong
        count += 1
        block, reward, done, _, info = env.step(int(action))
        blocks.append(int(block))
        total += reward
    return blocks, total, info


def test_gymnasiums_checker_passes():
    check_env(gymnasium.make(ENV_ID).unwrapped)


def test_a_hard_gate_opens_for_mastery_alone():
    env = gymnasium.make(ENV_ID, progression=0.0, mastery=3, **SETTINGS)
    blocks, total, info = play(env, num_right=2)
    assert blocks == [0] * 20 and not info["success"]
    assert total == 2 * 0.5 - 18 * 0.5 and info["accuracy"] == 0.1
    blocks, total, info = play(env, num_right=3)
    # The gate is tried with the block's fourth step; the last block keeps what has come to it.
    assert blocks == [0] * 3 + [1] * 4 + [2] * 4 + [3] * 4 + [4] * 5 and info["success"]
    assert total == 15 * 0.5 - 5 * 0.5 and info["accuracy"] == 0.75


def test_an_open_gate_lets_everybody_through():
    env = gymnasium.make(ENV_ID, progression=1.0, **SETTINGS)
    blocks, total, info = play(env, num_right=0)
    assert blocks[-1] == 4 and info["success"] and total == -10.0 and info["accuracy"] == 0.0


def test_chance_opens_a_gate_as_often_as_it_should():
    envs = make(4000, progression=0.3, autoreset_mode="Disabled")
    envs.reset(seed=0)
    wrong = np.full(4000, (envs.targets[0] + 1) % 5)
    for _ in range(4):
        blocks = envs.step(wrong)[0]
    assert abs(blocks.mean() - 0.3) < 4 * np.sqrt(0.3 * 0.7 / 4000)


def test_first_blocks_are_poisson_with_the_rest_in_the_last():
    envs = make(20_000, reset_spread=1.5)
    blocks, _ = envs.reset(seed=1)
    other = np.minimum(np.random.default_rng(5).poisson(1.5, 200_000), 4)
    for block in range(5):
        share = (other == block).mean()
        assert abs((blocks == block).mean() - share) < 5 * np.sqrt(share * (1 - share) / 20_000)
    assert (make(50).reset(seed=0)[0] == 0).all()


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_vector_of_chains_is_that_many_single_ones(mode):
    settings = SETTINGS | {"progression": 0.4, "reset_spread": 0.7}
    fast = make(6, progression=0.4, reset_spread=0.7, autoreset_mode=mode)
    slow = SyncVectorEnv([lambda: gymnasium.make(ENV_ID, **settings)] * 6, autoreset_mode=mode)
    equal(fast.reset(seed=7), slow.reset(seed=7))
    rng = np.random.default_rng(0)
    for _ in range(300):  # over the end of what is drawn at once
        actions = rng.integers(5, size=6)
        equal(fast.step(actions), slow.step(actions))


def test_a_seed_is_for_those_alone_that_are_reset():
    settings = SETTINGS | {"progression": 0.4, "reset_spread": 0.7}
    fast = make(6, progression=0.4, reset_spread=0.7, autoreset_mode="Disabled")
    slow = SyncVectorEnv(
        [lambda: gymnasium.make(ENV_ID, **settings)] * 6, autoreset_mode="Disabled"
    )
    equal(fast.reset(seed=7), slow.reset(seed=7))
    rng, some = np.random.default_rng(0), np.arange(6) % 2 == 0
    for step in range(15):  # shorter than an episode
        if step == 5:
            how = {"seed": 30, "options": {"reset_mask": some}}
            assert fast.reset(**how)[0].tolist() == slow.reset(**how)[0].tolist()
        actions = rng.integers(5, size=6)
        assert fast.step(actions)[0].tolist() == slow.step(actions)[0].tolist()


def equal(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        if isinstance(a, dict):
            assert a.keys() == b.keys()
            equal(a.values(), [b[name] for name in a])
        else:
            assert a.tolist() == b.tolist()


def test_a_chain_that_waits_stands_still():
    envs = make(2, horizon=4, autoreset_mode="Disabled", progression=1.0)
    envs.reset(seed=0)
    for _ in range(4):
        _, _, ended, _, infos = envs.step(np.array([0, 0]))
    assert ended.all() and infos["success"].all()
    _, rewards, ended, *_ = envs.step(np.array([0, 0]))
    assert (rewards == 0.0).all() and ended.all()
    envs.reset(options={"reset_mask": np.array([True, False])})
    assert envs.step(np.array([0, 0]))[2].tolist() == [False, True]


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"horizon": 22}, "horizon must be a multiple of block_steps"),
        ({"progression": 1.5}, r"progression must lie in \[0, 1\], got 1.5"),
        ({"mastery": 0}, "mastery must be a whole number of 1 or more, got 0"),
        ({"progression": "a"}, r"progression must lie in \[0, 1\], got 'a'"),
        ({"reset_spread": None}, r"reset_spread must lie in \[0, 100\], got None"),
        ({"target_seed": -1}, "target_seed must be a whole number of 0 or more, got -1"),
        ({"autoreset_mode": "off"}, "autoreset_mode must be one of NextStep, .*; got 'off'"),
    ],
)
def test_mistakes_are_named(settings, message):
    with pytest.raises(UserError, match=message):
        make(2, **settings)


@pytest.mark.parametrize(
    "how, message",
    [
        ({"seed": -1}, "seed must be a whole number of 0 or more"),
        ({"seed": 1.5}, "seed must be a whole number or a list"),
        ({"seed": [1, 2, 3]}, "there must be 2 seeds, got 3"),
        ({"seed": np.array(5)}, "seed must be a whole number or a list"),
        ({"options": 3}, "reset options must be a dict"),
        ({"options": {"mask": 1}}, "reset options must be reset_mask"),
    ],
)
def test_mistakes_in_a_reset_are_named(how, message):
    with pytest.raises(UserError, match=message):
        make(2).reset(**how)


def test_seeds_may_be_of_any_list():
    first = make(2, reset_spread=2.0).reset(seed=np.array([5, 6]))[0]
    assert first.tolist() == make(2, reset_spread=2.0).reset(seed=(5, 6))[0].tolist()
