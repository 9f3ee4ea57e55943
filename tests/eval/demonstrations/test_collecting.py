"""The command: whole or to be gone on with, and never over something else."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rearrange.cli import main
from rearrange.configs.schema import EvaluateCfg, TaskCfg
from rearrange.errors import UserError
from rearrange.eval.demonstrations.collecting import CollectingRunner, make_recording_env
from rearrange.eval.demonstrations.hdf5 import FILE, Hdf5Format
from rearrange.eval.runner import runner_cfg
from rearrange.skills.deployed.skill_files import write_skill

h5py = pytest.importorskip("h5py")
COMMAND = ["collect", "task=pick", "agent=oracle", "format=hdf5", "num_workers=1"]


def test_collecting_goes_on_where_it_ended_and_what_it_made_is_played_back(
    tmp_path, capsys, monkeypatch
):
    """One worker for all of it: its start takes most of the time."""
    folder = tmp_path / "picks"
    arguments = [*COMMAND, "num_episodes=1", f"output={folder}"]

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Hdf5Format, "assemble", interrupted)
        assert main(arguments) == 130
    assert not (folder / FILE).exists()
    assert main(["collect", "verify", f"folder={folder}"]) == 2
    with (folder / "episodes.jsonl").open("a") as file:
        file.write("[1]\n")
    capsys.readouterr()
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "episodes.jsonl: 1 (line 2); their episodes run again" in shown
    assert "kept 1 of 1 episodes" in shown and "1 episodes, 1 of them successes" in shown
    assert {path.name for path in folder.iterdir()} == {
        FILE, "episodes.json.gz", "episodes.jsonl", "settings.json", "summary.json"
    }  # fmt: skip
    assert main(["collect", "verify", f"folder={folder}"]) == 0
    before = (folder / FILE).read_bytes()
    assert main(arguments) == 0 and "already" in capsys.readouterr().out
    assert main([*COMMAND, "num_episodes=2", f"output={folder}"]) == 2
    assert main([*COMMAND, "num_episodes=1", "seed=1", f"output={folder}"]) == 2
    assert (folder / FILE).read_bytes() == before
    with h5py.File(folder / FILE, "r+") as file:
        file["episode_0/actions"][30, 8] *= 0.5
    capsys.readouterr()
    assert main(["collect", "verify", f"folder={folder}"]) == 1
    assert "episode 0: the world differs after 31 steps" in capsys.readouterr().out


def test_a_folder_of_other_things_is_left_alone(tmp_path, capsys):
    (tmp_path / "mine").write_text("mine")
    assert main([*COMMAND, f"output={tmp_path}"]) == 2
    assert "has other contents" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_missing_package_and_what_an_agent_cannot_do_are_one_line(tmp_path, capsys, monkeypatch):
    for arguments, line in (
        (["format=zarr"], "format must be one of lerobot, lerobot-v2.1, minari, hdf5"),
        (["agent=teacher", "task=tidy_house"], "agent=teacher is for task="),
        (["num_episodes=15001"], "num_episodes must be at most 15000, got 15001: make several"),
    ):
        assert main(["collect", *arguments, f"output={tmp_path / 'new'}"]) == 2
        assert line in capsys.readouterr().err
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["collect", f"output={tmp_path / 'new'}"]) == 2
    assert "pip install 'rearrange[collect]'" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("form", ["lerobot", "hdf5"])
def test_pictures_that_a_format_does_not_keep_are_one_line(make_skill, tmp_path, form):
    """A skill may have learned with colours: LeRobot's tables have one camera, of depth."""
    write_skill(make_skill("pick", rgb=True), path := tmp_path / "pick.safetensors")
    pick = TaskCfg(name="pick", title="Pick")
    runner = runner_cfg(EvaluateCfg(task=pick, agent="learned", checkpoint=str(path)))
    cfg = CollectingRunner(runner=runner, format=form, folder=str(tmp_path))
    if form == "hdf5":
        make_recording_env(cfg)[0].close()
        return
    line = "agent=learned also sees arm_rgb and head_rgb: format=hdf5 or minari"
    with pytest.raises(UserError, match=line):
        make_recording_env(cfg)


def test_demonstrations_at_a_handle_tell_where_it_is(tmp_path):
    task = TaskCfg(name="open_drawer", title="Open Drawer")
    runner = runner_cfg(EvaluateCfg(task=task, agent="oracle"))
    env, _ = make_recording_env(CollectingRunner(runner=runner, format="hdf5", folder="x"))
    observation, _ = env.reset()
    handle = env.world.sim.marker_pos_w(env.world.episode.marker)
    away = np.linalg.norm(handle - env.world.sim.ee_pos_w)
    assert np.linalg.norm(observation["marker_rel_pos"]) == pytest.approx(away, abs=1e-5)


def test_a_data_set_of_a_task_of_ones_own_is_played_back_with_its_module(tmp_path, capsys):
    """Files import nothing, so the command has to name it."""
    example = Path(__file__).parents[3] / "examples" / "my_skill"
    env = os.environ | {"PYTHONPATH": str(example)}
    task, folder = "task=press_button:press_button", f"folder={tmp_path / 'presses'}"

    def rearrange(*arguments):
        command = [sys.executable, "-m", "rearrange", *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)

    made = rearrange(
        "collect", task, "agent=oracle", "format=hdf5", "num_episodes=1", "num_workers=1",
        f"output={tmp_path / 'presses'}",
    )  # fmt: skip
    assert f"collect verify {folder} {task}" in made.stdout, made.stderr
    refused = rearrange("collect", "verify", folder)
    assert refused.returncode == 2 and "rearrange.task must be one of" in refused.stderr
    played = rearrange("collect", "verify", folder, task)
    assert "1 of 1 episodes came again bit for bit" in played.stdout, played.stderr
    checked = rearrange(
        "episodes", "check", f"file={tmp_path / 'presses' / 'episodes.json.gz'}", task
    )
    assert "1 episodes in 1 apartments, well formed" in checked.stdout, checked.stderr
