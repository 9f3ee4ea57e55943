"""Coarse depth against the full picture, the laser scanner against MuJoCo's own rays."""

import math

import mujoco
import numpy as np
import pytest

from rearrange.errors import UserError
from rearrange.sim.robot import fetch
from rearrange.skills.motion.kinematics import solve_ik_many
from rearrange.tasks.ranges import BASE_SCAN, COARSE_DEPTH, MAX_RANGE, LaserScanner
from rearrange.tasks.registry import make_env

TURN = np.array([0.0] * 7 + [-1.0, 0.3, 0.8, -1.0], np.float32)  # arm, grip, base, stop


@pytest.fixture(scope="module")
def env():
    return make_env("pick", "train", camera_size=64, ranges=True, observation_delay=0)


@pytest.mark.parametrize("index", range(8))
def test_a_cell_holds_its_nearest_pixel(env, index):
    observation, _ = env.reset(options={"index": index})
    picture = observation["head_depth"][:, :, 0] * 10.0
    nearest = [
        picture[4 * row : 4 * row + 4, 4 * col : 4 * col + 4].min()
        for row in range(16)
        for col in range(16)
    ]
    expected = 2.0 / (1.0 + np.array(nearest)) - 1.0
    np.testing.assert_allclose(observation[COARSE_DEPTH], expected, atol=1e-6)


@pytest.mark.parametrize("index", range(8))
def test_the_scan_is_what_mujocos_rays_hit(env, index):
    env.reset(options={"index": index})
    for _ in range(5 * index):
        observation, *_ = env.step(TURN)
    sim, scanner = env.sim, LaserScanner(env.sim.model)
    x, y, yaw = sim.base_pose
    ahead, _, height = fetch.LASER_POS_B
    eye = np.array([x + ahead * math.cos(yaw), y + ahead * math.sin(yaw), height])
    groups = np.array([1, 1, 1, 0, 0, 0], np.uint8)  # all but the robot
    lengths, hit = [], np.zeros(1, np.int32)
    for angle in scanner.angles:
        ray = np.array([math.cos(yaw + angle), math.sin(yaw + angle), 0.0])
        length = mujoco.mj_ray(sim.model, sim.data, eye, ray, groups, 1, -1, hit)
        lengths.append(MAX_RANGE if length < 0.0 else min(length, MAX_RANGE))
    off = np.abs(scanner.scan(sim) - np.array(lengths)) > 1e-3
    assert off.sum() <= 1  # a ray along an edge may see either side
    if index:
        expected = 2.0 / (1.0 + scanner.scan(sim)) - 1.0
        np.testing.assert_allclose(observation[BASE_SCAN], expected, atol=1e-6)


def test_the_rays_cover_the_scanners_field(env):
    angles = LaserScanner(env.sim.model).angles
    assert np.all(np.diff(angles) > 0.0)
    np.testing.assert_allclose(angles, -angles[::-1], atol=1e-12)
    ray = math.radians(fetch.LASER_FOV_DEG) / len(angles)
    assert abs(angles[-1] - math.radians(110.0)) < ray


def test_they_come_only_where_asked_for_and_lie_in_their_spaces(env):
    assert not {COARSE_DEPTH, BASE_SCAN} & {*make_env("pick", "train").observation_space.spaces}
    observation, _ = env.reset(options={"index": 3})
    assert env.observation_space.contains(observation)


def test_another_kind_of_ranges_is_one_clear_line():
    with pytest.raises(UserError, match="ranges must be false, true or 'camera', got 'laser'"):
        make_env("pick", "train", ranges="laser")


def test_the_scan_does_not_see_a_hand_at_its_own_height(env):
    """Nor the fingers, which are for pictures alone."""
    env.reset(options={"index": 0})
    sim, scanner = env.sim, LaserScanner(env.sim.model)
    down = np.array([0.7, 0.0, -0.7]) / np.hypot(0.7, 0.7)
    (q,) = solve_ik_many(np.array([0.65, 0.0, 0.2878]) + 0.08 * down, down, num_solutions=1)
    before = sim.base_pose
    sim.set_robot(before, fetch.ARM_START)
    away = scanner.scan(sim)
    sim.set_robot(before, q)
    np.testing.assert_array_equal(scanner.scan(sim), away)
