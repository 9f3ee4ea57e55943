"""The home's three tasks: plans found by search, at the start and from the middle of an episode."""

import time

import pytest

from rearrange.errors import UserError
from rearrange.planner.home.plan import format_plan, plan_files, solve_home
from rearrange.planner.home.problems import (
    DOMAIN_PATH,
    entity_names,
    home_domain,
    pddl_name,
    problem_text,
    skill_call,
    task_problem,
)
from rearrange.planner.strips.pddl import parse_problem
from rearrange.planner.strips.search import NoPlanError
from rearrange.planner.strips.validate import validate

CAB = "cab_push_point_5"
CABS = {f"cab_push_point_{i}": "closed" for i in (4, 5, 6, 7)}


def names(count):
    movables = [f"any_targets|{i}" for i in range(count)]
    return movables, [f"TARGET_{movable}" for movable in movables]


def plan_of(text):
    plan = solve_home(text)
    validate(home_domain(), parse_problem(text, home_domain()), plan)
    return [(skill, *arguments) for skill, arguments in map(skill_call, plan)]


def moves(*pairs):
    """navigate, pick, navigate, place of each (movable, goal), PDDL names."""
    return [
        step
        for movable, goal in pairs
        for step in (
            ("navigate", movable),
            ("pick", movable),
            ("navigate", goal),
            ("place", movable, goal),
        )
    ]


def tidy_house(**now):
    movables, goals = names(5)
    containers = dict.fromkeys(movables) | {movables[3]: CAB}
    receptacles = CABS | {CAB: "open", "fridge": "closed"}
    pairs = list(zip(movables, goals, strict=True))
    return task_problem("tidy_house", containers, dict.fromkeys(goals), pairs, receptacles, **now)


def prepare_groceries(fridge="open", **now):
    movables, goals = names(3)
    return task_problem(
        "prepare_groceries",
        dict(zip(movables, ["fridge", "fridge", None], strict=True)),
        dict(zip(goals, [None, None, "fridge"], strict=True)),
        list(zip(movables, goals, strict=True)),
        CABS | {"fridge": fridge},
        **now,
    )


def set_table(bowl=CAB, cab="closed", fridge="closed", **now):
    return task_problem(
        "set_table",
        {"bowl": bowl, "apple": "fridge"},
        {"TARGET_bowl": None, "TARGET_apple": None},
        [("bowl", "TARGET_bowl"), ("apple", "TARGET_apple")],
        CABS | {CAB: cab, "fridge": fridge},
        **now,
    )


def test_tidy_house_is_twenty_steps_in_the_order_of_the_goals():
    pairs = [(f"any_targets_{i}", f"target_any_targets_{i}") for i in range(5)]
    assert plan_of(tidy_house()) == moves(*pairs)


def test_tidy_house_is_planned_within_a_second():
    text = tidy_house()
    home_domain()
    start = time.perf_counter()
    solve_home(text)
    assert time.perf_counter() - start < 1.0


def test_prepare_groceries_is_twelve_steps():
    pairs = [(f"any_targets_{i}", f"target_any_targets_{i}") for i in range(3)]
    assert plan_of(prepare_groceries()) == moves(*pairs)


def test_a_closed_fridge_is_opened_once_and_with_an_empty_hand():
    pairs = [(f"any_targets_{i}", f"target_any_targets_{i}") for i in range(3)]
    opening = [("navigate", "fridge_push_point"), ("open_fridge", "fridge_push_point")]
    assert plan_of(prepare_groceries("closed")) == opening + moves(*pairs)


def test_set_table_navigates_again_after_each_opening():
    assert plan_of(set_table()) == [
        ("navigate", CAB),
        ("open_cab", CAB),
        *moves(("bowl", "target_bowl")),
        ("navigate", "fridge_push_point"),
        ("open_fridge", "fridge_push_point"),
        *moves(("apple", "target_apple")),
    ]


def test_set_table_closes_what_must_be_closed_at_the_end():
    plan = plan_of(set_table(final_states={"fridge": "closed", CAB: "closed"}))
    assert len(plan) == 16
    assert plan.index(("close_cab", CAB)) > plan.index(("pick", "bowl"))
    assert plan.index(("close_fridge", "fridge_push_point")) > plan.index(("pick", "apple"))


