"""Sensors against independent transforms of MuJoCo's own poses."""

import math

import mujoco
import numpy as np
import pytest

from rearrange.tasks.registry import make_env


def ee_frame(sim, point):
    """A world point in the end effector's frame, from MuJoCo's pose as a homogeneous matrix."""
    site = sim.data.site("ee")
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = site.xmat.reshape(3, 3), site.xpos
    return (np.linalg.inv(pose) @ [*point, 1.0])[:3]


def compass(sim, point):
    """(rho, -phi) by complex numbers: the base frame's x is the real axis."""
    base = sim.data.body("base_link")
    x_axis = complex(*base.xmat.reshape(3, 3)[:2, 0])
    way = complex(*(np.array(point[:2]) - base.xpos[:2])) / x_axis
    return abs(way), -math.atan2(way.imag, way.real)


@pytest.fixture(scope="module")
def env():
    env = make_env("set_table", "val", depth=False, observation_delay=0, handle_sensors=True)
    env.reset(options={"index": 1})
    rng = np.random.default_rng(0)
    for _ in range(40):
        action = rng.uniform(-1, 1, 11)
        action[10] = -1
        env.step(action)
    return env


def test_targets_in_the_end_effectors_frame(env):
    o, targets = env.current_observation, env.episode.targets
    starts = [ee_frame(env.sim, t.start) for t in targets]
    goals = [ee_frame(env.sim, t.goal) for t in targets]
    np.testing.assert_allclose(o["obj_start_sensor"], np.ravel(starts), atol=1e-5)
    np.testing.assert_allclose(o["obj_goal_sensor"], np.ravel(goals), atol=1e-5)


def test_compasses_are_positive_to_the_right(env):
    o, targets = env.current_observation, env.episode.targets
    starts = [compass(env.sim, t.start) for t in targets]
    goals = [compass(env.sim, t.goal) for t in targets]
    np.testing.assert_allclose(o["obj_start_gps_compass"], np.ravel(starts), atol=1e-5)
    np.testing.assert_allclose(o["obj_goal_gps_compass"], np.ravel(goals), atol=1e-5)


def test_arm_and_handles(env):
    o, sim = env.current_observation, env.sim
    base = sim.data.body("base_link")
    ee_b = base.xmat.reshape(3, 3).T @ (sim.data.site("ee").xpos - base.xpos)
    np.testing.assert_allclose(o["ee_pos"], ee_b, atol=1e-5)
    np.testing.assert_allclose(o["relative_resting_position"], [0.5, 0, 1.0] - ee_b, atol=1e-5)
    joints = ("shoulder_pan", "shoulder_lift", "upperarm_roll", "elbow_flex", "forearm_roll",
              "wrist_flex", "wrist_roll")  # fmt: skip
    angles = [sim.data.joint(name).qpos[0] for name in joints]
    np.testing.assert_allclose(o["joint"], angles, atol=1e-6)
    handles = [
        ee_frame(sim, sim.marker_pos_w(m)) for m in ("cab_push_point_5", "fridge_push_point")
    ]
    np.testing.assert_allclose(o["marker_rel_pos"], np.ravel(handles), atol=1e-5)
    assert o["is_holding"].tolist() == [0.0]


def test_marker_state_follows_the_joint(env):
    joint = env.sim.model.joint("fridge_top_door")
    env.sim.data.qpos[joint.qposadr] = 0.7
    env.sim.data.qvel[joint.dofadr] = -0.2
    mujoco.mj_forward(env.sim.model, env.sim.data)
    state = env._sensors.read(env.sim)["marker_js"]
    np.testing.assert_allclose(state[2:], [0.7, -0.2], atol=1e-6)


def test_start_sensor_does_not_follow_the_object():
    env = make_env("place", "val", depth=False)
    env.reset(options={"index": 0})
    target = env.episode.targets[0]
    held_at = env.sim.object_pos_w(target.object)
    assert np.linalg.norm(held_at - target.start) > 0.3  # it is in the hand
    sensors = make_env("rearrange_easy", "val", depth=False)
    sensors.reset(options={"index": 0})
    before = np.array(sensors.episode.targets[0].start)
    sensors.sim.snap_object(sensors.episode.targets[0].object)
    read = sensors._sensors.read(sensors.sim)["obj_start_sensor"]
    np.testing.assert_allclose(read, ee_frame(sensors.sim, before), atol=1e-5)


def test_navigate_looks_at_the_start_or_with_the_object_in_hand_at_the_goal():
    env = make_env("navigate", "val", depth=False)
    seen = set()
    for index in range(30):
        observation, _ = env.reset(options={"index": index})
        target, is_held = env.episode.targets[0], env.episode.start_holding
        assert env.sim.held_object == (target.object if is_held else None)
        point = target.goal if is_held else target.start
        expected = compass(env.sim, point)
        np.testing.assert_allclose(observation["goal_to_agent_gps_compass"], expected, atol=1e-5)
        seen.add(is_held)
        if len(seen) == 2:
            return
    pytest.fail("no episode of each sort in 30")
