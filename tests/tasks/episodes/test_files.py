"""Episode files: what is read equals what was written, and nothing malformed gets through."""

import copy
import errno
import gzip
import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest

from rearrange.errors import UserError
from rearrange.sim.home import furniture as fur
from rearrange.sim.home.objects import KINDS
from rearrange.sim.homes.layout import make_layout
from rearrange.sim.model import build_spec
from rearrange.tasks.episodes import files as episode_files
from rearrange.tasks.episodes.files import (
    COMMITTED_COUNT,
    COMMITTED_SPLITS,
    COMMITTED_TASKS,
    build_committed_sets,
    committed_path,
    load_episode,
    read_episodes,
    write_episodes,
)
from rearrange.tasks.episodes.generate import generate_episode
from rearrange.tasks.episodes.schema import LINKS, marker_offset, rotation_matrix
from rearrange.tasks.rules.definition import TASKS


@pytest.fixture(scope="module")
def episodes():
    return (
        generate_episode("rearrange_easy", "val", 0, 0),
        generate_episode("set_table", "test", 3, 1),
        generate_episode("place", "train", 0, 2),
        generate_episode("close_fridge", "val", 0, 3),
    )


@pytest.fixture(scope="module")
def content(episodes, tmp_path_factory):
    """The decoded JSON of the four episodes; tests change copies."""
    path = tmp_path_factory.mktemp("content") / "e.json.gz"
    write_episodes(path, episodes)
    return json.loads(gzip.decompress(path.read_bytes()))


def pack(path, value) -> Path:
    text = value if isinstance(value, str) else json.dumps(value)
    path.write_bytes(gzip.compress(text.encode("utf-8", "surrogatepass")))
    return path


def refusal(path) -> str:
    """The one line with which a file is refused."""
    with pytest.raises(UserError) as caught:
        read_episodes(path)
    line = str(caught.value)
    assert path.name in line and len(line.splitlines()) == 1
    return line


# --- what is written -----------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_reading_gives_exactly_what_was_written(task, tmp_path):
    written = tuple(generate_episode(task, "val", 0, index) for index in range(2))
    write_episodes(tmp_path / "e.json.gz", written)
    assert read_episodes(tmp_path / "e.json.gz") == written


def test_the_same_episodes_give_the_same_bytes(episodes, tmp_path):
    write_episodes(tmp_path / "a.json.gz", episodes)
    write_episodes(tmp_path / "b.json.gz", episodes)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_fields_are_those_of_habs_schema(content):
    assert set(content) == {"episodes"}
    for episode in content["episodes"]:
        assert set(episode) == {
            "episode_id", "scene_id", "scene_dataset_config", "additional_obj_config_paths",
            "start_position", "start_rotation", "info", "ao_states", "rigid_objs", "targets",
            "markers", "target_receptacles", "goal_receptacles", "name_to_receptacle", "goals",
            "shortest_paths", "start_room", "rearrange",
        }  # fmt: skip


def test_matrices_are_poses_in_habitats_world(episodes, content):
    """A point of an object, turned in our world (z up), is the same point in Habitat's (y up)."""
    to_y_up = np.array([[1, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 0], [0, 0, 0, 1]])
    for spec, episode in zip(episodes, content["episodes"], strict=True):
        for placement, (_, matrix) in zip(spec.scene.objects, episode["rigid_objs"], strict=True):
            turn = np.empty(9)
            mujoco.mju_quat2Mat(turn, np.array(placement.quat))
            ours = np.eye(4)
            ours[:3, :3], ours[:3, 3] = turn.reshape(3, 3), placement.pos
            assert np.allclose(to_y_up @ ours @ to_y_up.T, matrix, atol=1e-7)


def test_the_robot_faces_the_same_way_in_both_worlds(episodes, content):
    for spec, episode in zip(episodes, content["episodes"], strict=True):
        x, y, z, w = episode["start_rotation"]
        ahead = rotation_matrix((w, x, y, z)) @ (1.0, 0.0, 0.0)  # Habitat's robot looks along +x
        _, _, yaw = spec.scene.base
        assert ahead == pytest.approx([math.cos(yaw), 0.0, -math.sin(yaw)], abs=1e-9)


