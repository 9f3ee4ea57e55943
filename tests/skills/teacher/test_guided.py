"""Teacher and policy take turns: who moves the robot, what is labelled, what is reported."""

import numpy as np
import pytest

from rearrange.skills.motion.robot import Robot
from rearrange.skills.skill import ACTION_SIZE, BASE, GRIP, STOP
from rearrange.skills.teacher.guide_cfg import GuideCfg
from rearrange.skills.teacher.guided import LABEL, WEIGHT, make_guided
from rearrange.skills.teacher.retreat import ROLL
from rearrange.skills.teacher.rules import teacher_for
from rearrange.tasks.rules.names import TASKS

ALONE = GuideCfg(alone_steps=10**6)
SHARED = GuideCfg(alone_steps=0, policy_turn=[3, 9], teacher_turn=[5, 30])


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


@pytest.mark.parametrize(("task", "index"), [("place", 3), ("close_drawer", 4)])
def test_alone_the_teacher_solves_the_episode_whatever_the_policy_says(task, index):
    env = guided(task, ALONE)
    steps, terminated, info = play(env, index, np.random.default_rng(0))
    assert terminated and info["failure"] is None
    assert "success" not in info  # it was not the policy's
    assert all((weight[:GRIP] == 1.0).all() for _, weight, _, _ in steps)
    if task == "close_drawer":  # the task does not listen to it
        assert all(weight[GRIP] == 0.0 for _, weight, _, _ in steps)
    # letting go, which Place does once and Close never, counts for more
    assert sum(weight[GRIP] > 1.0 for _, weight, _, _ in steps) == (task == "place")


def test_every_step_is_labelled_and_turns_decide_which_action_is_carried_out():
    env = guided("pick", SHARED)
    by_teacher = by_policy = 0
    for label, weight, action, carried_out in play(env, 0, np.random.default_rng(0))[0]:
        assert (weight[:GRIP] == 1.0).all() and weight[STOP] == 0.0  # Pick has no stop
        assert np.abs(label).max() <= 1.0
        if (carried_out == label).all():
            by_teacher += 1
        else:
            np.testing.assert_array_equal(carried_out, action)
            by_policy += 1
    assert by_teacher > 20 and by_policy > 20


def test_the_label_is_what_the_teacher_would_do_in_this_very_state():
    env = guided("navigate", SHARED)
    observation, _ = env.reset(options={"index": 0})
    other = teacher_for(Robot(env.unwrapped.sim), env.unwrapped.episode)
    for _ in range(40):
        np.testing.assert_allclose(observation[LABEL], np.clip(other.act(), -1, 1), atol=1e-6)
        observation, *_ = env.step(np.zeros(ACTION_SIZE, np.float32) - 0.1)


def test_labels_that_begin_to_back_off_count_for_more():
    cfg = GuideCfg(retreat_weight=5.0, watch_every=2)
    env = guided("navigate", cfg, index=1)  # the policy's alone
    ahead = np.full(ACTION_SIZE, -1.0, np.float32)
    ahead[:GRIP], ahead[BASE] = 0.0, (0.3, 0.0)
    observation, _ = env.reset(options={"index": 0})
    weights, forces, is_over = [], [], False
    while not is_over:  # slowly against whatever is there, and on
        weights.append(float(observation[WEIGHT][ROLL]))
        forces.append(env.unwrapped.sim.force_instant)
        assert weights[-1] == (5.0 if observation[LABEL][ROLL] > 0.9 else 1.0)
        observation, _, terminated, truncated, _ = env.step(ahead)
        is_over = terminated or truncated
    first = weights.index(5.0)
    assert set(weights) == {1.0, 5.0} and first > 12  # it knows once it has stood there for 12
    assert min(forces[first - 11 : first + 1]) > 0.0


def test_a_watched_environment_is_the_policys_alone_and_reports_success():
    env = guided("navigate", GuideCfg(watch_every=8), index=7)
    steps, _, info = play(env, 0, np.random.default_rng(1))
    assert info["success"] is False
    assert all((action == carried_out).all() for _, _, action, carried_out in steps)


def test_saying_stop_weighs_more_and_comes_where_it_is_right():
    env = guided("navigate", GuideCfg(alone_steps=10**6, stop_weight=4.0))
    observation, _ = env.reset(options={"index": 1})
    is_over, seen = False, set()
    while not is_over:
        label, weight = observation[LABEL][STOP], observation[WEIGHT][STOP]
        assert (label, weight) in ((-1.0, 1.0), (1.0, 4.0))
        if label == 1.0:
            assert env.unwrapped.task.is_goal_reached(env.unwrapped.sim)
        seen.add(float(label))
        observation, _, terminated, truncated, info = env.step(np.zeros(ACTION_SIZE, np.float32))
        is_over = terminated or truncated
    assert seen == {-1.0, 1.0} and info["failure"] is None and info["is_stop_called"]


def test_the_same_actions_give_the_same_turns_and_labels():
    first, second = (
        play(guided("close_fridge", SHARED), 2, np.random.default_rng(5))[0] for _ in range(2)
    )
    assert len(first) == len(second)
    for one, other in zip(first, second, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_turns_must_have_a_length():
    with pytest.raises(ValueError, match="policy_turn must be two increasing numbers from 1"):
        GuideCfg(policy_turn=(9, 3))


def test_a_stop_that_the_teacher_would_not_call_is_not_carried_out():
    always_stops = np.zeros(ACTION_SIZE, np.float32)
    always_stops[STOP] = 1.0
    env = guided("close_drawer", GuideCfg(alone_steps=0, policy_turn=[50, 60]))
    seeds = (env.reset(options={"index": i}) for i in range(20))
    next(observation for observation, _ in seeds if not env._is_guided)
    for _ in range(30):
        observation, _, terminated, _, info = env.step(always_stops)
        assert observation[LABEL][STOP] < 0.0 and not terminated
    watched = guided("close_drawer", GuideCfg(alone_steps=0), index=7)  # the policy's alone
    watched.reset(options={"index": 0})
    _, _, terminated, _, info = watched.step(always_stops)
    assert terminated and info["success"] == 0.0
