"""A home of a file: the example works, what is wrong is one line that names the place."""

import copy
import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest

from rearrange.errors import UserError
from rearrange.sim.homes.custom import MAX_BYTES, CustomHome, from_procedural
from rearrange.sim.homes.layout import make_layout
from rearrange.sim.homes.procedural import make_home
from rearrange.tasks.episodes import generate as generating
from rearrange.tasks.episodes.draft import DraftRejected
from rearrange.tasks.episodes.files import read_episodes, write_episodes
from rearrange.tasks.episodes.generate import generate_episode
from rearrange.tasks.episodes.schema import episode_to_json
from rearrange.tasks.registry import make_env

EXAMPLE = Path(__file__).parents[3] / "examples" / "flat.json"


@pytest.fixture
def flat():
    return json.loads(EXAMPLE.read_text())


def test_the_example_is_a_home_in_which_episodes_are_made(monkeypatch):
    monkeypatch.chdir(EXAMPLE.parents[1])
    env = make_env("set_table", "val", 0, depth=False, homes="examples/flat.json")
    _, info = env.reset()
    assert info["scene"] == "examples/flat.json"
    assert len(env.sim.layout.walls) == 4 + 4 + 5  # outer, inner, one more for each doorway
    counter = env.sim.layout.counter
    assert "drawer_middle_bottom" not in counter.drawers and len(counter.drawers) == 6


def test_a_procedural_home_written_as_a_file_is_that_home(tmp_path):
    home = make_home("procedural_train_0003")
    path = tmp_path / "home.json"
    path.write_text(json.dumps(from_procedural(home)))
    own = CustomHome(str(path)).layout
    assert own.bounds == home.layout.bounds
    assert own.walls == pytest.approx(home.layout.walls)
    places = [np.array(sorted(one.pieces.values())) for one in (own, home.layout)]
    assert places[0] == pytest.approx(places[1])
    assert own.fridge.side == home.layout.fridge.side
    for joint, place in home.layout.counter.drawers.items():
        assert own.counter.drawers[joint][0] == pytest.approx(place[0], abs=1e-3)
    for name in ("sofa", "table_01", "fridge"):
        assert own.shapes[name].half == pytest.approx(home.layout.shapes[name].half, abs=1e-3)


@pytest.mark.parametrize("name", ["procedural_test_0012", "procedural_train_0089"])
def test_a_written_home_holds_objects_where_the_procedural_one_does(tmp_path, name):
    home = make_home(name)
    own = CustomHome(str(tmp_path), json.dumps(from_procedural(home)).encode()).layout
    ours, theirs = (np.array([r.pos[:2] for r in one.receptacles]) for one in (own, home.layout))
    assert len(ours) == len(theirs)
    assert np.linalg.norm(ours[:, None] - theirs, axis=2).min(axis=0).max() < 0.03


def test_a_piece_may_be_kept_bare_unless_tasks_need_it(tmp_path, flat):
    def receptacles():
        return {
            r.piece for r in CustomHome(str(tmp_path), json.dumps(flat).encode()).layout.receptacles
        }

    number = next(i for i, piece in enumerate(flat["furniture"]) if piece["kind"] == "basin")
    before = receptacles()
    flat["furniture"][number]["holds_objects"] = False
    assert len(before - receptacles()) == 1
    flat["furniture"][2]["holds_objects"] = False
    with pytest.raises(UserError, match=r"furniture\[2\]\.holds_objects must be true"):
        receptacles()


def piece(flat, kind):
    return next(entry for entry in flat["furniture"] if entry["kind"] == kind)


