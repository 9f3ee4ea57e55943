"""The real command below torchrun: after a killed rank all go on from the newest checkpoint.

`scheme=ranks` has to do the same; and two machines' agents train together.
"""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from rearrange.eval.benchmarks.chaos.run import processes
from rearrange.system.checked_json import strict_json
from rearrange.ver.run.checkpoint import load_newest
from rearrange.ver.run.metrics import read_metrics
from tests.waits import wait_until

ROOT = Path(__file__).parents[2]
LIMIT_S = 600.0  # of each wait; the machine may be busy, and torch is imported again by each rank
ARGUMENTS = (
    "train env=CartPole-v1 num_envs=2 num_steps=32 total_steps=100000000 checkpoint_interval_s=0 "
    "policy=mlp ppo.num_epochs=1 ppo.num_minibatches=2 resume=auto device=cpu"
)


TORCHRUN = ["-m", "torch.distributed.run"]
BY_TORCHRUN = [
    *TORCHRUN, "--standalone", "--nproc-per-node=2", "--max-restarts=1",
    "-m", "rearrange", *ARGUMENTS.split(),
]  # fmt: skip
BY_SCHEME = [
    "-m", "rearrange", *ARGUMENTS.split(),
    "scheme=ranks", "scheme.world_size=2", "scheme.max_restarts=1",
]  # fmt: skip


def started(arguments, run_dir):
    """Python with these arguments, its output beside the run's folder."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with open(run_dir.parent / "output.txt", "ab") as output:
        return subprocess.Popen(
            [sys.executable, *arguments, f"run_dir={run_dir}"], env=environment,
            stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip


@pytest.fixture(params=[BY_TORCHRUN, pytest.param(BY_SCHEME, marks=pytest.mark.slow)])
def launch(request, tmp_path):
    """Two ranks, one restart; what is left of them is ended."""
    process = started(request.param, tmp_path / "run")
    yield process
    for pid in [*ranks_of(process).values(), process.pid]:
        with suppress(ProcessLookupError):
            if process.poll() is None or pid != process.pid:
                os.kill(pid, signal.SIGKILL)
    process.wait(10.0)


def ranks_of(process):
    """Rank -> process id."""
    pids = [pid for pid, (parent, *_) in processes().items() if parent == process.pid]
    found = {}
    for pid in pids:
        with suppress(OSError):  # it has just ended
            for line in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                if line.startswith(b"RANK="):
                    found[int(line[5:])] = pid
    return found


def wait_for(condition, process, folder):
    wait_until(condition, process, LIMIT_S, (folder / "output.txt").read_text)


def test_ranks_train_survive_a_kill_and_save_when_terminated(tmp_path, launch):
    run_dir = tmp_path / "run"

    def steps():
        path = run_dir / "metrics.jsonl"
        return [line["step"] for line in read_metrics(path)] if path.exists() else []

    wait_for(lambda: len(steps()) >= 2, launch, tmp_path)
    first = ranks_of(launch)
    assert sorted(first) == [0, 1]
    os.kill(first[1], signal.SIGKILL)

    def is_on_again():
        now = ranks_of(launch)
        return len(now) == 2 and not set(now.values()) & set(first.values())

    wait_for(is_on_again, launch, tmp_path)
    step = load_newest(run_dir / "checkpoints").step
    assert step > 0
    wait_for(lambda: steps()[-1] > step, launch, tmp_path)
    os.kill(launch.pid, signal.SIGTERM)
    launch.wait(LIMIT_S)
    summary = strict_json((run_dir / "summary.json").read_text())
    assert summary["stopped_by"] == "SIGTERM" and summary["world_size"] == 2
    assert load_newest(run_dir / "checkpoints").step == steps()[-1] == summary["total_steps"] > step
    assert all(b > a for a, b in zip(steps(), steps()[1:], strict=False))  # nothing twice
    assert {path.name for path in run_dir.iterdir()} == {
        "checkpoints", "config.yaml", "metrics.jsonl", "summary.json", "tensorboard",
        "warm_start.json",
    }  # fmt: skip
    # one file for each time that rank 0 was started
    assert len(list((run_dir / "tensorboard").iterdir())) == 2
    assert not any(str(run_dir) in command for *_, command in processes().values())


@pytest.mark.slow
def test_two_machines_train_together(tmp_path):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    arguments = [
        *TORCHRUN, "--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d",
        f"--rdzv-endpoint=localhost:{port}", "--rdzv-id=1",
        "-m", "rearrange", *ARGUMENTS.split(), "total_steps=512",
    ]  # fmt: skip
    agents = [started(arguments, tmp_path / "run") for _ in range(2)]
    try:
        codes = [agent.wait(LIMIT_S) for agent in agents]
    finally:
        for agent in agents:
            if agent.poll() is None:
                agent.terminate()
                agent.wait(LIMIT_S)
    assert codes == [0, 0], (tmp_path / "output.txt").read_text()
    summary = strict_json((tmp_path / "run/summary.json").read_text())
    assert summary["world_size"] == 2 and summary["total_steps"] >= 512


CALLER = """
import rearrange
from rearrange.errors import UserError

if __name__ == "__main__":
    settings = dict(env="CartPole-v1", num_envs=2, num_steps=32, total_steps=64, scheme="ranks")
    settings["scheme.world_size"] = 2
    try:
        rearrange.train(**settings, warm_start="nowhere", run_dir="a")
    except UserError as error:
        print(error)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["-c", CALLER],
        pytest.param([*BY_SCHEME, "warm_start=nowhere", "run_dir=a"], marks=pytest.mark.slow),
    ],
    ids=["library", "command"],
)
def test_a_mistake_that_each_rank_finds_is_told_once(arguments, tmp_path):
    """And no rank is started again for it."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}, timeout=LIMIT_S,
    )  # fmt: skip
    is_command = arguments[0] != "-c"
    said, nothing = (done.stderr, done.stdout) if is_command else (done.stdout, done.stderr)
    assert "there is no skill file nowhere" in said and said.count("\n") == 1 and not nothing
    assert done.returncode == (2 if is_command else 0) and not list(tmp_path.glob("a/*"))


def test_a_rank_stays_under_nohup_and_saves_when_its_command_is_killed(tmp_path):
    run_dir = tmp_path / "run"
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        words = ["-m", "rearrange", *ARGUMENTS.split(), "scheme=ranks", "scheme.world_size=1"]
        launch = started(words, run_dir)
    finally:
        signal.signal(signal.SIGHUP, before)
    lines, summary = run_dir / "metrics.jsonl", run_dir / "summary.json"
    try:
        wait_for(lines.exists, launch, tmp_path)
        (rank,) = ranks_of(launch).values()
        for pid in (launch.pid, rank):
            os.kill(pid, signal.SIGHUP)
        seen = len(read_metrics(lines))
        wait_for(lambda: len(read_metrics(lines)) > seen + 5, launch, tmp_path)
        launch.kill()
        launch.wait(LIMIT_S)
        wait_until(summary.exists, limit_s=LIMIT_S)
        wait_until(lambda: rank not in processes(), limit_s=LIMIT_S)
    finally:
        launch.kill()
    assert strict_json(summary.read_text())["stopped_by"] == "SIGTERM"
    assert load_newest(run_dir / "checkpoints").step == read_metrics(lines)[-1]["step"]
