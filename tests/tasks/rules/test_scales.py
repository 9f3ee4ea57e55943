"""`success_scale` and `force_scale` ask for more than the benchmark does, in training alone."""

import math

import numpy as np
import pytest

from rearrange import load_skill
from rearrange.errors import UserError
from rearrange.tasks.registry import make_env
from rearrange.tasks.rules.rulebook import make_task

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


# Each at 95% of a threshold: 0.1425 of 0.15 m, 14.25 of 15 degrees. A scale of 0.9 asks for more.
AT_95, FAR = 0.1425, (1.5, 0.0, 1.0)
SCALES = pytest.mark.parametrize("scale, works", [(1.0, True), (0.9, False)])


def begin(name, sim, spec, scale):
    task = make_task(name)
    task.set_scales(scale, 1.0)
    task.start(sim, spec)
    return task


@SCALES
def test_navigate_asks_for_so_much_of_its_angle(sim, episode, scale, works):
    sim.base_pose = (1.0, 0.0, math.radians(14.25))
    task = begin("navigate", sim, episode("navigate"), scale)
    assert task.step(sim, True).success is works


@SCALES
@pytest.mark.parametrize("name", ["pick", "place", "open_drawer", "close_drawer"])
def test_the_hand_comes_so_near_to_rest(sim, episode, scale, works, name):
    marker = "cab_push_point_5" if name.endswith("drawer") else None
    sim.joints["drawer_right_top"] = 0.45 if name == "open_drawer" else 0.0
    task = begin(name, sim, episode(name, marker=marker), scale)
    sim.ee, sim.objects[0] = (0.5, AT_95, 1.0), (2.0, 1.0, 1.0)
    sim.held_object = 0 if name == "pick" else None
    assert task.step(sim, True).success is works


@SCALES
def test_place_lets_go_so_near_to_the_goal(sim, episode, scale, works):
    sim.held_object, sim.ee = 0, FAR
    task = begin("place", sim, episode("place", start_holding=True), scale)
    sim.objects[0] = (2.0, 1.0 + AT_95, 1.0)
    task.step(sim, False)
    sim.held_object = None
    assert task.step(sim, False).failure == (None if works else "dropped")


@SCALES
def test_a_placed_object_stays_so_near_to_the_goal(sim, episode, scale, works):
    sim.objects[0], sim.ee = (2.0, 1.0, 1.0), FAR
    task = begin("place", sim, episode("place", start_holding=True), scale)
    assert not task.step(sim, False).terminated
    sim.objects[0], sim.ee = (2.0, 1.0 + AT_95, 1.0), (0.5, 0.0, 1.0)
    assert task.step(sim, False).success is works


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
