"""The floor that was seen, and the way over it, against a plain search of the same grid."""

import heapq
import itertools
import math

import numpy as np
import pytest

from rearrange.sim.robot import floor_search as search
from rearrange.sim.robot.seen_floor import DRIVING, REACHING, SeenFloor

HERE = (0.0, 0.0, 0.0)
NO_ARM = np.full((2, 3), -9.0)
NO_REACH = np.full(2, np.inf)
NOTHING = np.full((64, 64, 1), 10.0, np.float32)
MIDDLE = search.SIDE // 2


def wall(distance, left, right, pixels=64, height=2.0) -> np.ndarray:
    """A picture, [H, H, 1] m, of a wall across the base's way, from `left` to `right` m aside."""
    rays = search.pixel_rays(pixels, 1)
    eye_x, _, eye_z = 0.25, 0.0, 1.2
    depth = np.full((pixels, pixels), 10.0)
    for row, column in itertools.product(range(pixels), repeat=2):
        x, y, z = rays[row, column]
        floor = eye_z / -z if z < 0.0 else math.inf
        at = (distance - eye_x) / x if x > 0.0 else math.inf
        is_hit = right < at * y < left and 0.0 < eye_z + at * z < height
        depth[row, column] = min(10.0, floor, at if is_hit else math.inf)
    return depth[:, :, None].astype(np.float32)


def mark(floor, x, y) -> None:
    """Something tall at a place, m: as after a picture of it."""
    iy, ix = (int(math.floor(value / search.CELL)) + MIDDLE for value in (y, x))
    search._mark(floor._near, floor._cost, iy, ix)
    floor._barred[iy, ix] = True


def least_cost(cost, start, goal, closest, farthest) -> float:
    """Of the way and its end: Dijkstra's, in Python, with moves to the 16 neighbours."""
    moves = [
        (j, i)
        for j, i in itertools.product(range(-2, 3), repeat=2)
        if math.gcd(j, i) == 1 and (j, i) != (0, 0)
    ]
    best, queue, least = {start: 0.0}, [(0.0, start)], math.inf
    while queue:
        spent, (y, x) = heapq.heappop(queue)
        if spent > best[y, x]:
            continue
        if spent >= least:
            return least
        away = math.hypot(x - goal[0], y - goal[1]) * search.CELL
        if away <= farthest and cost[y, x] < search.TIGHT:
            more = max(away - closest, 0.0) / search.CELL
            least = min(least, spent + search.FARTHER * more)
        for j, i in moves:
            each = (cost[y, x] + cost[y + j, x + i]) / 2
            if abs(i) + abs(j) == 3:
                half = (int(j / 2), int(i / 2))
                rest = (j - half[0], i - half[1])
                each = max(each, cost[y + half[0], x + half[1]], cost[y + rest[0], x + rest[1]])
            new = spent + math.hypot(i, j) * each
            if new < best.get((y + j, x + i), math.inf):
                best[y + j, x + i] = new
                heapq.heappush(queue, (new, (y + j, x + i)))
    return math.inf


def length_of(way: np.ndarray) -> float:
    return float(np.hypot(*np.diff(way, axis=0).T).sum())


def test_where_nothing_was_seen_it_goes_straight():
    floor = SeenFloor()
    floor.begin((4.0, 3.0))
    floor.look(NOTHING, HERE, NO_ARM)
    x, y = floor.ahead(1.0)
    assert abs(math.atan2(y, x) - math.atan2(3.0, 4.0)) < 0.03
    assert floor.left() == pytest.approx(5.0 - DRIVING.closest, abs=0.25)
    cos, sin, *_, left = floor.numbers()
    assert cos**2 + sin**2 == pytest.approx(1.0, abs=1e-5) and 0.0 < left < 1.0


def test_it_goes_around_a_wall_by_the_open_side():
    floor = SeenFloor()
    floor.begin((5.0, 0.0))
    floor.look(NOTHING, HERE, NO_ARM)
    straight = floor.left()
    floor.begin((5.0, 0.0))
    floor.look(wall(2.0, 2.5, -0.8), HERE, NO_ARM)  # its end on the right is nearer
    assert floor.ahead(1.0)[1] < -0.2
    assert straight + 0.2 < floor.left() < straight + 2.0
    floor.begin((5.0, 0.0))
    floor.look(wall(2.0, 0.8, -2.5), HERE, NO_ARM)
    assert floor.ahead(1.0)[1] > 0.2


