"""`success_scale` and `force_scale` ask for more than the benchmark does, in training alone."""

import math

import numpy as np
import pytest

from rearrange import load_skill
from rearrange.errors import UserError
from rearrange.tasks.registry import make_env

STOP = np.zeros(11, np.float32)
STOP[10] = 1.0


@pytest.mark.parametrize(("scale", "distance", "works"), [
    (1.0, 1.45, True), (0.9, 1.45, False), (0.9, 1.25, True), (1.0, 1.55, False),
])  # fmt: skip
def test_navigate_asks_for_so_much_of_its_distance(scale, distance, works):
    env = make_env("navigate", split="train", seed=0, depth=False, success_scale=scale)
    env.reset(seed=0)
    x, y, yaw = env.sim.base_pose
    env.task._goal = (x + distance * math.cos(yaw), y + distance * math.sin(yaw), 0.0)
    *_, info = env.step(STOP)
    assert info["success"] is works


def test_closing_asks_for_so_much_of_the_joint():
    env = make_env("close_drawer", split="train", seed=0, depth=False)
    env.reset(seed=0)
    joint = env.sim.data.joint(env.task._joint)
    joint.qpos = 0.048
    assert env.task._is_reached(env.sim)
    env.task.success_scale = 0.9
    assert not env.task._is_reached(env.sim)
    joint.qpos = 0.044
    assert env.task._is_reached(env.sim)


def test_a_trained_skill_is_judged_by_the_benchmarks_rules():
    skill = load_skill("close_drawer")
    skill.env_kwargs |= {"success_scale": 0.8, "force_scale": 0.5, "homes": "procedural"}
    env = skill.make_env().unwrapped
    assert (env.task.success_scale, env.task.force_scale, env.homes) == (1.0, 1.0, "hab")
    env = skill.make_env(success_scale=0.9, homes="mixed").unwrapped
    assert (env.task.success_scale, env.homes) == (0.9, "mixed")


@pytest.mark.parametrize(("scale", "force", "failure"), [
    (1.0, 9_900.0, None), (1.0, 10_100.0, "force"), (0.5, 5_100.0, "force"), (0.5, 4_900.0, None),
])  # fmt: skip
def test_navigate_ends_at_so_much_of_its_force(scale, force, failure):
    env = make_env("navigate", split="train", seed=0, depth=False, force_scale=scale)
    env.reset(seed=0)
    env.sim._forces.accum = force
    outcome = env.task.step(env.sim, is_stop=False)
    assert outcome.failure == failure and outcome.terminated is (failure is not None)


@pytest.mark.parametrize("scale", [0.0, 0.4, 1.1, math.nan, "0.9", None, True])
def test_a_scale_out_of_range_is_one_line(scale):
    with pytest.raises(UserError, match=r"success_scale must lie in \[0.5, 1\], got"):
        make_env("pick", depth=False, success_scale=scale)


@pytest.mark.parametrize("scale", [0.05, 1.1, math.nan, "0.9", None, True])
def test_a_force_scale_out_of_range_is_one_line(scale):
    with pytest.raises(UserError, match=r"force_scale must lie in \[0.1, 1\], got"):
        make_env("pick", depth=False, force_scale=scale)
