"""One home of several returned to a state goes on as a single one does, and so do the others."""

import gymnasium
import numpy as np
import pytest

import rearrange  # noqa: F401  (registers the ids)
from rearrange.errors import UserError
from rearrange.tasks.registry import make_env

LIMIT = 7  # control steps of an episode
OPTIONS = {"camera_size": 16, "max_episode_steps": LIMIT}
MODES = ("NextStep", "SameStep", "Disabled")


def make_homes(mode, delay):
    homes = gymnasium.make_vec(
        "rearrange/Pick-v0", num_envs=3, vectorization_mode="vector_entry_point", threads=2,
        autoreset_mode=mode, observation_delay=delay, **OPTIONS,
    )  # fmt: skip
    homes.reset(seed=4)
    return homes


def actions(count, seed):
    drawn = np.random.default_rng(seed).uniform(-1.0, 1.0, (count, 3, 11)).astype(np.float32)
    drawn[:, :, -1] = -1.0  # no stop: the limit of time ends episodes
    return drawn


@pytest.fixture(scope="module")
def states():
    """By the delay: of a single one, in the middle of an episode and after its end."""
    found = {}
    for delay in (0, 1):
        env = make_env("pick", observation_delay=delay, seed=9, **OPTIONS)
        env.reset(options={"index": 2})
        states = []
        for action in actions(LIMIT, 1)[:, 0]:
            env.step(action)
            states.append(env.get_state())
        found[delay] = states[3], states[-1]
    return found


def going_on(state, mode, delay, steps):
    """What a single one returns from a state on, an episode's end as in that mode."""
    env = make_env("pick", observation_delay=delay, **OPTIONS)
    env.set_state(state)
    result, is_over = None, False
    for action in steps:
        if is_over and mode == "Disabled":
            yield result[0], 0.0, *result[2:]
            continue
        if is_over and mode == "NextStep":
            result, is_over = (env.reset()[0], 0.0, False, False), False
        else:
            result = env.step(action)[:4]
            is_over = result[2] or result[3]
            if is_over and mode == "SameStep":
                result, is_over = (env.reset()[0], *result[1:]), False
        yield result


def rows(result, places):
    """Of homes at `places`: each sensor's bytes, reward and flags."""
    observations, rewards, terminated, truncated = result[:4]
    return (
        {name: values[places].tobytes() for name, values in observations.items()},
        *(values[places].tolist() for values in (rewards, terminated, truncated)),
    )


@pytest.mark.parametrize("delay", [0, 1])
@pytest.mark.parametrize("mode", MODES)
def test_a_home_returned_to_a_state_goes_on_bit_for_bit(states, mode, delay):
    homes, same = make_homes(mode, delay), make_homes(mode, delay)
    draws, now = actions(40, 0), 0
    for state, before in ((states[delay][0], 3), (states[delay][0], 5), (states[delay][1], 2)):
        for action in draws[now : now + before]:  # it may have ended by then, and stand still
            homes.step(action), same.step(action)
        now += before
        homes.set_state(1, state)
        steps = draws[now : now + 9]
        for action, alone in zip(steps, going_on(state, mode, delay, steps[:, 1]), strict=True):
            result = homes.step(action)
            mine = {name: value[None] for name, value in alone[0].items()}
            expected = rows((mine, *(np.array([value]) for value in alone[1:])), [0])
            assert rows(result, [1]) == expected
            assert rows(result, [0, 2]) == rows(same.step(action), [0, 2])
        now += 9
    for one in (homes, same):
        one.close()


def test_who_stands_still_keeps_what_it_saw_last(states):
    """With a delay the arrays it was written into are returned meanwhile."""
    homes = make_homes("Disabled", 1)
    home = homes.homes[1]
    for state in (None, states[1][0], states[1][1]):
        if state is not None:  # of a home that stands still
            homes.set_state(1, state)
        while not homes.step(actions(1, 5)[0])[3][1]:
            pass
        kept = {name: value.copy() for name, value in home.current_observation.items()}
        for action in actions(3, 6):
            homes.step(action)
        seen = {name: value.copy() for name, value in home.current_observation.items()}
        anew = anew_from(home)
        for name, value in kept.items():
            np.testing.assert_array_equal(seen[name], value)
            np.testing.assert_array_equal(anew[name], value)
    homes.close()


def anew_from(home):
    """What another one in the same state sees of its world."""
    env = make_env("pick", **OPTIONS)
    env.set_state(home.get_state())
    return env.observe()


def test_a_state_of_no_home_or_for_none_is_refused(states):
    homes, same = make_homes("NextStep", 1), make_homes("NextStep", 1)
    with pytest.raises(UserError, match="home must be a whole number from 0 to 2, got 3"):
        homes.set_state(3, states[1][0])
    with pytest.raises(UserError, match="a state must be what get_state returned, got 5"):
        homes.set_state(1, 5)
    other = make_env("place", **OPTIONS)
    other.reset(seed=0)
    with pytest.raises(UserError, match="a state of pick is needed, got place"):
        homes.set_state(1, other.get_state())
    for action in actions(2, 3):
        assert rows(homes.step(action), [0, 1, 2]) == rows(same.step(action), [0, 1, 2])
    for one in (homes, same):
        one.close()
