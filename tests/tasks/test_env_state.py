"""An environment copied in the middle of an episode goes on as the one it was copied from."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest

from rearrange.errors import UserError
from rearrange.tasks.env import RearrangeEnv
from rearrange.tasks.registry import make_env

OPTIONS = {"camera_size": 16, "ranges": True, "seed": 3}


def actions(count: int) -> np.ndarray:
    """Arm, suction and base all over the place: objects are gripped, pushed and let go."""
    rng = np.random.default_rng(7)
    drawn = rng.uniform(-1.0, 1.0, (count, 11)).astype(np.float32)
    drawn[:, -1] = -1.0  # no stop
    return np.repeat(drawn[: -(-count // 5)], 5, axis=0)[:count]


def run(env, steps) -> list:
    """All that comes out of an environment; a new episode where one ends."""
    found = []
    for action in steps:
        observation, reward, terminated, truncated, info = env.step(action)
        found.append((observation, reward, terminated, truncated, info))
        if terminated or truncated:
            found.append(env.reset())
    return found


def assert_equal(ours, theirs):
    assert type(ours) is type(theirs)
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        for name in ours:
            assert_equal(ours[name], theirs[name])
    elif isinstance(ours, list | tuple):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_equal(one, other)
    else:
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("task", ["place", "close_drawer", "open_fridge", "tidy_house"])
def test_a_pickled_and_a_copied_environment_go_on_bit_for_bit(task):
    env = make_env(task, "train", **OPTIONS)
    env.reset()
    steps = actions(90)
    run(env, steps[:30])
    pickled, copied = pickle.loads(pickle.dumps(env)), copy.deepcopy(env)
    expected = run(env, steps[30:])
    assert_equal(run(pickled, steps[30:]), expected)
    assert_equal(run(copied, steps[30:]), expected)


def test_a_state_can_be_gone_back_to_again_and_again():
    env = make_env("pick", "train", **OPTIONS)
    env.reset(options={"index": 1})
    steps = actions(60)
    run(env, steps[:20])
    state = env.get_state()
    expected = run(env, steps[20:])
    for _ in range(2):  # also after the world went on to another apartment
        env.reset(options={"index": 9})
        env.set_state(state)
        assert_equal(run(env, steps[20:]), expected)


def test_what_is_held_stays_held():
    env = make_env("place", "train", **OPTIONS)
    env.reset()
    other = copy.deepcopy(env)
    assert other.sim.held_object == env.sim.held_object is not None
    other.sim.drop()
    assert env.sim.is_holding and not other.sim.is_holding


def test_before_the_first_reset_there_is_no_state_but_a_copy():
    env = make_env("pick", "val", **OPTIONS)
    with pytest.raises(RuntimeError, match="only after its first reset"):
        env.get_state()
    assert_equal(copy.deepcopy(env).reset(), env.reset())


def test_a_state_of_another_task_is_refused():
    pick, place = make_env("pick", **OPTIONS), make_env("place", **OPTIONS)
    pick.reset(), place.reset()
    with pytest.raises(ValueError, match="a state of place is needed, got pick"):
        place.set_state(pick.get_state())


@pytest.mark.parametrize(
    ("options", "difference"),
    [
        ({"depth": False}, "depth False, here it is True"),
        ({"camera_size": 32}, "camera_size 32, here it is 16"),
        ({"ranges": False}, "ranges False, here it is True"),
        ({"rgb": "plain"}, "rgb 'plain', here it is False"),
        ({"panoptic": True}, "panoptic True, here it is False"),
        ({"handle_sensors": True}, "handle_sensors True, here it is False"),
        ({"motor_lead": 0.15}, "motor_lead 0.15, here it is None"),
        ({"success_scale": 0.5}, "success_scale 0.5, here it is 1.0"),
        ({"force_scale": 0.5}, "force_scale 0.5, here it is 1.0"),
    ],
)
def test_a_state_with_other_sensors_or_scales_is_refused_and_changes_nothing(options, difference):
    env, same, other = (make_env("open_drawer", **OPTIONS | more) for more in ({}, {}, options))
    for one in (env, same, other):
        one.reset()
    other.step(np.zeros(11))
    with pytest.raises(UserError, match=f"equal environment, got one with {difference}"):
        env.set_state(other.get_state())
    assert_equal(run(env, actions(3)), run(same, actions(3)))


def test_a_state_may_differ_in_what_its_episode_does_not_have():
    env = make_env("pick", "val", depth=False, camera_size=64, max_episode_steps=5, seed=1)
    other = make_env("pick", "train", depth=False, seed=8, render_mode="rgb_array")
    other.reset()
    other.step(np.zeros(11))
    env.set_state(other.get_state())
    assert_equal(env.step(np.zeros(11)), other.step(np.zeros(11)))


def test_a_state_can_be_looked_at_with_other_sensors():
    env, other = (make_env("pick", **OPTIONS | {"depth": depth}) for depth in (True, False))
    for one in (env, other):
        one.reset(options={"index": 1})
    for action in actions(5):
        before, _, _, _, _ = env.step(action)
        other.step(action)
    other.set_state(env.get_state(), looks_anew=True)
    mine = {name: value for name, value in env.current_observation.items() if name != "head_depth"}
    assert_equal(other.current_observation, mine)
    assert_equal(other.step(actions(1)[0])[0], mine)
    env.set_state(other.get_state(), looks_anew=True)
    assert env.step(actions(1)[0])[0].keys() == before.keys()
    scaled = make_env("pick", **OPTIONS, success_scale=0.5)
    with pytest.raises(UserError, match="success_scale 1.0, here it is 0.5"):
        scaled.set_state(env.get_state(), looks_anew=True)


def test_what_is_no_state_is_one_line():
    env = make_env("pick", **OPTIONS)
    env.reset()
    whole = env.get_state()
    for state in (None, 5, [], {}, *({n: v for n, v in whole.items() if n != k} for k in whole)):
        with pytest.raises(UserError, match="a state must be what get_state returned, got"):
            env.set_state(state)
    env.set_state(whole)


def test_environments_of_a_vector_made_without_a_seed_differ():
    vector = gymnasium.make_vec(
        "rearrange/Navigate-v0", num_envs=3, vectorization_mode="sync", depth=False
    )
    observation, _ = vector.reset()
    compass = observation["goal_to_agent_gps_compass"]
    assert len({tuple(row) for row in compass}) == 3
    again = RearrangeEnv("navigate", depth=False), RearrangeEnv("navigate", depth=False)
    assert again[0].seed != again[1].seed
    seeded, _ = vector.reset(seed=5)
    for row, seed in zip(seeded["goal_to_agent_gps_compass"], (5, 6, 7), strict=True):
        alone, _ = make_env("navigate", depth=False).reset(seed=seed)
        np.testing.assert_array_equal(alone["goal_to_agent_gps_compass"], row)
    vector.close()


def test_a_copy_without_a_seed_has_the_same_episodes():
    """Drawn when the environment was made, and part of it."""
    env = RearrangeEnv("navigate", depth=False)
    twins = [copy.copy(env), copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
    first = env.reset()[1]["scene"], env.episode
    for twin in twins:
        assert (twin.reset()[1]["scene"], twin.episode) == first
    assert RearrangeEnv("navigate", depth=False).seed != env.seed
