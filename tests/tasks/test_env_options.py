"""What files say of the environment: as it is now, and as it was before it had an option."""

import json
import sys

import pytest

from rearrange.errors import UserError
from rearrange.tasks.env_options import recorded_environment, recorded_options, to_record
from rearrange.tasks.registry import make_env
from rearrange.tasks.rules.definition import TASKS
from rearrange.tasks.rules.names import SKILL_TASKS

PICK = TASKS["pick"]


@pytest.mark.parametrize("task", SKILL_TASKS)
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"handle_sensors": False},
        {"handle_sensors": True},
        {"motor_lead": 0.15},
        {"motor_lead": 0.3},
        {"render_mode": "rgb_array"},
    ],
)
def test_what_is_recorded_makes_the_same_environment(task, given):
    record = to_record(SKILL_TASKS[task], {"depth": False} | given)
    read = recorded_options(SKILL_TASKS[task], record, "it must ")
    first, second = (make_env(task, **o) for o in ({"depth": False} | given, read))
    assert first.observation_space == second.observation_space
    assert first.sim.motor_lead == second.sim.motor_lead


def test_files_of_before_have_the_handle_sensors():
    options = recorded_options("rearrange/OpenDrawer-v0", {"depth": False}, "it must ")
    space = make_env("open_drawer", **options).observation_space
    assert {"marker_rel_pos", "marker_js"} <= set(space)


def test_files_of_before_have_motors_that_do_not_wind_up():
    for name in SKILL_TASKS:
        options = recorded_options(SKILL_TASKS[name], {"depth": False}, "it must ")
        assert make_env(name, **options).sim.motor_lead == 0.15
    assert make_env("pick", depth=False).sim.motor_lead is None
    assert to_record(SKILL_TASKS["pick"], {})["motor_lead"] is None


@pytest.mark.parametrize("lead", [True, "wide", 0.0, 7.0, float("nan")])
def test_a_lead_is_a_step_at_least(lead):
    with pytest.raises(UserError, match="motor_lead must be null or from"):
        make_env("pick", depth=False, motor_lead=lead)


def test_a_run_as_before_is_recorded_as_one_of_before():
    """So that it is gone on with: what a checkpoint says must be equal."""
    options = {"depth": False, "handle_sensors": True, "motor_lead": 0.15}
    assert to_record("rearrange/OpenDrawer-v0", options) == {"depth": False}
    assert to_record("Foreign-v0", options) == options  # whatever it means there


def test_all_of_an_environment_is_read_again_from_its_record():
    for given in ({}, {"render_mode": "rgb_array", "index_offset": 3, "motor_lead": 0.2}):
        made = make_env("pick", depth=False, **given).init_kwargs
        read = recorded_environment("pick", json.loads(json.dumps(made)), "it: ")
        assert read | {"render_size": (640, 480)} == made


@pytest.mark.parametrize("word", ["a_module_of_the_file:X", "a_module_of_the_file:pick"])
def test_no_module_is_imported_that_a_record_names(word, tmp_path, monkeypatch):
    (tmp_path / "a_module_of_the_file.py").write_text("open('ran', 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=r"it: environment\['task'\] must be pick, as the episode"):
        recorded_environment("pick", {"task": word}, "it: ")
    assert "a_module_of_the_file" not in sys.modules and not (tmp_path / "ran").exists()


def test_a_task_of_a_module_that_is_there_may_be_recorded_with_it():
    for word in ("pick", f"{__name__}:pick", f"{__name__}:PICK"):
        assert recorded_environment("pick", {"task": word}, "it: ") == {"task": "pick"}


@pytest.mark.parametrize(
    ("record", "line"),
    [
        ([], "environment must be an object"),
        (None, "environment must be an object"),
        ({}, "environment.task is missing"),
        ({"task": None}, "must be a string"),
        ({"task": "place"}, "must be pick"),
        ({"task": "pick", "foo": 1}, "must be one of split, "),
        ({"task": "pick", "split": "x"}, "must be one of train, val, test"),
        ({"task": "pick", "depth": 1}, "must be true or false"),
        ({"task": "pick", "camera_size": 10**9}, "must lie in"),
        ({"task": "pick", "render_size": [640, -1]}, "must lie in"),
    ],
)
def test_any_other_record_of_an_environment_is_one_line(record, line):
    with pytest.raises(UserError, match=line):
        recorded_environment("pick", record, "it: ")
