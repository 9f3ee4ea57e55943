"""Episodes there and back, the folder, the verb."""

import dataclasses
import json

import numpy as np
import pytest

from rearrange.cli import main
from rearrange.errors import UserError
from rearrange.habitat.dataset import earlier_export, export
from rearrange.habitat.dataset import exported as exported_there
from rearrange.habitat.episodes import exported_episode, habitat_episode
from rearrange.sim.scene import ObjectPlacement
from rearrange.tasks.env import RearrangeEnv
from rearrange.tasks.episodes.files import load_episode
from tests.habitat.conftest import read_json, z_up

EPISODES = "data/datasets/replica_cad/rearrange/v2/val"
# habitat-lab's class of an episode takes these and no others (hab-spec 2.6 without what its
# classes of navigation add).
FIELDS = {"episode_id", "scene_id", "scene_dataset_config", "additional_obj_config_paths",
          "start_position", "start_rotation", "info", "ao_states", "rigid_objs", "targets",
          "markers", "target_receptacles", "goal_receptacles", "name_to_receptacle"}  # fmt: skip


@pytest.mark.parametrize("task", ["rearrange_easy", "set_table"])
def test_episodes_come_back_as_they_were(exported, task):
    name = {"set_table": "set_table_10k_1k"}.get(task, task)
    values = read_json(exported / EPISODES / f"{name}.json.gz")["episodes"]
    for index, value in enumerate(values):
        assert set(value) == FIELDS
        spec = load_episode(task, "val", 0, index)
        assert exported_episode(value, "it: ") == spec
        for (file, matrix), placement in zip(value["rigid_objs"], spec.scene.objects, strict=True):
            assert file == f"{placement.kind}.object_config.json"
            pos = z_up(np.array(matrix)[:3, 3])
            np.testing.assert_allclose(pos, placement.pos, atol=1e-3)
            upright = z_up(np.array(matrix)[:3, :3] @ [0.0, 1.0, 0.0])
            np.testing.assert_allclose(upright, [0, 0, 1], atol=1e-6)


def test_a_pose_by_hand():
    """2 m ahead, 1 m to the left, 0.5 m up, turned by 90 degrees to the left about the vertical."""
    spec = load_episode("rearrange_easy", "val", 0, 0)
    half = np.sqrt(0.5)
    first = ObjectPlacement("013_apple", (2.0, 1.0, 0.5), (half, 0.0, 0.0, half))
    objects = (first, *spec.scene.objects[1:])
    scene = dataclasses.replace(spec.scene, objects=objects)
    value = habitat_episode(dataclasses.replace(spec, scene=scene))
    matrix = np.array(value["rigid_objs"][0][1])
    np.testing.assert_allclose(matrix[:, 3], [2.0, 0.5, -1.0, 1.0])  # ahead, up, right
    np.testing.assert_allclose(matrix[:3, 0], [0.0, 0.0, -1.0], atol=1e-7)  # its front: to the left
    np.testing.assert_allclose(matrix[:3, 1], [0.0, 1.0, 0.0], atol=1e-7)


def test_what_is_held_hangs_there_as_it_does_here():
    env = RearrangeEnv("place", "val", 0, depth=False)
    try:
        env.reset(options={"index": 3})
        slot = env.sim.held_object
        info = habitat_episode(env.episode)["info"]
        matrix = np.array(info["rearrange_held"])
        np.testing.assert_allclose(z_up(matrix[:3, 3]), env.sim.object_pos_w(slot), atol=1e-9)
        np.testing.assert_allclose(matrix[:3, :3], np.eye(3), atol=1e-9)  # upright
        assert exported_episode(habitat_episode(env.episode), "it: ") == env.episode
    finally:
        env.close()
    spec = load_episode("rearrange_easy", "val", 0, 0)
    assert habitat_episode(spec)["info"]["rearrange_held"] is None