def test_open_drawers_and_doors_are_states_of_habs_links(content):
    easy = generate_episode("set_table_easy", "val", 0, 0)
    assert easy.scene.joints == {"drawer_right_top": 0.45}
    from rearrange.tasks.episodes.schema import episode_to_json

    assert episode_to_json(easy)["ao_states"] == {"kitchen_counter_:0000": {"7": 0.45}}
    opening = content["episodes"][3]["ao_states"]
    assert list(opening) == ["fridge_:0000"] and list(opening["fridge_:0000"]) == ["2"]


def test_every_object_is_named_with_the_receptacle_it_stands_on(content):
    for episode in content["episodes"]:
        assert len(episode["name_to_receptacle"]) == len(episode["rigid_objs"])
        for target in episode["rearrange"]["targets"]:
            place = episode["name_to_receptacle"][target["object"]]
            assert place.split("|")[1] == target["start_receptacle"]


def test_objects_of_a_kind_are_numbered_in_order(content):
    kinds = [name.split(".")[0] for name, _ in content["episodes"][0]["rigid_objs"]]
    handles = set(content["episodes"][0]["name_to_receptacle"])
    assert handles == {f"{k}_:{n:04d}" for k in set(kinds) for n in range(kinds.count(k))}


def test_markers_are_where_the_handles_of_the_model_are():
    model, layout = build_spec().compile(), make_layout("v3_sc0_staging_00")
    for marker, joint in fur.MARKERS.items():
        position = model.site(f"{joint}_marker").pos
        assert marker_offset(layout, marker) == pytest.approx(tuple(position), abs=1e-6)
        assert joint in LINKS


def test_a_full_disk_leaves_the_old_file_and_no_other(episodes, tmp_path, monkeypatch):
    path = tmp_path / "e.json.gz"
    write_episodes(path, episodes[:1])
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left") as caught:
        write_episodes(path, episodes)
    assert len(str(caught.value).splitlines()) == 1
    assert os.listdir(tmp_path) == ["e.json.gz"] and path.read_bytes() == before


def test_a_folder_that_is_a_file_is_refused_in_a_line(episodes, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        write_episodes(tmp_path / "file" / "e.json.gz", episodes)


# --- what is refused: files ----------------------------------------------------------------------


def test_missing_files_folders_and_pipes_are_refused(tmp_path):
    assert "no such file" in refusal(tmp_path / "missing.json.gz")
    assert "not a regular file" in refusal(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in refusal(tmp_path / "pipe")


def test_files_that_are_not_whole_gzip_are_refused(content, tmp_path):
    path = pack(tmp_path / "e.json.gz", content)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert "ends early" in refusal(path)
    path.write_bytes(b"")
    refusal(path)
    path.write_bytes(json.dumps(content).encode())
    assert "gzip" in refusal(path)
    path.write_bytes(whole[:-8] + b"\0\0\0\0" + whole[-4:])  # a wrong checksum
    assert "gzip" in refusal(path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "JSON"),
        ("{", "JSON"),
        ('{"episodes": [NaN]}', "NaN"),
        ('{"episodes": [], "episodes": []}', "twice"),
        ('{"episodes": [' + "[" * 100_000, "nested"),
        ('{"episodes": ' + "9" * 5000 + "}", "JSON"),
        ("[]", "an object"),
        ("{}", "episodes is missing"),
        ('{"episodes": {}}', "which must be a list"),
        ('{"episodes": [1' + "0" * 400 + "]}", "a whole number has 401 digits"),
        ('{"episodes": [{"a": 1,}]}', "at byte 14"),
        ('{"episodes": []} {', "nothing more at byte 17"),
        ('{"episodes": [[' + "[]," * 100_000 + "[]]]}", "an episode of at most 256 kB"),
        ('{"other": "' + "x" * 300_000 + '", "episodes": []}', "a value of at most 256 kB"),
        ('{"episodes": [3]}', "episode 0: the value must be an object, got 3"),
        ('{"episodes": [{}]}', "episode 0: rearrange is missing"),
    ],
)
def test_files_that_hold_no_episodes_are_refused(text, why, tmp_path):
    assert why in refusal(pack(tmp_path / "e.json.gz", text))


