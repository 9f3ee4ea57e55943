"""Names of things that others may add: who may import, and who may not."""

import sys

import gymnasium
import pytest

from rearrange.errors import UserError
from rearrange.system.registry import Registry
from rearrange.tasks.registry import make_env
from rearrange.tasks.rules.definition import TASKS, TaskDefinition

MODULE = """
from rearrange.tasks.rules.definition import TASKS, TaskDefinition

def task(name):
    return TaskDefinition(
        name=name, env_id=f"{name}/Own-v0", title="Own",
        rules="rearrange.tasks.rules.pick:PickTask",
        episodes="rearrange.tasks.episodes.generate:PICK",
    )

TASKS.add("own_task", task("own_task"))
OTHER = task("own_other")
NUMBER = 3
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module of somebody else, which is not imported yet."""
    (tmp_path / "somebodys_tasks.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(TASKS, "_entries", dict(TASKS._entries))
    yield "somebodys_tasks"
    sys.modules.pop("somebodys_tasks", None)
    for name in ("own_task/Own-v0", "own_other/Own-v0"):
        gymnasium.registry.pop(name, None)


def test_a_name_of_a_file_imports_nothing(module):
    with pytest.raises(UserError, match=f"^unknown task '{module}:own_task'"):
        TASKS[f"{module}:own_task"]
    assert f"{module}:own_task" not in TASKS and module not in sys.modules


def test_a_name_without_its_module_is_told_how_to_write_one(module):
    with pytest.raises(UserError, match=r"'own_task': choose .* of your own: MODULE:own_task\)$"):
        TASKS.find("own_task")


def test_a_name_of_the_user_imports_its_module(module):
    assert TASKS.find(f"{module}:own_task").title == "Own"
    assert TASKS["own_task"].env_id in gymnasium.registry
    assert TASKS.find(f"{module}:own_task") is TASKS["own_task"]


def test_a_definition_is_added_under_its_own_name(module):
    env = make_env(f"{module}:OTHER", depth=False)
    assert env.task.name == "own_other"
    env.reset(options={"index": 0})
    pick = make_env("pick", depth=False)
    pick.reset(options={"index": 0})
    assert env.episode.task == "own_other"
    assert env.episode.scene != pick.episode.scene  # a stream of its own


@pytest.mark.parametrize(
    "name, message",
    [
        ("NUMBER", "somebodys_tasks has no task 'NUMBER': it neither adds nor defines it"),
        ("missing", "somebodys_tasks has no task 'missing'"),
    ],
)
def test_what_is_no_task_is_said_to_be_none(module, name, message):
    with pytest.raises(UserError, match=message):
        TASKS.find(f"{module}:{name}")


def test_a_module_that_is_missing_is_one_line():
    with pytest.raises(UserError, match="^cannot import 'no_such_module' for task "):
        TASKS.find("no_such_module:pick")


def test_a_module_that_fails_says_where_and_what_it_says_itself(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken_module.py").write_text("a = 1\nb = a / 0\n")
    (tmp_path / "taken_name.py").write_text(
        "from rearrange.registries import TASKS\nTASKS.add('pick', 'somewhere:ELSE')\n"
    )
    with pytest.raises(UserError, match=r"division by zero\); raised in .*module.py, line 2$"):
        TASKS.find("broken_module:mine")
    with pytest.raises(UserError, match="task 'pick' exists already: choose another name$"):
        TASKS.find("taken_name:pick")


def test_a_place_without_the_thing_is_one_line():
    things = Registry("thing")
    things.add("colour", "colorsys:rgb_to_hzv")
    with pytest.raises(UserError, match="^colorsys has no 'rgb_to_hzv'"):
        things["colour"]


def test_a_name_stands_for_one_thing():
    things = Registry("thing")
    things.add("a", print)
    things.add("a", print)
    with pytest.raises(UserError, match="the thing 'a' exists already"):
        things.add("a", len)
    with pytest.raises(UserError, match="must be a word without ':'"):
        things.add("a:b", print)


def test_what_is_added_by_its_place_is_imported_when_it_is_asked_for():
    things = Registry("thing")
    sys.modules.pop("colorsys", None)
    things.add("colour", "colorsys:rgb_to_hsv")
    assert list(things) == ["colour"] and "colorsys" not in sys.modules
    assert things["colour"](0.0, 0.0, 1.0) == (2 / 3, 1.0, 1.0)
    things.add("colour", "colorsys:rgb_to_hsv")


def test_the_tasks_of_the_package_are_whole():
    streams = [task.stream_number for task in TASKS.values()]
    assert len(set(streams)) == len(streams)
    for name, task in TASKS.items():
        assert isinstance(task, TaskDefinition) and task.name == name
        assert task.make_rules().name == name
