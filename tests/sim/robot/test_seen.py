"""What the camera has seen, against MuJoCo's own rays, and as a part of the episode's state."""

import math
import pickle

import mujoco
import numpy as np
import pytest

from rearrange.sim.robot.seen import BINS, HIGH, LOW, SEEN_SCAN, UNSEEN
from rearrange.tasks.ranges import distance_of
from rearrange.tasks.registry import make_env

TURN = np.array([0.0] * 7 + [-1.0, 0.0, 1.0, -1.0], np.float32)  # arm, grip, base, stop
ROBOT = np.array([1, 1, 1, 0, 0, 0], np.uint8)  # groups that rays hit: all but it


@pytest.fixture(scope="module")
def env():
    return make_env("navigate", "train", depth=False, ranges="seen", observation_delay=0)


def low(observation) -> np.ndarray:
    """Distances of what stands low, [96] m, from behind by the right."""
    return distance_of(observation[SEEN_SCAN])[:BINS]


def by_rays(sim, heights) -> np.ndarray:
    """The nearest hit of rays of these heights from the base's middle, 4 a direction, [96] m."""
    x, y, yaw = sim.base_pose
    nearest, hit = np.full(4 * BINS, np.inf), np.zeros(1, np.int32)
    for i in range(4 * BINS):
        angle = yaw + 2.0 * math.pi * ((i + 0.5) / (4 * BINS) - 0.5)
        ray = np.array([math.cos(angle), math.sin(angle), 0.0])
        for height in heights:
            start = np.array([x, y, height])
            length = mujoco.mj_ray(sim.model, sim.data, start, ray, ROBOT, 1, -1, hit)
            if length >= 0.0:
                nearest[i] = min(nearest[i], length)
    return nearest.reshape(BINS, 4).min(axis=1)


@pytest.mark.parametrize("index", range(4))
def test_after_a_full_turn_it_holds_what_rays_hit(env, index):
    observation, _ = env.reset(options={"index": index})
    for _ in range(95):  # 2.5 rad/s
        observation, *_ = env.step(TURN)
    seen, hit = low(observation), by_rays(env.sim, np.linspace(LOW, HIGH, 15)[1:-1])
    in_view = (hit > 1.0) & (hit < 4.0)  # nearer the camera looks over it
    # The directions beside count too, and pixels are wider than rays.
    around = np.min([np.roll(hit, step) for step in (-2, -1, 0, 1, 2)], axis=0)
    assert in_view.sum() > 8
    assert (seen[in_view] < hit[in_view] + 0.15).mean() > 0.85
    assert (seen[in_view] > around[in_view] - 0.15).mean() > 0.9


def test_what_has_passed_out_of_view_stays(env):
    first, _ = env.reset(options={"index": 0})
    before = (low(first) < UNSEEN - 1e-3).sum()
    assert 0 < before <= BINS / 4 + 4  # 90 degrees, and those beside
    seen = []
    for _ in range(40):
        observation, *_ = env.step(TURN)
        seen.append((low(observation) < UNSEEN - 1e-3).sum())
    assert seen[-1] > 1.5 * before
    again, _ = env.reset(options={"index": 0})
    np.testing.assert_array_equal(again[SEEN_SCAN], first[SEEN_SCAN])


def test_copies_and_states_remember_the_same(env):
    env.reset(options={"index": 1})
    for _ in range(20):
        env.step(TURN)
    state, copied = env.get_state(), pickle.loads(pickle.dumps(env))
    expected = [env.step(TURN)[0][SEEN_SCAN] for _ in range(5)]
    env.reset(options={"index": 2})
    env.set_state(state)
    for values in expected:
        np.testing.assert_array_equal(env.step(TURN)[0][SEEN_SCAN], values)
        np.testing.assert_array_equal(copied.step(TURN)[0][SEEN_SCAN], values)
