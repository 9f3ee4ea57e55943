"""Predicates on real worlds."""

import math

import mujoco
import pytest

from rearrange.sim.home.furniture import piece_to_world
from rearrange.sim.simulation import Simulation
from rearrange.tasks.episodes.generate import generate_episode
from rearrange.tasks.rules import predicates


@pytest.fixture(scope="module")
def sim():
    return Simulation()


@pytest.mark.parametrize(
    "task", ["set_table", "set_table_easy", "prepare_groceries", "close_drawer"]
)
def test_an_object_is_in_the_container_its_episode_names_and_in_no_other(sim, task):
    for index in range(5):
        episode = generate_episode(task, "val", 0, index)
        sim.reset(episode.scene)
        for target in episode.targets:
            inside = {
                joint
                for joint in ("drawer_right_top", "drawer_right_bottom", "drawer_left_top",
                              "fridge_top_door", "fridge_bottom_door")
                if predicates.contained(sim, target.object, joint)
            }  # fmt: skip
            assert inside == ({target.start_container} - {None})


def test_what_is_pushed_to_the_back_of_the_fridge_is_in_it(sim):
    """Farther back than the arm reaches, where nothing is put: the piece goes on."""
    episode = generate_episode("set_table", "val", 0, 0)
    sim.reset(episode.scene)
    fruit = next(t for t in episode.targets if t.start_container == "fridge_top_door")
    address, pose = sim._slot_qpos[fruit.object], sim.layout.pieces["fridge"]
    half = sim.layout.shapes["fridge"].half[0]
    found = []
    for x in (0.05, -0.2, 0.05 - half, -half - 0.05, half + 0.05):
        sim.data.qpos[address : address + 2] = piece_to_world(pose, x, 0.0)
        mujoco.mj_forward(sim.model, sim.data)
        found.append(predicates.contained(sim, fruit.object, "fridge_top_door"))
    assert found == [True, True, True, False, False]
    sim.data.qpos[address : address + 2] = piece_to_world(pose, -0.2, 0.0)
    sim.data.qpos[address + 2] = 3.0  # on top of it
    mujoco.mj_forward(sim.model, sim.data)
    assert not predicates.contained(sim, fruit.object, "fridge_top_door")


@pytest.mark.parametrize(
    "joint, positions",
    [
        ("drawer_right_top", (0.0, 0.14, 0.25, 0.36, 0.45)),  # m
        ("fridge_top_door", (0.0, 0.14, 1.06, 1.08, 1.22)),  # rad
    ],
)
def test_open_and_closed_leave_a_gap(sim, joint, positions):
    episode = generate_episode("set_table", "val", 0, 0)
    sim.reset(episode.scene)
    address = sim.model.joint(joint).qposadr[0]
    states = []
    for position in positions:
        sim.data.qpos[address] = position
        states.append((predicates.closed(sim, joint), predicates.opened(sim, joint)))
    assert states == [(True, False), (True, False), (False, False), (False, True), (False, True)]


def test_robot_at_is_planar(sim):
    sim.reset(generate_episode("tidy_house", "val", 0, 0).scene)
    x, y, _ = sim.base_pose
    assert predicates.robot_at(sim, (x + 1.99, y, 50.0))
    assert not predicates.robot_at(sim, (x + 2.01, y, 0.0))
    assert not predicates.robot_at(sim, (x + 1.5, y + 1.5, 0.0))


def test_holding_and_object_at(sim):
    episode = generate_episode("tidy_house", "val", 0, 0)
    sim.reset(episode.scene)
    target = episode.targets[2]
    assert not predicates.holding(sim, target)
    sim.snap_object(target.object)
    assert predicates.holding(sim, target) and not predicates.holding(sim, episode.targets[1])
    distance = math.dist(sim.object_pos_w(target.object), target.goal)
    assert predicates.object_at(sim, target, distance + 1e-6)
    assert not predicates.object_at(sim, target, distance - 1e-6)
