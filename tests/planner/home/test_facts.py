"""What the planner is told of the world, for worlds set up by hand."""

import dataclasses

import mujoco
import numpy as np
import pytest

from rearrange.errors import UserError
from rearrange.planner.home.calls import call_of
from rearrange.planner.home.facts import (
    entities,
    goal_name,
    observe,
    plan_episode,
    plan_of_episode,
)
from rearrange.planner.home.plan import format_plan, length_text
from rearrange.planner.home.problems import home_domain, skill_call
from rearrange.planner.strips.pddl import GroundAction, parse_problem
from rearrange.sim.simulation import Simulation
from rearrange.tasks.episodes.generate import generate_episode

CAB, FRIDGE = "cab_push_point_5", "fridge_push_point"
BOWL, FRUIT = "bowl_target_0", "fruit_target_1"
BOWL_GOAL, FRUIT_GOAL = "target_bowl_target_0", "target_fruit_target_1"
ROBOT = "robot_0"


@pytest.fixture(scope="module")
def sim():
    return Simulation()


@pytest.fixture
def table(sim):
    """Set Table at its start: the bowl (0) in a closed drawer, the fruit (1) in the fridge."""
    episode = generate_episode("set_table", "val", 0, 0)
    sim.reset(episode.scene)
    return episode


def move(sim, index, pos):
    """Puts an object somewhere, at rest."""
    body = int(sim.model.geom_bodyid[sim.object_geom(index)])
    address = int(sim.model.jnt_qposadr[sim.model.body_jntadr[body]])
    sim.data.qpos[address : address + 3] = pos
    mujoco.mj_forward(sim.model, sim.data)


def set_joint(sim, name, value):
    sim.data.joint(name).qpos[0] = value
    mujoco.mj_forward(sim.model, sim.data)


