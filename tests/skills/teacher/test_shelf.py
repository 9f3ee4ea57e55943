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
def test_who_follows_the_aim_is_led_in_through_the_opening_without_a_jump(pose):
    """Driven as a point that turns on the spot: from wherever it says that driving in leads in."""
    shelf, thing = Shelf(pose), np.array([*piece_to_world(pose, 0.0, 0.1), 1.0])
    starts = [(x, y) for x in np.arange(1.0, 3.0, 0.1) for y in np.arange(-1.5, 1.5, 0.1)]
    starts = [s for s in starts if shelf.leads_in((*piece_to_world(pose, *s), 0.0), thing)]
    assert len(starts) > 200
    for start in starts:
        at, aims = np.array(piece_to_world(pose, *start)), []
        while (ahead := shelf._from_it(at)[0]) > 0.87:  # where the base stands while it reaches in
            aims.append(shelf.aim((*at, 0.0), thing))
            at = at + 0.01 * (aims[-1] - at) / np.linalg.norm(aims[-1] - at)
        assert np.linalg.norm(np.diff(aims, axis=0), axis=1).max(initial=0.0) < 0.05, start
        side = shelf._from_it(at)[1]
        slope = (0.1 - side) / -ahead  # of the way that is left for the hand
        assert -0.35 < side + slope * (0.34 - ahead) < 0.34, start  # between the walls


@pytest.mark.parametrize("pose", POSES)
def test_straight_back_leads_to_where_it_can_turn_in(pose):
    shelf, thing = Shelf(pose), np.array([*piece_to_world(pose, 0.0, 0.1), 1.0])
    target = np.array([0.0, 0.1])
    num = 0
    for x in np.arange(0.9, 2.5, 0.1):
        for y in np.arange(-1.2, 1.2, 0.1):
            at = np.array([x, y])
            if not shelf.can_back_off((*piece_to_world(pose, *at), 0.0), thing):
                continue
            num += 1
            away = (at - target) / np.linalg.norm(at - target)
            way = [at + d * away for d in np.arange(0.0, 2.5, 0.05)]
            assert any(shelf.leads_in((*piece_to_world(pose, *w), 0.0), thing, True) for w in way)
    assert num > 100


def at(pose, place):
    """A hand [3] m, world, ahead of the fridge and to its side."""
    return np.array([*piece_to_world(pose, *place), 1.0])


@pytest.mark.parametrize("pose", POSES)
def test_a_hand_at_the_outside_of_the_open_door_may_push_it_shut(pose):
    def share(hand, angle=np.pi / 2):
        return Shelf(pose, angle=angle).behind_door(at(pose, hand))

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
def test_before_the_doors_tip_only_a_step_ahead_does(pose):
    shelf = Shelf(pose)
    before, beside = at(pose, (1.18, 0.4)), at(pose, (1.18, 0.2))
    assert shelf.behind_door(before) == 0.0 < shelf.before_tip(before)
    assert shelf.before_tip(beside) == shelf.before_tip(at(pose, (1.3, 0.4))) == 0.0
    behind = at(pose, (0.9, 0.5))
    assert shelf.before_tip(behind) == shelf.behind_door(behind) == 1.0
    shares = [shelf.before_tip(at(pose, (1.0, y))) for y in np.linspace(0.0, 1.0, 201)]
    assert max(shares) == 1.0 and np.abs(np.diff(shares)).max() < 0.06


@pytest.mark.parametrize("pose", POSES)
def test_it_leads_in_past_the_tip_of_a_door_pushed_partly_shut(pose):
    thing, base = at(pose, (0.0, 0.1)), (*piece_to_world(pose, 2.2, 0.0), 0.0)

    def side(angle):
        shelf = Shelf(pose, angle=angle)
        ahead = np.subtract(shelf.aim(base, thing), pose[:2])
        return float(ahead @ (-np.sin(pose[2]), np.cos(pose[2])))

    assert side(np.pi / 2) == side(1.3) == pytest.approx(-0.1)
    assert side(0.9) == pytest.approx(0.34 - 0.68 * np.cos(0.9) - 0.15)  # hinge, width, beside it
    assert side(0.1) == pytest.approx(-0.3)  # the fridge's other side is not far


@pytest.mark.parametrize("pose", POSES)
def test_who_backs_off_goes_on_until_there_is_more_than_enough_room(pose):
    shelf, thing = Shelf(pose), np.array([*piece_to_world(pose, 0.0, 0.0), 1.0])

    def leads_in(ahead, side, **how):
        return shelf.leads_in((*piece_to_world(pose, ahead, side), 0.0), thing, **how)

    assert leads_in(1.4, -0.1) and leads_in(1.4, 0.15) and leads_in(2.5, 0.5)
    assert not leads_in(1.0, -0.9) and not leads_in(1.2, 0.6) and not leads_in(4.0, 0.0)
    at_the_limit = (2.05, 0.55)
    assert leads_in(*at_the_limit) and not leads_in(*at_the_limit, is_backing=True)
    assert leads_in(2.25, 0.55, is_backing=True)
    # From obliquely near it is only for who faces it already: others drive around.
    assert leads_in(1.0, -0.6) and not leads_in(1.0, -0.6, faces_it=False)


@pytest.mark.parametrize("pose", POSES)
def test_a_hand_beside_a_wall_is_in_the_way_of_a_turn(pose):
    shelf = Shelf(pose)
    for (ahead, side), beside in (((0.2, -0.5), True), ((0.2, 0.5), True), ((0.6, -0.5), False),
                                  ((0.2, 0.0), False), ((0.2, -0.8), False)):  # fmt: skip
        assert shelf.is_beside(np.array([*piece_to_world(pose, ahead, side), 1.0])) == beside
