"""What keeps a held thing upright, against rotations computed in another way."""

import mujoco
import numpy as np
import pytest

from rearrange.skills.motion.arm_kernel import jacobian_of, pose_step
from rearrange.skills.motion.motion import ARM_REST
from rearrange.skills.teacher.upright import Upright


class Held:
    """An object held askew: as much of a robot as `Upright.askew` asks for."""

    def __init__(self, axes):
        self.sim, self.axes = self, axes

    def object_quat_w(self, index):
        quat = np.empty(4)
        mujoco.mju_mat2Quat(quat, self.axes.flatten())
        return quat


def rotation(x, y, z):
    """Matrix [3, 3] of a rotation vector, rad, by Rodrigues' formula."""
    angle = float(np.linalg.norm((x, y, z)))
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]]) / max(angle, 1e-12)
    return np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * cross @ cross


@pytest.mark.parametrize("stood", [(0.0, 0.0, 0.0), (np.pi, 0.0, 0.0), (0.0, np.pi / 2, 0.0)])
def test_the_turn_sets_it_as_it_stood_whichever_of_its_sides_was_up(stood):
    robot = Held(rotation(0.0, 0.0, 1.2) @ rotation(*stood))
    upright, rng = Upright(robot, 0), np.random.default_rng(3)
    up = robot.axes.T @ (0.0, 0.0, 1.0)  # the side that was up, in its own axes
    for _ in range(20):
        robot.axes = rotation(*rng.uniform(-1.5, 1.5, 3)) @ robot.axes
        askew = upright.askew
        angle = np.arccos(np.clip((robot.axes @ up)[2], -1.0, 1.0))
        assert np.linalg.norm(askew) == pytest.approx(angle, abs=1e-6)
        assert (rotation(*askew) @ robot.axes @ up)[2] == pytest.approx(1.0)
        assert askew[2] == pytest.approx(0.0, abs=1e-9)  # the shortest: not about the vertical


def test_a_turn_without_weight_is_left_free_and_the_others_are_done():
    move, turn = np.array([0.002, -0.001, 0.001]), np.array([0.01, -0.012, 0.05])
    weights = np.array([0.1, 0.1, 0.0])
    step = pose_step(ARM_REST, move, turn, weights, 0.5, ARM_REST, 0.0, 1e-4)
    done = jacobian_of(ARM_REST)[2] @ step
    assert done[:3] == pytest.approx(move, abs=1e-5)
    assert done[3:5] == pytest.approx(turn[:2], abs=1e-4)
    assert abs(done[5] - turn[2]) > 0.02
