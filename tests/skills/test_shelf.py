"""The way to the fridge's shelf: around its open door, and out of it with the hand.

Numbers are in the fridge's frame, m: its front is at 0.32, its sides at 0.35; the hinge of the
door, 0.68 wide, is at (0.32, 0.34). At pi/2 the door points straight out.
"""

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
    thing = np.array([*piece_to_world(pose, 0.0, 0.0), 1.0])
    places = np.array([shelf.before((*piece_to_world(pose, x, 0.9), 0.0), thing) for x in ahead])
    outermost = piece_to_world(pose, 1.85, 0.9), piece_to_world(pose, 1.85, -0.1)
    assert places[0] == pytest.approx(outermost[0]) and places[-1] == pytest.approx(outermost[1])
    assert np.linalg.norm(np.diff(places, axis=0), axis=1).max() < 0.02  # m, for 5 mm of the base


@pytest.mark.parametrize("pose", POSES)
def test_the_place_before_it_goes_to_the_side_with_what_is_reached_for(pose):
    shelf, base = Shelf(pose), (*piece_to_world(pose, 1.2, -0.8), 0.0)
    for side, place in ((0.0, -0.2), (0.25, -0.1), (-0.25, -0.3)):
        thing = np.array([*piece_to_world(pose, 0.1, side), 1.0])
        assert shelf.before(base, thing) == pytest.approx(piece_to_world(pose, 1.3, place))


@pytest.mark.parametrize("pose", POSES)
def test_a_hand_or_a_turn_at_the_outside_of_the_open_door_may_push_it_shut(pose):
    shelf = Shelf(pose)

    def is_behind(base, hand, angle=np.pi / 2):
        hand_w = np.array([*piece_to_world(pose, *hand), 1.0])
        return shelf.is_behind_door((*piece_to_world(pose, *base), 0.0), hand_w, angle)

    assert is_behind((1.5, 0.9), (0.9, 0.5))  # the hand reaches to the panel from outside
    assert is_behind((1.4, 0.6), (1.4, 1.2))  # a turn of the arm would meet it
    assert not is_behind((1.4, -0.2), (0.8, 0.0))  # it reaches in past the inside
    assert not is_behind((1.9, 0.6), (1.3, 0.5))  # far enough out
    assert is_behind((1.3, 0.0), (1.2, 0.5))  # the hand would come in around the door's edge
    # The door half open: what was within the wide open one is outside now.
    assert is_behind((1.5, 0.2), (0.8, 0.2), np.pi / 4)
    assert not is_behind((1.5, 0.2), (0.8, 0.2))


@pytest.mark.parametrize("pose", POSES)
def test_a_hand_beside_a_wall_is_in_the_way_of_a_turn(pose):
    shelf = Shelf(pose)
    for (ahead, side), beside in (((0.2, -0.5), True), ((0.2, 0.5), True), ((0.6, -0.5), False),
                                  ((0.2, 0.0), False), ((0.2, -0.8), False)):  # fmt: skip
        assert shelf.is_beside(np.array([*piece_to_world(pose, ahead, side), 1.0])) == beside
