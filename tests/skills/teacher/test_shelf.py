"""The way to the fridge's shelf: around its open door, and out of it with the hand.

Numbers are in the fridge's frame, m: its front is at 0.32, its sides at 0.35; the hinge of the
door, 0.68 wide, is at (0.32, 0.34). At pi/2 the door points straight out.
"""

import numpy as np
import pytest

from rearrange.sim.home.furniture import piece_to_world
from rearrange.skills.teacher.shelf import Shelf

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
    thing = np.array([*piece_to_world(pose, 0.0, 0.0), 1.0])
    places = np.array([shelf.before((*piece_to_world(pose, x, 0.9), 0.0), thing) for x in ahead])
    outermost = piece_to_world(pose, 2.0, 0.9), piece_to_world(pose, 2.0, -0.1)
    assert places[0] == pytest.approx(outermost[0]) and places[-1] == pytest.approx(outermost[1])
    assert np.linalg.norm(np.diff(places, axis=0), axis=1).max() < 0.02  # m, for 5 mm of the base


@pytest.mark.parametrize("pose", POSES)
def test_the_place_before_it_goes_to_the_side_with_what_is_reached_for(pose):
    shelf, base = Shelf(pose), (*piece_to_world(pose, 1.2, -0.8), 0.0)
    for side, place in ((0.0, -0.1), (0.25, -0.05), (-0.25, -0.15)):
        thing = np.array([*piece_to_world(pose, 0.1, side), 1.0])
        assert shelf.before(base, thing) == pytest.approx(piece_to_world(pose, 1.4, place))


@pytest.mark.parametrize("pose", POSES)
def test_a_hand_at_the_outside_of_the_open_door_may_push_it_shut(pose):
    shelf = Shelf(pose)

    def share(hand, angle=np.pi / 2):
        return shelf.behind_door(np.array([*piece_to_world(pose, *hand), 1.0]), angle)

    assert share((0.9, 0.5)) == share((0.5, 0.6)) == 1.0  # at the panel, from outside
    assert share((0.8, 0.0)) == 0.0  # it reaches in past the inside
    assert share((1.3, 0.5)) == 0.0  # beyond the tip
    assert share((0.9, 0.9)) == 0.0  # too far aside to touch it
    # The door half open: what was within the wide open one is outside now.
    assert share((0.8, 0.2), np.pi / 4) == 1.0 and share((0.8, 0.2)) == 0.0
    # Labels that jump cannot be learned: it comes and goes gradually on all sides.
    for line in (
        np.linspace((0.9, 0.0), (0.9, 1.0), 201),
        np.linspace((0.5, 0.5), (1.5, 0.5), 201),
    ):
        shares = [share(hand) for hand in line]
        assert max(shares) == 1.0 and np.abs(np.diff(shares)).max() < 0.06  # in steps of 5 mm


@pytest.mark.parametrize("pose", POSES)
def test_who_is_on_the_way_straight_in_stays_so_a_little_longer(pose):
    shelf, thing = Shelf(pose), np.array([*piece_to_world(pose, 0.0, 0.0), 1.0])

    def is_ahead(ahead, side, is_coming=False):
        return shelf.is_ahead((*piece_to_world(pose, ahead, side), 0.0), thing, is_coming)

    assert is_ahead(1.4, -0.1) and is_ahead(1.4, 0.15)
    assert not is_ahead(2.5, 0.0) and not is_ahead(1.0, -0.9) and not is_ahead(1.2, 0.6)
    for place in ((1.95, 0.0), (1.4, 0.25)):
        assert is_ahead(*place, is_coming=True) and not is_ahead(*place)


@pytest.mark.parametrize("pose", POSES)
def test_a_hand_beside_a_wall_is_in_the_way_of_a_turn(pose):
    shelf = Shelf(pose)
    for (ahead, side), beside in (((0.2, -0.5), True), ((0.2, 0.5), True), ((0.6, -0.5), False),
                                  ((0.2, 0.0), False), ((0.2, -0.8), False)):  # fmt: skip
        assert shelf.is_beside(np.array([*piece_to_world(pose, ahead, side), 1.0])) == beside