def test_text_that_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "e.json.gz").write_bytes(gzip.compress(b'{"episodes": "\xff\xfe"}'))
    assert "UTF-8" in refusal(tmp_path / "e.json.gz")


def test_a_gzip_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(episode_files, "MAX_BYTES", 2**20)
    (tmp_path / "bomb.json.gz").write_bytes(gzip.compress(b" " * 2**22))
    assert "at most 1 MB" in refusal(tmp_path / "bomb.json.gz")


# --- what is refused: fields ---------------------------------------------------------------------

WRONG = {
    "task": (("rearrange", "task"), "tidy", "rearrange.task must be one of tidy_house, "),
    "split": (("rearrange", "split"), "train", "rearrange.layout must be"),
    "layout": (("rearrange", "layout"), "v3_sc3_staging_21", "rearrange.layout must be one of"),
    "other scene": (("scene_id",), "elsewhere", "scene_id must be"),
    "format": (("rearrange", "format"), 2, "rearrange.format must be 1, got 2"),
    "seed": (("rearrange", "seed"), -1, "rearrange.seed must lie in"),
    "index is true": (("rearrange", "index"), True, "rearrange.index must be a whole number"),
    "index is real": (("rearrange", "index"), 1.0, "rearrange.index must be a whole number"),
    "arm too short": (("rearrange", "arm"), [0.0] * 6, "rearrange.arm must hold 7 elements, got 6"),
    "arm past its limit": (("rearrange", "arm", 0), 2.0, "rearrange.arm[0] must lie in [-1.6056"),
    "target index": (("rearrange", "target_index"), 1, "rearrange.target_index must lie in [0, 0]"),
    "marker": (("rearrange", "marker"), "cab_push_point_3", "rearrange.marker must be one of"),
    "no targets": (("rearrange", "targets"), [], "rearrange.targets must hold 1 to"),
    "target": (("rearrange", "targets", 0, "object"), "x_:0000", "must name an object"),
    "target's name": (("rearrange", "targets", 0, "name"), "y|0", "must be 'goal0|0'"),
    "receptacle": (("rearrange", "targets", 0, "goal_receptacle"), "bed", "must be one of"),
    "container": (("rearrange", "targets", 0, "start_container"), "bed", "must be one of"),
    "start": (("rearrange", "targets", 0, "start"), [1.0, 2.0, -9.0], "must lie in the apartment"),
    "goal's place": (("goal_receptacles", 0), ["fridge_:0000", 1], "goal_receptacles[0] must be"),
    "kind": (("rigid_objs", 0, 0), "spoon.object_config.json", "rigid_objs[0][0] must be <kind>"),
    "huge number": (("rigid_objs", 0, 1, 0, 3), 10**90, "must lie in the apartment"),
    "text": (("rigid_objs", 0, 1, 0, 3), "1.0", "rigid_objs[0][1][0][3] must be a number, got '1"),
    "far away": (("rigid_objs", 0, 1, 0, 3), 90.0, "rigid_objs[0][1] must lie in the apartment"),
    "skewed": (("rigid_objs", 0, 1, 0, 0), 3.0, "must begin with a 3 x 3 rotation matrix"),
    "last row": (("rigid_objs", 0, 1, 3), [0, 0, 1, 1], "must end with the row 0, 0, 0, 1"),
    "row": (("rigid_objs", 0, 1, 3), [0, 0, 1], "must hold 4 numbers, got 3"),
    "quaternion": (("rearrange", "quats", 0), [1, 1, 0, 0], "must be a quaternion of length 1"),
    "other turn": (("rearrange", "quats", 0), [0, 1, 0, 0], "must turn as the matrix"),
    "state": (("ao_states",), {"fridge_:0000": {"2": 9.0}}, "must lie in [0, 2.3]"),
    "link": (("ao_states",), {"fridge_:0000": {"3": 1.0}}, "must be the state of a known link"),
    "base": (("start_position", 0), -1.0, "start_position must lie in the apartment"),
    "heading": (("rearrange", "base_yaw"), 9.0, "must be the turn by rearrange.base_yaw"),
    "unknown marker": (("markers", 0, "name"), "knob", "markers[0].name must be one of"),
    "standing": (("name_to_receptacle",), {"x_:0000": "y|z"}, "must belong to an object"),
    "labels": (("info",), {"object_labels": {}}, "must name the 1 objects"),
    "info": (("info",), None, "info must be an object, got None"),
}


