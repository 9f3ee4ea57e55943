"""Schemes: who starts what, which arguments run again, and what a rank finds in its environment."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rearrange import cli
from rearrange.cluster import ray_session
from rearrange.cluster.rank_host import Spot, variables_of
from rearrange.commands.training import train
from rearrange.errors import UserError
from rearrange.ver.ranks.distributed import RankInfo, read_rank_info
from rearrange.ver.run.checkpoint import load_newest
from tests.waits import wait_until

ROOT = Path(__file__).parents[2]
LIMIT_S = 300.0  # the machine may be busy, and torch is imported again by each rank
TINY = ["num_envs=2", "num_steps=32", "device=cpu", "policy=mlp", "ppo.num_minibatches=2"]


def test_ranks_get_torchruns_variables():
    spots = [
        Spot("a", "10.0.0.1", 1000, ("0",)), Spot("b", "10.0.0.2", 2000, ("3",)),
        Spot("a", "10.0.0.1", 3000, ("2",)),
    ]  # fmt: skip
    found = variables_of(spots)
    assert [v["RANK"] for v in found] == ["0", "1", "2"]
    assert [v["LOCAL_RANK"] for v in found] == ["0", "0", "1"]
    assert [v["LOCAL_WORLD_SIZE"] for v in found] == ["2", "1", "2"]
    assert [v["CUDA_VISIBLE_DEVICES"] for v in found] == ["0,2", "3", "0,2"]
    assert read_rank_info(found[2]) == RankInfo(2, 3, 1, 2)
    assert {(v["WORLD_SIZE"], v["MASTER_ADDR"], v["MASTER_PORT"]) for v in found} == {
        ("3", "10.0.0.1", "1000")
    }


@pytest.fixture
def spread(monkeypatch):
    """What would be run as ranks: [(arguments, scheme), ...]."""
    calls = []
    monkeypatch.setattr(train, "run_spread", lambda *call: calls.append(call) or 0)
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    return calls


def test_the_same_words_are_run_again_and_go_on(spread, tmp_path):
    arguments = ["env=CartPole-v1", *TINY, f"run_dir={tmp_path / 'run'}", "scheme=ranks"]
    assert cli.main(["train", *arguments, "scheme.world_size=3"]) == 0
    ((again, scheme),) = spread
    assert again == ["train", *arguments, "scheme.world_size=3", "resume=auto"]
    assert (scheme.name, scheme.world_size) == ("ranks", 3)


def test_a_process_that_is_a_rank_trains(spread, monkeypatch, tmp_path):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    arguments = [
        "env=CartPole-v1",
        *TINY,
        f"run_dir={tmp_path / 'run'}",
        "scheme=ray",
        "serial=true",
    ]
    assert cli.main(["train", *arguments, "total_steps=64"]) == 0
    assert spread == []
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert (summary["sampling"], summary["gradients"]) == ("synchronous", "central")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["env=CartPol-v1"], "did you mean CartPole-v1"),
        (["env=CartPole-v1", "env_kwargs.size=1"], "'size'"),
        (["env=CartPole-v1", "run_dir=full"], "full is not empty: resume=auto continues"),
    ],
)
def test_mistakes_are_found_before_anything_is_started(
    spread, monkeypatch, tmp_path, capsys, arguments, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/a").write_text("")
    assert cli.main(["train", *TINY, "scheme=ranks", *arguments]) == 2
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.count("\n") == 1 and spread == []


def test_without_ray_there_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(UserError, match="^Ray is not installed: pip install 'rearrange.cluster.'"),
        ray_session.connected(None),
    ):
        pass


@pytest.mark.slow  # what it shares with torchrun is tested there
def test_ranks_of_this_machine_save_when_a_scheduler_says_so(tmp_path):
    run_dir = tmp_path / "run"
    arguments = ["train", "env=CartPole-v1", *TINY, "scheme=ranks", f"run_dir={run_dir}"]
    with open(tmp_path / "output.txt", "w+b") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "rearrange", *arguments, "total_steps=100000000"],
            stdout=output, stderr=output, env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    try:
        metrics, output = run_dir / "metrics.jsonl", tmp_path / "output.txt"
        is_on = lambda: metrics.exists() and metrics.read_text()  # noqa: E731
        wait_until(is_on, process, LIMIT_S, output.read_text)
        process.send_signal(signal.SIGUSR1)
        assert process.wait(LIMIT_S) == 75
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(LIMIT_S)
    summary = json.loads((run_dir / "summary.json").read_text())
    assert (summary["stopped_by"], summary["world_size"]) == ("SIGUSR1", 2)
    assert summary["gradients"] == "decentralised"
    assert load_newest(run_dir / "checkpoints").step == summary["total_steps"]