def test_it_remembers_what_it_has_turned_its_back_on():
    """Twice the same goal behind a wall, once seen and once not, looking the other way."""
    ways = []
    for first in (NOTHING, wall(2.0, 1.0, -1.0)):
        floor = SeenFloor()
        floor.begin((5.0, 0.0))
        floor.look(first, HERE, NO_ARM)
        for _ in range(5):
            floor.look(NOTHING, (0.0, 0.0, math.pi), NO_ARM)
        ways.append(floor.left())
    assert ways[1] > ways[0] + 0.2


@pytest.mark.parametrize("ends", [DRIVING, REACHING])
@pytest.mark.parametrize("seed", range(3))
def test_no_way_is_cheaper(seed, ends):
    rng = np.random.default_rng(seed)
    cost = np.ones((search.SIDE, search.SIDE), np.float32)
    cost[MIDDLE - 20 : MIDDLE + 60, MIDDLE - 20 : MIDDLE + 60] = rng.choice(
        [1.0, 2.5, search.TIGHT, search.TOUCHING], (80, 80), p=[0.5, 0.2, 0.15, 0.15]
    )
    goal = rng.uniform(2.0, 3.5, 2)
    spent, before = np.empty_like(cost), np.empty(cost.shape, np.int32)
    bare, barred = np.full(cost.shape, True), np.full(cost.shape, False)
    way = search.cheapest_way(cost, bare, barred, spent, before, 0.02, 0.03, *goal, *ends[:2])
    at = np.floor(way[-1] / search.CELL).astype(int) + MIDDLE
    cells = goal / search.CELL + MIDDLE - 0.5
    beyond = max(np.hypot(*(at - cells)) - ends.closest / search.CELL, 0.0)
    found = spent[at[1], at[0]] + search.FARTHER * beyond
    assert found == pytest.approx(least_cost(cost, (MIDDLE, MIDDLE), cells, *ends[:2]), rel=1e-4)
    assert np.hypot(*(way[-1] - goal)) <= ends.farthest + 1e-9


def test_it_takes_in_a_wall_and_neither_floor_nor_ceiling():
    near = np.full((search.SIDE, search.SIDE), search.SPREAD + 1.0, np.float32)
    cost = np.ones_like(near)
    bare, barred = np.zeros((2, *near.shape), np.bool_)
    rays, seen_so = search.pixel_rays(64, 1), (bare, barred, np.array([1.0, 1.2]))
    search.take_in(near, cost, *seen_so, wall(2.0, 1.0, -1.0), 1, rays, NO_ARM, *HERE)
    y, x = np.nonzero(near == 0.0)
    assert set(x - MIDDLE) <= {19, 20} and len(y) >= 18
    assert np.abs(y - MIDDLE + 0.5).max() <= 10.5
    np.testing.assert_array_equal(barred, near == 0.0)  # as high as that, too
    y, x = np.nonzero(bare)
    assert 5 < x.min() - MIDDLE < 10 and len(y) > 100  # floor, from where the camera sees it on
    assert {-2, 0, 2} <= set(y[x == MIDDLE + 12] - MIDDLE)
    assert not bare[MIDDLE - 5 : MIDDLE + 5, MIDDLE + 22 : MIDDLE + 30].any()  # behind the wall
    seen = cost.copy(), barred.copy()
    search.take_in(near, cost, *seen_so, wall(9.0, 0.0, 0.0), 1, rays, NO_ARM, *HERE)
    search.take_in(near, cost, *seen_so, wall(1.5, 1.0, -1.0, height=0.05), 1, rays, NO_ARM, *HERE)
    np.testing.assert_array_equal(cost, seen[0])
    search.take_in(near, cost, *seen_so, wall(1.5, 1.0, -1.0, height=0.9), 1, rays, NO_ARM, *HERE)
    np.testing.assert_array_equal(barred, seen[1])  # the arm goes over what is lower