def broken(name, flat):
    """The example with one thing wrong with it."""
    if name == "overlap":
        piece(flat, "sofa")["at"] = piece(flat, "low_table")["at"]
    elif name == "doorway beyond its wall":
        flat["doorways"][2]["start"] = 3.5
    elif name == "doorway too narrow":
        flat["doorways"][0]["width"] = 0.5
    elif name == "closed room":
        del flat["doorways"][3]
        flat["furniture"].append({"kind": "chair", "at": [3.5, 4.8], "yaw": 0})
        piece(flat, "sofa")["at"], piece(flat, "bed")["at"] = [2.9, 6.6], [1.4, 3.4]
    elif name == "unreachable counter":
        piece(flat, "table")["at"] = [6.9, 1.6]
    elif name == "negative size":
        piece(flat, "table")["size"] = [0.8, -1.3, 0.75]
    elif name == "too many pieces":
        flat["furniture"] += [{"kind": "plant", "at": [1, 1], "yaw": 0}] * 10_000
    elif name == "no fridge":
        flat["furniture"].remove(piece(flat, "fridge"))
    elif name == "slanted wall":
        flat["walls"][0] = [0, 4.3, 9.6, 4.4]
    elif name == "unknown kind":
        piece(flat, "sofa")["kind"] = "throne"
    elif name == "outside":
        piece(flat, "bed")["at"] = [1.1, 64]
    elif name == "fridge door":
        piece(flat, "fridge")["hinge"] = "right"
        piece(flat, "fridge")["at"] = [9.2, 0.36]
    elif name == "table above the arm":
        piece(flat, "table")["size"][2] = 1.31
    elif name == "seat on the floor":
        piece(flat, "sofa")["size"][2] = 0.1
    elif name == "walled in":
        del flat["doorways"][4]
    elif name == "small table":
        piece(flat, "low_table")["size"] = [0.27, 0.27, 0.45]
    elif name == "narrow table":
        piece(flat, "table")["size"] = [0.1, 1.3, 0.75]
    elif name == "fridge walled in":
        del flat["doorways"][4]
        for kind in ("tub", "toilet", "basin"):
            flat["furniture"].remove(piece(flat, kind))
        flat["furniture"][1] = {"kind": "fridge", "at": [8.4, 7.06], "yaw": -90}
    elif name == "reversed room":
        flat["rooms"][0]["rect"] = [5, 5, -3, 1]
    elif name == "name of half a letter":
        flat["rooms"][0]["name"] = "\ud800"
    elif name == "doorway without walls":
        flat["walls"] = []
    elif name == "start below 0":
        flat["doorways"][0]["start"] = -0.1
    return flat


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("overlap", r"no piece may overlap another or a wall; furniture\[\d+\] \(\w+\) does"),
        ("doorway beyond its wall", r"doorways\[2\]\.start|doorways\[2\] must end on its wall"),
        ("doorway too narrow", r"doorways\[0\]\.width must lie in"),
        ("closed room", r"must (reach|be connected|stand|be free)|may (stand|overlap)"),
        ("unreachable counter", r"the floor in front of the counter must be free"),
        ("negative size", r"furniture\[2\]\.size\[1\] must lie in \[0\.1, 4\]"),
        ("too many pieces", r"furniture must hold 0 to \d+ elements, got 10016"),
        ("no fridge", r"furniture must have a fridge"),
        ("slanted wall", r"walls\[0\] must run along .*got \[0, 4\.3, 9\.6, 4\.4\]"),
        ("unknown kind", r"furniture\[6\]\.kind must be one of"),
        ("outside", r"furniture\[10\]\.at must lie in the home.* got \[1\.1, 64\]$"),
        ("table above the arm", r"furniture\[2\] must hold objects 0\.1 to 1\.3 m .*got 1\.31 m"),
        ("seat on the floor", r"furniture\[6\] must hold objects 0\.1 to 1\.3 m .*\(sofa\)"),
        ("walled in", r"furniture\[15\] must be in a room that the robot gets into"),
        ("small table", r"furniture\[7\]\.size must leave room for objects, 0\.18 x 0\.28 m"),
        ("narrow table", r"furniture\[2\]\.size must leave room .*got \[0\.1, 1\.3, 0\.75\]$"),
        ("fridge walled in", r"furniture\[1\] must be in a room that the robot gets into"),
        ("reversed room", r"rooms\[0\]\.rect must lie in .* 9\.6 x 7\.4 m, .*got \[5, 5, -3, 1\]"),
        ("name of half a letter", r"rooms\[0\]\.name must be text that can be written"),
        ("doorway without walls", r"doorways must be empty where walls is"),
        ("start below 0", r"doorways\[0\]\.start must lie in \[0, 20\], got -0\.1"),
        ("fridge door", r"the (fridge's doors|floor in front of the fridge) must be free"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path, flat, name, line):
    path = tmp_path / "home.json"
    path.write_text(json.dumps(broken(name, copy.deepcopy(flat))))
    with pytest.raises(UserError, match=line) as caught:
        CustomHome(str(path))
    text = str(caught.value)
    assert "home.json" in text and "\n" not in text


@pytest.mark.parametrize(
    ("place", "field", "line"),
    [
        ((), "wals", "the object has no field 'wals', did you mean 'walls'"),
        (("rooms", 0), "rekt", r"rooms\[0\] has no field 'rekt', did you mean 'rect'"),
        (("doorways", 1), "height", r"doorways\[1\] has no field 'height', choose from wall"),
        (("furniture", 6), "sise", r"furniture\[6\] has no field 'sise', did you mean 'size'"),
        (("furniture", 0), "size", r"furniture\[0\] has no field 'size'"),
        (("furniture", 1), "size", r"furniture\[1\] has no field 'size'"),
        (("furniture", 3), "hinge", r"furniture\[3\] has no field 'hinge'"),
    ],
)
def test_fields_that_do_not_exist_are_named(tmp_path, flat, place, field, line):
    node = flat
    for key in place:
        node = node[key]
    node[field] = 1
    with pytest.raises(UserError, match=line):
        CustomHome(str(tmp_path), json.dumps(flat).encode())


@pytest.mark.parametrize("number", [1e308, -1e308, 10**99])
@pytest.mark.parametrize(
    "place",
    [
        ("walls", 0, 0), ("walls", 0, 1), ("rooms", 0, "rect", 2), ("doorways", 0, "start"),
        ("doorways", 0, "width"), ("furniture", 2, "at", 0), ("size", 0),
    ],
)  # fmt: skip
def test_numbers_of_no_home_are_refused_wherever_they_are(tmp_path, flat, place, number):
    node = flat
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = number
    with pytest.raises(UserError, match=rf"{place[0]}(\[\d+\])?.* must "):
        CustomHome(str(tmp_path), json.dumps(flat).encode())


