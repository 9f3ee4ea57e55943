"""Episode files of others: an example by hand from the spec's table, and what may be wrong."""

import gzip
import json

import pytest

from rearrange.cli import main
from rearrange.errors import UserError
from rearrange.habitat.counterparts import Gaps, counterpart
from rearrange.habitat.reading import read_habitat_episodes, their_episode
from rearrange.sim.homes.layout import make_layout
from rearrange.tasks.episodes.files import load_episode, read_episodes
from tests.habitat.test_dataset import EPISODES

TABLE = "frl_apartment_table_01_:0000|receptacle_aabb_Tbl1_Top1_frl_apartment_table_01"
SOFA = "frl_apartment_sofa_:0000|receptacle_aabb_Sofa_frl_apartment_sofa"


def pose(x, y, z):
    return [[1.0, 0, 0, x], [0, 1.0, 0, y], [0, 0, 1.0, z], [0, 0, 0, 1]]


def episode(**changes):
    """One can on the dining table that belongs into the middle of the sofa, a box beside it."""
    can = "002_master_chef_can"
    value = {
        "episode_id": "17",
        "scene_id": "data/replica_cad/configs/scenes/v3_sc3_staging_05.scene_instance.json",
        "scene_dataset_config": "data/replica_cad/replicaCAD.scene_dataset_config.json",
        "additional_obj_config_paths": ["data/objects/ycb/configs/"],
        "start_position": [0, 0, 0],
        "start_rotation": [0, 0, 0, 1],
        "info": {"object_labels": {f"{can}_:0000": "goal0|0"}},
        "ao_states": {"fridge_:0000": {"2": 1.5}, "kitchen_counter_:0000": {"7": 0.0}},
        "rigid_objs": [[f"{can}.object_config.json", pose(1.0, 0.8, -2.0)],
                       ["003_cracker_box.object_config.json", pose(1.3, 0.8, -2.0)]],
        "targets": {f"{can}_:0000": pose(4.0, 0.5, -6.0)},
        "markers": [{"name": "fridge_push_point", "type": "articulated_object", "params": {
            "offset": [0.1, -0.62, 0.2], "link": "top_door", "object": "fridge_:0000"}}],
        "target_receptacles": [["frl_apartment_table_01_:0000", None]],
        "goal_receptacles": [["frl_apartment_sofa_:0000", None]],
        "name_to_receptacle": {f"{can}_:0000": TABLE, "003_cracker_box_:0000": SOFA},
        "goals": [], "shortest_paths": None, "start_room": None,
    }  # fmt: skip
    return value | changes


def test_what_is_read_is_what_the_file_says():
    found = their_episode(episode(), 3, "it: ")
    assert (found.number, found.scene) == (3, "v3_sc3_staging_05")
    assert [thing.kind for thing in found.objects] == ["002_master_chef_can", "003_cracker_box"]
    assert found.objects[0].pos == (1.0, 2.0, 0.8)  # ahead, to the left, up
    (target,) = found.targets
    assert (target.object, target.name, target.goal) == (0, "goal0|0", (4.0, 6.0, 0.5))
    assert target.end == ("frl_apartment_sofa_:0000", None)
    assert found.joints[("fridge_:0000", "2")] == 1.5
    assert found.ours is None


def test_counterpart_keeps_kinds_receptacles_and_openings():
    gaps = Gaps()
    spec = counterpart(their_episode(episode(), 3, "it: "), gaps)
    assert spec is not None and not gaps.found
    assert (spec.task, spec.split, spec.index) == ("rearrange_easy", "val", 3)
    assert spec.scene.layout_id == "v3_sc3_staging_05"
    assert spec.scene.joints == {"fridge_top_door": 1.5, "drawer_right_top": 0.0}
    assert [placed.kind for placed in spec.scene.objects] == [
        "002_master_chef_can", "003_cracker_box"]  # fmt: skip
    layout = make_layout("v3_sc3_staging_05")
    table, sofa = (layout.receptacle(place.partition("|")[2]) for place in (TABLE, SOFA))
    assert spec.targets[0].start_receptacle == table.name
    assert spec.targets[0].goal_receptacle == sofa.name
    can, box = spec.scene.objects
    assert can.pos[2] == pytest.approx(table.pos[2] + 0.139 / 2)  # YCB's can, 139 mm high
    assert box.pos[2] == pytest.approx(sofa.pos[2] + 0.210 / 2)
    assert spec == counterpart(their_episode(episode(), 3, "it: "), Gaps())


