"""Vectors of the hand's axes in those of the base, against MuJoCo's own poses."""

import numpy as np
import torch

from rearrange.skills.motion.kinematics import ee_pose
from rearrange.skills.network.base_frame import BASE_FRAME_SIZE, hand_frame_vectors, in_base_frame
from rearrange.tasks.env import RearrangeEnv


def test_a_turned_vector_is_what_the_arms_kinematics_say():
    rng = np.random.default_rng(0)
    joint, vector = rng.uniform(-1.5, 1.5, (20, 7)), rng.uniform(-1.0, 1.0, (20, 3))
    observation = {"joint": torch.tensor(joint), "obj_goal_sensor": torch.tensor(vector)}
    features = in_base_frame(observation, ["obj_goal_sensor"]).numpy()
    assert features.shape == (20, BASE_FRAME_SIZE)
    wanted = np.stack([ee_pose(q)[1] @ v for q, v in zip(joint, vector, strict=True)])
    np.testing.assert_allclose(features[:, :3], wanted, atol=1e-5)
    np.testing.assert_allclose(features[:, 3:], np.clip(10.0 * wanted, -1.0, 1.0), atol=1e-4)


def test_in_the_home_it_is_how_far_the_object_is_ahead_to_the_left_and_above():
    env = RearrangeEnv("pick", "train", depth=False, observation_delay=0)
    env.reset(options={"index": 3})
    sim = env.sim
    for _ in range(5):
        observation, *_ = env.step(env.action_space.sample())
    batch = {name: torch.from_numpy(value)[None] for name, value in observation.items()}
    found = in_base_frame(batch, ["obj_start_sensor"])[0, :3].numpy()
    off = np.array(env.episode.targets[0].start) - sim.ee_pos_w
    yaw = sim.base_pose[2]
    ahead = off[0] * np.cos(yaw) + off[1] * np.sin(yaw)
    left = off[1] * np.cos(yaw) - off[0] * np.sin(yaw)
    np.testing.assert_allclose(found, [ahead, left, off[2]], atol=1e-4)


def test_only_single_vectors_beside_the_joints_can_be_turned():
    shapes = {"joint": (7,), "obj_start_sensor": (3,), "marker_rel_pos": (9,), "ee_pos": (3,)}
    assert hand_frame_vectors(shapes) == ["obj_start_sensor"]
    assert hand_frame_vectors({"obj_start_sensor": (3,)}) == []
    assert hand_frame_vectors(shapes | {"joint": (6,)}) == []
