"""Stepping aside after a failure: from the laser alone, to where there is room."""

import numpy as np
import pytest

from rearrange.skills.body import Body
from rearrange.skills.deployment import Senses
from rearrange.skills.recovery import freest, room_ahead, step_aside
from rearrange.tasks.ranges import BASE_SCAN, distance_of, nearness, scan_angles
from rearrange.tasks.registry import make_env


def scan_with(near, lengths=3.0, near_length=0.4):
    """A scan of `lengths` m everywhere but where `near(angle)` holds."""
    return nearness(np.where(near(scan_angles()), near_length, lengths))


def test_nearness_and_distance_are_inverse():
    lengths = np.array([0.05, 0.4, 1.0, 3.0, 10.0])
    np.testing.assert_allclose(distance_of(nearness(lengths)), lengths, rtol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_the_freest_direction_is_away_from_what_is_near(seed):
    rng = np.random.default_rng(seed)
    assert freest(scan_with(lambda a: a > -0.2), rng) < -0.2 - np.radians(20)
    assert freest(scan_with(lambda a: a < 0.3), rng) > 0.3 + np.radians(20)


def test_the_directions_differ_where_all_are_free():
    free = scan_with(lambda a: a > 9.0)
    assert len({freest(free, np.random.default_rng(seed)) for seed in range(8)}) > 4


def test_room_ahead_is_that_of_the_middle():
    assert room_ahead(scan_with(lambda a: np.abs(a) > 0.6)) == pytest.approx(3.0, rel=1e-5)
    assert room_ahead(scan_with(lambda a: np.abs(a) < 0.1)) == pytest.approx(0.4, rel=1e-5)


@pytest.mark.parametrize("ranges", [True, False])
def test_the_robot_leaves_its_place(ranges):
    """From where Pick episodes begin; without a laser it backs off and no more."""
    env = make_env("pick", "val", depth=False, ranges=ranges, observation_delay=0)
    ways = []
    for index in range(5):
        observation, _ = env.reset(options={"index": index})
        assert (BASE_SCAN in observation) == ranges
        senses, start, steps = Senses(), np.array(env.sim.base_pose[:2]), 0
        senses.now = observation
        for action in step_aside(Body(env.sim), senses, seed=index):
            senses.now = env.step(action)[0]
            steps += 1
        ways.append(float(np.linalg.norm(np.array(env.sim.base_pose[:2]) - start)))
        assert steps == 24 if not ranges else 24 <= steps <= 24 + 46 + 45
    # 24 steps of 1/30 s at 0.5 m/s are 0.4 m; something may stand behind
    assert np.median(ways) > 0.3 and max(ways) < (1.4 if ranges else 0.45)
