"""What a wall keeps an arm from, against points along every line of sight."""

import numpy as np

from rearrange.sim.home.house import floor_plan
from rearrange.sim.home.standing import is_cut_off
from rearrange.sim.homes.layout import make_layout
from rearrange.tasks.episodes.generate import generate_episode


def is_in_a_wall(points, walls):
    """Of points [n, 2] whether each lies within one of the rectangles [W, 5], by turning them."""
    inside = np.zeros(len(points), dtype=bool)
    for x, y, half_x, half_y, yaw in walls:
        along = (points - (x, y)) @ (np.cos(yaw), np.sin(yaw))
        across = (points - (x, y)) @ (-np.sin(yaw), np.cos(yaw))
        inside |= (np.abs(along) < half_x) & (np.abs(across) < half_y)
    return inside


def is_seen(points, target, walls):
    """Of points [n, 2] whether 500 steps to the target pass through no wall."""
    shares = np.linspace(0.0, 1.0, 501)[:, None]
    lines = [point + shares * (np.asarray(target)[:2] - point) for point in points]
    return np.array([not is_in_a_wall(line, walls).any() for line in lines])


def test_a_point_is_cut_off_where_the_way_to_it_leads_through_a_wall():
    rng = np.random.default_rng(0)
    walls = np.array([[1.0, 1.0, 0.6, 0.05, 0.0], [2.0, 0.5, 0.05, 0.4, 0.5]])
    for target in rng.uniform(0.0, 3.0, (10, 2)):
        points = rng.uniform(0.0, 3.0, (20, 2))
        cut_off = is_cut_off(points, target, walls)
        assert 0 < cut_off.sum() < 20
        assert (cut_off == ~is_seen(points, target, walls)).all()
    assert not is_cut_off(points, target, np.empty((0, 5))).any()


def test_targets_and_goals_are_reached_from_their_own_side_of_every_wall():
    """Goals at the back of a counter were once in reach from the corridor behind it alone."""
    num_targets = 0
    for index in range(2):
        episode = generate_episode("tidy_house", "val", 0, index, homes="procedural")
        layout = make_layout(episode.scene.layout_id)
        plan = floor_plan(layout, episode.scene.joints)
        for target in episode.targets:
            for point in (target.start, target.goal):
                stands = plan.free_cells_near(point[0], point[1], 0.4, 0.75)
                assert is_seen(stands, point, layout.walls).sum() >= 6
                num_targets += 1
    assert num_targets == 20


def test_the_robot_of_a_place_starts_on_its_goals_side_of_the_wall():
    """Index 38 began in the corridor behind the kitchen's wall, 7 m of driving from its goal."""
    episode = generate_episode("place", "val", 0, 38, homes="procedural")
    layout = make_layout(episode.scene.layout_id)
    plan = floor_plan(layout, episode.scene.joints)
    goal = episode.targets[0].goal
    stands = plan.free_cells_near(goal[0], goal[1], 0.0, 0.72)
    seen = stands[is_seen(stands, goal, layout.walls)]
    ways = [plan.geodesic_distance(np.array(episode.scene.base[:2]), stand) for stand in seen]
    assert min(ways) < 3.0
