"""Trained skills by name, and a training run made into a file of that name."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from rearrange import cli
from rearrange.commands.training.export import mean_of
from rearrange.errors import UserError
from rearrange.skills.deployed import trained_skills
from rearrange.skills.deployed.skill_files import read_skill, write_skill
from rearrange.skills.deployed.trained_skills import (
    find_skill_path,
    shipped_skills,
    skill_path,
    weights_path,
)
from rearrange.skills.network.policy import build_policy
from rearrange.tasks.env_options import to_record
from rearrange.ver.run.checkpoint import save_checkpoint, with_prefix


@pytest.fixture
def run_dir(make_skill, tmp_path):
    """The folder of a training run of Pick with one checkpoint."""
    skill = make_skill("pick")
    identity = {
        "env": skill.env_id, "env_kwargs": to_record(skill.env_id, skill.env_kwargs),
        "policy": asdict(skill.policy_cfg),
    }  # fmt: skip
    manifest = {"identity": identity, "mode": "ver"}
    tensors = with_prefix("policy", skill.weights)
    save_checkpoint(tmp_path / "pick/checkpoints", 640, tensors, manifest)
    return tmp_path / "pick"


def fails(capsys, *arguments):
    """The one line on stderr of a command that must fail."""
    assert cli.main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ") and captured.err.count("\n") == 1
    return captured.err


def test_a_file_comes_before_a_runs_folder_of_the_same_name(make_skill, tmp_path):
    (tmp_path / "pick").mkdir()
    assert skill_path("pick", tmp_path) == tmp_path / "pick"
    write_skill(make_skill("pick"), tmp_path / "pick.safetensors")
    assert skill_path("pick", tmp_path) == tmp_path / "pick.safetensors"
    assert find_skill_path("place", tmp_path) is None


def test_a_missing_skill_is_named_with_its_folder_and_the_way_to_get_it(tmp_path):
    with pytest.raises(UserError) as caught:
        skill_path("place", tmp_path)
    line = str(caught.value)
    assert str(tmp_path) in line and "train-skill place " in line and "\n" not in line
    with pytest.raises(UserError, match="train-skill place action_space=stationary run_dir="):
        skill_path("place_fixed_base", tmp_path)
    with pytest.raises(UserError, match="there is no folder"):
        skill_path("place", tmp_path / "nowhere")


def test_shipped_skills_are_what_lies_in_the_packages_folder(make_skill, tmp_path, monkeypatch):
    monkeypatch.setattr(trained_skills, "FOLDER", tmp_path)
    with pytest.raises(UserError, match="pick does not come with the package"):
        skill_path("pick")
    write_skill(make_skill("pick"), tmp_path / "pick.safetensors")
    assert shipped_skills() == ["pick"]
    assert skill_path("pick") == tmp_path / "pick.safetensors"


def test_a_run_becomes_a_file_with_the_same_weights(make_skill, run_dir, tmp_path, capsys):
    path = tmp_path / "mine/pick.safetensors"
    assert cli.main(["export-skill", f"run={run_dir}", f"output={path}"]) == 0
    assert "pick after 640 steps" in capsys.readouterr().out
    back, before = read_skill(path), make_skill("pick")
    assert back.env_id == "rearrange/Pick-v0" and back.origin["steps"] == 640
    assert all(torch.equal(back.weights[n], w.half()) for n, w in before.weights.items())


def test_what_cannot_be_exported_is_one_line(run_dir, tmp_path, capsys):
    path = tmp_path / "pick.safetensors"
    arguments = ["export-skill", f"output={path}"]
    assert "max_megabytes=0.01" in fails(capsys, *arguments, f"run={run_dir}", "max_megabytes=0.01")
    assert "neither a training run's folder" in fails(
        capsys, *arguments, f"run={tmp_path / 'nothing'}"
    )
    assert "no checkpoint" in fails(capsys, *arguments, f"run={tmp_path}")
    assert "must end in" in fails(capsys, "export-skill", f"run={run_dir}", "output=pick.zip")
    assert not path.exists()


def test_the_mean_of_trainings_is_that_of_each_weight(make_skill, run_dir, tmp_path, capsys):
    other = make_skill("pick")
    other.weights = {name: 3.0 * weight + 1.0 for name, weight in other.weights.items()}
    write_skill(other, tmp_path / "other.safetensors")
    path = tmp_path / "mean.safetensors"
    arguments = ["export-skill", f"run={run_dir}", f"average=[{tmp_path / 'other.safetensors'}]"]
    assert cli.main([*arguments, f"output={path}"]) == 0
    back = read_skill(path)
    for name, weight in make_skill("pick").weights.items():
        torch.testing.assert_close(back.weights[name].float(), 2 * weight + 0.5, atol=3e-3, rtol=0)
    assert back.origin["mean_of"][0]["steps"] == 640
    capsys.readouterr()
    write_skill(make_skill("place"), tmp_path / "place.safetensors")
    arguments = ["export-skill", f"run={run_dir}", f"average=[{tmp_path / 'place.safetensors'}]"]
    assert "for another skill or network" in fails(
        capsys, *arguments, f"output={tmp_path / 'x'}.safetensors"
    )
    assert not (tmp_path / "x.safetensors").exists()


@pytest.mark.parametrize(
    ("policy", "env", "theirs"),
    [
        ({"activation": "tanh"}, {}, "policy.activation is tanh"),
        ({}, {"observation_delay": 0}, "env_kwargs.observation_delay is 0"),
        ({}, {"motor_lead": 0.15}, "env_kwargs.motor_lead is 0.15"),
        ({"switches": [7], "initial_log_std": -2.0}, {"starts": "varied", "homes": "mixed"}, None),
        ({}, {"depth": True, "ranges": False, "rgb": False}, None),  # as when they are not given
    ],
)
def test_weights_are_averaged_only_where_they_mean_the_same(
    make_skill, run_dir, tmp_path, capsys, policy, env, theirs
):
    skill, other = make_skill("pick"), tmp_path / "other.safetensors"
    changed = replace(skill.policy_cfg, **policy), skill.env_kwargs | env
    write_skill(replace(skill, policy_cfg=changed[0], env_kwargs=changed[1]), other)
    output = tmp_path / "mean.safetensors"
    arguments = ["export-skill", f"run={run_dir}", f"average=[{other}]", f"output={output}"]
    if theirs is None:
        assert cli.main(arguments) == 0
        assert len(read_skill(output).origin["mean_of"]) == 2
        return
    line = fails(capsys, *arguments)
    assert f"the same weights mean something else in {other}, whose {theirs}, " in line
    assert not output.exists()


def test_a_path_comes_before_a_name_of_the_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert weights_path("pick") == skill_path("pick")
    assert weights_path("runs/pick") == Path("runs/pick")
    (tmp_path / "pick").mkdir()
    assert weights_path("pick") == Path("pick")
    with pytest.raises(UserError, match="no skill file pik, .*: close_drawer, .*pick, place"):
        weights_path("pik")


def of_pick(make_skill, cells, **env_kwargs):
    """A Pick whose network makes `cells` x `cells` of the picture itself; 0: it makes none."""
    skill = make_skill("pick", **env_kwargs)
    cfg = replace(skill.policy_cfg, nearest_cells=cells)
    torch.manual_seed(4 + cells)
    policy = build_policy(skill.observation, skill.action, cfg)
    return replace(skill, policy_cfg=cfg, weights=policy.state_dict())


def test_one_that_learned_by_cells_alone_counts_for_all_but_the_picture_network(
    make_skill, tmp_path, capsys
):
    seeing, by_cells = of_pick(make_skill, 16), of_pick(make_skill, 0, ranges="camera", depth=False)
    other = replace(seeing, weights={n: 2 * w for n, w in seeing.weights.items()})
    for name, skill in (("seeing", seeing), ("by_cells", by_cells), ("other", other)):
        write_skill(skill, tmp_path / f"{name}.safetensors")
    paths = {n: tmp_path / f"{n}.safetensors" for n in ("seeing", "by_cells", "other")}
    arguments = [
        "export-skill", f"run={paths['by_cells']}",
        f"average=[{paths['seeing']},{paths['other']}]", f"output={tmp_path / 'mean.safetensors'}",
    ]  # fmt: skip
    assert cli.main(arguments) == 0, capsys.readouterr().err
    mean = read_skill(tmp_path / "mean.safetensors")
    assert mean.observation.keys() == seeing.observation.keys() and mean.policy_cfg.nearest_cells
    assert len(mean.origin["mean_of"]) == 3
    width = seeing.policy_cfg.encoder.feature_size
    for name, weight in mean.weights.items():
        known, own = seeing.weights[name].double(), by_cells.weights.get(name)
        if own is None:  # the picture network: of the two that have one
            expected = 1.5 * known
        elif own.shape == known.shape:
            expected = known + own.double() / 3
        else:  # columns of the picture come first
            expected = 1.5 * known
            expected[:, width:] = known[:, width:] + own.double() / 3
        torch.testing.assert_close(weight.double(), expected, atol=2e-3, rtol=2e-3)
    assert any(w.shape != seeing.weights[n].shape for n, w in by_cells.weights.items())


@pytest.mark.parametrize(
    ("cells", "env", "message"),
    [
        (8, {"ranges": "camera"}, "for another skill or network"),
        (0, {"ranges": "camera"}, "for another skill or network"),
        (16, {"ranges": True}, "for another skill or network"),
        (16, {"ranges": "camera", "observation_delay": 0}, "env_kwargs.observation_delay is 0"),
    ],
)
def test_other_cells_or_senses_are_not_averaged(make_skill, tmp_path, capsys, cells, env, message):
    paths = tmp_path / "seeing.safetensors", tmp_path / "by_cells.safetensors"
    write_skill(of_pick(make_skill, cells), paths[0])
    write_skill(of_pick(make_skill, 0, depth=False, **env), paths[1])
    output = tmp_path / "mean.safetensors"
    arguments = ["export-skill", f"run={paths[0]}", f"average=[{paths[1]}]", f"output={output}"]
    assert message in fails(capsys, *arguments)
    assert not output.exists()


def test_only_columns_of_pictures_may_be_missing(make_skill):
    seeing, by_cells = of_pick(make_skill, 16), of_pick(make_skill, 0, ranges="camera", depth=False)
    fewer = by_cells.weights["embedding.vector_layer.0.weight"][:, 3:]
    by_cells.weights["embedding.vector_layer.0.weight"] = fewer
    with pytest.raises(UserError, match="for another skill or network"):
        mean_of([seeing, by_cells])
