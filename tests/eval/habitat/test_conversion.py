"""Actions and sensors between the two simulators, against our own simulation's numbers."""

import math

import numpy as np
import pytest

from rearrange.eval.habitat.lab import conversion
from rearrange.eval.habitat.lab.conversion import (
    coarse_depth,
    from_habitat,
    held_back,
    scan_directions,
    stock_action,
    to_habitat,
    with_nothing_far,
)
from rearrange.eval.habitat.lab.stock_env import StockEnv
from rearrange.habitat import axes
from rearrange.sim.robot import fetch
from rearrange.tasks import actions, ranges

ALL = {
    "arm_action": ("arm_action", "grip_action"),
    "base_velocity": ("base_vel",),
    "rearrange_stop": ("rearrange_stop",),
}
LIMITS = (fetch.ARM_LOWER, fetch.ARM_UPPER)


def test_each_slot_goes_to_its_action():
    action = np.array([0.1, -0.2, 0.3, -0.4, 0.5, -0.6, 0.7, -1.0, 0.5, -0.25, 1.0])
    told = stock_action(action, ALL)
    assert told["action"] == ("arm_action", "base_velocity", "rearrange_stop")
    given = told["action_args"]
    np.testing.assert_allclose(given["arm_action"], action[actions.ARM], rtol=1e-6)
    assert given["grip_action"].tolist() == [-1.0] and given["rearrange_stop"].tolist() == [1.0]
    # 1/120 s at 10 m/s and 10 rad/s there; 1/30 s at our speeds here
    forward, turn = given["base_vel"] * 10.0 / 120.0
    assert forward == pytest.approx(0.5 * fetch.MAX_BASE_SPEED / 30.0)
    assert turn == pytest.approx(-0.25 * fetch.MAX_BASE_TURN / 30.0, rel=1e-3)


def test_full_base_command_is_within_what_habitat_lab_takes():
    given = stock_action(np.full(11, 5.0), ALL)["action_args"]
    assert np.abs(given["base_vel"]).max() <= 1.0 + 1e-6


def test_a_task_without_arm_or_stop_gets_neither():
    told = stock_action(np.ones(11), {"base_velocity": ("base_vel",)})
    assert set(told["action_args"]) == {"base_vel"} and told["action"] == ("base_velocity",)


def test_arm_is_held_back_as_our_motors_are():
    rng = np.random.default_rng(0)
    for _ in range(200):
        joint = rng.uniform(*LIMITS)
        target = joint + rng.uniform(-0.15, 0.15, 7)
        action = rng.uniform(-1, 1, 11)
        held = held_back(action, target, joint, 0.15, LIMITS)
        ours = target + fetch.MAX_ARM_STEP * action[:7]  # as in Simulation.step
        ours = np.clip(np.clip(ours, joint - 0.15, joint + 0.15), *LIMITS)
        reachable = np.abs(ours - target) <= fetch.MAX_ARM_STEP + 1e-9
        theirs = target + fetch.MAX_ARM_STEP * held[:7]
        np.testing.assert_allclose(theirs[reachable], ours[reachable], atol=1e-9)
        assert np.abs(held[:7]).max() <= 1.0
        np.testing.assert_array_equal(held[7:], action[7:])


def test_without_a_lead_the_action_is_as_it_was():
    action = np.linspace(-1, 1, 11)
    assert held_back(action, np.ones(7), np.zeros(7), None, LIMITS) is action


def test_constants_are_those_of_our_simulation():
    assert (conversion.ARM, conversion.GRIP) == (actions.ARM, actions.GRIP)
    assert (conversion.BASE, conversion.STOP) == (actions.BASE, actions.STOP)
    assert conversion.ARM_STEP == fetch.MAX_ARM_STEP
    assert (conversion.LASER_POS_B, conversion.MAX_RANGE) == (fetch.LASER_POS_B, ranges.MAX_RANGE)
    assert conversion.CELL == ranges.CELL


def test_laser_looks_where_ours_does():
    directions = scan_directions()
    angles = np.arctan2(directions[:, 1], directions[:, 0])
    np.testing.assert_allclose(angles, ranges.scan_angles(), atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1.0)
    assert math.degrees(angles[-1] - angles[0]) == pytest.approx(220.0, abs=5.0)


def test_coarse_depth_is_that_of_the_same_picture():
    depth = np.random.default_rng(1).uniform(0.01, 1.0, (64, 64, 1)).astype(np.float32)
    nearest = ranges._nearest_of_cells(depth, ranges.CELL).ravel()
    np.testing.assert_allclose(
        coarse_depth(depth), ranges.nearness(ranges.MAX_RANGE * nearest), atol=1e-6
    )


def test_nothing_to_see_is_far_away():
    seen = with_nothing_far(np.array([[[0.0]], [[0.25]], [[1.0]]], np.float32))
    assert seen.ravel().tolist() == [1.0, 0.25, 1.0] and seen.dtype == np.float32


def test_axes_are_those_of_the_export():
    point = (1.0, 2.0, 3.0)
    assert tuple(to_habitat(point)) == axes.to_habitat(point)
    assert tuple(from_habitat(to_habitat(point))) == point


def test_the_speed_of_a_joint_is_what_it_moved_in_a_control_step():
    """By hand: 3 cm in 1/30 s are 0.9 m/s, whatever the physics there call its speed."""
    env = object.__new__(StockEnv)
    env._steps = 0
    np.testing.assert_allclose(env._joint_state(0.1), [0.1, 0.0])
    env._steps = 1
    np.testing.assert_allclose(env._joint_state(0.13), [0.13, 0.9], rtol=1e-6)
    env._steps = 2
    np.testing.assert_allclose(env._joint_state(0.13), [0.13, 0.0])
    env._steps = 0
    np.testing.assert_allclose(env._joint_state(0.5), [0.5, 0.0])  # of another episode
