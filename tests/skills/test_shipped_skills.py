"""The skills that come with the package: each can be loaded by name, and moves its robot."""

import numpy as np
import pytest

from rearrange.skills.learned import LearnedPolicy
from rearrange.skills.skill_files import read_skill
from rearrange.skills.trained_skills import shipped_skills, skill_path
from rearrange.tasks.gym_factory import make_gym
from rearrange.tasks.registry import SKILL_TASKS

MAX_BYTES = 6_000_000


def test_some_skills_come_with_the_package():
    assert shipped_skills() and set(shipped_skills()) <= set(SKILL_TASKS)


@pytest.mark.parametrize("name", shipped_skills())
def test_a_shipped_skill_is_small_says_where_it_comes_from_and_runs(name):
    path = skill_path(name)
    assert path.stat().st_size <= MAX_BYTES
    skill = read_skill(path)
    assert skill.origin["steps"] > 0 and skill.env_id == SKILL_TASKS[name]
    policy = LearnedPolicy(skill)
    env = make_gym(0, skill.env_id, 1, {**skill.env_kwargs, "split": "val"})
    observation, _ = env.reset(options={"index": 0})
    start, total = np.array(env.unwrapped.sim.arm_target), 0.0
    for _ in range(30):
        action = policy.act(observation)
        assert action.shape == (11,) and np.abs(action).max() <= 1.0
        observation, reward, terminated, truncated, _ = env.step(action)
        total += reward
        if terminated or truncated:
            break
    moved = np.abs(env.unwrapped.sim.arm_target - start).max()
    assert np.isfinite(total) and (moved > 0.01 or name == "navigate")
