"""`rearrange train` and `train-skill`: from arguments to files, the exit code and going on."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys

import gymnasium
import pytest
import yaml
from gymnasium import spaces

from rearrange import cli
from rearrange.commands.overrides import read
from rearrange.commands.settings import compose
from rearrange.commands.training.resolve import load_training, space_defaults
from rearrange.commands.training.training_env import check_run_folder, run_folder, training_env_of
from rearrange.errors import UserError
from rearrange.system import folder_lock
from rearrange.system.folder_lock import FolderLock, lock_folder
from tests.commands.training.commands import SLIGHT, TINY, fails, works
from tests.waits import LIMIT_S, wait_until

SMALL = ["serial=true", "num_envs=4", "num_steps=64", "device=cpu", "num_threads=1"]


def test_train_leaves_a_run_that_can_be_read_and_gone_on_with(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(folder_lock, "LEAVING_S", 0.0)
    run_dir = tmp_path / "run"
    arguments = ["train", "env=CartPole-v1", *SMALL, f"run_dir={run_dir}"]
    out = works(capsys, *arguments, "total_steps=1024")
    assert re.search(r"^steps +1024 in ", out, flags=re.MULTILINE) and "CartPole-v1" in out
    summary = json.loads((run_dir / "summary.json").read_text())
    assert (summary["env"], summary["mode"], summary["total_steps"]) == ("CartPole-v1", "ver", 1024)
    assert summary["episode_return"]["episodes"] > 10 and summary["success"] is None
    config = yaml.safe_load((run_dir / "config.yaml").read_text())
    assert (config["env"], config["policy"]["name"]) == ("CartPole-v1", "mlp_lstm")
    assert config["num_envs"] == 4 and config["ppo"]["learning_rate"] == 1e-3

    with lock_folder(run_dir):
        line = fails(capsys, *arguments, "resume=auto")
    assert f"{run_dir} is in use by process {os.getpid()}, since" in line
    assert "is not empty: resume=auto continues" in fails(capsys, *arguments)
    other = [word.replace("CartPole-v1", "Acrobot-v1") for word in arguments]
    assert "'CartPole-v1', here it is 'Acrobot-v1'" in fails(capsys, *other, "resume=auto")
    line = fails(capsys, *arguments, "resume=auto", "policy.lstm_hidden=32")
    assert "policy.lstm_hidden is 64, here it is 32" in line

    works(capsys, *arguments, "total_steps=1280", "resume=auto")
    steps = [json.loads(line)["step"] for line in (run_dir / "metrics.jsonl").open()]
    assert steps == [256, 512, 768, 1024, 1280]


FAULTY = ["train", "env=rearrange.workloads.faulty:Faulty-v0", "env_kwargs.broken_index=0", *SMALL]


@pytest.mark.parametrize(("fault", "raised"), [("value_error", "ValueError"), ("sys_exit", "Sys")])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_environments_own_error_is_shown_with_its_place(capsys, tmp_path, fault, raised):
    arguments = [f"env_kwargs.fault={fault}", "env_kwargs.at_step=1", f"run_dir={tmp_path / 'run'}"]
    assert cli.main([*FAULTY, *arguments]) == 1
    *trace, line = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: the environment's first step raised {raised}")
    assert any("faulty.py" in row for row in trace)


def test_a_folder_that_is_deleted_meanwhile_is_one_line_and_a_checkpoint(
    capsys, tmp_path, monkeypatch
):
    def check(held):
        looks.append(shutil.rmtree(held.folder) if len(looks) == 2 else None)
        look(held)

    looks, look = [], FolderLock.check
    monkeypatch.setattr(FolderLock, "check", check)
    assert cli.main([*FAULTY, f"run_dir={tmp_path / 'run'}", "total_steps=10000"]) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(
        f"error: {tmp_path / 'run'} was deleted or moved away; the last state is"
    )
    assert [path.stem for path in (tmp_path / "run/checkpoints").glob("*.json")] == ["000000000512"]


def test_a_skill_is_trained_in_the_home(capsys, tmp_path):
    arguments = [
        "train-skill",
        "close_drawer",
        *SMALL,
        "num_envs=2",
        "num_steps=8",
        "total_steps=32",
    ]
    arguments += ["camera_size=16", "policy.lstm_hidden=32", "policy.encoder.base_width=4"]
    out = works(capsys, *arguments, f"run_dir={tmp_path / 'run'}")
    assert "rearrange/CloseDrawer-v0" in out
    config = yaml.safe_load((tmp_path / "run/config.yaml").read_text())
    assert config["env"] == "rearrange/CloseDrawer-v0" and config["skill"]["name"] == "close_drawer"
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert summary["total_steps"] == 32


def test_worker_processes_train_too_and_sigterm_saves(tmp_path):
    command = [sys.executable, "-m", "rearrange", "train", "env=rearrange/MaskedPendulum-v1"]
    command += ["num_envs=2", "num_steps=64", "num_threads=1", f"run_dir={tmp_path}"]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ)
    metrics = tmp_path / "metrics.jsonl"
    try:
        wait_until(lambda: metrics.exists() and metrics.read_text().count("\n") >= 2, running)
        running.send_signal(signal.SIGTERM)
        _, errors = running.communicate(timeout=LIMIT_S)
    finally:
        running.kill()
    assert running.returncode == 143, errors
    assert errors.splitlines()[-1] == "stopped by SIGTERM: saved; resume=auto goes on"
    assert list((tmp_path / "checkpoints").glob("*.safetensors"))
    assert json.loads((tmp_path / "summary.json").read_text())["stopped_by"] == "SIGTERM"


@pytest.mark.parametrize(
    "env_id, policy, learning_rate",
    [
        ("CartPole-v1", "mlp_lstm", 1e-3),
        ("Pendulum-v1", "mlp", 1e-3),
        ("rearrange/Pick-v0", "small", 2.5e-4),
    ],
)
def test_what_is_not_given_suits_the_spaces(env_id, policy, learning_rate):
    cfg = load_training("train", [f"env={env_id}"])
    assert (cfg.policy.name, cfg.ppo.learning_rate) == (policy, learning_rate)


def test_what_is_given_stands_whatever_the_spaces():
    arguments = ["env=CartPole-v1", "policy=auto", "policy.lstm_hidden=16", "ppo.learning_rate=0.5"]
    cfg = load_training("train", arguments)
    assert (cfg.policy.name, cfg.policy.lstm_hidden) == ("mlp_lstm", 16)
    assert cfg.ppo.learning_rate == 0.5 and cfg.normalize_rewards
    assert load_training("train", ["env=CartPole-v1", "policy=mlp"]).policy.name == "mlp"
    given = ["navigate", "policy=paper", "policy.initial_log_std=-2", "policy.initial_means=[]"]
    policy = load_training("train-skill", given).policy
    assert (policy.name, policy.initial_log_std, policy.initial_means) == ("paper", -2.0, [])


def test_all_that_suits_can_be_read():
    for layer in space_defaults().values():
        assert compose(read("train", ["env=CartPole-v1"]), [layer]).policy.name != "auto"


def test_a_skills_environment_follows_the_network_and_the_words():
    cfg = load_training("train-skill", ["pick", "policy=paper", "env_kwargs.max_episode_steps=9"])
    env_id, kwargs, *_ = training_env_of(cfg)
    assert env_id == "rearrange/Pick-v0"
    assert kwargs == {
        "camera_size": 128, "action_space": "full", "observation_delay": 1, "max_episode_steps": 9
    }  # fmt: skip
    cfg = load_training("train-skill", ["pick", "camera_size=32"])
    assert training_env_of(cfg).kwargs["camera_size"] == 32


@pytest.mark.parametrize(
    "arguments, starts",
    [
        ([], "reach"),
        (["policy=small"], "reach"),
        (["policy=paper"], None),
        (["env_kwargs.starts=task"], "task"),
        (["method=imitation"], "varied"),
        (["warm_start=runs/a"], "varied"),
    ],
)
def test_only_the_small_network_with_fresh_weights_begins_within_reach(arguments, starts):
    assert (
        training_env_of(load_training("train-skill", ["pick", *arguments])).kwargs.get("starts")
        == starts
    )


@pytest.mark.parametrize(
    "arguments, num_steps",
    [
        (["warm_start=runs/a", "env_kwargs.depth=false"], 512),
        (["warm_start=runs/a"], 128),
        # how imitation_ver asks for its last stage, without pictures and with them
        (["method=imitation_ver", "env_kwargs.depth=true"], 512),
        (["method=imitation_ver", "camera_stage=true"], 128),
        (["method=imitation", "warm_start=runs/a", "env_kwargs.depth=false"], 128),
        (["env_kwargs.depth=false"], 128),
    ],
)
def test_ver_from_weights_and_without_pictures_has_large_rollouts(arguments, num_steps):
    assert load_training("train-skill", ["pick", *arguments]).num_steps == num_steps


def test_the_same_words_find_the_same_folder():
    def folder(verb, *arguments):
        cfg = load_training(verb, list(arguments))
        assert str(run_folder(cfg, training_env_of(cfg))) == cfg.run_dir
        return cfg.run_dir

    name = "rearrange.workloads.classic:rearrange/MaskedPendulum-v1"
    assert folder("train", f"env={name}", "seed=3") == "runs/MaskedPendulum-v1-ver-3"
    assert folder("train-skill", "pick", "mode=ddppo") == "runs/pick-ddppo-0"
    assert folder("train-skill", "pick", "run_dir=~/a") == os.path.expanduser("~/a")


class Odd(gymnasium.Env):
    """Spaces of which the trainer can take one."""

    observation_space = action_space = spaces.Discrete(2)


@pytest.mark.parametrize(
    "name, space, message",
    [
        ("observation_space", spaces.Text(3), "observations must be made of Box, Discrete, "),
        ("observation_space", spaces.Tuple([spaces.Discrete(2)]), "got Tuple"),
        ("action_space", spaces.MultiBinary(3), "actions must be a Box, Discrete or MultiDiscrete"),
    ],
)
def test_spaces_that_the_trainer_cannot_take_are_one_line(
    capsys, tmp_path, monkeypatch, name, space, message
):
    monkeypatch.setattr(Odd, name, space)
    gymnasium.register("odd/Odd-v0", entry_point=Odd)
    try:
        line = fails(capsys, "train", "env=odd/Odd-v0", f"run_dir={tmp_path / 'run'}")
    finally:
        del gymnasium.registry["odd/Odd-v0"]
    assert message in line and not (tmp_path / "run").exists()


def test_bad_settings_are_one_line_and_leave_no_folder(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    run = f"run_dir={tmp_path / 'run'}"
    assert "did you mean CartPole-v1" in fails(capsys, "train", "env=CartPol-v1", run)
    assert "did you mean 'serial'?" in fails(capsys, "train", "env=CartPole-v1", "seral=1", run)
    assert "ppo.num_minibatches (7)" in fails(
        capsys, "train", "env=CartPole-v1", "ppo.num_minibatches=7", run
    )
    assert "'size'" in fails(capsys, "train", "env=CartPole-v1", "env_kwargs.size=1", run)
    home = ("train", "env=rearrange/OpenDrawer-v0", "env_kwargs.depth=false", run)
    assert "env_kwargs['index_offset'] must be one of split" in fails(
        capsys, *home, "env_kwargs.index_offset=5"
    )
    assert "observation_delay must be a whole number" in fails(
        capsys, *home, "env_kwargs.observation_delay=true"
    )
    assert "device must be auto" in fails(capsys, "train", "env=CartPole-v1", "device=tpu", run)
    assert "split must be one of" in fails(capsys, "train-skill", "pick", "env_kwargs.split=a", run)
    assert not (tmp_path / "run").exists()
    for folder in (tmp_path / "file", tmp_path / "file/below", "/proc/nothing"):
        assert "run_dir" in fails(capsys, "train", "env=CartPole-v1", f"run_dir={folder}")


def test_a_skill_is_imitated_and_then_learned_on_from_there(capsys, tmp_path):
    run_dir = tmp_path / "run"
    arguments = ["train-skill", "close_drawer", *TINY, *SLIGHT, f"run_dir={run_dir}"]
    stages = [
        "method=imitation_ver",
        "imitation.total_steps=128",
        "blind_steps=64",
        "camera_stage=true",
    ]
    out = works(capsys, *arguments, *stages, "total_steps=64")
    assert out.count("steps     ") == 3
    taught, tuned, learned = (
        [json.loads(line) for line in (folder / "metrics.jsonl").open()]
        for folder in (run_dir / "imitation", run_dir / "blind", run_dir)
    )
    assert [line["step"] for line in taught] == [64, 128] and "imitation/error" in taught[0]
    for lines in (tuned, learned):
        assert [line["step"] for line in lines] == [64] and "ppo/approx_kl" in lines[0]
    config = yaml.safe_load((run_dir / "config.yaml").read_text())
    assert config["warm_start"] == str(run_dir / "blind") and config["method"] == "imitation_ver"

    short = tmp_path / "short"
    works(capsys, *arguments[:-1], f"run_dir={short}", *stages[:2], "total_steps=64")
    config = yaml.safe_load((short / "config.yaml").read_text())
    assert config["warm_start"] == str(short / "imitation") and not (short / "blind").exists()
    assert config["env_kwargs"]["depth"] is False

    other = ["train-skill", "open_drawer", *TINY, *SLIGHT, f"warm_start={run_dir}"]
    assert "was trained in rearrange/CloseDrawer-v0" in fails(
        capsys, *other, f"run_dir={tmp_path / 'other'}"
    )
    wider = [f"run_dir={tmp_path / 'wider'}", f"warm_start={run_dir}", "policy.lstm_hidden=24"]
    assert "has another network" in fails(capsys, *arguments, *wider)
    fixed = ["method=imitation", "action_space=stationary", f"run_dir={tmp_path / 'fixed'}"]
    assert "needs action_space=full" in fails(capsys, *arguments, *fixed)
    assert not (tmp_path / "fixed").exists() and not (tmp_path / "wider").exists()
    assert "method must be one of" in fails(capsys, *arguments, "method=magic")


@pytest.mark.parametrize("chunk", [4, 256])  # pictures; minibatches are larger, and smaller
def test_who_acts_has_the_weights_that_were_learned(capsys, tmp_path, monkeypatch, chunk):
    """The first step of an update finds the probabilities that were stored, bar the rounding."""
    monkeypatch.setattr("rearrange.skills.network.pictures.encoder.CHUNK", chunk)
    arguments = ["train-skill", "close_drawer", *TINY, *SLIGHT, "env_kwargs.depth=true"]
    arguments += ["ppo.num_epochs=1", "ppo.num_minibatches=1", "ppo.learning_rate=0.01"]
    arguments += ["camera_size=32", "policy.encoder.output_gain=1", "total_steps=256"]
    works(capsys, *arguments, f"run_dir={tmp_path / 'run'}")
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").open()]
    assert len(lines) == 4
    for line in lines:
        assert 0.998 < line["ppo/ratio_min"] <= line["ppo/ratio_max"] < 1.002
        assert line["ppo/first_kl"] < 1e-6


@pytest.mark.parametrize(
    ("name", "plant"),
    [
        ("checkpoints", lambda path: path.symlink_to("nowhere")),
        ("tensorboard", lambda path: path.write_text("")),
        ("metrics.jsonl", lambda path: path.mkdir()),
        ("summary.json", lambda path: path.mkdir()),
        ("warm_start.json", lambda path: path.mkdir()),
        ("config.yaml", lambda path: path.symlink_to("nowhere")),
    ],
)
def test_what_could_not_be_written_at_the_end_is_said_at_the_start(tmp_path, name, plant):
    plant(tmp_path / name)
    with pytest.raises(UserError, match=f"{name} must be a fil|{name} must be a folder"):
        check_run_folder(tmp_path, "auto")
