"""Rewards, success and failure of the seven skills, worked out by hand on plain numbers."""

import math

import pytest

from rearrange.tasks.rules.rulebook import make_task


def begin(name, sim, spec):
    task = make_task(name)
    task.start(sim, spec)
    return task


# --- navigate ------------------------------------------------------------------------------------


def test_navigate_pays_for_metres_and_within_three_metres_for_radians(sim, episode):
    sim.base_pose = (-2.0, 0.0, 0.5)  # 4 m from the object at (2, 0)
    task = begin("navigate", sim, episode("navigate"))
    sim.base_pose = (-1.1, 0.0, 0.2)
    assert task.step(sim, False).reward == pytest.approx(0.9 - 0.005)  # turning does not pay yet
    sim.base_pose = (-0.9, 0.0, 0.2)  # enters at 2.9 m
    assert task.step(sim, False).reward == pytest.approx(0.2 - 0.005)
    sim.base_pose = (-0.9, 0.0, -0.1)
    assert task.step(sim, False).reward == pytest.approx(0.1 - 0.005)


def test_navigate_forgets_the_heading_when_it_leaves_the_zone(sim, episode):
    sim.base_pose = (0.0, 0.0, 0.0)
    task = begin("navigate", sim, episode("navigate"))
    sim.base_pose = (-2.0, 0.0, 2.0)
    task.step(sim, False)
    sim.base_pose = (0.0, 0.0, 1.0)
    assert task.step(sim, False).reward == pytest.approx(2.0 - 0.005)


def test_navigate_pays_for_force(sim, episode):
    task = begin("navigate", sim, episode("navigate"))
    sim.force_added = 40.0
    assert task.step(sim, False).reward == pytest.approx(-0.005 - 0.004)
    sim.force_added = 4000.0
    assert task.step(sim, False).reward == pytest.approx(-0.005 - 0.01)


@pytest.mark.parametrize(
    "pose, success",
    [
        ((0.6, 0.0, 0.0), True),
        ((0.6, 0.0, math.radians(14.0)), True),
        ((0.6, 0.0, math.radians(16.0)), False),
        ((0.4, 0.0, 0.0), False),
    ],
)
def test_navigate_succeeds_near_and_facing_at_the_stop(sim, episode, pose, success):
    sim.base_pose = pose
    task = begin("navigate", sim, episode("navigate"))
    assert not task.step(sim, False).terminated
    outcome = task.step(sim, True)
    assert outcome.terminated and outcome.success == success
    assert outcome.failure == (None if success else "stop_without_success")
    assert outcome.reward == pytest.approx(-0.005 + 10.0 * success)


def test_navigate_with_the_object_in_hand_leads_to_its_goal(sim, episode):
    sim.base_pose = (2.0, -0.2, math.pi / 2)  # 1.2 m before the goal (2, 1), facing it
    task = begin("navigate", sim, episode("navigate", start_holding=True))
    assert task.step(sim, True).success


def test_navigate_never_moves_the_gripper(sim, episode):
    task = begin("navigate", sim, episode("navigate"))
    assert task.grip_command(sim, -1.0) is None and task.grip_command(sim, 1.0) is None


# --- pick ----------------------------------------------------------------------------------------


def test_pick_by_hand(sim, episode):
    sim.ee = (1.0, 0.0, 1.0)  # 1 m from the object
    task = begin("pick", sim, episode("pick"))
    sim.ee = (1.9, 0.0, 1.0)
    assert task.step(sim, True).reward == pytest.approx(2.0 * 0.9 - 0.005)  # stop is ignored
    sim.held_object = 0
    assert task.step(sim, False).reward == pytest.approx(2.0 - 0.005)  # no jump in distance
    assert task.grip_command(sim, -1.0) is None
    sim.ee = (1.0, 0.0, 1.0)
    assert task.step(sim, False).reward == pytest.approx(2.0 * 0.9 - 0.005)
    sim.ee = (0.6, 0.0, 1.0)
    outcome = task.step(sim, False)
    assert outcome.reward == pytest.approx(2.0 * 0.4 - 0.005 + 10.0)
    assert outcome.success and outcome.terminated and outcome.failure is None


@pytest.mark.parametrize("held", ["object", "handle"])
def test_pick_of_something_else_ends_the_episode(sim, episode, held):
    task = begin("pick", sim, episode("pick"))
    if held == "object":
        sim.held_object = 1
    else:
        sim.held_marker = "cab_push_point_5"
    outcome = task.step(sim, False)
    assert outcome[1:] == (False, True, "wrong_object")
    assert outcome.reward == pytest.approx(-0.505)