def test_what_episodes_name_is_in_the_folder(exported):
    for name in ("rearrange_easy", "set_table_10k_1k"):
        for value in read_json(exported / EPISODES / f"{name}.json.gz")["episodes"]:
            assert (exported / value["scene_id"]).is_file()
            assert (exported / value["scene_dataset_config"]).is_file()
            (objects,) = value["additional_obj_config_paths"]
            for file, _ in value["rigid_objs"]:
                config = read_json(exported / objects / file)
                assert (exported / objects / config["render_asset"]).resolve().is_file()
            assert value["ao_states"] == {} or set(value["ao_states"]) <= {
                "kitchen_counter_:0000", "fridge_:0000"}  # fmt: skip


def test_what_scenes_name_is_in_the_folder(exported):
    replica = exported / "data/replica_cad"
    config = read_json(replica / "replicaCAD.scene_dataset_config.json")
    for part in config.values():
        for folder in part["paths"][".json"]:
            assert (replica / folder).is_dir()
    ends = {"stages": "configs/stages/*.stage_config.json",
            "object_instances": "configs/objects/*.object_config.json",
            "articulated_object_instances": "urdf/*/*.ao_config.json"}  # fmt: skip
    known = {k: [p.name.split(".")[0] for p in replica.glob(end)] for k, end in ends.items()}
    scenes = list((replica / "configs/scenes").glob("*.scene_instance.json"))
    assert len(scenes) == 21
    for scene in map(read_json, scenes):
        assert scene["stage_instance"]["template_name"] in known["stages"]
        for key in ("object_instances", "articulated_object_instances"):
            names = [instance["template_name"] for instance in scene[key]]
            assert len(set(names)) == len(names)  # so that each is instance _:0000
            # Habitat looks templates up by a part of their names.
            assert all(sum(name in other for other in known[key]) == 1 for name in names)
    for path in replica.rglob("configs/*/*_config.json"):
        for key in ("render_asset", "collision_asset"):
            assert (path.parent / read_json(path)[key]).resolve().is_file()


def test_masses_are_ours_and_friction_multiplies_to_ours(exported):
    objects = exported / "data/objects/ycb/configs"
    can = read_json(objects / "002_master_chef_can.object_config.json")
    assert can["mass"] == 0.414
    r, h = 0.051, 0.139  # m: YCB's can, 102 mm across, 139 mm high
    across = 0.414 * (3 * r * r + h * h) / 12
    np.testing.assert_allclose(can["inertia"], [across, 0.414 * r * r / 2, across], rtol=1e-9)
    stage = next((exported / "data/replica_cad/configs/stages").glob("*.json"))
    assert can["friction_coefficient"] * read_json(stage)["friction_coefficient"] == pytest.approx(
        0.7
    )
    physics = read_json(exported / "data/default.physics_config.json")
    assert physics["gravity"] == [0, -9.81, 0] and physics["physics_simulator"] == "bullet"


def test_equal_settings_write_equal_bytes_and_more_can_be_added(exported, tmp_path):
    again = tmp_path / "again"
    export(again, "val", ["rearrange_easy"], 2)
    summary = export(again, "val", ["set_table"], 2)
    assert summary["splits"]["val"]["episodes"] == {
        "rearrange_easy.json.gz": 2, "set_table_10k_1k.json.gz": 2}  # fmt: skip
    own = {p.relative_to(again): p.read_bytes() for p in again.rglob("*") if p.is_file()}
    theirs = {p.relative_to(exported): p.read_bytes() for p in exported.rglob("*") if p.is_file()}
    assert own == theirs


