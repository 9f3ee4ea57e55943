"""Stepping aside after a failure: by laser or camera alone, to where there is room."""

import mujoco
import numpy as np
import pytest

from rearrange.sim.robot import fetch
from rearrange.skills.deployed.deployment import Senses
from rearrange.skills.deployed.recovery import (
    BACK_STEPS,
    HOLD_STEPS,
    SEEN_ROOM,
    back_out,
    freest,
    room_ahead,
    room_seen,
    step_aside,
)
from rearrange.skills.motion.robot import Robot
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


def test_the_camera_shows_the_room_that_the_simulator_has():
    """The robot looks straight at walls and furniture of a home, from several places."""
    env = make_env("navigate", "val", camera_size=64, observation_delay=0)
    seen, there = [], []
    for index in range(12):
        observation, _ = env.reset(options={"index": index})
        env.sim.set_robot(env.sim.base_pose, fetch.ARM_START)
        observation = env.step(np.zeros(11, np.float32))[0]
        x, y, yaw = env.sim.base_pose
        ways = []
        for side in np.linspace(-0.34, 0.34, 9):  # rays at several heights, as wide as the robot
            for height in (0.09, 0.2, 0.4, 0.49):
                ahead = np.array([np.cos(yaw), np.sin(yaw), 0.0])
                eye = np.array([x, y, height]) + side * np.array([-np.sin(yaw), np.cos(yaw), 0.0])
                groups = np.array([1, 1, 1, 0, 0, 0], np.uint8)  # not the robot
                way = mujoco.mj_ray(
                    env.sim.model, env.sim.data, eye, ahead, groups, 1, -1, np.zeros(1, np.int32)
                )
                ways.append(way if way >= 0.0 else 9.0)
        there.append(min(SEEN_ROOM, min(ways) - fetch.LASER_POS_B[0]))
        seen.append(room_seen(observation["head_depth"]))
    is_visible = np.array(there) > 0.8  # nearer to the base the camera sees little of the floor
    assert is_visible.sum() >= 5 and len(set(np.round(there, 1))) >= 3
    np.testing.assert_array_less(np.array(seen)[is_visible], np.array(there)[is_visible] + 0.1)
    assert np.median(np.array(there)[is_visible] - np.array(seen)[is_visible]) < 0.3


@pytest.mark.parametrize("sight", ["laser", "camera", "nothing"])
def test_the_robot_leaves_its_place(sight):
    """From where Pick episodes begin; without sight it backs off and no more."""
    ranges = sight == "laser"
    env = make_env(
        "pick", "val", depth=sight == "camera", ranges=ranges, observation_delay=0, camera_size=64
    )
    ways = []
    for index in range(5):
        observation, _ = env.reset(options={"index": index})
        assert (BASE_SCAN in observation) == ranges
        senses, start, steps = Senses(), np.array(env.sim.base_pose[:2]), 0
        senses.now = observation
        for action in step_aside(Robot(env.sim), senses, seed=index):
            senses.now = env.step(action)[0]
            steps += 1
        ways.append(float(np.linalg.norm(np.array(env.sim.base_pose[:2]) - start)))
        most = {"laser": 46 + 45, "camera": 126 + 45, "nothing": 0}[sight]
        assert steps == BACK_STEPS if not most else BACK_STEPS <= steps <= BACK_STEPS + most
    # 30 steps of 1/30 s at 0.5 m/s are 0.5 m; something may stand behind
    assert np.median(ways) > 0.35 and max(ways) < (1.5 if most else 0.55)


def test_the_arm_stays_as_it_is_until_the_hand_is_out():
    env = make_env("pick", "val", depth=False)
    env.reset(options={"index": 0})
    env.sim.set_robot(env.sim.base_pose, fetch.ARM_START + 0.3)
    first, targets, x = env.sim.arm_target.copy(), [], []
    for action in back_out(Robot(env.sim)):
        env.step(action)
        targets.append(env.sim.arm_target.copy())
        x.append(env.sim.base_pose[:2])
    assert len(targets) == BACK_STEPS
    np.testing.assert_allclose(targets[:HOLD_STEPS], np.tile(first, (HOLD_STEPS, 1)), atol=1e-6)
    assert np.hypot(*np.subtract(x[HOLD_STEPS - 1], x[0])) > 0.2
    assert np.abs(targets[-1] - fetch.ARM_START).max() < 0.3 - 0.1
