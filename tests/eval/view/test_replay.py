"""An evaluation is seen again: failures first, and as it was."""

import json
import sys

import pytest
from evaluated import FAILURE, SUCCESS, real_record, write_evaluation

from rearrange.cli import main
from rearrange.commands.settings import load
from rearrange.configs.viewing import ViewCfg
from rearrange.errors import UserError
from rearrange.eval.view.messages import Said
from rearrange.eval.view.moments import setup
from rearrange.eval.view.replay import changes_between, read_evaluation
from rearrange.eval.view.session import Session


@pytest.fixture(scope="module")
def record():
    return real_record()


@pytest.fixture
def folder(record, tmp_path):
    return write_evaluation(tmp_path, record)


def show(folder, **more):
    evaluation = read_evaluation(ViewCfg(run=str(folder), **more))
    page = type("Page", (), {"held_keys": frozenset(), "take": lambda self: []})()
    session = Session(evaluation.cfg, page, evaluation)
    session.begin(session.index)
    return session, evaluation


def test_failures_come_first_and_go_as_they_went(folder, record):
    assert not record.success
    session, evaluation = show(folder)
    assert evaluation.order == (FAILURE, SUCCESS) and evaluation.changes == ()
    assert [row[0] for row in setup(evaluation)["evaluated"]] == [FAILURE, SUCCESS]
    assert session.look().state["index"] == FAILURE
    assert session.stage.driver == "random" and session.is_moving
    session.advance(400)
    state = session.look().state
    assert state["result"] == record.result() and state["steps"] == record.steps
    assert state["message"] == "As it was evaluated, to the step."
    session._press("Enter")
    assert session.look().state["index"] == SUCCESS
    session._press("Enter")
    assert session.look().state["index"] == FAILURE  # around
    session.hear(Said(frozenset(), ask="split", value="train"))  # another episode of that index
    session.advance(400)
    assert session.is_over and session.look().state["message"] == ""


def test_own_code_that_has_changed_is_said():
    then = {"code": "a", "versions": {}, "modules": {"mine": "1", "ours": "2"}}
    now = {"code": "a", "versions": {}, "modules": {"mine": "3", "ours": "2"}}
    assert changes_between(then, now) == ["mine has changed"]
    assert changes_between(now, now) == []


def test_what_went_otherwise_is_said(folder, record):
    path = folder / "episodes.jsonl"
    lines = path.read_text().splitlines()
    values = json.loads(lines[1]) | {"steps": record.steps + 7}
    path.write_text("\n".join([lines[0], json.dumps(values)]) + "\n")
    settings = json.loads((folder / "settings.json").read_text())
    settings["settings"]["code"] = "another"
    settings["settings"]["versions"]["mujoco"] = "1.0"
    (folder / "settings.json").write_text(json.dumps(settings))
    session, evaluation = show(folder)
    assert evaluation.changes[0] == "the program has changed"
    assert evaluation.changes[1].startswith("mujoco was 1.0, now ")
    session.advance(400)
    assert f"after {record.steps + 7} steps" in session.look().state["message"]


def test_what_the_run_says_itself_and_what_is_none_are_one_line(folder, tmp_path, capsys):
    for more in ({"split": "train"}, {"agent": "oracle"}, {"seed": 3}, {"looks": "none"}):
        with pytest.raises(UserError, match=f"{next(iter(more))} does not go with run="):
            show(folder, **more)
    assert main(["view", f"run={folder}", "task=place"]) == 2
    assert "task does not go with run=" in capsys.readouterr().err
    with pytest.raises(UserError, match="episodes does not go with run=.* without a file"):
        show(folder, episodes=str(tmp_path / "any.json.gz"))
    content = json.loads((folder / "settings.json").read_text())
    content["settings"]["backend"] = "habitat"
    (folder / "settings.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match="was evaluated in habitat, the page shows MuJoCo"):
        show(folder)
    with pytest.raises(UserError, match="must be the output_dir of an evaluation"):
        show(tmp_path / "nothing")


def test_a_module_that_a_folder_names_is_imported_only_if_it_is_typed(
    folder, tmp_path, monkeypatch
):
    module = tmp_path / "theirs_to_replay.py"
    module.write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    content = json.loads((folder / "settings.json").read_text())
    for what in ("task", "agent"):
        name = f"theirs_to_replay:{what}"
        changed = {"settings": content["settings"] | {what: name}, "acting": []}
        (folder / "settings.json").write_text(json.dumps(changed))
        with pytest.raises(UserError, match=f"only if you name it: add {what}={name}"):
            show(folder)
        assert "theirs_to_replay" not in sys.modules
        with pytest.raises(UserError, match="RuntimeError: imported"):
            read_evaluation(load("view", [f"run={folder}", f"{what}={name}"]))