def test_an_empty_fridge_can_be_closed_and_opened():
    steps = {("open", "closed"): "close_fridge", ("between", "open"): "open_fridge"}
    for (start, end), step in steps.items():
        text = task_problem("door", {}, {}, [], {"fridge": start}, final_states={"fridge": end})
        assert plan_of(text) == [("navigate", "fridge_push_point"), (step, "fridge_push_point")]


def test_replanning_goes_on_from_what_is_held_placed_and_open():
    plan = plan_of(set_table(cab="open", held="bowl", robot_at="bowl"))
    assert plan[:2] == [("navigate", "target_bowl"), ("place", "bowl", "target_bowl")]
    assert len(plan) == 8
    plan = plan_of(set_table(cab="open", fridge="open", placed={"bowl": "TARGET_bowl"}))
    assert plan == moves(("apple", "target_apple"))
    plan = plan_of(set_table(bowl=None, robot_at="bowl"))  # it fell to the floor before the robot
    assert plan[:3] == moves(("bowl", "target_bowl"))[1:]
    done = {"bowl": "TARGET_bowl", "apple": "TARGET_apple"}
    assert plan_of(set_table(placed=done)) == []


def test_an_object_at_the_wrong_goal_is_moved_on():
    plan = plan_of(tidy_house(placed={"any_targets|0": "TARGET_any_targets|1"}))
    assert len(plan) == 20


def test_a_held_object_is_laid_aside_to_open_the_fridge():
    plan = plan_of(prepare_groceries("closed", held="any_targets|2"))
    opening = plan.index(("open_fridge", "fridge_push_point"))
    assert any(step[:2] == ("place", "any_targets_2") for step in plan[:opening])
    assert plan[-1] == ("place", "any_targets_2", "target_any_targets_2")


def test_one_object_cannot_be_at_two_goals():
    text = task_problem(
        "twice", {"a": None}, {"g": None, "h": None}, [("a", "g"), ("a", "h")], {"fridge": "open"}
    )
    with pytest.raises(NoPlanError, match="no plan exists"):
        solve_home(text)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"held": "spoon"}, "held: spoon is unknown; known are bowl, apple"),
        ({"held": "bowl", "placed": {"bowl": "TARGET_bowl"}}, "bowl cannot be held and lie"),
        ({"placed": {"bowl": "table"}}, "goal of placed: table is unknown"),
        ({"bowl": "cupboard"}, "container of bowl: cupboard is unknown; known"),
        ({"robot_at": "moon"}, "robot_at: moon is unknown"),
        ({"cab": "ajar"}, "must be one of open, closed, between, got ajar"),
        (
            {"final_states": {"fridge": "between"}},
            "can only be requested open or closed, got between",
        ),
    ],
)
def test_wrong_data_is_one_line(change, message):
    with pytest.raises(UserError, match=message):
        set_table(**change)


def test_entity_names_go_to_pddl_and_back():
    entities = ["any_targets|0", "TARGET_any_targets|0", "robot_0", "003_cracker_box"]
    table = entity_names(entities)
    assert table["target_any_targets_0"] == "TARGET_any_targets|0"
    assert pddl_name("003_cracker_box") == "n003_cracker_box"
    assert [table[pddl_name(entity)] for entity in entities] == entities
    with pytest.raises(UserError, match="both a_0 in PDDL"):
        entity_names(["a|0", "a_0"])


def test_problem_text_and_plan_lines(tmp_path):
    text = problem_text(
        "Set the table!",
        {"robot_0": "robot", "bowl_0": "movable"},
        [("robot_at", "somewhere", "robot_0"), ("not_holding", "robot_0"),
         ("object_at", "bowl_0", "somewhere")],
        [("holding", "bowl_0", "robot_0")],
    )  # fmt: skip
    path = tmp_path / "problem.pddl"
    path.write_text(text)
    plan = plan_files(DOMAIN_PATH, path)
    assert [str(step) for step in plan] == [
        "(nav somewhere bowl_0 robot_0)",
        "(pick bowl_0 somewhere robot_0)",
    ]
    assert format_plan(plan).splitlines()[1] == "2  (pick bowl_0 somewhere robot_0)"
    skills = format_plan(plan, entity_names(["bowl|0"]), is_home=True)
    assert skills == "1  navigate(bowl|0)\n2  pick(bowl|0)"
    assert format_plan([]) == "nothing to do: the goals hold already"
