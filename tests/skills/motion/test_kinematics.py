"""The arm's kinematics against two independent programs' table and finite differences."""

import json
from pathlib import Path

import numpy as np
import pytest

from rearrange.sim.robot import fetch
from rearrange.skills.motion import kinematics

TABLE = json.loads((Path(__file__).parents[2] / "data" / "fetch_kinematics.json").read_text())
RNG = np.random.default_rng(0)
POSTURES = RNG.uniform(fetch.ARM_LOWER, fetch.ARM_UPPER, (100, 7))


def angle_between(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.arccos(np.clip(a @ b, -1.0, 1.0)))


def assert_within_limits(q: np.ndarray) -> None:
    assert (q >= fetch.ARM_LOWER - 1e-9).all() and (q <= fetch.ARM_UPPER + 1e-9).all()


def test_gripper_pose_agrees_with_the_table():
    for row in TABLE["rows"]:
        pos, rot = kinematics.gripper_pose(np.array(row["joint"]))
        assert pos == pytest.approx(np.array(row["gripper_pos"]), abs=1e-4)
        assert rot == pytest.approx(np.array(row["gripper_rot"]), abs=1e-4)
        assert kinematics.ee_pose(np.array(row["joint"]))[0] == pytest.approx(
            pos + 0.08 * rot[:, 0]
        )


def test_jacobian_is_the_derivative_of_the_position():
    for q in POSTURES[:20]:
        columns = [
            (kinematics.ee_pose(q + step)[0] - kinematics.ee_pose(q - step)[0]) / 2e-6
            for step in 1e-6 * np.eye(7)
        ]
        assert kinematics.position_jacobian(q) == pytest.approx(np.array(columns).T, abs=1e-6)


@pytest.mark.parametrize("asked", ["position", "approach", "rotation"])
def test_inverse_kinematics_reaches_every_pose_the_arm_can_take(asked):
    solved = 0
    for posture in POSTURES:
        pos, rot = kinematics.ee_pose(posture)
        q = kinematics.solve_ik(
            pos,
            rot[:, 0] if asked == "approach" else None,
            rotation_b=rot if asked == "rotation" else None,
        )
        if q is None:
            continue
        solved += 1
        assert_within_limits(q)
        got_pos, got_rot = kinematics.ee_pose(q)
        assert np.linalg.norm(got_pos - pos) <= 0.002
        if asked == "approach":
            assert angle_between(got_rot[:, 0], rot[:, 0]) <= 0.02
        if asked == "rotation":
            assert np.arccos(np.clip((np.trace(got_rot.T @ rot) - 1) / 2, -1, 1)) <= 0.02
    assert solved >= 98


def test_inverse_kinematics_refuses_what_is_out_of_reach_and_repeats_itself():
    assert kinematics.solve_ik([2.0, 0.0, 1.0]) is None
    first, second = (
        kinematics.solve_ik([0.7, 0.2, 0.6], [0, 0, -1], random_seed=5) for _ in range(2)
    )
    assert np.array_equal(first, second)


def test_several_postures_differ_and_come_nearest_first():
    target, approach = np.array([0.9, 0.1, 0.9]), np.array([1.0, 0.0, 0.0])
    postures = kinematics.solve_ik_many(target, approach, num_solutions=6)
    distances = np.abs(postures - fetch.ARM_START).max(axis=1)
    assert len(postures) >= 3 and (np.diff(distances) >= 0).all()
    assert all(np.linalg.norm(kinematics.ee_pose(q)[0] - target) <= 0.002 for q in postures)
    assert min(np.abs(a - b).max() for i, a in enumerate(postures) for b in postures[:i]) > 0.1


@pytest.mark.parametrize("keep", ["position", "approach", "rotation"])
def test_a_straight_line_is_straight_and_keeps_the_orientation(keep):
    start = kinematics.solve_ik([0.7, 0.1, 0.8], [0, 0, -1])
    begin, rot = kinematics.ee_pose(start)
    end = begin + (0.05, -0.03, -0.15)
    path = kinematics.straight_line(start, end, keep)
    assert np.array_equal(path[0], start) and np.abs(np.diff(path, axis=0)).max() < 0.3
    for i, q in enumerate(path):
        pos, got = kinematics.ee_pose(q)
        assert np.linalg.norm(pos - (begin + (end - begin) * i / (len(path) - 1))) <= 0.002
        assert keep == "position" or angle_between(got[:, 0], rot[:, 0]) <= 0.05
        assert keep != "rotation" or angle_between(got[:, 1], rot[:, 1]) <= 0.05
    assert kinematics.straight_line(start, begin + (1.5, 0.0, 0.0), keep) is None


def test_a_whole_body_step_moves_the_hand_as_asked():
    for q in POSTURES[:30] * 0.5:
        wanted = RNG.uniform(-0.004, 0.004, 3)
        dq, base = kinematics.whole_body_step(q, wanted)
        assert np.abs(dq).max() <= fetch.MAX_ARM_STEP + 1e-12
        forward, turn = base
        rotated = np.array(
            [[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]]
        )
        moved = (forward, 0, 0) + rotated @ kinematics.ee_pose(q + dq)[0] - kinematics.ee_pose(q)[0]
        assert np.linalg.norm(moved - wanted) < 0.0005


def test_a_whole_body_step_stays_within_every_limit():
    q = np.clip(POSTURES[0], fetch.ARM_LOWER, fetch.ARM_UPPER)
    q[3] = fetch.ARM_UPPER[3]
    for direction in np.concatenate([np.eye(3), -np.eye(3)]):
        dq, base = kinematics.whole_body_step(q, 0.5 * direction)
        assert np.abs(dq).max() <= fetch.MAX_ARM_STEP + 1e-12
        assert abs(base[0]) <= fetch.MAX_BASE_SPEED / 30 + 1e-12
        assert abs(base[1]) <= fetch.MAX_BASE_TURN / 30 + 1e-12
        assert_within_limits(q + dq)
        assert not kinematics.whole_body_step(q, 0.5 * direction, base_allowed=False)[1].any()


def test_arm_and_base_drag_a_hand_along_a_door():
    """A quarter circle of radius 0.4 m, as a fridge door's handle goes, at 0.1 m/s."""
    q = kinematics.solve_ik([0.85, 0.2, 1.0], [1, 0, 0])
    preferred, pose = q.copy(), np.zeros(3)
    hinge, start = np.array([0.85, -0.2, 1.0]), np.array([0.85, 0.2, 1.0])
    for k in range(1, 190):
        angle = 0.1 / 30 / 0.4 * k
        wanted_w = hinge + (-0.4 * np.sin(angle), 0.4 * np.cos(angle), 0.0)
        turn = np.array(
            [
                [np.cos(pose[2]), -np.sin(pose[2]), 0],
                [np.sin(pose[2]), np.cos(pose[2]), 0],
                [0, 0, 1],
            ]
        )
        here_w = turn @ kinematics.ee_pose(q)[0] + (pose[0], pose[1], 0.0)
        dq, base = kinematics.whole_body_step(
            q, turn.T @ (wanted_w - here_w), q_preferred=preferred
        )
        q = q + dq
        pose += (base[0] * np.cos(pose[2]), base[0] * np.sin(pose[2]), base[1])
        assert np.linalg.norm(here_w - start) < 0.005
        start = wanted_w