def test_neither_the_arm_nor_what_it_holds_is_an_obstacle():
    """A wall 0.9 m ahead, of which the arm hides the middle, and a thing that hangs from the hand
    all that is below the hand."""
    arm = np.array([[0.3, 0.0, 0.9], [0.9, 0.0, 0.9]])
    seen = []
    for points in (NO_ARM, arm):
        near = np.full((search.SIDE, search.SIDE), search.SPREAD + 1.0, np.float32)
        rays = search.pixel_rays(64, 1)
        bare, barred = np.zeros((2, *near.shape), np.bool_)
        given = np.ones_like(near), bare, barred, NO_REACH
        search.take_in(near, *given, wall(0.9, 0.8, -0.8, height=0.9), 1, rays, points, *HERE)
        seen.append({int(y) - MIDDLE for y in np.nonzero(near == 0.0)[0]})
    hidden = seen[0] - seen[1]
    assert {-1, 0} <= hidden <= {-2, -1, 0, 1}
    assert {-5, 5} <= seen[1]


@pytest.mark.parametrize("opening", [0.0, 0.5 * math.pi, math.pi, -0.5 * math.pi])
def test_the_arm_gets_to_the_goal_from_where_the_way_ends(opening):
    """A goal on a shelf, a cupboard open to one side around it."""
    goal, floor = np.array([3.0, 0.5]), SeenFloor(REACHING)
    floor.begin((3.0, 0.5), 1.0)
    for angle in np.arange(0.0, 2.0 * math.pi, 0.05):
        if abs(math.remainder(angle - opening, 2.0 * math.pi)) > 0.7:
            x, y = goal + 0.35 * np.array([math.cos(angle), math.sin(angle)])
            mark(floor, x, y)
    floor.look(NOTHING, HERE, NO_ARM)
    end = floor.end() - goal
    assert np.hypot(*end) > 0.95  # where the arm can turn: cells are 0.1 m
    assert REACHING.closest - 0.1 < np.hypot(*end) <= REACHING.farthest
    assert abs(math.remainder(math.atan2(end[1], end[0]) - opening, 2.0 * math.pi)) < 0.6


def test_a_goal_that_is_shut_in_is_approached_as_any_other():
    floor = SeenFloor(REACHING)
    floor.begin((3.0, 0.0), 1.0)
    for angle in np.arange(0.0, 2.0 * math.pi, 0.05):
        mark(floor, 3.0 + 0.35 * math.cos(angle), 0.35 * math.sin(angle))
    floor.look(NOTHING, HERE, NO_ARM)
    end = np.hypot(*(np.array(floor.end()) - (3.0, 0.0)))
    assert REACHING.closest - 0.1 < end < 0.35 + 0.75  # but for the room to turn the arm
    assert floor.left() == pytest.approx(3.0 - end, abs=0.1)


def test_who_need_not_reach_the_goal_does_not_mind_what_stands_before_it():
    floor = SeenFloor(DRIVING)
    floor.begin((3.0, 0.0), 1.0)
    floor.look(wall(2.8, 0.4, -0.4), HERE, NO_ARM)
    assert floor.left() == pytest.approx(3.0 - DRIVING.closest, abs=0.25)


def test_a_larger_picture_shows_the_same():
    ways = []
    for pixels in (64, 128):
        floor = SeenFloor()
        floor.begin((5.0, 0.0))
        floor.look(wall(2.0, 2.5, -0.8, pixels), HERE, NO_ARM)
        ways.append(floor.left())
    assert ways[0] == pytest.approx(ways[1], abs=0.15)


def test_it_goes_on_from_a_state_and_forgets_at_a_new_beginning():
    floor, other = SeenFloor(), SeenFloor()
    floor.begin((5.0, 1.0))
    floor.look(wall(2.0, 1.0, -1.0), HERE, NO_ARM)
    other.restore(floor.state())
    for step in range(12):
        pose = (0.0, 0.05 * step, 0.1 * step)
        for one in (floor, other):
            one.look(NOTHING, pose, NO_ARM)
        np.testing.assert_array_equal(floor.numbers(), other.numbers())
    floor.begin((5.0, 0.0))
    floor.look(NOTHING, HERE, NO_ARM)
    assert floor.left() == pytest.approx(5.0 - DRIVING.closest, abs=0.25)


@pytest.mark.parametrize("ends", [DRIVING, REACHING])
@pytest.mark.parametrize("x", [-30.0, -13.5])  # the second: its ends are inside
def test_a_goal_outside_of_the_grid_is_approached(ends, x):
    floor = SeenFloor(ends)
    floor.begin((x, 0.0), 1.0)
    floor.look(NOTHING, HERE, NO_ARM)
    ahead, aside = floor.ahead(1.0)
    assert ahead < -0.8 and abs(aside) < 0.5
    assert search.is_behind(floor._barred, 3, MIDDLE, x / search.CELL + MIDDLE, MIDDLE) is False
