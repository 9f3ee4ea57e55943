"""Episode files: nothing malformed gets through, and what is wrong is named in a line."""

import copy
import gzip
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rearrange.errors import UserError
from rearrange.tasks.episodes import files as episode_files
from rearrange.tasks.episodes.files import (
    read_episodes,
    write_episodes,
)
from rearrange.tasks.episodes.generate import generate_episode
from rearrange.tasks.episodes.schema import episode_to_json


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


WRONG = {
    "task": (("rearrange", "task"), "tidy", "rearrange.task must be one of tidy_house, "),
    "split": (("rearrange", "split"), "train", "rearrange.layout must be"),
    "home": (("rearrange", "layout"), "none.json", "episode 0: rearrange.layout: there is no file"),
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


@pytest.mark.parametrize(
    ("task", "field", "new", "line"),
    [
        ("pick", "start_holding", True, "an episode of pick must start with an empty hand"),
        ("place", "start_holding", False, "must start with its object in the hand"),
        ("open_fridge", "start_holding", True, "must start with an empty hand"),
        ("open_drawer", "marker", "fridge_push_point", "the marker of open_drawer must be cab_"),
        ("open_drawer", "marker", None, "an episode of open_drawer must name its marker"),
        ("tidy_house", "task", "rearrange_easy", "rearrange_easy has one target, got 5"),
        ("tidy_house", "task", "set_table", "set_table has 2 targets, got 5"),
        ("open_drawer", "task", "open_fridge", "the marker of open_fridge must be fridge_push"),
    ],
)
def test_an_episode_that_contradicts_its_task_is_refused(task, field, new, line, tmp_path):
    wrong = episode_to_json(generate_episode(task, "val", 0, 0))
    wrong["rearrange"][field] = new
    got = refusal(pack(tmp_path / "e.json.gz", {"episodes": [wrong]}))
    assert "e.json.gz: episode 0: " in got and line in got


def test_more_objects_than_the_world_holds_are_refused(episodes, tmp_path):
    scene = episodes[0].scene
    crowd = replace(scene, objects=(scene.objects[0],) * 37)
    write_episodes(tmp_path / "e.json.gz", [replace(episodes[0], scene=crowd)])
    assert "rigid_objs must hold 0 to 36 elements, got 37" in refusal(tmp_path / "e.json.gz")


def test_an_episode_that_comes_twice_is_refused(content, tmp_path):
    first = content["episodes"][0]
    for again in (first, first | {"episode_id": "another"}):
        twice = {"episodes": [first, again]}
        assert "seed and index must be new" in refusal(pack(tmp_path / "e.json.gz", twice))


def test_episodes_of_one_index_and_several_seeds_are_read_again(tmp_path):
    """As a data set holds them that was driven with several: all have the same episode_id."""
    made = [generate_episode("pick", "val", seed, 0) for seed in (0, 1)]
    write_episodes(path := tmp_path / "e.json.gz", made)
    assert read_episodes(path) == tuple(made)


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
