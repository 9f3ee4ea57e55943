"""The share of what holds objects that the arm does not reach."""

import numpy as np
import pytest

from rearrange.eval.benchmarks.homes.reach_share import points_of, share_of
from rearrange.sim.home.house import floor_plan
from rearrange.sim.homes.layout import make_layout

HOME = "v3_sc3_staging_04"


def test_points_fill_a_receptacle_but_for_its_edge():
    """9 cm all around stay bare: what is left of the dining table's 0.84 x 1.5 m."""
    (table,) = [r for r in make_layout(HOME).receptacles if r.piece == "table_01"]
    points = points_of(table) - table.pos[:2]
    c, s = np.cos(table.yaw), np.sin(table.yaw)
    own = points @ np.array([[c, -s], [s, c]])
    assert np.abs(own).max(axis=0) == pytest.approx((0.42 - 0.1, 0.75 - 0.1), abs=0.005)
    assert len(points) * 0.02**2 == pytest.approx(0.66 * 1.32, rel=0.01)


def test_shares_are_those_of_random_points_and_the_distance_to_every_free_cell():
    layout, rng = make_layout(HOME), np.random.default_rng(0)
    plan = floor_plan(layout, {})
    iy, ix = np.nonzero(plan.labels == plan.largest)
    free = (np.column_stack([ix, iy]) + 0.5) * plan.cell + plan.bounds[:2]
    area = hab = both = 0.0
    for receptacle in layout.receptacles:
        if receptacle.kind != "open":
            continue
        inner = np.array(receptacle.half) - 0.09
        own = rng.uniform(-inner, inner, (400, 2))
        c, s = np.cos(receptacle.yaw), np.sin(receptacle.yaw)
        points = own @ np.array([[c, s], [-s, c]]) + receptacle.pos[:2]
        away = np.linalg.norm(points[:, None] - free[None], axis=2)
        is_near = (away <= 1.5).any(axis=1)
        is_reached = ((away >= 0.42) & (away <= 0.72)).any(axis=1)
        size = 4 * inner.prod()
        area, hab = area + size, hab + size * is_near.mean()
        both += size * (is_near & is_reached).mean()
    found = share_of(layout)
    assert (found.area, found.by_hab) == pytest.approx((area, hab), rel=0.01)
    assert found.rejected == pytest.approx(1 - both / hab, abs=0.04)
    assert 0.02 < found.rejected < 0.5
