"""Free floor, islands, distances and paths, against hand calculations and a slow loop."""

import numpy as np
import pytest

from rearrange.sim.home.grid_search import CLEARANCE_CAP
from rearrange.sim.home.navigation import FloorPlan

WALL = [2.0, 1.0, 0.05, 1.0, 0.0]  # from y = 0 to 2 at x = 2


def apartment(seed: int) -> FloorPlan:
    rng = np.random.default_rng(seed)
    return FloorPlan(
        (0, 0, 9, 7), rng.uniform([0, 0, 0.03, 0.03, -3], [9, 7, 0.3, 0.2, 3], (30, 5))
    )


def distance_to_rectangle(point: np.ndarray, rectangle: np.ndarray) -> float:
    """By brute force over the outline's points."""
    cx, cy, hx, hy, yaw = rectangle
    s = np.linspace(-1, 1, 401)
    outline = np.concatenate(
        [np.stack([s * hx, 0 * s + sign * hy], 1) for sign in (-1, 1)]
        + [np.stack([0 * s + sign * hx, s * hy], 1) for sign in (-1, 1)]
    )
    turn = np.array([[np.cos(yaw), -np.sin(yaw)], [np.sin(yaw), np.cos(yaw)]])
    local = turn.T @ (point - (cx, cy))
    if (np.abs(local) <= (hx, hy)).all():
        return 0.0
    return float(np.linalg.norm(outline @ turn.T + (cx, cy) - point, axis=1).min())


def length(path: np.ndarray) -> float:
    return float(np.linalg.norm(np.diff(path, axis=0), axis=1).sum())


def test_clearance_is_the_distance_to_the_nearest_rectangle():
    plan = apartment(0)
    for point in np.random.default_rng(1).uniform([1, 1], [8, 6], (40, 2)):
        slow = min(distance_to_rectangle(point, rectangle) for rectangle in plan.obstacles)
        assert plan.clearance_at(*point) == pytest.approx(min(slow, CLEARANCE_CAP), abs=2e-3)
        iy, ix = plan.index(*point)
        assert plan.clearance[iy, ix] == pytest.approx(plan.clearance_at(*plan._centre(iy, ix)))


def test_a_cell_is_free_where_the_robot_fits():
    plan = FloorPlan((0, 0, 4, 4), np.array([[2, 2, 0.5, 0.25, np.pi / 2]]), radius=0.3)
    assert not plan.is_free(2.0, 2.7) and plan.is_free(2.0, 2.9)  # half length 0.5 along y
    assert not plan.is_free(2.5, 2.0) and plan.is_free(2.6, 2.0)
    assert not plan.is_free(0.25, 2.0) and plan.is_free(0.35, 2.0)  # the apartment's edge
    assert not plan.is_free(-1.0, 2.0)


def test_the_largest_island_is_where_points_are_drawn():
    plan = FloorPlan((0, 0, 6, 3), np.array([[4.0, 1.5, 0.05, 1.5, 0.0]]))  # cuts 6 m into 4 and 2
    rng = np.random.default_rng(0)
    points = np.array([plan.random_free_point(rng) for _ in range(300)])
    assert plan.island(1, 1) == plan.largest != plan.island(5, 1) >= 0
    assert (points[:, 0] < 3.66).all()
    assert all(plan.clearance_at(*point) >= plan.radius for point in points)
    assert points.mean(axis=0) == pytest.approx([2.0, 1.5], abs=0.15)  # uniform
    assert np.array_equal(
        points[:5],
        [plan.random_free_point(r) for r in [np.random.default_rng(0)] for _ in range(5)],
    )


def test_cells_near_a_point_lie_in_the_ring():
    plan = apartment(1)
    cells = plan.free_cells_near(4.0, 3.0, 0.8, 1.2)
    distances = np.hypot(*(cells - (4.0, 3.0)).T)
    assert len(cells) > 50 and (distances >= 0.8).all() and (distances <= 1.2).all()
    assert all(plan.island(*cell) == plan.largest for cell in cells)


@pytest.mark.parametrize("point", [(4.0, 3.0), (0.05, 0.05), (8.95, 6.9), (-1.0, 3.0), (20.0, 3.0)])
@pytest.mark.parametrize("r_max", [1.7, np.inf])
def test_cells_near_a_point_are_all_of_the_island_that_lie_there(
    point: tuple[float, float], r_max: float
):
    plan = apartment(2)
    away = np.linalg.norm(plan.free_centres - point, axis=1)
    expected = plan.free_centres[(away >= 0.4) & (away <= r_max)]
    np.testing.assert_array_equal(plan.free_cells_near(*point, 0.4, r_max), expected)


