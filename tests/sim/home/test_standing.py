"""Floor from which a place is reached, against the floor plan's own cells."""

import numpy as np
import pytest

from rearrange.sim.home.navigation import FloorPlan
from rearrange.sim.home.standing import floor_cells_near, has_stands, is_cut_off
from rearrange.sim.homes.layout import make_layout

RING = (0.45, 0.70)  # m


@pytest.mark.parametrize("home", ["v3_sc1_staging_03", "procedural_val_0007"])
def test_stands_are_cells_within_the_ring_that_no_wall_cuts_off(home):
    layout = make_layout(home)
    plan = FloorPlan(layout.bounds, layout.obstacles)
    rng = np.random.default_rng(0)
    points = rng.uniform(layout.bounds[:2], layout.bounds[2:], (400, 2))
    found = {1: [], 6: [], 60: []}
    for x, y in points.tolist():
        cells = plan.free_cells_near(x, y, *RING)
        stands = int((~is_cut_off(cells, (x, y), layout.walls)).sum())
        assert floor_cells_near(plan, np.array([[x, y]]), *RING, enough=6)[0] == min(len(cells), 6)
        for enough, all_found in found.items():
            assert has_stands(plan, (x, y), RING, layout.walls, enough) == (stands >= enough)
            all_found.append(stands >= enough)
    assert all(any(told) and not all(told) for told in found.values())
