"""Episode files: what is read equals what was written, and is as HAB's own files are."""

import errno
import json
import math
import os
import subprocess
import sys
from dataclasses import replace

import mujoco
import numpy as np
import pytest

from rearrange.errors import UserError
from rearrange.sim.home import furniture as fur
from rearrange.sim.home.objects import KINDS
from rearrange.sim.homes.layout import layout_ids, make_layout
from rearrange.sim.model import build_spec
from rearrange.tasks.episodes.files import (
    read_episodes,
    write_episodes,
)
from rearrange.tasks.episodes.generate import generate_episode
from rearrange.tasks.episodes.schema import (
    LINKS,
    episode_from_json,
    episode_to_json,
    marker_offset,
    rotation_matrix,
)
from rearrange.tasks.rules.definition import TASKS


@pytest.mark.parametrize("task", TASKS)
def test_reading_gives_exactly_what_was_written(task, tmp_path):
    written = tuple(generate_episode(task, "val", 0, index) for index in range(2))
    write_episodes(tmp_path / "e.json.gz", written)
    assert read_episodes(tmp_path / "e.json.gz") == written


def test_episodes_in_the_apartments_for_training_alone_are_read_back():
    found = [generate_episode("pick", "train", 0, index, starts="varied") for index in range(3)]
    assert not {spec.scene.layout_id for spec in found} <= {*layout_ids("train", "hab")}
    for spec in found:
        assert episode_from_json(json.loads(json.dumps(episode_to_json(spec))), "here: ") == spec
        with pytest.raises(UserError, match="layout must be"):  # for training alone
            episode_from_json(episode_to_json(replace(spec, split="val")), "here: ")


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


def test_kinds_in_files_are_kinds_of_the_world(content):
    for episode in content["episodes"]:
        assert {name.split(".")[0] for name, _ in episode["rigid_objs"]} <= set(KINDS)


def test_the_command_explains_itself():
    command = [sys.executable, "-m", "rearrange.tasks.episodes.files"]
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, check=True)
    assert "--write" in done.stdout
    assert subprocess.run(command, capture_output=True).returncode == 2