def test_all_that_has_no_counterpart_is_listed():
    apartment = "data/replica_cad/configs/scenes/apt_0.scene_instance.json"
    strange = [["063-a_marbles.object_config.json", pose(0, 0, 0)]]
    value = episode(
        scene_id=apartment,
        rigid_objs=episode()["rigid_objs"] + strange,
        ao_states={"cabinet_:0000": {"1": 0.3}},
        markers=[{"name": "cab_push_point_1", "type": "articulated_object", "params": {}}],
        info={"object_labels": {"002_master_chef_can_:0000": "thing|0"}},
    )
    gaps = Gaps()
    assert counterpart(their_episode(value, 0, "it: "), gaps) is None
    assert gaps.lines() == ["home apt_0: 1", "joint cabinet_:0000 link 1: 1",
                            "marker cab_push_point_1: 1", "task thing|0: 1"]  # fmt: skip


def test_clutter_without_a_counterpart_is_left_out_and_a_target_takes_its_episode_along():
    strange = [["063-a_marbles.object_config.json", pose(0, 0, 0)]]
    nowhere = {"002_master_chef_can_:0000": TABLE, "003_cracker_box_:0000": "bed_:0000|top"}
    value = episode(rigid_objs=episode()["rigid_objs"] + strange, name_to_receptacle=nowhere)
    gaps = Gaps()
    spec = counterpart(their_episode(value, 0, "it: "), gaps)
    assert spec is not None and len(spec.scene.objects) == 1
    assert gaps.lines() == ["object 063-a_marbles: 1", "receptacle bed_:0000|top: 1"]
    value = episode(goal_receptacles=[["bed_:0000", None]])
    gaps = Gaps()
    assert counterpart(their_episode(value, 0, "it: "), gaps) is None
    assert gaps.lines() == ["receptacle bed_:0000: 1"]


def test_drawers_and_the_fridge_are_found_by_their_links():
    """A goal behind link 2 of the fridge; a start in link 7 of the counter, without a name."""
    value = episode(
        target_receptacles=[["kitchen_counter_:0000", 7]],
        goal_receptacles=[["fridge_:0000", 2]],
        name_to_receptacle={},
        rigid_objs=[["007_tuna_fish_can.object_config.json", pose(0, 0, 0)]],
        targets={"007_tuna_fish_can_:0000": pose(0, 0, 0)},
        info={"object_labels": {"007_tuna_fish_can_:0000": "goal0|0"}},
        ao_states={"kitchen_counter_:0000": {"7": 0.5}, "fridge_:0000": {"2": 1.5}},
    )
    spec = counterpart(their_episode(value, 0, "it: "), Gaps())
    assert spec is not None
    assert spec.targets[0].start_container == "drawer_right_top"
    assert spec.targets[0].goal_container == "fridge_top_door"


def test_exported_files_come_back_exactly_by_the_verb(exported, tmp_path, capsys):
    source, output = exported / EPISODES / "set_table_10k_1k.json.gz", tmp_path / "ours.json.gz"
    assert main(["import-episodes", f"file={source}", f"output={output}"]) == 0
    out = capsys.readouterr().out
    assert "2 episodes, 2 have a counterpart here" in out and "without a counterpart" not in out
    assert read_episodes(output) == tuple(load_episode("set_table", "val", 0, i) for i in (0, 1))


def written(tmp_path, *episodes):
    path = tmp_path / "theirs.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"episodes": episodes}).encode()))
    return path


def test_a_file_without_any_counterpart_is_code_1(tmp_path, capsys):
    path = written(tmp_path, episode(targets={}), episode(scene_id="x/apt_0.scene_instance.json"))
    output = tmp_path / "ours.json.gz"
    assert main(["import-episodes", f"file={path}", f"output={output}"]) == 1
    out = capsys.readouterr().out
    assert "2 episodes, 0 have" in out and "  task without targets: 1\n" in out
    assert not output.exists()


