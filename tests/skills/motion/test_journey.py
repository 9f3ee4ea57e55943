"""Journeys: what was found clear stays clear in MuJoCo, and goes where it was said to go."""

import functools
import math
from types import SimpleNamespace

import mujoco
import numpy as np
import pytest

from rearrange.sim.robot import fetch
from rearrange.sim.simulation import Simulation
from rearrange.skills.motion.journey import (
    ArmMotion,
    plan_journey,
    predict,
    rounded,
    run_journey,
)
from rearrange.skills.motion.motion import ARM_REST, plan_arm, time_parametrise
from rearrange.skills.motion.robot import ARM_MARGIN, Robot, near
from rearrange.skills.motion.routes import arm_footprint
from rearrange.tasks.episodes.generate import generate_episode

CASES = (0, 2, 5, 6, 11, 14, 16, 19)  # 6: something in hand; 6, 11, 14: a route that minds the arm


@pytest.fixture(scope="module")
def sim():
    return Simulation()


def start(sim, index):
    """The robot at the start of a Navigate episode, and a random goal pose on its floor."""
    episode = generate_episode("navigate", "val", 0, index)
    sim.reset(episode.scene)
    if episode.start_holding:
        sim.snap_object(episode.targets[episode.target_index].object)
    plan, (x, y, _) = sim.floor_plan(), sim.base_pose
    island = plan.island(*plan.snap(x, y))
    cells = [c for c in plan.free_cells_near(x, y, 1.0, 4.0) if plan.island(*c) == island]
    rng = np.random.default_rng(index)
    goal = cells[rng.integers(len(cells))]
    return Robot(sim), plan, goal, float(rng.uniform(-np.pi, np.pi))


def find(sim, index):
    """A journey to the goal during which the arm goes to rest, if it can."""
    robot, plan, goal, yaw = start(sim, index)
    world = robot.world_obstacles()
    path = plan_arm(
        sim.arm_target, ARM_REST, near(world, sim.base_pose), robot.held_spheres(), ARM_MARGIN
    )
    motions = [] if path is None else [ArmMotion(time_parametrise(path), True)]
    return robot, goal, yaw, plan_journey(robot, plan, goal, yaw, motions, world)


@pytest.fixture(scope="module")
def driven(sim):
    """driven(index): the predicted poses, the goal pose and what `drive` gives, found out once."""

    @functools.cache
    def of(index):
        robot, goal, yaw, journey = find(sim, index)
        predicted = predict(sim.base_pose, journey.way)
        return SimpleNamespace(
            predicted=predicted, steps=journey.steps, goal=goal, yaw=yaw,
            **dict(zip(("poses", "contacts", "failure"), drive(sim, robot, journey), strict=True)),
        )  # fmt: skip

    return of


def drive(sim, robot, journey):
    """Base poses [T, 3] of the journey carried out, steps with contact, and why it failed."""
    poses, contacts, program = [], 0, run_journey(robot, journey)
    while True:
        try:
            action = next(program)
        except StopIteration as end:
            return np.array(poses), contacts, end.value
        sim.step(action[:7], action[7], action[8:10])
        poses.append(sim.base_pose)
        contacts += sim.has_robot_contact()


def wrapped(angle):
    return (angle + np.pi) % (2.0 * np.pi) - np.pi


@pytest.mark.parametrize("index", CASES)
def test_a_journey_touches_nothing_and_ends_at_its_goal(driven, index):
    found = driven(index)
    *place, yaw = found.poses[-1]
    assert found.failure is None
    assert found.contacts == 0
    assert np.hypot(*(place - found.goal)) < 0.04  # 2 cm of the follower, and some rolling on
    assert abs(wrapped(yaw - found.yaw)) < 0.1


@pytest.mark.parametrize("index", CASES)
def test_predicted_poses_replayed_in_mujoco_touch_nothing(sim, index):
    """The robot is put, not driven, along the prediction: contacts are MuJoCo's own."""
    robot, _, _, journey = find(sim, index)
    poses, motion, start_arm = predict(sim.base_pose, journey.way), journey.motion, sim.arm_target
    model, data = sim.model, sim.data
    base = [int(model.joint(name).qposadr[0]) for name in ("base_x", "base_y", "base_yaw")]
    arm = [int(model.joint(joint.name).qposadr[0]) for joint in fetch.ARM_JOINTS]
    held = sim.held_object
    if held is not None:  # it would be left behind
        offset = sim.world_to_ee(sim.object_pos_w(held))
        turn = sim.ee_rot_w.T @ data.geom_xmat[sim.object_geom(held)].reshape(3, 3)
        body_id = int(model.geom_bodyid[sim.object_geom(held)])
        address = int(model.jnt_qposadr[model.body_jntadr[body_id]])
    for step in range(0, journey.steps, 5):
        row = start_arm
        if step >= journey.delay and len(motion.rows):
            row = motion.rows[min(step - journey.delay, len(motion.rows) - 1)]
        data.qpos[base] = poses[min(step, len(poses) - 1)]
        data.qpos[arm] = row
        mujoco.mj_forward(model, data)
        if held is not None:
            quat = np.empty(4)
            mujoco.mju_mat2Quat(quat, (sim.ee_rot_w @ turn).ravel())
            data.qpos[address : address + 3] = sim.ee_pos_w + sim.ee_rot_w @ offset
            data.qpos[address + 3 : address + 7] = quat
            mujoco.mj_forward(model, data)
        assert not sim.has_robot_contact(), f"step {step} of {journey.steps}"


