"""The hand in space: it goes where it is told, within the joints' limits."""

import numpy as np
import pytest

from rearrange.sim.robot import fetch
from rearrange.skills.motion.hand_space import (
    CONTROL_HZ,
    HAND_SPEED,
    HandMotion,
    hand_step,
    step_to_rest,
)
from rearrange.skills.motion.kinematics import ee_pose
from rearrange.skills.motion.motion import ARM_REST

STEPS = 24
WAYS = {
    "forward": [1, 0, 0],
    "left": [0, 1, 0],
    "up": [0, 0, 1],
}


def moved(q, motion, steps=STEPS):
    q = q.copy()
    for _ in range(steps):
        dq = hand_step(q, motion)
        assert (np.abs(dq) <= fetch.MAX_ARM_STEP + 1e-12).all()
        q += dq
        assert (q >= fetch.ARM_LOWER - 1e-9).all() and (q <= fetch.ARM_UPPER + 1e-9).all()
    return q


@pytest.mark.parametrize("posture", [ARM_REST, fetch.ARM_START], ids=["rest", "start"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_hand_goes_straight_where_it_is_told(posture, way, sign):
    axis = sign * np.array(WAYS[way])
    q = moved(posture, HandMotion(**{way: sign}))
    way = ee_pose(q)[0] - ee_pose(posture)[0]
    along = float(way @ axis)
    most = STEPS * HAND_SPEED / CONTROL_HZ  # 0.2 m; where joints have to be quick it is slower
    assert 0.6 * most < along < 1.02 * most
    assert np.linalg.norm(way - along * axis) < 0.01


def test_tilting_and_turning_leave_the_hand_where_it_is():
    for motion in (HandMotion(tilt=1.0), HandMotion(tilt=-1.0), HandMotion(turn=1.0)):
        q = moved(ARM_REST, motion)
        assert np.linalg.norm(ee_pose(q)[0] - ee_pose(ARM_REST)[0]) < 0.02
    approach = ee_pose(ARM_REST)[1][:, 0]
    assert ee_pose(moved(ARM_REST, HandMotion(tilt=1.0)))[1][2, 0] > approach[2] + 0.2
    assert ee_pose(moved(ARM_REST, HandMotion(tilt=-1.0)))[1][2, 0] < approach[2] - 0.1
    before, after = (ee_pose(q)[1][:2, 0] for q in (ARM_REST, moved(ARM_REST, HandMotion(turn=1))))
    assert before[0] * after[1] - before[1] * after[0] > 0.0  # to the left


def test_nothing_moves_without_a_motion():
    assert not hand_step(ARM_REST, HandMotion()).any()


def test_out_of_reach_the_hand_stops_and_comes_back():
    far = moved(ARM_REST, HandMotion(forward=1.0), 400)
    further = moved(far, HandMotion(forward=1.0), 60)
    assert np.linalg.norm(ee_pose(further)[0] - ee_pose(far)[0]) < 0.03
    back = moved(far, HandMotion(forward=-1.0), 120)
    assert ee_pose(back)[0][0] < ee_pose(far)[0][0] - 0.2


def test_the_way_to_rest_arrives():
    q = fetch.ARM_START.copy()
    for _ in range(400):
        q += step_to_rest(q)
    np.testing.assert_allclose(q, ARM_REST, atol=1e-3)
