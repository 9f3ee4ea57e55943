"""How alike homes are, against sets of cells counted one by one; ways against the floor plan."""

from dataclasses import replace

import numpy as np
import pytest

from rearrange.sim.home.house import floor_plan
from rearrange.sim.homes import diversity
from rearrange.sim.homes.diversity import nearest_distances, statistics_of
from rearrange.sim.homes.layout import layout_ids, make_layout


def covered(layout, at):
    """Cells of 0.1 m whose middle stands in something, moved by `at`, as a set."""
    x0, y0, x1, y1 = layout.bounds
    found = set()
    for ix in range(round((x1 - x0) / 0.1)):
        for iy in range(round((y1 - y0) / 0.1)):
            x, y = x0 + (ix + 0.5) * 0.1, y0 + (iy + 0.5) * 0.1
            for cx, cy, hx, hy, yaw in layout.obstacles:
                c, s = np.cos(yaw), np.sin(yaw)
                u, v = c * (x - cx) + s * (y - cy), -s * (x - cx) + c * (y - cy)
                if abs(u) <= hx and abs(v) <= hy:
                    found.add(at(ix, iy))
                    break
    return found


def test_variations_of_one_plan_are_alike_to_the_last_cell_counted():
    names = layout_ids("val")[:2]
    first, second = (covered(make_layout(name), lambda ix, iy: (ix, iy)) for name in names)
    expected = 1.0 - len(first & second) / len(first | second)
    assert 0.02 < expected < 0.3
    assert nearest_distances(names[:1], names[1:]) == pytest.approx([expected], abs=0.01)


@pytest.mark.parametrize("name", ["v3_sc3_staging_04", "procedural_val_0007"])
def test_a_home_turned_and_mirrored_is_the_same_home(monkeypatch, name):
    layout = make_layout(name)
    _, _, width, depth = layout.bounds  # from 0, 0
    turned = layout.obstacles.copy()  # x -> y, y -> x: mirrored on the diagonal
    turned[:, 0], turned[:, 1] = layout.obstacles[:, 1], layout.obstacles[:, 0]
    turned[:, 4] = np.pi / 2 - layout.obstacles[:, 4]
    pieces = {}
    walls = turned
    other = replace(layout, bounds=(0.0, 0.0, depth, width), pieces=pieces, walls=walls)
    known = {"home": layout, "mirrored": other}
    monkeypatch.setattr(diversity, "make_layout", lambda name: known[name])
    monkeypatch.setattr(diversity.Layout, "obstacles", property(_obstacles_of(diversity.Layout)))
    assert nearest_distances(["home"], ["mirrored"])[0] < 0.03  # cells that an edge goes through


def _obstacles_of(kind):
    plain = kind.obstacles.fget
    return lambda layout: plain(layout) if layout.pieces else layout.walls


def test_a_home_is_not_its_own_nearest():
    names = layout_ids("val")[:3]
    assert (nearest_distances(names, names) > 0.0).all()
    assert np.isinf(nearest_distances(names[:1], names[:1])).all()


def test_procedural_homes_differ_more_than_variations():
    few, hab = layout_ids("val", "procedural")[:20], layout_ids("val")
    assert nearest_distances(few, few).min() > 3.0 * nearest_distances(hab, hab).max()


def test_figures_of_a_home():
    home, layout = statistics_of("v3_sc3_staging_00"), make_layout("v3_sc3_staging_00")
    plan = floor_plan(layout, {})
    assert home.area == pytest.approx(63.0)
    assert home.free_area == pytest.approx((plan.labels == plan.largest).sum() * 0.05**2)
    assert home.num_receptacles == len(layout.receptacles)
    assert 1.0 <= home.detour < 2.0 and home.mean_way < home.longest_way < 20.0
    assert statistics_of("v3_sc3_staging_00") == home