TILTED = [[1.0, 1.0, 0, 0], [0, 1.0, 0, 0], [0, 0, 1.0, 0], [0, 0, 0, 1]]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"rigid_objs": [["can.glb", pose(0, 0, 0)]]}, "must be NAME.object_config.json"),
        ({"rigid_objs": [["a.object_config.json", TILTED]]}, "must be a 4 x 4 matrix"),
        ({"rigid_objs": []}, "must belong to an object of rigid_objs"),
        ({"targets": [1]}, "targets must be an object"),
        ({"scene_id": 3}, "scene_id must be a string"),
        ({"ao_states": {"fridge_:0000": {"2": "open"}}}, "must be a number"),
        ({"info": {}}, "info.object_labels is missing"),
        ({"goal_receptacles": [["sofa", 1.5]]}, "must be a whole number"),
        ({"info": {"object_labels": {}, "rearrange": {"format": 9}}}, "format must be 1"),
    ],
)
def test_what_is_wrong_is_one_line_with_its_place(tmp_path, changes, line):
    path = written(tmp_path, episode(), episode(**changes))
    with pytest.raises(UserError) as caught:
        list(read_habitat_episodes(path))
    said = str(caught.value)
    assert said.startswith(f"{path}: episode 1: ") and line in said and "\n" not in said


def test_a_file_that_is_none_is_one_line(tmp_path, capsys):
    path = tmp_path / "it.json.gz"
    path.write_bytes(b"no gzip")
    assert main(["import-episodes", f"file={path}"]) == 2
    assert main(["import-episodes", "file=it.pickle"]) == 2
    assert capsys.readouterr().err.count("\n") == 2


def test_an_episode_that_no_file_of_ours_can_hold_is_left_out(tmp_path, capsys):
    """Two targets of one name: ours with this name has one."""
    box = "003_cracker_box_:0000"
    two = {"002_master_chef_can_:0000": pose(4.0, 0.5, -6.0), box: pose(4.3, 0.5, -6.0)}
    value = episode(
        targets=two, info={"object_labels": dict.fromkeys(two, "goal0|0")},
        target_receptacles=2 * episode()["target_receptacles"],
        goal_receptacles=2 * episode()["goal_receptacles"],
    )  # fmt: skip
    output = tmp_path / "ours.json.gz"
    path = written(tmp_path, episode(), value)
    assert main(["import-episodes", f"file={path}", f"output={output}"]) == 0
    assert "2 episodes, 1 have a counterpart" in capsys.readouterr().out
    assert len(read_episodes(output)) == 1


def test_names_reach_the_terminal_without_its_control_characters(tmp_path, capsys):
    strange = {"003_cracker_box_:0000": "a\x1b[31m\n\ud800|b"}
    path = written(tmp_path, episode(name_to_receptacle=strange))
    output = tmp_path / "ours.json.gz"
    assert main(["import-episodes", f"file={path}", f"output={output}"]) == 0
    assert "  receptacle a\\x1b[31m \\ud800|b: 1\n" in capsys.readouterr().out
    assert output.exists()


def test_a_file_of_ours_needs_no_import(tmp_path, capsys):
    path, output = tmp_path / "ours.json.gz", tmp_path / "again.json.gz"
    made = ["episodes", "generate", "task=tidy_house", "num_episodes=1", f"output={path}"]
    assert main(made) == 0
    capsys.readouterr()
    assert main(["import-episodes", f"file={path}", f"output={output}"]) == 2
    assert "episode 0: is one of ours already" in capsys.readouterr().err
    assert not output.exists()


def test_a_file_is_not_replaced_by_what_is_made_of_it(tmp_path, capsys):
    path = written(tmp_path, episode())
    before = path.read_bytes()
    (tmp_path / "link.json.gz").symlink_to(path)
    for output in (path, tmp_path / "link.json.gz"):
        assert main(["import-episodes", f"file={path}", f"output={output}"]) == 2
        assert "output must be another file than" in capsys.readouterr().err
    assert path.read_bytes() == before