def on_floor(sim):
    plan = sim.floor_plan()
    x, y = plan.free_centres[len(plan.free_centres) // 2]
    return np.array([x, y, 0.05])


def facts(sim, episode, robot_at=None):
    return parse_problem(observe(sim, episode, robot_at), home_domain()).init


def calls(sim, episode, robot_at=None):
    """The plan as skills: (skill, first argument)."""
    return [(s, a[0]) for s, a in map(skill_call, plan_episode(sim, episode, robot_at))]


def test_an_object_in_a_closed_drawer_is_in_it_and_enclosed(sim, table):
    now = facts(sim, table)
    assert {("in", BOWL, CAB), ("enclosed", BOWL), ("closed_cab", CAB)} <= now
    assert ("opened_cab", CAB) not in now


def test_at_the_start_nothing_is_held_placed_or_stood_at(sim, table):
    now = facts(sim, table)
    assert ("not_holding", ROBOT) in now and ("robot_at", "somewhere", ROBOT) in now
    assert {f for f in now if f[0] == "object_at"} == {
        ("object_at", BOWL, "somewhere"),
        ("object_at", FRUIT, "somewhere"),
    }


@pytest.mark.parametrize(
    ("marker", "joint", "value", "state"),
    [
        (CAB, "drawer_right_top", 0.0, "closed"),
        (CAB, "drawer_right_top", 0.14, "closed"),  # hab-spec 3.3: closed within 0.15
        (CAB, "drawer_right_top", 0.20, None),
        (CAB, "drawer_right_top", 0.34, None),
        (CAB, "drawer_right_top", 0.36, "opened"),  # and open from 0.45 - 0.1
        ("cab_push_point_7", "drawer_left_top", 0.45, "opened"),
        (FRIDGE, "fridge_top_door", 0.1, "closed"),
        (FRIDGE, "fridge_top_door", 0.9, None),
        (FRIDGE, "fridge_top_door", 1.1, "opened"),  # 1.22 - 0.15
    ],
)
def test_doors_and_drawers_are_open_closed_or_neither(sim, table, marker, joint, value, state):
    set_joint(sim, joint, value)
    kind = "fridge" if marker == FRIDGE else "cab"
    now = facts(sim, table)
    said = {word for word in ("opened", "closed") if (f"{word}_{kind}", marker) in now}
    assert said == ({state} if state else set())


def test_what_lies_in_a_drawer_stays_in_it_when_it_is_drawn_out(sim):
    episode = generate_episode("set_table_easy", "val", 0, 0)
    sim.reset(episode.scene)
    now = facts(sim, episode)
    assert {("in", BOWL, CAB), ("opened_cab", CAB)} <= now
    set_joint(sim, "drawer_right_top", 0.0)  # shut without its load
    assert ("in", BOWL, CAB) not in facts(sim, episode)


def test_a_held_object_is_held_and_nowhere(sim, table):
    sim.snap_object(0)
    now = facts(sim, table)
    assert ("holding", BOWL, ROBOT) in now and ("not_holding", ROBOT) not in now
    assert not [f for f in now if f[0] in ("object_at", "in", "enclosed") and f[1] == BOWL]


def test_an_object_at_its_goal_is_placed(sim, table):
    move(sim, 0, table.targets[0].goal)
    now = facts(sim, table)
    assert ("object_at", BOWL, BOWL_GOAL) in now and ("enclosed", BOWL) not in now


@pytest.mark.parametrize(("away", "is_there"), [(0.29, True), (0.31, False)])
def test_at_its_goal_means_within_30_cm(sim, table, away, is_there):
    move(sim, 0, np.array(table.targets[0].goal) + (away, 0.0, 0.0))
    assert (("object_at", BOWL, BOWL_GOAL) in facts(sim, table)) == is_there


def test_an_object_held_over_its_goal_is_not_yet_placed(sim, table):
    goal = np.array(table.targets[0].goal)
    sim.snap_object(0)
    move(sim, 0, goal)
    assert ("object_at", BOWL, BOWL_GOAL) not in facts(sim, table)


def test_an_object_on_the_floor_lies_somewhere_in_the_open(sim, table):
    move(sim, 0, on_floor(sim))
    now = facts(sim, table)
    assert ("object_at", BOWL, "somewhere") in now
    assert not [f for f in now if f[0] in ("in", "enclosed") and f[1] == BOWL]


def test_a_goal_in_the_fridge_is_in_the_fridge_and_enclosed(sim):
    episode = generate_episode("prepare_groceries", "val", 0, 0)
    sim.reset(episode.scene)
    goal = "target_obj2_target_2"
    assert {("goal_in", goal, FRIDGE), ("enclosed", goal)} <= facts(sim, episode)


def test_an_object_placed_in_the_fridge_is_at_its_goal_and_in_it(sim):
    episode = generate_episode("prepare_groceries", "val", 0, 0)
    sim.reset(episode.scene)
    move(sim, episode.targets[2].object, episode.targets[2].goal)
    there = "obj2_target_2"
    now = facts(sim, episode)
    assert {("object_at", there, f"target_{there}"), ("in", there, FRIDGE)} <= now


def test_the_robot_is_where_it_last_went(sim, table):
    assert ("robot_at", FRUIT, ROBOT) in facts(sim, table, "fruit_target|1")


def test_goals_are_every_object_at_its_goal_and_an_empty_hand(sim, table):
    problem = parse_problem(observe(sim, table), home_domain())
    assert set(problem.goal_pos) == {
        ("object_at", BOWL, BOWL_GOAL),
        ("object_at", FRUIT, FRUIT_GOAL),
        ("not_holding", ROBOT),
    }
    assert problem.goal_neg == ()


def test_entities_lead_from_every_pddl_name_back(sim, table):
    objects = parse_problem(observe(sim, table), home_domain()).objects
    names = entities(table)
    assert set(names) == set(objects) - {ROBOT, "somewhere"}
    assert names[BOWL] == "bowl_target|0" and names[BOWL_GOAL] == goal_name("bowl_target|0")


def test_observing_changes_nothing(sim, table):
    before = sim.data.qpos.copy()
    observe(sim, table)
    assert np.array_equal(sim.data.qpos, before)


# --- plans from the middle of an episode -------------------------------------------------------

FETCH_FRUIT = [
    ("navigate", FRIDGE), ("open_fridge", FRIDGE), ("navigate", FRUIT), ("pick", FRUIT),
    ("navigate", FRUIT_GOAL), ("place", FRUIT),
]  # fmt: skip


def test_from_the_start_the_drawer_is_opened_before_the_bowl_is_picked(sim, table):
    assert calls(sim, table) == [
        ("navigate", CAB), ("open_cab", CAB), ("navigate", BOWL), ("pick", BOWL),
        ("navigate", BOWL_GOAL), ("place", BOWL), *FETCH_FRUIT,
    ]  # fmt: skip


def test_with_the_bowl_in_hand_it_is_brought_first(sim, table):
    sim.snap_object(0)
    assert calls(sim, table) == [("navigate", BOWL_GOAL), ("place", BOWL), *FETCH_FRUIT]


def test_with_the_bowl_placed_only_the_fruit_is_left(sim, table):
    move(sim, 0, table.targets[0].goal)
    assert calls(sim, table) == FETCH_FRUIT


def test_a_bowl_on_the_floor_needs_no_drawer(sim, table):
    move(sim, 0, on_floor(sim))
    assert calls(sim, table)[:4] == [
        ("navigate", BOWL), ("pick", BOWL), ("navigate", BOWL_GOAL), ("place", BOWL),
    ]  # fmt: skip
    assert ("open_cab", CAB) not in calls(sim, table)


def test_a_drawer_stuck_half_way_is_opened(sim, table):
    set_joint(sim, "drawer_right_top", 0.25)
    axis = sim.data.joint("drawer_right_top").xaxis
    move(sim, 0, sim.object_pos_w(0) + 0.25 * axis)
    assert calls(sim, table)[:2] == [("navigate", CAB), ("open_cab", CAB)]


def test_where_the_robot_stands_already_it_does_not_navigate_to(sim, table):
    move(sim, 0, on_floor(sim))
    assert calls(sim, table, "bowl_target|0")[0] == ("pick", BOWL)


def test_with_all_goals_reached_the_plan_is_empty(sim, table):
    for target in table.targets:
        move(sim, target.object, target.goal)
    assert plan_episode(sim, table) == []


def test_a_last_object_still_in_hand_at_its_goal_is_let_go(sim, table):
    move(sim, 1, table.targets[1].goal)
    sim.snap_object(0)
    move(sim, 0, table.targets[0].goal)
    assert calls(sim, table)[-1] == ("place", BOWL)


def test_what_cannot_be_put_into_the_shut_fridge_is_put_aside_and_fetched_again(sim):
    episode = generate_episode("prepare_groceries", "val", 0, 0)
    sim.reset(episode.scene)
    last = episode.targets[2]
    assert last.goal_container == "fridge_top_door"
    set_joint(sim, "fridge_top_door", 0.0)
    for target in episode.targets[:2]:
        move(sim, target.object, target.goal)
    sim.snap_object(last.object)
    steps = plan_episode(sim, episode)
    names = entities(episode)
    put_aside = next(c for c in (call_of(step, names) for step in steps) if c.skill == "place")
    aside = {t.name: t for t in episode.targets}[put_aside.destination]
    assert put_aside.target == last.name and aside is not last
    # There it lies, and the plan goes on: open, fetch, place where it belongs.
    sim.drop()
    move(sim, last.object, np.add(aside.goal, (0.05, 0.0, 0.0)))
    rest = [call_of(step, names) for step in plan_episode(sim, episode)]
    assert [c.skill for c in rest] == [
        "navigate", "open_fridge", "navigate", "pick", "navigate", "place",
    ]  # fmt: skip
    assert rest[-1].destination == last.name


def test_a_skill_cannot_act_on_the_robot(table):
    """As a skill of somebody's own might: its definition chooses an argument of its action."""
    step = GroundAction("nav", ("somewhere", ROBOT, ROBOT), *4 * (frozenset(),))
    with pytest.raises(UserError, match="^navigate acts on robot_0, .*: known are bowl_target_0"):
        call_of(step, entities(table))
    with pytest.raises(UserError, match="^navigate acts on robot_0"):
        format_plan([step], entities(table), is_home=True)


def test_a_step_carries_what_its_preconditions_hold(table):
    """Those of a skill of somebody's own, which neither is a place nor acts on a goal, too."""
    wipe = GroundAction("open_cab", (CAB, ROBOT), *4 * (frozenset(),))
    for fact, is_carrying in ((("holding", BOWL, ROBOT), True), (("not_holding", ROBOT), False)):
        step = dataclasses.replace(wipe, preconditions_pos=frozenset({fact}))
        assert call_of(step, entities(table)).is_carrying == is_carrying
    lacking = frozenset({("holding", BOWL, ROBOT)})
    step = dataclasses.replace(wipe, preconditions_neg=lacking)
    assert not call_of(step, entities(table)).is_carrying


def test_plans_for_people_are_numbered_and_have_habs_names():
    _, problem, plan, names = plan_of_episode("set_table", "val", 0, 0)
    assert parse_problem(problem, home_domain()).goal_pos
    assert length_text(plan) == "; 12 steps, no plan is shorter"
    lines = format_plan(plan, names, is_home=True).splitlines()
    assert lines[0].split() == ["1", "navigate(cab_push_point_5)"]
    assert lines[5].split(maxsplit=1) == ["6", "place(bowl_target|0, TARGET_bowl_target|0)"]


def test_every_home_task_has_a_plan_in_other_apartments(sim):
    """No layout hides an object where the planner sees no way to it."""
    for task in ("tidy_house", "prepare_groceries", "set_table"):
        for index in range(8):
            episode = generate_episode(task, "test", 0, index)
            sim.reset(episode.scene)
            skills = [skill for skill, _ in calls(sim, episode)]
            assert skills.count("place") == len(episode.targets)


def test_the_split_and_index_name_the_problem(sim, table):
    other = dataclasses.replace(table, split="train", index=7)
    assert "set_table_train_7" in observe(sim, other)
