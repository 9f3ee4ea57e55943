"""The oracle and the policy take turns: who moves the robot, what is labelled, what is reported."""

import numpy as np
import pytest

from rearrange.skills.guided import LABEL, WEIGHT, GuideCfg, make_guided
from rearrange.skills.skill import ACTION_SIZE, STOP
from rearrange.tasks.registry import TASKS

ALONE = GuideCfg(alone_steps=10**6)
SHARED = GuideCfg(alone_steps=0, policy_turn=(3, 9), oracle_turn=(5, 30))


def guided(task, cfg, index=0):
    return make_guided(index, TASKS[task], 8, {"depth": False, "split": "train"}, cfg)


def play(env, index, rng):
    """An episode under random actions: label, weight, action and what was carried out, by step."""
    observation, info = env.reset(options={"index": index})
    steps, is_over = [], False
    world, carried_out = env.env, []
    world.step = lambda action: (
        carried_out.append(np.array(action)) or type(world).step(world, action)
    )
    while not is_over:
        label, weight = observation[LABEL].copy(), observation[WEIGHT].copy()
        action = rng.uniform(-1.0, 1.0, ACTION_SIZE).astype(np.float32)
        action[STOP] = -1.0
        observation, _, terminated, truncated, info = env.step(action)
        steps.append((label, weight, action, carried_out[-1]))
        is_over = terminated or truncated
    return steps, terminated, info


@pytest.mark.parametrize("task", ["pick", "close_drawer"])
def test_alone_the_oracle_solves_the_episode_whatever_the_policy_says(task):
    env = guided(task, ALONE)
    steps, terminated, info = play(env, 3, np.random.default_rng(0))
    assert terminated and info["failure"] is None
    assert "success" not in info  # it was not the policy's
    assert all((weight[:STOP] == 1.0).all() for _, weight, _, _ in steps)


def test_the_label_is_what_moves_the_robot_in_the_oracles_turns_and_only_there():
    env = guided("pick", SHARED)
    labelled = 0
    for index in range(2):
        for label, weight, action, carried_out in play(env, index, np.random.default_rng(index))[0]:
            is_oracle = bool(weight[0])
            labelled += is_oracle
            moved_by = label if is_oracle else action
            np.testing.assert_array_equal(carried_out[:STOP], moved_by[:STOP])
            assert not weight[STOP]  # Pick has no stop
            if not is_oracle:
                assert not weight.any() and not label.any()
    assert labelled > 50


def test_a_watched_environment_is_the_policys_alone_and_reports_success():
    env = guided("navigate", GuideCfg(watch_every=8), index=7)
    steps, _, info = play(env, 0, np.random.default_rng(1))
    assert info["success"] is False
    for label, weight, _, _ in steps:
        assert not weight[:STOP].any() and not label[:STOP].any()
        assert label[STOP] == -1.0 or weight[STOP] != 1.0


def test_stop_is_labelled_by_the_goal_and_not_at_its_edge():
    cfg = GuideCfg(alone_steps=10**6, goal_steps=3, linger_steps=4, stop_weight=4.0)
    env = guided("navigate", cfg)
    observation, _ = env.reset(options={"index": 1})
    world, run, is_over = env.unwrapped, 0, False
    seen = set()
    while not is_over:
        run = run + 1 if world.task.is_goal_reached(world.sim) else 0
        wanted = (-1.0, 1.0) if run == 0 else (1.0, 4.0) if run >= 3 else (-1.0, 0.0)
        got = observation[LABEL][STOP], observation[WEIGHT][STOP]
        assert got[1] == wanted[1] and (got[1] == 0.0 or got[0] == wanted[0])
        seen.add(wanted[1])
        observation, _, terminated, truncated, info = env.step(np.zeros(ACTION_SIZE, np.float32))
        is_over = terminated or truncated
    assert seen == {0.0, 1.0, 4.0} and info["failure"] is None and info["is_stop_called"]


def test_the_same_actions_give_the_same_turns_and_labels():
    first, second = (
        play(guided("place", SHARED), 2, np.random.default_rng(5))[0] for _ in range(2)
    )
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_turns_must_have_a_length():
    with pytest.raises(ValueError, match="policy_turn must be two growing numbers from 1"):
        GuideCfg(policy_turn=(9, 3))