def test_distance_around_a_wall_is_two_straight_lines():
    plan = FloorPlan((0, 0, 4, 4), np.array([WALL]), radius=0.3)
    a, b = np.array([1.0, 1.0]), np.array([3.0, 1.0])
    corner = 2.0 + 0.3  # the centre passes the wall's end at the robot's radius, x = 1.95 ... 2.05
    by_hand = 2 * np.hypot(0.95, corner - 1.0) + 0.1
    assert plan.geodesic_distance(a, b) == pytest.approx(by_hand, rel=0.06)
    assert plan.geodesic_distance(a, a + 0.5) == pytest.approx(
        np.hypot(0.5, 0.5)
    )  # in sight: exact
    field = plan.geodesic_field(*b)
    iy, ix = plan.index(*a)
    assert field[iy, ix] == pytest.approx(plan.geodesic_distance(a, b))
    assert np.isinf(field[plan.index(2.0, 1.0)])


def test_the_field_agrees_with_relaxation_until_nothing_changes():
    plan = FloorPlan((0, 0, 2, 2), np.array([[1.0, 0.7, 0.05, 0.7, 0.3]]), radius=0.2, cell=0.1)
    slow = np.full(plan.shape, np.inf)
    slow[plan.index(0.4, 0.4)] = 0.0
    moves = [(i, j) for i in range(-2, 3) for j in range(-2, 3) if i * i + j * j in (1, 2, 5)]
    ny, nx = plan.shape
    for _ in range(60):
        for iy, ix in np.argwhere(plan.free):
            for dy, dx in moves:
                jy, jx = iy + dy, ix + dx
                between = {
                    (iy + np.floor(dy * s + 0.5 + e), ix + np.floor(dx * s + 0.5 + f))
                    for s in (0.5,)
                    for e in (-1e-6, 1e-6)
                    for f in (-1e-6, 1e-6)
                }
                cells = [(int(y), int(x)) for y, x in between] + [(jy, jx)]
                if all(0 <= y < ny and 0 <= x < nx and plan.free[y, x] for y, x in cells):
                    slow[iy, ix] = min(slow[iy, ix], slow[jy, jx] + 0.1 * np.hypot(dy, dx))
    field = plan.geodesic_field(0.4, 0.4)
    assert np.allclose(field, slow)
    for most in (0.3, 0.95, 1.7):  # m: exact up to there, and nothing else comes that near
        near = plan.geodesic_field(0.4, 0.4, most)
        np.testing.assert_array_equal(near[field <= most], field[field <= most])
        assert (near[field > most] > most).all()


def test_a_path_keeps_clear_and_is_hardly_longer_than_the_shortest_way():
    for seed in range(4):
        plan = apartment(seed)
        rng = np.random.default_rng(seed)
        for _ in range(20):
            a, b = plan.random_free_point(rng), plan.random_free_point(rng)
            path = plan.shortest_path(a, b, clearance_weight=0.0)
            assert np.array_equal(path[0], a) and np.array_equal(path[-1], b)
            # Corners cost 0.1 m each in the search, and a distance may be 2.8% too long itself.
            assert length(path) <= 1.03 * plan.geodesic_distance(a, b) + 0.15
            dense = np.concatenate(
                [np.linspace(p, q, 50) for p, q in zip(path[:-1], path[1:], strict=True)]
            )
            assert (
                min(plan.clearance_at(*point) for point in dense) > plan.radius - 0.036
            )  # half a diagonal


def test_a_weight_on_clearance_keeps_away_from_walls():
    plan = FloorPlan((0, 0, 4, 4), np.array([WALL]), radius=0.3)
    near, far = (plan.shortest_path((1, 1), (3, 1), clearance_weight=w) for w in (0.0, 3.0))
    assert far[:, 1].max() > near[:, 1].max() + 0.1


def test_no_path_between_islands_and_none_from_deep_inside():
    plan = FloorPlan((0, 0, 6, 3), np.array([[4.0, 1.5, 0.05, 1.5, 0.0]]))
    assert plan.shortest_path((1, 1), (5, 1)) is None
    assert plan.geodesic_distance((1, 1), (5, 1)) == np.inf
    block = FloorPlan((0, 0, 6, 6), np.array([[3.0, 3.0, 1.0, 1.0, 0.0]]))
    assert block.shortest_path((3.0, 3.0), (1, 1)) is None


def test_a_robot_that_touches_furniture_leaves_by_the_nearest_free_cell():
    plan = FloorPlan((0, 0, 4, 4), np.array([WALL]), radius=0.3)
    path = plan.shortest_path((1.75, 1.0), (3.0, 1.0))
    assert path[0] == pytest.approx([1.75, 1.0])
    assert path[1, 0] < 1.7 and plan.is_free(*path[1]) and np.hypot(*(path[1] - path[0])) < 0.15


def test_a_floor_without_room_says_so():
    plan = FloorPlan((0, 0, 0.4, 0.4), np.empty((0, 5)))
    with pytest.raises(ValueError, match="no free cell"):
        plan.random_free_point(np.random.default_rng(0))
    assert plan.shortest_path((0.1, 0.1), (0.2, 0.2)) is None
