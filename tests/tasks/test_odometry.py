"""What the robot's wheels and joints say of the last control step."""

import numpy as np
import pytest

from rearrange.tasks.env import RearrangeEnv
from rearrange.tasks.odometry import MOTION


@pytest.fixture(scope="module")
def env():
    return RearrangeEnv("navigate", "train", depth=False, motion=True, observation_delay=0)


def moved(env, action, steps):
    seen = [env.step(action)[0][MOTION] for _ in range(steps)]
    return np.mean(seen, axis=0)


def test_nothing_has_moved_at_the_start(env):
    observation, _ = env.reset(options={"index": 0})
    assert observation[MOTION].shape == (9,) and not observation[MOTION].any()
    assert env.observation_space.contains(observation)


@pytest.mark.parametrize(("slot", "place", "value"), [(8, 0, 1.0), (9, 1, -0.5), (0, 2, 0.6)])
def test_what_is_asked_for_is_what_moves_when_nothing_is_in_the_way(env, slot, place, value):
    env.reset(options={"index": 0})
    action = np.zeros(11, np.float32)
    action[slot] = value
    moved(env, action, 6)  # until it is up to speed
    motion = moved(env, action, 6)
    assert motion[place] == pytest.approx(value, abs=0.15)
    assert all(abs(motion[other]) < 0.15 for other in {0, 1} - {place})  # of the base


def test_it_adds_up_to_where_the_robot_is(env):
    env.reset(options={"index": 1})
    before = env.sim.arm_qpos.copy()
    rng = np.random.default_rng(0)
    ways = [env.step(rng.uniform(-1, 1, 11).astype(np.float32))[0][MOTION] for _ in range(10)]
    np.testing.assert_allclose(
        np.sum(ways, axis=0)[2:] * 0.0125, env.sim.arm_qpos - before, atol=1e-4
    )
