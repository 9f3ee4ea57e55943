"""Reach plans: the postures they promise, judged by MuJoCo's kinematics and contacts."""

import functools

import mujoco
import numpy as np
import pytest

from rearrange.sim.robot import fetch
from rearrange.sim.simulation import Simulation
from rearrange.skills.motion.motion import ARM_REST
from rearrange.skills.motion.reach import HandPose, ee_position, is_resting, plan_reach, refine
from rearrange.skills.motion.robot import Robot
from rearrange.skills.oracle.objects import PITCHES, PITCHES_LEVEL, plan_pick
from rearrange.skills.oracle.place import plan_place
from rearrange.tasks.episodes.generate import generate_episode

# val episodes of Pick by where the object stands, and of Place by where it has to go.
PICKS = {"counter": 1, "fridge": 5, "drawer": 3, "table": 4, "sofa": 6, "chair": 10, "sink": 19}
PLACES = {"sink": 21, "fridge": 1, "chair": 4, "counter": 6, "sofa": 10, "table": 16}


@pytest.fixture(scope="module")
def sim():
    return Simulation()


def start(sim, task, index):
    """The target of an episode, its world set up."""
    episode = generate_episode(task, "val", 0, index)
    sim.reset(episode.scene)
    target = episode.targets[episode.target_index]
    if episode.start_holding:
        sim.snap_object(target.object)
    return target


def plan(sim, target):
    """How to pick the target; the hand goes level into the fridge."""
    in_fridge = target.start_container == "fridge_top_door"
    return plan_pick(Robot(sim), target.object, PITCHES_LEVEL if in_fridge else PITCHES)


@pytest.fixture(scope="module")
def plan_of(sim):
    """plan_of(index): the plan of an episode of Pick, which is made once; its world is set up."""
    made = functools.cache(lambda index: plan(sim, start(sim, "pick", index)))

    def of(index):
        reach = made(index)
        return start(sim, "pick", index), reach

    return of


def pose(sim, base, q):
    """Puts base and arm, without stepping, as MuJoCo has them."""
    model, data = sim.model, sim.data
    data.qpos[[int(model.joint(n).qposadr[0]) for n in ("base_x", "base_y", "base_yaw")]] = base
    data.qpos[[int(model.joint(j.name).qposadr[0]) for j in fetch.ARM_JOINTS]] = q
    mujoco.mj_forward(model, data)


@pytest.mark.parametrize("index", PICKS.values(), ids=PICKS)
def test_the_last_posture_puts_the_hand_where_it_was_wanted(sim, plan_of, index):
    _, reach = plan_of(index)
    pose(sim, reach.base, reach.lower_rows[-1])
    assert np.linalg.norm(sim.ee_pos_w - reach.hand.pos) < 0.005
    assert np.dot(sim.ee_rot_w[:, 0], reach.hand.approach) > np.cos(0.06)


@pytest.mark.parametrize("index", PICKS.values(), ids=PICKS)
def test_at_the_last_posture_nothing_but_the_object_is_touched(sim, plan_of, index):
    target, reach = plan_of(index)
    geom = sim.object_geom(target.object)
    for row in reach.lower_rows:
        pose(sim, reach.base, row)
        robot = sim.model.body("base_link").id
        for pair in sim.data.contact.geom:
            roots = sim.model.body_rootid[sim.model.geom_bodyid[pair]]
            if (roots == robot).sum() == 1:
                assert geom in pair


@pytest.mark.parametrize("index", PLACES.values(), ids=PLACES)
def test_the_last_posture_of_placing_brings_the_object_over_its_goal(sim, index):
    """The object, carried rigidly by the hand, ends within 12 cm of its goal."""
    target = start(sim, "place", index)
    reach = plan_place(Robot(sim), target.object, np.array(target.goal))
    offset = sim.world_to_ee(sim.object_pos_w(target.object))
    pose(sim, reach.base, reach.lower_rows[-1])
    centre = sim.ee_pos_w + sim.ee_rot_w @ offset
    assert np.hypot(*(centre[:2] - target.goal[:2])) < 0.02
    assert -0.005 < centre[2] - target.goal[2] < 0.12