@pytest.mark.parametrize("index", CASES)
def test_the_base_drives_where_it_was_predicted(driven, index):
    """As curves of place and heading: the real base is up to 0.5 s later, which is a pause and
    not another way. A radian of heading moves the hand 0.6 m."""
    found = driven(index)
    for pose in found.poses[::5]:
        gap = found.predicted - pose
        away = np.hypot(np.hypot(gap[:, 0], gap[:, 1]), 0.6 * wrapped(gap[:, 2]))
        assert away.min() < 0.10
    assert abs(len(found.poses) - found.steps) < 30


def test_the_arm_ends_where_a_ready_motion_ends(sim):
    robot, _, _, journey = find(sim, 2)
    assert journey.motion.is_ready
    drive(sim, robot, journey)
    assert np.abs(sim.arm_target - ARM_REST).max() < 1e-6


def test_no_journey_leaves_the_floor(sim):
    robot, plan, _, _ = start(sim, 0)
    outside = (plan.bounds[2] + 3.0, plan.bounds[3] + 3.0)
    assert plan_journey(robot, plan, outside, 0.0, (), robot.world_obstacles()) is None


@pytest.mark.parametrize("index", range(6))
def test_rounded_paths_stay_on_free_floor_between_the_same_ends(sim, index):
    _, plan, goal, _ = start(sim, index)
    path = plan.shortest_path(np.array(sim.base_pose[:2]), goal)
    points = rounded(path, plan)
    assert np.allclose(points[[0, -1]], path[[0, -1]])
    between = np.concatenate(
        [np.linspace(a, b, 12) for a, b in zip(points[:-1], points[1:], strict=True)]
    )
    # A path may brush the rim between two free cells by less than a cell; the grid's own does.
    assert min(plan.clearance_at(*point) for point in between) > fetch.BASE_RADIUS - plan.cell
    assert sum(not plan.is_free(*point) for point in points) == 0


def test_rounding_takes_the_corner_out_of_a_right_angle(sim):
    """On floor that is free everywhere the sharpest turn left is far from 90 degrees."""

    class Everywhere:
        def is_free(self, x, y):
            return True

    points = rounded(np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0]]), Everywhere())
    steps = np.diff(points, axis=0)
    headings = np.arctan2(steps[:, 1], steps[:, 0])
    assert np.abs(np.diff(headings)).max() < 0.3
    assert np.linalg.norm(points - (2.0, 0.0), axis=1).min() < 0.25  # and stays near the corner


def test_a_corner_stays_sharp_where_the_floor_inside_it_is_taken():
    """Everything is free but the inside of the corner, where a round one would pass."""

    class AllButTheInside:
        def is_free(self, x, y):
            return not (x < 1.95 and y > 0.02)

    path = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0]])
    assert np.allclose(rounded(path, AllButTheInside()), path)


def test_the_footprint_of_an_arm_that_holds_something_is_wider(sim):
    robot, *_ = start(sim, 7)
    assert sim.is_holding
    alone = arm_footprint(sim.arm_target)
    with_it = arm_footprint(sim.arm_target, robot.held_spheres())
    assert len(with_it.circles) > len(alone.circles)


def test_docking_ends_within_half_a_centimetre_along_the_heading(sim):
    """A drive ends up to 3 cm off; what lies beside the base is left as it is."""
    start(sim, 0)
    x, y, yaw = sim.base_pose
    wanted = (x + 0.02 * math.cos(yaw), y + 0.02 * math.sin(yaw), yaw + 0.025)
    for action in Robot(sim).dock(wanted):
        sim.step(action[:7], action[7], action[8:10])
    for _ in range(10):
        sim.step(np.zeros(7), -1.0, (0.0, 0.0))
    bx, by, byaw = sim.base_pose
    ahead = (wanted[0] - bx) * math.cos(yaw) + (wanted[1] - by) * math.sin(yaw)
    assert abs(ahead) < 0.006
    assert abs(wanted[2] - byaw) < 0.01
