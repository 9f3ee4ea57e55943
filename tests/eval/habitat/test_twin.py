"""The oracle in a home whose physics run elsewhere: here in a simulation of our own."""

import numpy as np
import pytest

from rearrange.eval.habitat.twin import Twin, TwinEnv
from rearrange.planner.agents.registry import make_agent
from rearrange.sim.home import furniture as fur
from rearrange.sim.simulation import Simulation
from rearrange.tasks.env import RearrangeEnv
from rearrange.tasks.episodes.schema import LINKS, object_handles
from rearrange.tasks.rules.names import SKILL_TASKS


def y_up(vector):
    x, y, z = (float(v) for v in vector)
    return [x, z, -y]


def places_of(env):
    """Of our own world, as Habitat's side tells them."""
    sim = env.sim
    handles = object_handles([placed.kind for placed in sim.scene.objects])
    joints = {fur.PARENTS["counter"]: [0.0] * 8, fur.PARENTS["fridge"]: [0.0] * 2}
    for joint, (parent, link, _) in LINKS.items():
        at = link if len(joints[parent]) == 8 else link - 1
        joints[parent][at] = sim.joint_position(joint)
    x, y, yaw = sim.base_pose
    slot = sim.held_object
    return {
        "objects": {name: y_up(sim.object_pos_w(i)) for i, name in enumerate(handles)},
        "rotations": {
            name: [float(sim.object_quat_w(i)[0]), *y_up(sim.object_quat_w(i)[1:])]
            for i, name in enumerate(handles)
        },
        "joints": joints,
        "arm": sim.arm_qpos.tolist(),
        "arm_target": sim.arm_target.tolist(),
        "base": y_up((x, y, 0.0)),
        "yaw": yaw,
        "hand": y_up(sim.ee_pos_w),
        "held": None if slot is None else handles[slot],
        "held_marker": sim.held_marker,
    }


class Elsewhere:
    """Stands for `HabitatEnv`."""

    def __init__(self, task):
        self.env = RearrangeEnv(task, "val", 0)
        self.num_closed = 0

    @property
    def current_observation(self):
        return self.env.current_observation

    def reset(self, index):
        observation, _ = self.env.reset(options={"index": index})
        return observation, {}

    def step(self, action):
        observation, _, terminated, truncated, info = self.env.step(action)
        failure = "time_limit" if truncated else info["failure"]
        facts = {"success": info["success"], "is_over": terminated or truncated}
        facts |= {"failure": failure, "force": info["force_accum"], "steps": info["num_steps"]}
        return observation, facts

    def places(self):
        return places_of(self.env)

    def close(self):
        self.num_closed += 1


def assert_same(sim, twin):
    assert twin.base_pose == pytest.approx(sim.base_pose, abs=1e-9)
    np.testing.assert_allclose(twin.arm_qpos, sim.arm_qpos, atol=1e-9)
    np.testing.assert_allclose(twin.ee_pos_w, sim.ee_pos_w, atol=1e-9)
    for i in range(sim.num_objects):
        np.testing.assert_allclose(twin.object_pos_w(i), sim.object_pos_w(i), atol=1e-9)
        assert abs(twin.object_quat_w(i) @ sim.object_quat_w(i)) == pytest.approx(1.0, abs=1e-9)
    for name in fur.ARTICULATED_JOINTS:
        assert twin.joint_position(name) == pytest.approx(sim.joint_position(name), abs=1e-9)
    assert (twin.held_object, twin.held_marker) == (sim.held_object, sim.held_marker)


@pytest.mark.parametrize("task", ["place", "open_drawer", "close_fridge"])
def test_the_twin_stands_where_the_other_does(task):
    env = RearrangeEnv(task, "val", 0, depth=False)
    observation, info = env.reset(options={"index": 1})
    agent = make_agent("oracle", env)
    agent.reset(observation, info)
    sim = Simulation()
    sim.reset(env.episode.scene)
    twin, held = Twin(sim), set()
    is_over = False
    while not is_over:
        observation, _, terminated, truncated, info = env.step(agent.act(observation, info))
        is_over = terminated or truncated
        twin.follow(places_of(env))
        assert_same(env.sim, sim)
        held.add((sim.held_object, sim.held_marker))
    assert info["success"]
    assert len(held) == (2 if task != "close_fridge" else len(held))  # held and let go, or pulled


def run(env, name, index):
    agent = make_agent(name, env)
    observation, info = env.reset(options={"index": index})
    agent.reset(observation, info)
    is_over, seen = False, [observation]
    while not is_over:
        observation, _, terminated, truncated, info = env.step(agent.act(observation, info))
        is_over = terminated or truncated
        seen.append(observation)
    return info, agent, seen


@pytest.mark.parametrize("task", [*SKILL_TASKS, "set_table"])
def test_the_oracle_acts_elsewhere_by_the_twins_state(task):
    env = TwinEnv(Elsewhere(task), task=task, split="val", seed=0, depth=False)
    for index in (2, 0) if task != "set_table" else (0,):
        info, agent, seen = run(env, "oracle", index)
        assert info["success"] and agent.failure is None, index
        assert info["num_steps"] == len(seen) - 1
        assert all(info["stages"].values())
        assert info["force_accum"] == env.there.env.sim.force_accum
    env.close()
    assert env.there.num_closed == 1


@pytest.mark.parametrize("delay", [0, 1])
def test_sensors_are_those_there(delay):
    there = Elsewhere("pick")
    there.env.observation_delay = delay
    env = TwinEnv(there, task="pick", split="val", seed=0, observation_delay=delay)
    env.reset(options={"index": 3})
    for action in np.random.default_rng(1).uniform(-1, 1, (40, 11)):
        action[10] = -1.0
        before = there.env.current_observation
        observation, *_ = env.step(action)
        theirs = before if delay else there.env.current_observation
        assert observation.keys() == theirs.keys()
        for name, value in theirs.items():
            np.testing.assert_allclose(observation[name], value, atol=1e-5, err_msg=name)


def test_motors_lead_their_joints_no_further_than_the_skill_allows():
    there = Elsewhere("pick")
    env = TwinEnv(there, task="pick", split="val", seed=0, depth=False)
    env.reset(options={"index": 0})
    env.sim.motor_lead = 0.05
    action = np.zeros(11)
    action[:7], action[10] = 1.0, -1.0
    for _ in range(20):
        before = there.env.sim.arm_qpos
        env.step(action)
        lead = np.abs(there.env.sim.arm_target - before)
        assert lead.max() <= 0.05 + 1e-6
