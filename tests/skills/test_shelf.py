"""The way to the fridge's shelf: around its open door, and out of it with the hand."""

import numpy as np
import pytest

from rearrange.sim.layout import piece_to_world
from rearrange.skills.shelf import Shelf

POSES = [(0.0, 0.0, 0.0), (3.0, -2.0, 2.2)]


@pytest.mark.parametrize("pose", POSES)
def test_it_holds_a_hand_behind_its_front_and_between_its_walls(pose):
    shelf = Shelf(pose)

    def holds(ahead, side):
        return shelf.holds(np.array([*piece_to_world(pose, ahead, side), 1.1]))

    assert holds(0.0, 0.0) and holds(0.4, -0.3)
    assert not holds(0.5, 0.0) and not holds(0.0, 0.5) and not holds(1.3, -0.25)


@pytest.mark.parametrize("pose", POSES)
def test_from_the_doors_side_the_way_leads_out_and_then_around_it_without_a_jump(pose):
    shelf = Shelf(pose)
    ahead = np.linspace(1.0, 2.0, 201)
    places = np.array([shelf.before((*piece_to_world(pose, x, 0.9), 0.0)) for x in ahead])
    outermost = piece_to_world(pose, 1.85, 0.9), piece_to_world(pose, 1.85, -0.1)
    assert places[0] == pytest.approx(outermost[0]) and places[-1] == pytest.approx(outermost[1])
    assert np.linalg.norm(np.diff(places, axis=0), axis=1).max() < 0.02  # m, for 5 mm of the base
