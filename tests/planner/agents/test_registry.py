"""Agents by name."""

import gymnasium
import numpy as np
import pytest

import rearrange.tasks  # noqa: F401  (registers the ids)
from rearrange.errors import UserError
from rearrange.planner.agents.agent import AGENTS, begin_episode
from rearrange.planner.agents.registry import OracleAgent, RandomAgent, make_agent
from rearrange.planner.agents.skill_set import chaining_agents
from rearrange.tasks.registry import make_env


@pytest.fixture(scope="module")
def env():
    return make_env("set_table_easy", "val", depth=False)


@pytest.fixture(scope="module")
def pick():
    return make_env("pick", "val", depth=False)


def actions(agent, env, index, count=50):
    observation, info = env.reset(options={"index": index})
    agent.reset(observation, info)
    return np.array([agent.act(observation, info) for _ in range(count)])


def play(agent, env, index):
    """One whole episode; its last info and the number of steps."""
    observation, info = env.reset(options={"index": index})
    agent.reset(observation, info)
    is_over, steps = False, 0
    while not is_over:
        observation, _, terminated, truncated, info = env.step(agent.act(observation, info))
        is_over, steps = terminated or truncated, steps + 1
    return info, steps


def test_random_actions_are_the_same_in_the_same_episode(env):
    first = actions(RandomAgent(env), env, 3)
    agent = RandomAgent(env)
    actions(agent, env, 5)
    assert np.array_equal(actions(agent, env, 3), first)


def test_random_actions_differ_between_episodes(env):
    agent = RandomAgent(env)
    assert not np.array_equal(actions(agent, env, 3), actions(agent, env, 4))


def test_random_actions_are_in_the_space_and_never_stop(env):
    agent = RandomAgent(env)
    for action in actions(agent, env, 0, 500):
        assert env.action_space.contains(action)
        assert action[-1] <= 0.0


@pytest.mark.parametrize("space", ["full", "skill", "stationary"])
def test_the_random_agent_takes_any_action_space(space):
    env = make_env("pick", "val", depth=False, action_space=space)
    agent = make_agent("random", env)
    assert all(env.action_space.contains(action) for action in actions(agent, env, 0, 20))


def test_an_unknown_name_lists_the_agents(env):
    with pytest.raises(UserError) as error:
        make_agent("orakel", env)
    assert "did you mean 'oracle'?" in str(error.value)
    with pytest.raises(UserError) as error:
        make_agent("qqq", env)
    assert all(name in str(error.value) for name in AGENTS)


@pytest.mark.parametrize("space", ["skill", "stationary"])
def test_the_oracle_refuses_a_part_of_the_action_space(space):
    env = make_env("pick", "val", depth=False, action_space=space)
    with pytest.raises(UserError, match="full"):
        make_agent("oracle", env)


@pytest.mark.parametrize("name", sorted(set(AGENTS) - {"learned", *chaining_agents()}))
def test_agents_have_what_reports_and_videos_show(pick, name):
    agent = make_agent(name, pick)
    observation, info = pick.reset(options={"index": 0})
    agent.reset(observation, info)
    agent.act(observation, info)
    assert isinstance(agent.status, str) and agent.status
    assert all(isinstance(line, str) for line in agent.plan_lines)
    assert agent.failure is None
    assert isinstance(agent.attempts, list)


@pytest.fixture(scope="module")
def played(env):
    """An oracle after a whole episode; the last info and the number of steps."""
    agent = OracleAgent(env)
    return agent, *play(agent, env, 0), list(agent.attempts)


def test_the_oracle_plays_a_home_to_its_end_and_stops(played):
    _, info, steps, attempts = played
    assert info["success"] and info["is_stop_called"]
    assert all(info["stages"].values())
    assert [name for name, _ in attempts] == ["navigate", "pick", "navigate", "place"]
    assert steps < 1500


def test_the_oracle_forgets_the_last_episode(env, played):
    fresh = OracleAgent(env)
    first = play(fresh, env, 1)
    used, *_ = played
    again = play(used, env, 1)
    assert again[1] == first[1] and used.attempts == fresh.attempts


def test_the_oracle_reads_no_observation(pick):
    """It is a privileged agent, and says so: zeros for eyes change nothing."""
    agent = OracleAgent(pick)
    observation, info = pick.reset(options={"index": 0})
    agent.reset(observation, info)
    is_over = False
    while not is_over:
        nothing = {name: np.zeros_like(value) for name, value in observation.items()}
        observation, _, terminated, truncated, info = pick.step(agent.act(nothing, info))
        is_over = terminated or truncated
    assert info["success"]


def test_the_random_agent_hardly_ever_picks(pick):
    info, _ = play(RandomAgent(pick), pick, 0)
    assert not info["success"]


def test_agents_work_through_gymnasiums_wrappers():
    wrapped = gymnasium.make("rearrange/Pick-v0", split="val", depth=False)
    agent = make_agent("oracle", wrapped)
    observation, info = wrapped.reset(options={"index": 0})
    agent.reset(observation, info)
    for _ in range(5):
        observation, *_ = wrapped.step(agent.act(observation, info))
    wrapped.close()


def test_the_teacher_picks_and_has_no_rules_for_a_plan(pick, env):
    info, steps = play(make_agent("teacher", pick), pick, 0)
    assert info["success"] and steps < 300
    with pytest.raises(UserError, match="agent=teacher is for task="):
        make_agent("teacher", env)


def test_an_agent_of_ones_own_that_lacks_something_is_one_line(pick):
    observation, info = pick.reset(options={"index": 0})

    class Mute:
        attempts, plan_lines, failure = (), (), None

        def reset(self, observation, info):
            self.was_reset = True

    mute = Mute()
    with pytest.raises(UserError, match="must have reset, act, attempts, .* Mute lacks act$"):
        begin_episode(mute, observation, info)
    mute.act = lambda observation, info: np.zeros(11)
    with pytest.raises(UserError, match="Mute lacks status$"):
        begin_episode(mute, observation, info)
    assert mute.was_reset
    mute.status = ""
    begin_episode(mute, observation, info)