def test_doorways_that_overlap_are_one(tmp_path, flat):
    flat["doorways"] += [
        {"wall": 0, "start": 4.2, "width": 0.7},  # within the first
        {"wall": 0, "start": 4.9, "width": 0.9},
    ]  # joins it and the second
    walls = CustomHome(str(tmp_path), json.dumps(flat).encode()).layout.walls
    along = sorted((x - hx, x + hx) for x, y, hx, _, _ in walls if y == pytest.approx(4.3))
    assert along == [pytest.approx((0, 4.15)), pytest.approx((6.5, 9.6))]


def test_files_that_are_no_homes_are_refused(tmp_path):
    path = tmp_path / "home.json"
    for content, line in (
        (b"", "must hold a home, it is empty"),
        (b"\xef\xbb\xbf \n", "must hold a home, it is empty"),
        (b"[]", "the value must be an object"),
        (b"{}", "format is missing"),
        (b"\xff", "must be JSON"),
        (b'{"format": 2}', "format must be 1"),
        (b" " * (MAX_BYTES + 1), "must have at most 1 MiB"),
    ):
        path.write_bytes(content)
        with pytest.raises(UserError, match=line):
            CustomHome(str(path))
    os.mkfifo(tmp_path / "pipe.json")
    for name, line in (
        ("none.json", "there is no file"),
        ("pipe.json", "it is no regular file"),
        ("\0.json", "null"),
    ):
        with pytest.raises(UserError, match=line):
            CustomHome(str(tmp_path / name))


def test_a_mark_at_the_beginning_of_a_file_is_skipped(tmp_path):
    path = tmp_path / "home.json"
    path.write_bytes(b"\xef\xbb\xbf" + EXAMPLE.read_bytes())
    assert make_layout(str(path)).bounds == (0.0, 0.0, 9.6, 7.4)


def test_an_edited_file_is_another_home_at_once_and_an_equal_one_the_same(
    flat, tmp_path, monkeypatch
):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    path = tmp_path / "a" / "home.json"
    path.write_text(json.dumps(flat))
    monkeypatch.chdir(path.parent)
    first = make_layout("home.json")
    assert make_layout("home.json") is first and len(first.digest) == 64
    piece(flat, "table")["at"] = [2.9, 2.2]
    path.write_text(json.dumps(flat))
    assert make_layout("home.json").pieces["table_01"][1] == 2.2
    (tmp_path / "b" / "home.json").write_text(EXAMPLE.read_text())
    monkeypatch.chdir(tmp_path / "b")
    assert make_layout("home.json").pieces["table_01"][1] == 2.1


def test_what_was_made_for_a_home_is_refused_once_its_file_has_changed(flat, tmp_path):
    path, stored = tmp_path / "home.json", tmp_path / "e.json.gz"
    path.write_text(json.dumps(flat))
    env = make_env("open_fridge", "val", 0, depth=False, homes=str(path))
    env.reset()
    episode, state = env.episode, env.get_state()
    assert episode is not None
    write_episodes(stored, [episode])
    assert read_episodes(stored) == (episode,)
    # Files from before episodes named their home's digest are read as ever.
    old = json.loads(gzip.decompress(stored.read_bytes()))
    assert old["episodes"][0]["rearrange"].pop("home_digest") == env.sim.layout.digest
    (tmp_path / "old.json.gz").write_bytes(gzip.compress(json.dumps(old).encode()))
    piece(flat, "plant")["at"] = [4.8, 0.35]
    path.write_text(json.dumps(flat))
    assert read_episodes(tmp_path / "old.json.gz") == (episode,)
    with pytest.raises(UserError, match="episode 0: .*home.json has changed since the episode was"):
        read_episodes(stored)
    for act in (
        lambda: env.reset(options={"episode": episode}),
        lambda: env.set_state(state),
        lambda: write_episodes(stored, [episode]),
        env.reset,
    ):
        with pytest.raises(UserError, match=r"home\.json has changed since .* put the old file"):
            act()
    path.write_text(EXAMPLE.read_text())  # the same home in other characters is another file
    with pytest.raises(UserError, match="has changed"):
        env.reset()


def test_episodes_of_the_packages_homes_name_no_digest():
    spec = generate_episode("open_fridge", "val", 0, 0)
    assert make_layout(spec.scene.layout_id).digest == spec.scene.home_digest == ""
    assert "home_digest" not in episode_to_json(spec)["rearrange"]


def test_a_home_without_room_for_a_task_is_told_in_a_line(monkeypatch):
    monkeypatch.setattr(generating, "MAX_TRIES", 2)

    def reject(*arguments):
        raise DraftRejected

    monkeypatch.setattr(generating, "resolved", lambda name: generating.Episodes(reject))
    line = r"room for the episode \(pick, val, seed 0, index 3\) in the homes .*flat\.json, but 2 d"
    with pytest.raises(UserError, match=line):
        generate_episode("pick", "val", 0, 3, homes=str(EXAMPLE))
