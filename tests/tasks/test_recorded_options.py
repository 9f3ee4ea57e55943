"""What files say of the environment: as it is now, and as it was before it had an option."""

import pytest

from rearrange.tasks.recorded_options import recorded_options, to_record
from rearrange.tasks.registry import make_env
from rearrange.tasks.rules.names import SKILL_TASKS


@pytest.mark.parametrize("task", SKILL_TASKS)
@pytest.mark.parametrize("given", [{}, {"handle_sensors": False}, {"handle_sensors": True}])
def test_what_is_recorded_makes_the_same_environment(task, given):
    record = to_record(SKILL_TASKS[task], {"depth": False} | given)
    read = recorded_options(SKILL_TASKS[task], record, "it must ")
    spaces = [make_env(task, **o).observation_space for o in ({"depth": False} | given, read)]
    assert spaces[0] == spaces[1]


def test_files_of_before_have_the_handle_sensors():
    options = recorded_options("rearrange/OpenDrawer-v0", {"depth": False}, "it must ")
    space = make_env("open_drawer", **options).observation_space
    assert {"marker_rel_pos", "marker_js"} <= set(space)


def test_a_run_with_handle_sensors_is_recorded_as_one_of_before():
    """So that it is gone on with: what a checkpoint says must be equal."""
    options = {"depth": False, "handle_sensors": True}
    assert to_record("rearrange/OpenDrawer-v0", options) == {"depth": False}
    assert to_record("Foreign-v0", options) == options  # whatever it means there
