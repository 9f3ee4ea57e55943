"""What was driven becomes a data set that plays back, whoever drove."""

import pytest

from rearrange.errors import UserError
from rearrange.eval.demonstrations.formats import read_summary
from rearrange.eval.demonstrations.replay import replay
from rearrange.eval.view.messages import Said
from rearrange.eval.view.saving import keep

h5py = pytest.importorskip("h5py")


def said(**more):
    return Said(frozenset(), **more)


@pytest.fixture
def folder(session, tmp_path, monkeypatch):
    """Where the session keeps what was driven."""
    folder = tmp_path / "mine"
    cfg = session.stage.cfg
    monkeypatch.setattr(cfg, "output", str(folder))
    monkeypatch.setattr(cfg, "format", "hdf5")
    return folder


def drive(session, page, keys="w", steps=8):
    page.held_keys = frozenset(keys)
    session.advance(steps)


def test_what_several_drove_is_kept_and_comes_again_bit_for_bit(session, page, folder):
    drive(session, page)
    session.hear(said(ask="drive", value="random"))
    drive(session, page, "", 8)
    session.hear(said(ask="drive", value="you"))
    drive(session, page, "r", 8)
    session.hear(said(pressed=("k",)))
    assert session.look().state["message"] == f"Kept, 24 steps: {folder} has one by now."
    (played,) = replay(folder)
    assert played.difference is None and played.steps == 24
    assert read_summary(folder)["agents"] == ["you+random"]


def test_a_data_set_grows_and_has_each_episode_once(session, page, folder):
    drive(session, page)
    session.hear(said(pressed=("k",)))
    session.hear(said(pressed=("Enter",)))
    drive(session, page, "d")
    session.hear(said(pressed=("k",)))
    session.hear(said(pressed=("Backspace",)))
    drive(session, page, "a", 12)
    session.hear(said(pressed=("k",)))
    summary = read_summary(folder)
    assert (summary["num_episodes"], summary["num_steps"]) == (2, 20)
    assert [(played.steps, played.difference) for played in replay(folder)] == [
        (8, None),
        (12, None),
    ]


@pytest.mark.parametrize("note", ["{}", "[]", "1", "null", '{"agent": 1, "steps": 1}'])
def test_a_damaged_note_is_one_line_and_nothing_changes(session, page, folder, note):
    drive(session, page)
    session.hear(said(pressed=("k",)))
    session.hear(said(pressed=("Enter",)))
    (folder / "pieces/000000.json").write_text(note)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    drive(session, page, "d")
    session.hear(said(pressed=("k",)))
    assert "000000.json is damaged: it must have " in session.look().state["message"]
    after = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    lock = folder / ".lock"
    assert {**before, lock: b""} == {**after, lock: b""}


def test_nothing_driven_and_folders_of_others_are_refused(session, page, folder, tmp_path):
    session.hear(said(pressed=("k",)))
    assert session.look().state["message"] == "nothing has been driven yet"
    assert not folder.exists()
    folder.mkdir()
    (folder / "letter").write_text("mine")
    drive(session, page)
    session.hear(said(pressed=("k",)))
    assert "holds other things" in session.look().state["message"]
    assert {path.name for path in folder.iterdir()} - {".lock"} == {"letter"}
    (folder / "letter").unlink()
    (folder / "pieces").mkdir()  # of an interrupted `collect`
    (folder / "settings.json").write_text("{}")
    (folder / "pieces/000000.hdf5").write_text("collected")
    session.hear(said(pressed=("k",)))
    assert "what `rearrange collect` has begun" in session.look().state["message"]
    assert (folder / "pieces/000000.hdf5").read_text() == "collected"


def test_a_world_that_does_not_come_again_is_not_kept(session, page, folder):
    drive(session, page)
    driven = session.stage.driven
    driven.actions[3] = driven.actions[3] + 0.5
    with pytest.raises(UserError, match="did not come again"):
        keep(driven, session.stage.env, folder, "hdf5")
    assert not folder.exists()


def test_demonstrations_of_another_task_go_elsewhere(session, page, folder):
    drive(session, page)
    session.hear(said(pressed=("k",)))
    session.hear(said(ask="task", value="navigate"))
    session.stage.cfg.output, session.stage.cfg.format = str(folder), "hdf5"
    drive(session, page)
    session.hear(said(pressed=("k",)))
    assert "holds demonstrations of task=pick, got navigate" in session.look().state["message"]
    session.hear(said(ask="task", value="pick"))
    assert [played.difference for played in replay(folder)] == [None]


@pytest.mark.parametrize(("form", "task"), [("hdf5", "navigate"), ("lerobot", "pick")])
def test_a_data_set_that_was_cut_off_takes_no_others(session, page, folder, form, task):
    """Its summary comes last."""
    drive(session, page)
    session.hear(said(pressed=("k",)))
    (folder / "summary.json").unlink()
    session.hear(said(ask="task", value=task))
    session.stage.cfg.output, session.stage.cfg.format = str(folder), form
    drive(session, page)
    before = {path.name: path.read_bytes() for path in (folder / "pieces").iterdir()}
    session.hear(said(pressed=("k",)))
    assert "holds demonstrations of" in session.look().state["message"]
    assert {path.name: path.read_bytes() for path in (folder / "pieces").iterdir()} == before
    session.hear(said(ask="task", value="pick"))


def test_what_is_kept_has_the_sensors_that_collect_records(session, page, folder):
    session.hear(said(ask="task", value="open_drawer"))
    session.stage.cfg.output, session.stage.cfg.format = str(folder), "hdf5"
    drive(session, page)
    session.hear(said(pressed=("k",)))
    session.hear(said(ask="task", value="pick"))
    with h5py.File(folder / "demonstrations.hdf5") as file:
        assert {"marker_rel_pos", "marker_js", "head_depth"} <= {*file["episode_0/observations"]}
