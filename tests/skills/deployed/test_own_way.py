"""The sensor `floor_way` as a skill makes it, against the base's true motion."""

import math

import numpy as np
import pytest

from rearrange.errors import UserError
from rearrange.skills.deployed.learned import LearnedPolicy
from rearrange.skills.deployed.own_way import OwnWay, is_made, motion
from rearrange.skills.skill import ACTION_SIZE, BASE, GRIP
from rearrange.tasks.floor_way import FLOOR_WAY
from rearrange.tasks.registry import make_env


def seen_from(pose, point):
    """A point of the world in the frame of a base at x, y, yaw."""
    dx, dy = point[0] - pose[0], point[1] - pose[1]
    cos, sin = math.cos(pose[2]), math.sin(pose[2])
    return cos * dx + sin * dy, cos * dy - sin * dx


@pytest.mark.parametrize("seed", range(20))
def test_motion_is_that_of_a_base_on_wheels(seed):
    rng = np.random.default_rng(seed)
    way, turn = rng.uniform(-0.033, 0.033), rng.uniform(-0.083, 0.083)
    radius = way / turn
    after = radius * math.sin(turn), radius * (1.0 - math.cos(turn)), turn  # an arc, exactly
    goal = rng.uniform(-6.0, 6.0, 2)
    if abs(goal[0]) < 0.3:
        goal[0] = 0.3
    command = 0.9 * 30.0 * way, 0.0  # of the way about what it was told, of the turn nothing
    found = motion(tuple(goal), seen_from(after, goal), command)
    np.testing.assert_allclose(found, after, atol=2e-3)


def test_a_goal_right_beside_it_leaves_it_to_the_command():
    told = (0.6, 0.0)
    found = motion((0.0, 2.0), seen_from((0.02, 0.0, 0.0), (0.0, 2.0)), told)
    assert found[0] == pytest.approx(0.02, abs=2e-3)


def test_a_goal_that_is_set_anew_is_no_motion():
    assert motion((3.0, 0.0), (1.0, 1.0), (0.5, 0.0)) == pytest.approx((0.5 / 30.0, 0.0, 0.0))


@pytest.mark.parametrize(
    ("task", "delay"), [("navigate", 0), ("navigate", 1), ("pick", 1), ("place", 0)]
)
def test_it_knows_where_it_is_and_what_the_simulation_tells(task, delay):
    env = make_env(task, "train", floor_way=True, observation_delay=delay)
    observation, _ = env.reset(options={"index": 1})
    own, rng = OwnWay(observation, delay), np.random.default_rng(0)
    start = before = env.sim.base_pose
    command, off, pose_errors = (0.0, 0.0), [], []
    for step in range(60):
        off.append(np.abs(own.read(observation, command) - observation[FLOOR_WAY]).max())
        true = before if delay else env.sim.base_pose
        pose_errors.append(np.hypot(*np.subtract(own.position, seen_from(start, true))))
        action = np.zeros(ACTION_SIZE, np.float32)
        if step % 15 == 0:
            command = tuple(rng.uniform(-0.5, 0.5, 2).tolist())
        action[BASE] = command
        action[:7] = rng.uniform(-1.0, 1.0, 7)
        action[GRIP] = 1.0
        before = env.sim.base_pose
        observation, _, terminated, *_ = env.step(action)
        if terminated:
            break
    assert step > 30
    assert max(pose_errors) < 0.08  # its goal is right beside it, the worst case
    assert np.median(off) < 0.1


def test_pictures_of_bytes_are_the_same():
    env = make_env("navigate", "train", floor_way=True, observation_delay=0)
    observation, _ = env.reset(options={"index": 1})
    coarse = dict(observation)
    coarse["head_depth"] = np.round(255.0 * observation["head_depth"]).astype(np.uint8)
    numbers = OwnWay(coarse, 0).read(coarse, (0.0, 0.0))
    np.testing.assert_allclose(numbers, OwnWay(coarse, 0).read(observation, (0.0, 0.0)), atol=0.25)


def test_who_has_no_picture_is_told_by_the_environment():
    assert is_made(["head_depth", FLOOR_WAY]) and not is_made([FLOOR_WAY, "coarse_depth"])


def test_a_skill_makes_it_of_what_it_observes(make_skill):
    skill = make_skill("navigate", floor_way=True, camera_size=64)
    policy, told, own = LearnedPolicy(skill), LearnedPolicy(skill), OwnWay(skill.observation, 1)
    env, command = policy.make_env(split="train"), (0.0, 0.0)
    assert FLOOR_WAY not in env.observation_space.spaces
    observation, _ = env.reset(options={"index": 1})
    for _ in range(8):
        action = policy.act(observation)
        whole = {**observation, FLOOR_WAY: own.read(observation, command)}
        np.testing.assert_array_equal(action, told.act(whole))
        command = tuple(action[BASE].tolist())
        observation, *_ = env.step(action)
    first, _ = env.reset(options={"index": 1})
    policy.reset()
    again = policy.act(first)
    np.testing.assert_array_equal(again, LearnedPolicy(skill).act(first))  # nothing is remembered
    with pytest.raises(UserError, match="observation 'head_depth' is missing"):
        policy.act({name: value for name, value in first.items() if name != "head_depth"})
    with pytest.raises(UserError, match="observation 'head_depth' must"):
        policy.act({**first, "head_depth": "none"})


def test_the_environment_gives_it_to_a_skill_without_pictures(make_skill):
    skill = make_skill("navigate", floor_way=True, depth=False, ranges="camera")
    policy = LearnedPolicy(skill)
    env = policy.make_env(split="train")
    observation, _ = env.reset(options={"index": 1})
    assert FLOOR_WAY in observation and policy.act(observation).shape == (ACTION_SIZE,)
    assert skill.sensing_options()["floor_way"]
    assert "floor_way" not in make_skill("navigate", floor_way=True).sensing_options()