@pytest.mark.parametrize("index", PICKS.values(), ids=PICKS)
def test_the_base_of_a_plan_stands_on_free_floor_of_the_same_room(sim, plan_of, index):
    _, reach = plan_of(index)
    floor, (x, y, _) = sim.floor_plan(), sim.base_pose
    for base in (reach.base, reach.ready_base):
        assert floor.is_free(*base[:2])
        assert floor.island(*base[:2]) == floor.island(*floor.snap(x, y))


def test_the_ready_base_is_straight_behind_the_base(sim):
    target = start(sim, "pick", 2)
    reach = plan(sim, target)
    back = np.array(reach.base[:2]) - reach.ready_base[:2]
    ahead = np.array([np.cos(reach.base[2]), np.sin(reach.base[2])])
    assert reach.ready_base[2] == reach.base[2]
    assert np.dot(back, ahead) == pytest.approx(np.linalg.norm(back))


@pytest.mark.parametrize("index", PICKS.values(), ids=PICKS)
def test_postures_of_a_plan_are_within_the_joint_limits(plan_of, index):
    rows = plan_of(index)[1].lower_rows
    assert (rows >= fetch.ARM_LOWER - 1e-6).all() and (rows <= fetch.ARM_UPPER + 1e-6).all()


def test_what_is_out_of_reach_has_no_plan(sim):
    """A point 2.5 m up is out of the reach of Fetch (1.65 m and a bit)."""
    start(sim, "pick", 0)
    robot = Robot(sim)
    x, y, _ = sim.base_pose

    def hands(heading):
        yield HandPose(np.array([x, y, 2.5]), np.array([0.0, 0.0, -1.0]))

    world = robot.world_obstacles()
    assert plan_reach(robot, sim.floor_plan(), hands, world, world) is None


def test_refining_corrects_for_a_base_that_stopped_elsewhere(sim, plan_of):
    """3 cm and 3 degrees off, the solved posture still puts the hand on the spot."""
    _, reach = plan_of(4)
    x, y, yaw = reach.base
    sim.set_robot((x + 0.02, y - 0.02, yaw + 0.05), reach.lower_rows[0])
    rows = refine(Robot(sim), reach.hand, reach.lower_rows)
    pose(sim, sim.base_pose, rows[-1])
    assert np.linalg.norm(sim.ee_pos_w - reach.hand.pos) < 0.005


def test_ee_position_is_mujocos(sim):
    start(sim, "pick", 0)
    rng = np.random.default_rng(0)
    for _ in range(20):
        q = rng.uniform(np.maximum(fetch.ARM_LOWER, -3), np.minimum(fetch.ARM_UPPER, 3))
        pose(sim, sim.base_pose, q)
        assert np.abs(ee_position(q) - sim.ee_pos_b).max() < 1e-6


def test_planning_moves_nothing(sim):
    target = start(sim, "pick", 4)
    before = sim.data.qpos.copy()
    plan(sim, target)
    assert np.array_equal(sim.data.qpos, before)


def test_the_same_world_gives_the_same_plan(sim, plan_of):
    target, first = plan_of(19)
    second = plan(sim, target)
    assert first.base == second.base
    assert np.array_equal(first.lower_rows, second.lower_rows)


def test_is_resting_measures_from_the_resting_point(sim):
    start(sim, "pick", 0)
    pose(sim, sim.base_pose, ARM_REST)
    assert np.linalg.norm(sim.ee_pos_b - fetch.EE_REST_B) < 0.01
    assert is_resting(ARM_REST)
    assert not is_resting(ARM_REST + [1.0, 0, 0, 0, 0, 0, 0])
