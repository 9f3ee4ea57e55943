"""Trainings on several Ray nodes of this machine: one of them is killed, and all goes on."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from rearrange.eval.benchmarks.chaos.run import processes
from rearrange.system.checked_json import strict_json
from rearrange.ver.run.checkpoint import load_newest
from rearrange.ver.run.metrics import read_metrics
from tests.waits import wait_until

pytest.importorskip("ray", reason="Ray is not installed: the extra `cluster` brings it")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
LIMIT_S = 300.0  # of each wait; the machine may be busy
GOES_ON_S = 60.0  # the promise
ARGUMENTS = (
    "launch envs=CartPole-v1 seeds=7 scheme.world_size=2 num_envs=2 num_steps=32 policy=mlp "
    "total_steps=100000000 checkpoint_interval_s=0 ppo.num_epochs=1 ppo.num_minibatches=2 "
    "device=cpu"
)


@pytest.fixture
def nodes():
    """A cluster of a head without cores and three nodes with one core each: [address, nodes]."""
    from ray.cluster_utils import Cluster

    small = {"object_store_memory": 100 * 2**20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small})
    yield cluster, [cluster.add_node(num_cpus=1, **small) for _ in range(3)]
    cluster.shutdown()


def ranks():
    """Rank -> process id and those of its parents, youngest first."""
    parents = {pid: parent for pid, (parent, *_) in processes().items()}
    found = {}
    for pid, (_, _, command) in processes().items():
        if "rearrange.cluster.rank_host" not in command:
            continue
        with suppress(OSError):
            line = [pid]
            while line[-1] in parents:
                line.append(parents[line[-1]])
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            rank = next(word for word in variables if word.startswith(b"RANK="))
            found[int(rank[5:])] = line
    return found


def wait_for(condition, process, output):
    wait_until(condition, process, LIMIT_S, output.read_text)


def test_a_training_goes_on_after_the_loss_of_a_node(nodes, tmp_path):
    cluster, workers = nodes
    run_dir, output = tmp_path / "runs/CartPole-v1-ver-7", tmp_path / "output.txt"
    with open(output, "wb") as file:
        launch = subprocess.Popen(
            [
                sys.executable, "-m", "rearrange", *ARGUMENTS.split(),
                f"scheme.address={cluster.address}", f"run_root={tmp_path / 'runs'}",
            ],
            stdout=file, stderr=file, env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    try:
        wait_for(lambda: load_newest(run_dir / "checkpoints") is not None, launch, output)
        first = ranks()
        raylets = {worker.all_processes["raylet"][0].process.pid: worker for worker in workers}
        lost = next(raylets[pid] for pid in first[1] if pid in raylets)
        assert not {raylets.get(pid) for pid in first[0]} & {lost}  # the other one is elsewhere
        begin = time.monotonic()
        cluster.remove_node(lost, allow_graceful=False)
        old = {line[0] for line in first.values()}
        wait_for(lambda: not old & {line[0] for line in ranks().values()}, launch, output)
        step = load_newest(run_dir / "checkpoints").step  # nobody writes any more
        wait_for(lambda: load_newest(run_dir / "checkpoints").step > step, launch, output)
        seconds = time.monotonic() - begin
        print(f"went on after {seconds:.1f} s")
        assert seconds < GOES_ON_S
        launch.send_signal(signal.SIGINT)
        assert launch.wait(LIMIT_S) == 130
    finally:
        if launch.poll() is None:
            launch.terminate()
            launch.wait(LIMIT_S)
    summary = strict_json((run_dir / "summary.json").read_text())
    assert summary["stopped_by"] == "SIGINT" and summary["world_size"] == 2
    steps = [line["step"] for line in read_metrics(run_dir / "metrics.jsonl")]
    assert load_newest(run_dir / "checkpoints").step == steps[-1] == summary["total_steps"]
    assert all(b > a for a, b in zip(steps, steps[1:], strict=False))  # nothing lost, nothing twice
    assert "CartPole-v1-ver-7  stopped" in output.read_text()
    assert ranks() == {}