def put(value, where, new):
    for key in where[:-1]:
        value = value[key]
    value[where[-1]] = new


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_field_is_named_with_its_episode(case, content, tmp_path):
    where, new, line = WRONG[case]
    wrong = copy.deepcopy(content)
    put(wrong["episodes"][0], where, new)
    got = refusal(pack(tmp_path / "e.json.gz", wrong))
    assert "e.json.gz: episode 0: " in got and line in got


def test_more_objects_than_the_world_holds_are_refused(episodes, tmp_path):
    scene = episodes[0].scene
    crowd = replace(scene, objects=(scene.objects[0],) * 37)
    write_episodes(tmp_path / "e.json.gz", [replace(episodes[0], scene=crowd)])
    assert "rigid_objs must hold 0 to 36 elements, got 37" in refusal(tmp_path / "e.json.gz")


def test_an_episode_that_comes_twice_is_refused(content, tmp_path):
    first = content["episodes"][0]
    assert "episode_id must be new" in refusal(
        pack(tmp_path / "e.json.gz", {"episodes": [first] * 2})
    )
    other = first | {"episode_id": "another"}
    twice = {"episodes": [first, other]}
    assert "seed and index must be new" in refusal(pack(tmp_path / "e.json.gz", twice))


def test_hab_episodes_of_other_apartments_are_refused_in_a_line(content, tmp_path):
    habs = {key: value for key, value in content["episodes"][0].items() if key != "rearrange"}
    got = refusal(pack(tmp_path / "e.json.gz", {"episodes": [habs]}))
    assert "rearrange is missing" in got


def mutate(value, rng):
    """`value` with one node, drawn at random, replaced, dropped, doubled or given another type."""
    holders = []

    def walk(node):
        members = node.items() if isinstance(node, dict) else enumerate(node)
        for key, child in members:
            holders.append((node, key))
            if isinstance(child, (dict, list)):
                walk(child)

    walk(value)
    holder, key = holders[rng.integers(len(holders))]
    kind = rng.integers(4)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    else:
        junk = (
            None,
            True,
            -1,
            0,
            7,
            1e9,
            -1e-300,
            2**70,
            "",
            "x",
            "\ud800",
            [],
            {},
            [[]],
            {"a": 1},
        )
        holder[key] = junk[rng.integers(len(junk))]


def test_500_damaged_files_are_read_or_refused(content, tmp_path):
    rng = np.random.default_rng(0)
    path = pack(tmp_path / "e.json.gz", {"episodes": content["episodes"][:1]})
    whole, refused = path.read_bytes(), 0
    for n in range(500):
        if n % 3 == 0:
            damaged = copy.deepcopy(content["episodes"][:1])
            for _ in range(rng.integers(1, 4)):
                mutate(damaged, rng) if damaged else None
            pack(path, {"episodes": damaged})
        elif n % 3 == 1:
            raw = bytearray(whole)
            for place in rng.integers(0, len(raw), rng.integers(1, 6)):
                raw[place] ^= 1 << rng.integers(8)
            path.write_bytes(bytes(raw[: rng.integers(1, len(raw))] if n % 2 else raw))
        else:
            text = bytearray(gzip.decompress(whole))
            for place in rng.integers(0, len(text), rng.integers(1, 6)):
                text[place] = rng.integers(256)
            path.write_bytes(gzip.compress(bytes(text), 1))
        try:
            read_episodes(path)
        except UserError as error:
            refused += 1
            assert len(str(error).splitlines()) == 1
    assert refused > 300  # flips in digits may leave a sound episode


