"""Rooms where furniture stands anywhere: apart, at walls and away from them."""

import numpy as np
import pytest

from rearrange.sim.home import furniture as fur
from rearrange.sim.home.furniture import footprint
from rearrange.sim.homes.arrangement import GAP, KITCHEN, arranged
from rearrange.sim.homes.layout import BOUNDS, layout_ids, make_layout, varied_layout_ids

ARRANGED = [name for name in varied_layout_ids() if "_arranged_" in name]


def room(seed, bounds=BOUNDS):
    first = make_layout("v3_sc0_staging_00")
    kitchen = {name: first.pieces[name] for name in KITCHEN}
    return arranged(kitchen, first.walls, bounds, np.random.default_rng(seed))


@pytest.fixture(scope="module")
def rooms():
    found = [room(seed) for seed in range(40)]
    return [poses for poses in found if poses is not None]


def rim(rectangle, step=0.02):
    """Points [N, 2] along the sides of a rectangle: centre x, y, half x, y, yaw."""
    x, y, hx, hy, yaw = rectangle
    u, v = np.arange(-hx, hx + step, step), np.arange(-hy, hy + step, step)
    sides = [np.column_stack([u, np.full_like(u, side)]) for side in (-hy, hy)]
    sides += [np.column_stack([np.full_like(v, side), v]) for side in (-hx, hx)]
    c, s = np.cos(yaw), np.sin(yaw)
    return np.concatenate(sides) @ np.array([[c, s], [-s, c]]) + (x, y)


def test_all_furniture_is_there_and_the_kitchen_stays(rooms):
    assert len(rooms) > 20
    first = make_layout("v3_sc0_staging_00").pieces
    for poses in rooms:
        assert set(poses) == set(fur.PIECES)
        assert all(poses[name] == first[name] for name in KITCHEN)


def test_pieces_keep_their_distance(rooms):
    """Measured between points along the sides, 2 cm apart."""
    for poses in rooms[:8]:
        rims = {name: rim(footprint(name, pose)) for name, pose in poses.items()}
        for name, points in rims.items():
            for other, others in rims.items():
                if name == other or {name, other} <= set(KITCHEN):
                    continue
                apart = np.linalg.norm(points[:, None] - others[None], axis=2).min()
                assert apart > GAP - 1e-9, (name, other)


def test_furniture_stands_at_walls_and_free(rooms):
    """Distance of the TV stand's back to the nearest outer wall."""
    depth, away = fur.PIECES["tvstand"].half[0], []
    for poses in rooms:
        x, y, yaw = poses["tvstand"]
        x, y = x - depth * np.cos(yaw), y - depth * np.sin(yaw)
        away.append(min(x - BOUNDS[0], BOUNDS[2] - x, y - BOUNDS[1], BOUNDS[3] - y))
    assert sum(d < 0.07 for d in away) >= 5 and sum(d > 0.8 for d in away) >= 5


def test_rooms_go_by_the_seed_alone_and_differ():
    assert room(1) == room(1) and room(1) != room(2)


def test_a_room_without_room_has_no_arrangement():
    assert all(room(seed, (0.0, 0.0, 3.0, 3.0)) is None for seed in range(5))


def test_training_alone_has_them_and_they_are_no_variations():
    """In each some piece stands 2 m or more from its place in all of the same macro layout."""
    assert len(ARRANGED) == 300 and {name[5] for name in ARRANGED} == {"0", "1", "2"}
    for name in ARRANGED[::30]:
        own = np.array(list(make_layout(name).pieces.values()))[:, :2]
        same = [other for other in layout_ids("train") if other[5] == name[5]]
        places = np.array([list(make_layout(other).pieces.values()) for other in same])[..., :2]
        assert np.linalg.norm(places - own, axis=-1).max(axis=1).min() > 2.0