def test_each_file_of_episodes_has_its_seed_and_what_is_not_whole_is_not_listed(
    tmp_path, monkeypatch
):
    """Tasks are added later with another seed; writing one anew is interrupted."""
    export(tmp_path, "val", ["pick"], 1, seed=5)
    export(tmp_path, "val", ["place"], 1, seed=6)
    assert exported_there(tmp_path, "pick", "val") == (1, 5)
    assert exported_there(tmp_path, "place", "val") == (1, 6)

    def full(path, content):
        raise UserError(f"cannot write {path}: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("rearrange.habitat.dataset.object_files", lambda kinds: full("x", b""))
        with pytest.raises(UserError, match="No space left"):
            export(tmp_path, "val", ["pick"], 1, seed=7)
    assert exported_there(tmp_path, "pick", "val") == (0, None)
    assert exported_there(tmp_path, "place", "val") == (1, 6)
    export(tmp_path, "val", ["pick"], 1, seed=7)
    assert exported_there(tmp_path, "pick", "val") == (1, 7)
    older = json.loads((tmp_path / "export.json").read_text())
    del older["splits"]["val"]["seeds"]  # one for all
    (tmp_path / "export.json").write_text(json.dumps(older | {"splits": {
        "val": older["splits"]["val"] | {"seed": 3}}}))  # fmt: skip
    assert exported_there(tmp_path, "place", "val") == (1, 3)


def test_an_export_that_was_ended_half_way_is_gone_on_with(tmp_path, capsys):
    def interrupted(indices):
        (tmp_path / "set/data").mkdir()  # as if some files were there
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(tmp_path / "set", "val", ["set_table"], 1, show=interrupted)
    assert exported_there(tmp_path / "set", "set_table", "val") == (0, None)
    command = ["export-homes", f"output={tmp_path / 'set'}", "tasks=set_table", "num_episodes=1"]
    assert main(command) == 0, capsys.readouterr().err
    assert exported_there(tmp_path / "set", "set_table", "val") == (1, 0)


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="holds files and no export.json"):
        export(tmp_path, "val", ["rearrange_easy"], 1)
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("text", ["{", "[]", '{"format": "other"}', '{"format": "habitat-2"}',
    '{"format": "habitat-2", "splits": {"val": 3}}',
    '{"format": "habitat-2", "splits": {"val": {"episodes": []}}}',
    '{"format": "habitat-2", "splits": {"val": {"episodes": {"a.json.gz": "abc"}}}}',
    '{"format": "habitat-2", "splits": {"val": {"episodes": {"a.json.gz": true}}}}',
    '{"format": "habitat-2", "splits": {"val": {"seeds": {"a.json.gz": -1}}}}'])  # fmt: skip
def test_a_damaged_summary_is_one_line(tmp_path, text):
    (tmp_path / "export.json").write_text(text)
    with pytest.raises(UserError, match="must be what an export wrote"):
        earlier_export(tmp_path)


def test_an_older_export_is_not_taken_for_one_of_today(tmp_path):
    (tmp_path / "export.json").write_text('{"format": "habitat", "splits": {}}')
    with pytest.raises(UserError, match="of an earlier version: export into a new folder"):
        earlier_export(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["format=usd"], "format must be one of habitat, got usd"),
        (["homes=procedural"], "export-homes takes homes=hab alone, got procedural"),
        (["split=nowhere"], "split"),
        (["tasks=fly"], "fly"),
        (["seed=9007199254740993"], "seed must be at most 9007199254740992, got 9007199254740993"),
        (["num_episodes=0"], "num_episodes must be at least 1, got 0"),
        (["num_episodes=15001"], "num_episodes must be at most 15000, got 15001"),
    ],
)
def test_wrong_settings_are_one_line(tmp_path, capsys, arguments, line):
    assert main(["export-homes", f"output={tmp_path / 'set'}", *arguments]) == 2
    error = capsys.readouterr().err
    assert line in error and error.count("\n") == 1
    assert not (tmp_path / "set").exists()


def test_the_verb_says_what_it_wrote(tmp_path, capsys):
    folder = tmp_path / "set"
    assert main(["export-homes", f"output={folder}", "tasks=set_table", "num_episodes=1"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"21 homes of val for Habitat: {folder}\n")
    assert "1 episodes  data/datasets/replica_cad/rearrange/v2/val/set_table_10k_1k.json.gz" in out
    assert json.loads((folder / "export.json").read_text())["splits"]["val"]["homes"] == 21