# --- the committed sets --------------------------------------------------------------------------


def test_an_episode_not_committed_is_generated():
    assert load_episode("pick", "train", 5, 7) == generate_episode("pick", "train", 5, 7)
    assert load_episode("set_table", "val", 0, 5000) == generate_episode(
        "set_table", "val", 0, 5000
    )


def test_an_episode_committed_comes_from_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(episode_files, "_FOLDER", tmp_path)
    episode_files._committed.cache_clear()
    kept = replace(generate_episode("set_table", "val", 0, 2), index=1)  # not what is generated now
    write_episodes(committed_path("set_table", "val"), [kept])
    assert load_episode("set_table", "val", 0, 1) == kept
    assert load_episode("set_table", "val", 0, 0) == generate_episode("set_table", "val", 0, 0)
    assert load_episode("set_table", "val", 1, 1) != kept
    episode_files._committed.cache_clear()


def test_a_committed_file_of_another_task_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(episode_files, "_FOLDER", tmp_path)
    episode_files._committed.cache_clear()
    write_episodes(committed_path("tidy_house", "val"), [generate_episode("pick", "val", 0, 0)])
    with pytest.raises(UserError, match="must be of tidy_house val seed 0"):
        load_episode("tidy_house", "val", 0, 0)
    episode_files._committed.cache_clear()


def test_building_writes_a_file_for_each_set(tmp_path):
    paths = build_committed_sets(tmp_path, count=1)
    assert len(paths) == len(COMMITTED_TASKS) * len(COMMITTED_SPLITS)
    for path in paths:
        (spec,) = read_episodes(path)
        assert path == tmp_path / spec.split / f"{spec.task}.json.gz"


def difference(a, b) -> float:
    """Largest difference of two episodes' numbers; infinite if anything else differs."""
    if isinstance(a, (int, float)) and not isinstance(a, bool):
        return abs(a - b)
    if isinstance(a, (tuple, list)):
        pairs = zip(a, b, strict=True) if len(a) == len(b) else [(None, 1)]
        return max((difference(x, y) for x, y in pairs), default=0.0)
    if isinstance(a, dict):
        return difference(sorted(a.items()), sorted(b.items()))
    if hasattr(a, "__dataclass_fields__"):
        return max(difference(getattr(a, f), getattr(b, f)) for f in a.__dataclass_fields__)
    return 0.0 if a == b else math.inf


@pytest.mark.parametrize("split", COMMITTED_SPLITS)
@pytest.mark.parametrize("task", COMMITTED_TASKS)
def test_committed_episodes_are_what_the_generator_gives(task, split):
    path = committed_path(task, split)
    assert path.is_file(), "run python -m rearrange.tasks.episodes.files --write"
    episodes = read_episodes(path)
    assert [spec.index for spec in episodes] == list(range(COMMITTED_COUNT))
    for index in (0, 17, 58, 99):
        assert difference(episodes[index], generate_episode(task, split, 0, index)) < 1e-9


def test_committed_files_stay_small():
    folder = committed_path("tidy_house", "val").parent.parent
    assert sum(path.stat().st_size for path in folder.rglob("*.gz")) < 3_000_000


def test_kinds_in_files_are_kinds_of_the_world(content):
    for episode in content["episodes"]:
        assert {name.split(".")[0] for name, _ in episode["rigid_objs"]} <= set(KINDS)


def test_the_command_explains_itself():
    command = [sys.executable, "-m", "rearrange.tasks.episodes.files"]
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    assert "--write" in done.stdout
    assert subprocess.run(command, capture_output=True).returncode == 2