def test_pick_broken_hold_drops_and_ends(sim, episode):
    sim.ee = (1.5, 0.0, 1.0)
    task = begin("pick", sim, episode("pick"))
    sim.held_object = 0
    task.step(sim, False)
    sim.hold_violation = True
    outcome = task.step(sim, False)
    assert not sim.is_holding
    assert outcome[1:] == (False, True, "hold_violation")
    assert outcome.reward == pytest.approx(-0.005 - 1.0 - 0.5)


# --- place ---------------------------------------------------------------------------------------


def start_place(sim, episode, at):
    sim.held_object, sim.objects[0] = 0, at
    return begin("place", sim, episode("place", start_holding=True))


def test_place_by_hand(sim, episode):
    task = start_place(sim, episode, (2.0, 0.0, 1.0))  # 1 m from the goal (2, 1, 1)
    sim.objects[0], sim.ee = (2.0, 0.8, 1.0), (1.5, 0.0, 1.0)
    assert task.step(sim, False).reward == pytest.approx(2.0 * 0.8 - 0.005)
    sim.objects[0] = (2.0, 0.9, 1.0)
    assert task.step(sim, False).reward == pytest.approx(-0.005)  # nearer than 0.15 m: no more pay
    assert task.grip_command(sim, 1.0) == 1.0
    sim.held_object = None
    assert task.step(sim, False).reward == pytest.approx(5.0 - 0.005)
    assert task.grip_command(sim, 1.0) == -1.0
    sim.ee = (0.6, 0.0, 1.0)
    outcome = task.step(sim, False)
    assert outcome.reward == pytest.approx(2.0 * 0.9 - 0.005 + 10.0)
    assert outcome.success and outcome.terminated


def test_place_elsewhere_ends_the_episode_without_a_penalty(sim, episode):
    task = start_place(sim, episode, (2.0, 0.8, 1.0))
    sim.held_object = None
    outcome = task.step(sim, False)
    assert outcome[1:] == (False, True, "dropped")
    assert outcome.reward == pytest.approx(-0.005)


def test_place_pays_for_force_as_pick_does(sim, episode):
    task = start_place(sim, episode, (2.0, 0.0, 1.0))
    sim.force_added = 1e6
    assert task.step(sim, False).reward == pytest.approx(-0.015)


def test_place_is_no_success_while_the_object_is_held(sim, episode):
    task = start_place(sim, episode, (2.0, 1.0, 1.0))  # at its goal, and the hand at rest
    assert not task.step(sim, False).terminated
    sim.held_object = None
    assert task.step(sim, False).success


def test_place_is_no_success_while_the_hand_is_away_or_the_object_rolled_off(sim, episode):
    task = start_place(sim, episode, (2.0, 1.0, 1.0))
    sim.held_object, sim.ee = None, (0.8, 0.0, 1.0)
    assert not task.step(sim, False).terminated
    sim.objects[0], sim.ee = (2.0, 1.5, 1.0), (0.5, 0.0, 1.0)
    outcome = task.step(sim, False)
    assert not outcome.terminated and outcome.reward == pytest.approx(-0.005)


# --- open and close ------------------------------------------------------------------------------


def test_open_drawer_by_hand(sim, episode):
    spec = episode("open_drawer", marker="cab_push_point_5")
    task = begin("open_drawer", sim, spec)  # hand at rest, handle 0.5 m away
    sim.ee = (0.9, 0.0, 1.0)
    assert task.step(sim, False).reward == pytest.approx(0.4)
    sim.ee, sim.held_marker = (1.0, 0.0, 1.0), "cab_push_point_5"
    assert task.step(sim, False).reward == pytest.approx(5.0)
    sim.joints["drawer_right_top"] = 0.3
    assert task.step(sim, False).reward == pytest.approx(3.0)
    sim.joints["drawer_right_top"] = 0.41  # reached: bonus in place of the joint's pay
    assert task.step(sim, False).reward == pytest.approx(5.0)
    sim.held_marker, sim.ee = None, (0.6, 0.0, 1.0)
    assert task.step(sim, False).reward == pytest.approx(4.0)  # 10 x 0.4 m towards rest
    outcome = task.step(sim, True)
    assert outcome.success and outcome.terminated and outcome.reward == pytest.approx(10.0)


