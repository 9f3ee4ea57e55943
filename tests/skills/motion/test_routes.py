"""Routes keep base and arm clear, checked with the arm's spheres against the boxes themselves."""

import numpy as np
import pytest

from rearrange.sim.home.navigation import FloorPlan
from rearrange.sim.robot import fetch
from rearrange.skills.motion import collision, motion, routes

TALL = [(2.0, 1.0, 0.05, 1.0, 1.2), (3.5, 3.0, 0.3, 0.3, 0.9), (1.0, 3.4, 0.5, 0.3, 1.0)]
LOW = [(3.2, 0.6, 0.4, 0.4, 0.35)]
BOUNDS = (0.0, 0.0, 5.0, 4.5)


def world() -> tuple[FloorPlan, FloorPlan, collision.Obstacles, routes.Footprint]:
    """A room: x, y, half x, half y, half height of what stands on its floor."""
    things = TALL + LOW
    plan = FloorPlan(BOUNDS, np.array([(*row[:4], 0.0) for row in things]))
    obstacles = collision.Obstacles(
        np.zeros(len(things), np.int64),
        np.array([(x, y, half_z) for x, y, _, _, half_z in things]),
        np.stack([np.eye(3)] * len(things)),
        np.array([(hx, hy, half_z) for _, _, hx, hy, half_z in things]),
    )
    footprint = routes.arm_footprint(motion.ARM_REST)
    return plan, routes.overhead_plan(plan, obstacles, footprint), obstacles, footprint


def dense(route: np.ndarray) -> np.ndarray:
    pieces = [np.linspace(a, b, 40) for a, b in zip(route[:-1], route[1:], strict=True)]
    return np.concatenate(pieces)


def arm_fits(pose: np.ndarray, plan: FloorPlan, obstacles: collision.Obstacles) -> bool:
    spheres = collision.arm_spheres(motion.ARM_REST)
    cos, sin = np.cos(pose[2]), np.sin(pose[2])
    x, y = (
        pose[0] + cos * spheres[:, 0] - sin * spheres[:, 1],
        pose[1] + sin * spheres[:, 0] + cos * spheres[:, 1],
    )
    in_room = (x > 0).all() and (y > 0).all() and (x < BOUNDS[2]).all() and (y < BOUNDS[3]).all()
    return (
        bool(in_room)
        and collision.min_clearance(motion.ARM_REST, obstacles.in_base(tuple(pose))) > 0.0
    )


def test_only_what_is_as_high_as_the_arm_stands_in_its_way():
    plan, overhead, _, footprint = world()
    assert footprint.low > 0.9 and not plan.is_free(3.2, 0.6)
    assert overhead.clearance_at(3.2, 0.6) > 0.3 and overhead.clearance_at(2.0, 1.0) == 0.0


def test_routes_are_free_for_base_and_arm_and_end_where_asked():
    plan, overhead, obstacles, footprint = world()
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(40):
        start = (*plan.random_free_point(rng), rng.uniform(-3, 3))
        goal = (*plan.random_free_point(rng), rng.uniform(-3, 3))
        if not (
            arm_fits(np.array(start), plan, obstacles) and arm_fits(np.array(goal), plan, obstacles)
        ):
            continue
        route = routes.plan_route(plan, overhead, footprint, start, goal[:2], goal[2])
        if route is None:
            continue
        found += 1
        assert route[0] == pytest.approx(start)
        assert route[-1, :2] == pytest.approx(goal[:2])
        assert np.cos(route[-1, 2] - goal[2]) == pytest.approx(1.0)
        for pose in dense(route):
            assert plan.clearance_at(*pose[:2]) > plan.radius - 0.04
            assert min(np.abs(pose - route[0])[:2].max(), 1.0) < 0.1 or arm_fits(
                pose, plan, obstacles
            )
    assert found >= 15


def test_each_piece_of_a_route_is_a_turn_or_a_straight_drive():
    plan, overhead, _, footprint = world()
    route = routes.plan_route(plan, overhead, footprint, (0.6, 0.6, 0.3), (2.9, 1.8))
    for a, b in zip(route[:-1], route[1:], strict=True):
        way = b[:2] - a[:2]
        if np.hypot(*way) > 1e-6:
            assert a[2] == b[2]
            assert abs(np.sin(np.arctan2(way[1], way[0]) - a[2])) < 1e-6


def test_no_route_into_furniture_nor_to_where_the_arm_would_be_in_a_wall():
    plan, overhead, _, footprint = world()
    assert routes.plan_route(plan, overhead, footprint, (0.6, 0.6, 0.0), (2.0, 1.0)) is None
    assert routes.plan_route(plan, overhead, footprint, (0.6, 0.6, 0.0), (1.6, 1.0), 0.0) is None
    assert (
        routes.plan_route(plan, overhead, footprint, (0.6, 0.6, 0.0), (1.6, 1.0), np.pi) is not None
    )


def test_a_follower_drives_the_route():
    plan, overhead, _, footprint = world()
    route = routes.plan_route(plan, overhead, footprint, (0.6, 0.6, 0.3), (2.9, 1.8), -2.0)
    follower, pose = routes.RouteFollower(route), route[0].copy()
    for _ in range(600):
        forward, turn = follower.act(tuple(pose))
        if follower.is_done:
            break
        pose += (
            np.array(
                [np.cos(pose[2]) * forward, np.sin(pose[2]) * forward, fetch.MAX_BASE_TURN * turn]
            )
            / 30
        )
    assert follower.is_done and np.hypot(*(pose[:2] - (2.9, 1.8))) < 0.03
    assert abs((pose[2] + 2.0 + np.pi) % (2 * np.pi) - np.pi) < 0.03
