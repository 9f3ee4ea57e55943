"""The sensor `floor_way` of environments."""

import copy

import numpy as np
import pytest

from rearrange.errors import UserError
from rearrange.skills.skill import ACTION_SIZE, BASE
from rearrange.tasks.floor_way import FLOOR_WAY
from rearrange.tasks.registry import make_env


def follow(observation) -> np.ndarray:
    """Turns to where the way goes on, and drives while it looks there."""
    cos, sin = observation[FLOOR_WAY][:2]
    action = np.zeros(ACTION_SIZE, np.float32)
    action[BASE] = max(float(cos), 0.0) ** 4, np.clip(2.0 * np.arctan2(sin, cos), -1.0, 1.0)
    action[-1] = -1.0
    return action


@pytest.mark.parametrize("index", range(3))
def test_who_follows_it_gets_near(index):
    env = make_env("navigate", "train", depth=False, floor_way=True)
    observation, _ = env.reset(options={"index": index})
    for _ in range(400):
        if observation["goal_to_agent_gps_compass"][0] < 1.4:
            break
        observation, _, is_over, *_ = env.step(follow(observation))
        assert not is_over
    assert observation["goal_to_agent_gps_compass"][0] < 1.4


def test_a_copy_has_seen_the_same():
    env = make_env("navigate", "train", depth=False, floor_way=True)
    observation, _ = env.reset(options={"index": 4})
    for _ in range(20):
        observation, *_ = env.step(follow(observation))
    state, twin = env.get_state(), copy.deepcopy(env)
    runs = []
    for one in (env, twin, env):
        if len(runs) == 2:
            one.set_state(state)
        seen, found = dict(observation), []
        for _ in range(12):
            seen, *_ = one.step(follow(seen))
            found.append(np.array(seen[FLOOR_WAY]))
        runs.append(np.array(found))
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(runs[0], runs[2])


def test_an_episode_begins_with_nothing_seen():
    env = make_env("navigate", "train", depth=False, floor_way=True)
    first, _ = env.reset(options={"index": 4})
    for _ in range(30):
        observation, *_ = env.step(follow(first))
    again, _ = env.reset(options={"index": 4})
    np.testing.assert_array_equal(first[FLOOR_WAY], again[FLOOR_WAY])
    assert env.observation_space.contains(again)


@pytest.mark.parametrize("task", ["open_drawer", "tidy_house"])
def test_tasks_without_one_goal_have_none(task):
    with pytest.raises(UserError, match="floor_way=true needs a task of one target with one of"):
        make_env(task, "train", floor_way=True)
