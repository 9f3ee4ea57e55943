"""The path follower on a base that lags behind its commands, as the physical one does."""

import numpy as np
import pytest

from rearrange.sim.robot import fetch
from rearrange.skills.motion.driving import PathFollower

LAG = 0.1  # s


class LaggingBase:
    def __init__(self, x: float, y: float, yaw: float) -> None:
        self.pose = np.array([x, y, yaw], dtype=float)
        self.velocity = np.zeros(2)

    def step(self, action: np.ndarray) -> None:
        for _ in range(4):  # 120 Hz
            self.velocity += (
                action * (fetch.MAX_BASE_SPEED, fetch.MAX_BASE_TURN) - self.velocity
            ) * (1.0 - np.exp(-1 / 120 / LAG))
            forward, turn = self.velocity
            self.pose += np.array([np.cos(self.pose[2]), np.sin(self.pose[2]), 0]) * forward / 120
            self.pose[2] += turn / 120


def distance_to_path(point: np.ndarray, path: np.ndarray) -> float:
    distances = []
    for a, b in zip(path[:-1], path[1:], strict=True):
        t = np.clip((point - a) @ (b - a) / ((b - a) @ (b - a)), 0, 1)
        distances.append(np.linalg.norm(a + t * (b - a) - point))
    return float(min(distances))


def drive(path, start, final_yaw=None, max_steps=600) -> tuple[int, float, LaggingBase]:
    """Control steps, largest distance from the path, and the base half a second after the end."""
    path, base = np.array(path, dtype=float), LaggingBase(*start)
    follower, deviation = PathFollower(path, final_yaw), 0.0
    for step in range(max_steps):  # noqa: B007
        action = follower.act(tuple(base.pose))
        assert np.abs(action).max() <= 1.0 and not follower.is_stuck
        if follower.is_done:
            break
        base.step(action)
        deviation = max(deviation, distance_to_path(base.pose[:2], path))
    assert follower.is_done and not action.any()
    for _ in range(15):
        base.step(np.zeros(2))
    return step, deviation, base


def test_four_metres_with_a_corner_take_less_than_200_steps():
    steps, deviation, base = drive([[0, 0], [2, 0], [2, 2]], (0, 0, 0))
    assert steps < 200 and deviation < 0.05
    assert np.linalg.norm(base.pose[:2] - (2, 2)) < 0.03


def test_any_path_is_kept_and_ends_where_it_should():
    rng = np.random.default_rng(0)
    for _ in range(60):
        corners = rng.uniform(-2, 2, (rng.integers(1, 5), 2))
        path = np.cumsum(np.vstack([[0, 0], corners]), axis=0)
        final_yaw = rng.uniform(-3, 3)
        _, deviation, base = drive(path, (0, 0, rng.uniform(-3, 3)), final_yaw)
        assert deviation < 0.05
        assert np.linalg.norm(base.pose[:2] - path[-1]) < 0.03
        assert abs((base.pose[2] - final_yaw + np.pi) % (2 * np.pi) - np.pi) < 0.03


def test_a_goal_close_behind_is_reached_backwards_and_a_far_one_is_not():
    steps, _, base = drive([[0, 0], [-0.4, 0]], (0, 0, 0))
    assert steps < 40 and abs(base.pose[2]) < 0.1
    _, _, base = drive([[0, 0], [-2.0, 0]], (0, 0, 0))
    assert abs(base.pose[2]) == pytest.approx(np.pi, abs=0.15)


def test_a_robot_that_cannot_move_notices_within_two_seconds():
    follower = PathFollower([[0, 0], [2, 0]])
    steps = 0
    while not follower.is_stuck:
        follower.act((0.0, 0.0, 0.0))
        steps += 1
    assert 30 <= steps <= 60
    assert not follower.is_done


def test_a_path_without_points_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        PathFollower(np.empty((0, 2)))
