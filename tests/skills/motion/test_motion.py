"""Planned motions: free, within limits, the same every time."""

import numpy as np
import pytest

from rearrange.sim.robot import fetch
from rearrange.skills.motion import collision, kinematics, motion


def boxes(*rows: tuple[tuple[float, ...], tuple[float, ...]]) -> collision.Obstacles:
    return collision.Obstacles(
        np.zeros(len(rows), np.int64), np.array([row[0] for row in rows], dtype=float),
        np.stack([np.eye(3)] * len(rows)), np.array([row[1] for row in rows], dtype=float),
    )  # fmt: skip


TABLE = ((0.9, 0.0, 0.7), (0.4, 0.8, 0.03))
SHELF = boxes(
    TABLE,
    ((1.0, 0.0, 1.3), (0.25, 0.8, 0.02)),
    ((1.3, 0.0, 1.0), (0.02, 0.8, 0.5)),
    ((0.8, 0.25, 0.85), (0.05, 0.05, 0.12)),
    ((0.75, -0.25, 0.85), (0.05, 0.05, 0.12)),
)


def assert_free(path: np.ndarray, obstacles: collision.Obstacles, margin: float, held=None) -> None:
    steps = motion.time_parametrise(path)
    assert min(collision.min_clearance(q, obstacles, held) for q in steps) >= margin - 0.003


def test_motions_into_a_shelf_are_found_and_free():
    rng = np.random.default_rng(0)
    tried = found = 0
    for _ in range(40):
        approach = np.array([1.0, 0.0, -rng.uniform(0.0, 1.5)])
        target = rng.uniform([0.6, -0.5, 0.8], [0.9, 0.5, 1.1])
        goals = kinematics.solve_ik_many(target, approach, num_solutions=8)
        goals = [q for q in goals if collision.is_free(q, SHELF)]
        if not goals:
            continue
        tried += 1
        path = motion.plan_arm(motion.ARM_REST, goals[0], SHELF)
        if path is None:
            continue
        found += 1
        assert np.array_equal(path[0], motion.ARM_REST) and np.array_equal(path[-1], goals[0])
        assert (path >= fetch.ARM_LOWER - 1e-6).all() and (path <= fetch.ARM_UPPER + 1e-6).all()
        assert_free(path, SHELF, 0.01)
    assert tried >= 20 and found >= 0.95 * tried


def test_a_free_way_is_a_straight_one():
    path = motion.plan_arm(fetch.ARM_START, motion.ARM_REST)
    assert np.array_equal(path, np.stack([fetch.ARM_START, motion.ARM_REST]))


def test_the_same_call_gives_the_same_motion():
    goal = kinematics.solve_ik([0.8, -0.05, 0.85], [0.6, 0.0, -0.8])
    first, second = (motion.plan_arm(motion.ARM_REST, goal, SHELF, seed=3) for _ in range(2))
    assert first is not None and np.array_equal(first, second)


def test_a_goal_inside_something_and_one_behind_a_closed_wall_are_refused():
    inside = kinematics.solve_ik([0.7, 0.0, 0.75], [0, 0, -1])
    assert (
        motion.plan_arm(motion.ARM_REST, inside, boxes(((0.7, 0.0, 0.75), (0.2, 0.2, 0.2)))) is None
    )
    goal = kinematics.solve_ik([0.95, 0.0, 0.9], [1, 0, 0])
    wall = boxes(((0.75, 0.0, 1.0), (0.01, 3.0, 3.0)))
    assert motion.plan_arm(motion.ARM_REST, goal, wall, max_iterations=300) is None


def test_a_hand_on_the_table_leaves_it_and_comes_back():
    q = kinematics.solve_ik([0.75, 0.0, 0.732], [0, 0, -1])
    table = boxes(TABLE)
    touching = collision.min_clearance(q, table)
    assert 0.0 <= touching < 0.01
    for path in (
        motion.plan_arm(q, motion.ARM_REST, table),
        motion.plan_arm(motion.ARM_REST, q, table),
    ):
        assert_free(path, table, touching)


def test_what_is_held_is_carried_around_things():
    held = collision.held_spheres("box", (0.03, 0.08, 0.1), np.array([0.1, 0.0, 0.0]))
    goals = kinematics.solve_ik_many([0.75, 0.0, 1.0], [0.6, 0, -0.8], num_solutions=8)
    goal = next(q for q in goals if collision.is_free(q, SHELF, held))
    path = motion.plan_arm(motion.ARM_REST, goal, SHELF, held)
    assert_free(path, SHELF, 0.01, held)


def test_a_pose_is_reached_by_some_posture():
    path = motion.plan_to_pose(motion.ARM_REST, [0.85, 0.05, 0.85], [0.8, 0, -0.6], SHELF)
    pos, rot = kinematics.ee_pose(path[-1])
    assert np.linalg.norm(pos - (0.85, 0.05, 0.85)) <= 0.002 and rot[:, 0] @ (
        0.8,
        0,
        -0.6,
    ) > np.cos(0.02)
    assert_free(path, SHELF, 0.01)
    assert motion.plan_to_pose(motion.ARM_REST, [2.0, 0.0, 1.0]) is None


def test_steps_keep_the_arms_pace_and_follow_the_path():
    path = np.random.default_rng(0).uniform(-1, 1, (6, 7))
    steps = motion.time_parametrise(path)
    all_steps = np.concatenate([path[:1], steps])
    assert np.abs(np.diff(all_steps, axis=0)).max() <= fetch.MAX_ARM_STEP + 1e-12
    assert np.array_equal(steps[-1], path[-1])
    ideal = np.abs(np.diff(path, axis=0)).max(axis=1).sum() / fetch.MAX_ARM_STEP
    assert len(steps) == np.ceil(ideal)
    for corner in path:  # passed within one step's distance
        assert np.abs(all_steps - corner).max(axis=1).min() <= fetch.MAX_ARM_STEP
    assert motion.time_parametrise(path[:1]).shape == (0, 7)
    assert motion.time_parametrise(np.stack([path[0]] * 3)).shape == (0, 7)


def test_the_rest_posture_is_what_it_is_derived_to_be():
    assert pytest.approx(motion.derive_rest(), abs=0.006) == motion.ARM_REST
    pos, rot = kinematics.ee_pose(motion.ARM_REST)
    assert np.linalg.norm(pos - fetch.EE_REST_B) < 0.03
    assert 45.0 <= np.rad2deg(np.arcsin(-rot[2, 0])) + 0.5 <= 90.0
    assert collision.min_clearance(motion.ARM_REST) > 0.08
    ball = collision.held_spheres("sphere", (0.13,), np.array([0.13, 0.0, 0.0]))
    assert collision.min_clearance(motion.ARM_REST, held=ball) > 0.05
    assert np.abs(motion.ARM_REST - fetch.ARM_START).max() < 0.55
