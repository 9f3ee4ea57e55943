"""The skills that come with the package: each can be loaded by name, and does what it is for."""

from itertools import accumulate

import numpy as np
import pytest
import torch

from rearrange.skills.deployed.learned import LearnedPolicy
from rearrange.skills.deployed.skill_files import read_skill
from rearrange.skills.deployed.trained_skills import shipped_skills, skill_path
from rearrange.tasks.gym_factory import make_gym
from rearrange.tasks.rules.names import SKILL_TASKS

MAX_BYTES = 6_000_000
# Four validation episodes each that the skills end soon and well: all four here. Half of them is
# asked for, since on another processor or with other weights single ones may fail; with random
# weights, or with all weights halved, it was none of them for any skill.
EPISODES = {
    "close_drawer": (12, 6, 10, 11),
    "close_fridge": (5, 4, 0, 8),
    "navigate": (15, 3, 11, 6),
    "open_drawer": (10, 1, 4, 7),
    "open_fridge": (0, 1, 2, 4),
    "pick": (28, 25, 7, 8),
    "place": (2, 16, 3, 0),
}
MIN_SUCCESSES = 2
MAX_STEPS = 250  # nearly twice the longest of them


def test_some_skills_come_with_the_package():
    assert shipped_skills() and set(shipped_skills()) <= set(SKILL_TASKS)


@pytest.mark.parametrize("name", shipped_skills())
def test_a_shipped_skill_is_small_says_where_it_comes_from_and_works(name):
    path = skill_path(name)
    assert path.stat().st_size <= MAX_BYTES
    skill = read_skill(path)
    assert skill.origin["steps"] > 0 and skill.env_id == SKILL_TASKS[name]
    assert MIN_SUCCESSES in accumulate(solved(name, skill))  # and no more of them are played


@pytest.mark.parametrize("name", ["close_fridge", "pick"])
def test_the_check_of_what_a_skill_does_finds_weights_that_learned_nothing(name):
    skill = read_skill(skill_path(name))
    generator = torch.Generator().manual_seed(0)
    for key, weights in skill.weights.items():  # the same numbers, each in another's place
        order = torch.randperm(weights.numel(), generator=generator)
        skill.weights[key] = weights.flatten()[order].view(weights.shape)
    assert not any(solved(name, skill))


def solved(name, skill):
    """Of the skill's four episodes, one after the other, whether it ends well."""
    policy = LearnedPolicy(skill)
    kwargs = {**skill.env_kwargs, "split": "val"}
    kwargs.pop("floor_way", None)  # made of what it observes
    env = make_gym(0, skill.env_id, 1, kwargs)
    return (succeeds(env, policy, index) for index in EPISODES[name])


def succeeds(env, policy, index):
    observation, info = env.reset(options={"index": index})
    policy.reset()
    for _ in range(MAX_STEPS):
        action = policy.act(observation)
        assert action.shape == (11,) and np.abs(action).max() <= 1.0
        observation, reward, terminated, truncated, info = env.step(action)
        assert np.isfinite(reward)
        if terminated or truncated:
            break
    return bool(info["success"])
