"""What people read: no identifier is left, and each says what the identifier stood for."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from rearrange.planner.home.descriptions import (
    Descriptions,
    any_step,
    describe_progress,
    describe_stages,
    furniture,
    names_of,
    plain,
    running_step,
)
from rearrange.sim.home.furniture import PIECES
from rearrange.sim.home.objects import KINDS
from rearrange.sim.scene import ObjectPlacement, Scene
from rearrange.tasks.rules.episode import EpisodeSpec, Target

TABLE = "receptacle_aabb_Tbl1_Top1_frl_apartment_table_01"
SOFA = "receptacle_aabb_Sofa_frl_apartment_sofa"
FRIDGE = "receptacle_aabb_middle_topfrl_apartment_refrigerator"
DESCRIPTIONS = Descriptions(
    {
        "any_targets|0": ("024_bowl", TABLE, FRIDGE),
        "any_targets|1": ("009_gelatin_box", FRIDGE, SOFA),
        "any_targets|2": ("024_bowl", TABLE, TABLE),
    }
)


@pytest.mark.parametrize(
    "line, text",
    [
        ("place(any_targets|1, TARGET_any_targets|1)", "gelatin box -> sofa"),
        ("place(any_targets|0, TARGET_any_targets|2)", "first bowl -> table"),
        ("pick(any_targets|2)", "pick up the second bowl"),
        ("navigate(any_targets|1)", "go to the gelatin box"),
        ("navigate(TARGET_any_targets|0)", "go to the fridge"),
        ("navigate(cab_push_point_5)", "go to the drawer"),
        ("open_drawer(cab_push_point_5)", "open the drawer"),
        ("open_cab(cab_push_point_5)", "open the drawer"),  # as plans show it
        ("close_fridge(fridge_push_point)", "close the fridge"),
        ("press_button(cab_push_point_5)", "press button: drawer"),  # a skill without phrases
        ("random actions", "random actions"),
    ],
)
def test_a_step_is_said_with_the_things_of_its_episode(line, text):
    assert DESCRIPTIONS.step(line) == text
    assert DESCRIPTIONS.plan_line(f"> {line}") == f"> {text}"
    assert DESCRIPTIONS.plan_line(f"  {line}") == f"  {text}"
    assert DESCRIPTIONS.status(f"{line}: backing out") == f"{text}: backing out"


@pytest.mark.parametrize(
    "label, step, text",
    [
        ("time_limit", "place(any_targets|0, TARGET_any_targets|0)",
         "ran out of time while placing the first bowl"),
        ("time_limit", "", "ran out of time"),
        ("pick(any_targets|1): out of time", "",
         "ran out of time while picking up the gelatin box"),
        ("place(any_targets|1): ended without success", "", "failed at placing the gelatin box"),
        ("open_fridge(fridge_push_point): the handle slipped", "",
         "the handle slipped while opening the fridge"),
        ("force", "", "pressed too hard"),
        ("wrong_object", "pick(any_targets|1)", "picked up the wrong thing"),
        ("wrong_object", "open_drawer(cab_push_point_5)", "took hold of the wrong thing"),
        ("dropped", "pick(any_targets|1)", "dropped the gelatin box"),
        ("stop_without_success", "close_drawer(cab_push_point_5)",
         "stopped before the drawer was shut and the arm back"),
        ("stop_without_success", "", "stopped before everything was in its place"),
        ("no plan", "", "found no plan"),
        ("of somebody's own agent", "", "of somebody's own agent"),
    ],
)  # fmt: skip
def test_a_failure_says_what_happened_and_at_what(label, step, text):
    assert DESCRIPTIONS.failure(label, step) == text


def test_without_an_episode_things_have_their_places_in_the_task():
    text = Descriptions()
    said = text.failure("pick(any_targets|1): no reach")
    assert said == "could not reach far enough while picking up the second object"
    assert text.failure("time_limit", any_step("pick")) == (
        "ran out of time while picking up the object"
    )
    assert any_step("tidy_house") == ""


def test_stages_are_counted():
    assert describe_stages(["stage_0_5", "stage_1", "stage_1_5", "stage_2", "button_pressed"]) == {
        "stage_0_5": "1 of 2 picked up", "stage_1": "1 of 2 placed",
        "stage_1_5": "2 of 2 picked up", "stage_2": "2 of 2 placed",
        "button_pressed": "button pressed",
    }  # fmt: skip
    stages = {"stage_0_5": False, "stage_1": False, "stage_1_5": False, "stage_2": False}
    assert describe_progress(stages) == "0 of 2 placed"
    assert describe_progress(stages | {"stage_0_5": True, "stage_1": True}) == "1 of 2 placed"
    assert describe_progress({}) == "" and describe_progress({"button_pressed": False}) == ""


def test_every_kind_and_every_receptacle_has_a_plain_name():
    receptacles = [surface.name for piece in PIECES.values() for surface in piece.surfaces]
    receptacles += ["receptacle_aabb_desk_extra_3", "receptacle_aabb_worktop_worktop_1"]
    names = {furniture(name) for name in receptacles}
    assert names == {
        "chair", "counter", "drawer", "fridge", "sink", "sofa", "table", "TV stand", "desk",
        "worktop",
    }  # fmt: skip
    assert all(re.fullmatch(r"[a-z]+( [a-z]+)*", plain(kind)) for kind in KINDS)


def test_the_step_of_a_skill_s_own_task_is_known_from_its_episode():
    bowl = ObjectPlacement("024_bowl", (0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0))
    can = replace(bowl, kind="007_tuna_fish_can")
    scene = Scene("a", (bowl, can), (0.0, 0.0, 0.0), ())
    other = Target(0, "any_targets|0", bowl.pos, bowl.pos, TABLE, TABLE)
    own = Target(1, "any_targets|1", bowl.pos, bowl.pos, TABLE, SOFA)
    episode = EpisodeSpec("place", "val", 0, 0, scene, (other, own), target_index=1)
    text = Descriptions(names_of(episode))
    assert names_of(episode) == {"any_targets|1": (can.kind, TABLE, SOFA)}
    assert text.step(running_step(episode, "place: lowering")) == "tuna fish can -> sofa"
    there = replace(episode, task="navigate", start_holding=True)
    assert text.step(running_step(there, "navigate")) == "go to the sofa"
    drawer = replace(episode, task="open_drawer", marker="cab_push_point_5")
    assert text.step(running_step(drawer, "")) == "open the drawer" and not names_of(drawer)


def test_a_plan_s_step_is_the_one_in_the_agent_s_status():
    episode = SimpleNamespace(task="tidy_house")
    assert running_step(episode, "pick(any_targets|0): reaching") == "pick(any_targets|0)"
    own = "press-button(cab_push_point_5)"  # a skill of one's own
    assert running_step(episode, f"{own}: pressing") == own
    assert running_step(episode, "done") == running_step(episode, "random actions") == ""