def test_open_pays_each_bonus_once(sim, episode):
    task = begin("open_drawer", sim, episode("open_drawer", marker="cab_push_point_5"))
    sim.held_marker = "cab_push_point_5"
    task.step(sim, False)
    sim.held_marker = None
    task.step(sim, False)
    sim.held_marker = "cab_push_point_5"
    assert task.step(sim, False).reward == 0.0
    sim.joints["drawer_right_top"] = 0.45
    assert task.step(sim, False).reward == pytest.approx(5.0)
    sim.joints["drawer_right_top"] = 0.2
    assert task.step(sim, False).reward == pytest.approx(-2.5)
    sim.joints["drawer_right_top"] = 0.45
    assert task.step(sim, False).reward == 0.0


def test_open_needs_an_empty_hand_at_rest_and_the_stop(sim, episode):
    spec = episode("open_drawer", marker="cab_push_point_5")
    sim.joints["drawer_right_top"] = 0.45
    assert not begin("open_drawer", sim, spec).step(sim, False).terminated
    sim.held_marker = "cab_push_point_5"
    assert begin("open_drawer", sim, spec).step(sim, True).failure == "stop_without_success"
    sim.held_marker, sim.ee = None, (0.7, 0.0, 1.0)
    assert begin("open_drawer", sim, spec).step(sim, True).failure == "stop_without_success"


def test_open_wrong_grasp_and_broken_hold_end_the_episode(sim, episode):
    spec = episode("open_drawer", marker="cab_push_point_5")
    task = begin("open_drawer", sim, spec)
    sim.held_object = 1
    outcome = task.step(sim, False)
    assert outcome == (-5.0, False, True, "wrong_object")
    sim.drop()
    task = begin("open_drawer", sim, spec)
    sim.held_marker = "cab_push_point_5"
    task.step(sim, False)
    sim.hold_violation = True
    outcome = task.step(sim, False)
    assert outcome == (-1.0, False, True, "hold_violation") and not sim.is_holding


@pytest.mark.parametrize("position, success", [(0.04, True), (-0.04, True), (0.06, False)])
def test_close_drawer(sim, episode, position, success):
    sim.joints["drawer_right_top"] = 0.45
    task = begin("close_drawer", sim, episode("close_drawer", marker="cab_push_point_5"))
    assert task.grip_command(sim, 1.0) is None
    sim.joints["drawer_right_top"] = position
    outcome = task.step(sim, True)
    assert outcome.success == success
    # reached: 5 + 10; not reached: 10 x 0.39 m of the way
    assert outcome.reward == pytest.approx(15.0 if success else 3.9)


@pytest.mark.parametrize(
    ("name", "marker"),
    [("close_drawer", "cab_push_point_5"), ("close_fridge", "fridge_push_point")],
)
def test_close_loses_10_for_a_broken_hold_and_ends(sim, episode, name, marker):
    sim.joints |= {"drawer_right_top": 0.45, "fridge_top_door": 1.0}
    task = begin(name, sim, episode(name, marker=marker))
    sim.held_object, sim.hold_violation = 1, True
    assert task.step(sim, False) == (-10.0, False, True, "hold_violation")
    assert not sim.is_holding


@pytest.mark.parametrize(
    ("name", "marker", "joint", "reached", "coef"),
    [
        ("open_drawer", "cab_push_point_5", "drawer_right_top", 0.45, 10.0),
        ("open_fridge", "fridge_push_point", "fridge_top_door", 1.3, 1.0),
        ("close_drawer", "cab_push_point_5", "drawer_right_top", 0.0, 1.0),
        ("close_fridge", "fridge_push_point", "fridge_top_door", 0.0, 1.0),
    ],
)
def test_the_way_back_to_rest_pays_as_in_hab(sim, episode, name, marker, joint, reached, coef):
    task = begin(name, sim, episode(name, marker=marker))
    sim.joints[joint], sim.ee = reached, (0.9, 0.0, 1.0)
    task.step(sim, False)
    sim.ee = (0.6, 0.0, 1.0)
    assert task.step(sim, False).reward == pytest.approx(coef * 0.3)


def test_fridge_counts_as_open_from_67_degrees(sim, episode):
    spec = episode("open_fridge", marker="fridge_push_point")
    for position, success in ((1.17, False), (1.171, True), (2.0, True)):
        sim.joints["fridge_top_door"] = position
        assert begin("open_fridge", sim, spec).step(sim, True).success == success
