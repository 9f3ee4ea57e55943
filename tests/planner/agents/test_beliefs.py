"""Where the robot takes objects to be, against where they are: nothing is read from them."""

import mujoco
import numpy as np
import pytest

from rearrange.planner.agents.beliefs import FLOOR, Beliefs
from rearrange.planner.agents.skill_view import SkillView, shifted
from rearrange.planner.home.calls import Call
from rearrange.sim.home.furniture import DRAWERS
from rearrange.skills.deployed.deployment import Frames
from rearrange.tasks.registry import make_env


@pytest.fixture(scope="module")
def env():
    made = make_env("set_table", "val", depth=False, observation_delay=0)
    made.reset(options={"index": 0})
    return made


@pytest.fixture
def beliefs(env):
    env.reset(options={"index": 0})
    return Beliefs(env.sim, env.episode)


def pull(env, joint, value):
    """Opens a drawer as if by magic, and waits for what lies in it."""
    sim = env.sim
    sim.data.joint(joint).qpos[0] = value
    still = np.zeros(11, np.float32)
    still[10] = -1.0
    for _ in range(3):
        observation = env.step(still)[0]
    return observation


def test_at_first_everything_is_where_the_episode_has_it(env, beliefs):
    assert all(not beliefs.offset(i).any() for i in range(len(env.episode.targets)))


def test_what_lies_in_a_drawer_comes_along(env, beliefs):
    target = env.episode.targets[0]
    assert target.start_container in DRAWERS
    pull(env, target.start_container, 0.4)
    offset = beliefs.offset(0)
    assert np.linalg.norm(offset) == pytest.approx(0.4, abs=0.02) and abs(offset[2]) < 1e-6
    outward = np.array(env.sim.marker_pos_w(env.episode.marker or "cab_push_point_5"))
    inside = np.array(target.start)
    assert offset[:2] @ (outward - inside)[:2] > 0.0  # out of the counter, not into it
    assert not beliefs.offset(1).any()  # the fruit is in the fridge


def test_who_takes_over_finds_what_has_been_moved_where_it_is(env, beliefs):
    target = env.episode.targets[0]
    pull(env, target.start_container, 0.4)
    later = Beliefs(env.sim, env.episode)
    moved = env.sim.object_pos_w(target.object) - np.array(target.start)
    np.testing.assert_allclose(later.offset(0), moved, atol=1e-6)
    assert np.linalg.norm(moved) > 0.1 and not later.offset(1).any()


def test_what_came_along_with_a_drawer_before_comes_along_after_too(env, beliefs):
    sim, target = env.sim, env.episode.targets[0]
    drawer = sim.data.joint(target.start_container)
    body = sim.model.geom_bodyid[sim.object_geom(target.object)]
    address = sim.model.jnt_qposadr[sim.model.body_jntadr[body]]
    drawer.qpos[0] = 0.2
    moved = 0.23 * np.array(drawer.xaxis)  # it has slid on
    sim.data.qpos[address : address + 3] = np.array(target.start) + moved
    mujoco.mj_forward(sim.model, sim.data)
    later = Beliefs(sim, env.episode)
    np.testing.assert_allclose(later.offset(0), moved, atol=1e-6)
    drawer.qpos[0] = 0.5
    np.testing.assert_allclose(later.offset(0), 0.53 * np.array(drawer.xaxis), atol=1e-6)
    later.taken(0)
    later.let_go(0, 0)
    lies = np.array(target.start) + later.offset(0)
    np.testing.assert_allclose(lies[:2], sim.ee_pos_w[:2], atol=1e-9)


def test_what_was_let_go_lies_below_the_hand_at_the_goals_height(env, beliefs):
    target, hand = env.episode.targets[1], env.sim.ee_pos_w
    for goal in (1, 0):  # its own, or another that it is put aside at
        beliefs.let_go(1, goal)
        believed = np.array(target.start) + beliefs.offset(1)
        height = env.episode.targets[goal].goal[2]
        np.testing.assert_allclose(believed, [hand[0], hand[1], height], atol=1e-9)
    beliefs.taken(1)
    assert not beliefs.offset(1).any()


@pytest.mark.parametrize("later", [Call("navigate", "TARGET_bowl_target|0", ""), None])
def test_what_falls_on_the_way_lies_on_the_floor_below_the_hand(env, beliefs, later):
    target, hand = env.episode.targets[0], env.sim.ee_pos_w
    assert target.name == "bowl_target|0"
    beliefs.begin(Call("pick", target.name, ""))
    beliefs.feel(True)
    beliefs.begin(later)
    beliefs.feel(True)
    assert not beliefs.offset(0).any()
    beliefs.feel(False)
    believed = np.array(target.start) + beliefs.offset(0)
    np.testing.assert_allclose(believed, [hand[0], hand[1], FLOOR], atol=1e-9)


@pytest.mark.parametrize("skill", ["pick", "navigate"])
def test_a_shifted_view_is_that_of_an_episode_whose_object_lies_there(env, skill):
    """Against the sensors themselves, of an object whose start is elsewhere."""
    from dataclasses import replace

    offset = np.array([0.7, -1.1, 0.2])
    seen, _ = env.reset(options={"index": 0})
    sim = env.sim
    frames = Frames(sim.ee_rot_w.copy(), sim.base_pose[2])
    got = shifted(SkillView(skill, 0)(seen), offset, frames)
    first, *others = env.episode.targets
    moved = replace(first, start=tuple(np.array(first.start) + offset))
    episode = replace(env.episode, targets=(moved, *others))
    wanted = SkillView(skill, 0)(env.reset(options={"episode": episode})[0])
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, atol=2e-6, err_msg=name)
