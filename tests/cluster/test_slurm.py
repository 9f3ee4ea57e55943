"""The batch script for SLURM, with programs on the PATH that take the place of SLURM's."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rearrange.system.checked_json import strict_json
from rearrange.ver.run.checkpoint import load_newest
from tests.waits import wait_until

SCRIPT = Path(__file__).parents[2] / "configs/slurm/train.sbatch"
LIMIT_S = 30.0
TRAIN_LIMIT_S = 300.0  # the machine may be busy, and torch is imported again by each rank
ARGUMENTS = ["train-skill", "pick", "run_dir=a folder/run", "total_steps=100"]

# As srun: hands USR1 on to what it has started, kills that at TERM ("forcing job termination" of
# src/srun/signals.c), and ends with its exit code.
SRUN = """#!/bin/bash
printf '%s\\n' "$@" >"$TALK/arguments"
child= asked=
hand_on() { echo "$1" >>"$TALK/signals"; asked=$2; [ -z "$child" ] || kill -"$2" "$child"; }
trap 'hand_on USR1 USR1' USR1; trap 'hand_on TERM KILL' TERM
bash "$TALK/task" & child=$!
[ -z "$asked" ] || kill -"$asked" "$child"
while :; do
    wait "$child"; code=$?
    kill -0 "$child" 2>/dev/null || break
done
wait "$child" 2>/dev/null; late=$?
[ "$late" = 127 ] || code=$late
exit "$code"
"""
SCONTROL = """#!/bin/bash
echo "$@" >>"$TALK/scontrol"
while [ -e "$TALK/hold" ]; do sleep 0.05; done
[ "$1" = show ] && printf '%s\\n' "${HEAD:-node7}" node9
exit 0
"""
# A training that saves when it is told to, which takes a moment, and ends as torchrun does: with 1.
RUN = 'touch "$TALK/started"; while :; do sleep 0.05; done'
SAVES = f"trap 'sleep 0.3; touch \"$TALK/saved\"; exit 1' USR1 TERM; {RUN}"


# The real torchrun; a signal goes to all processes of the step, as SLURM has it.
REAL = """#!/bin/bash
while [ "$1" != torchrun ]; do shift; done; shift
setsid "$PYTHON" -m torch.distributed.run "$@" & child=$!
trap 'kill -USR1 -- -"$child"' USR1
while kill -0 "$child" 2>/dev/null; do wait "$child"; code=$?; done
exit "$code"
"""


class Job:
    def __init__(self, folder, task, arguments=ARGUMENTS, srun=SRUN, **variables):
        self.talk = folder
        (folder / "bin").mkdir()
        for name, text in (("srun", srun), ("scontrol", SCONTROL)):
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)
        (folder / "task").write_text(task)
        environment = os.environ | {
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "TALK": str(folder),
            "SLURM_JOB_ID": "31234", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "node[7,9]",
        }  # fmt: skip
        self.process = subprocess.Popen(
            ["bash", str(SCRIPT), *arguments], env=environment | variables,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def wait_for(self, name, limit_s=LIMIT_S):
        wait_until((self.talk / name).exists, self.process, limit_s)

    def tell(self, signum):
        """To the batch script alone, as --signal=B: does."""
        self.process.send_signal(signum)

    def end(self):
        """Exit code and output."""
        out, _ = self.process.communicate(timeout=TRAIN_LIMIT_S)
        return self.process.returncode, out

    def lines(self, name):
        path = self.talk / name
        return path.read_text().splitlines() if path.exists() else []


def options():
    lines = [line.split() for line in SCRIPT.read_text().splitlines()]
    return {parts[1] for parts in lines if parts[:1] == ["#SBATCH"]}


def test_bash_can_read_the_script_and_slurm_is_asked_for_what_it_needs():
    subprocess.run(["bash", "-n", str(SCRIPT)], check=True)
    assert {"--signal=B:USR1@120", "--requeue", "--open-mode=append"} <= options()


def test_torchrun_gets_the_nodes_and_the_words(tmp_path):
    job = Job(tmp_path, "exit 0", SLURM_GPUS_ON_NODE="8")
    assert job.end() == (0, "")
    arguments = job.lines("arguments")
    assert arguments[arguments.index("torchrun") + 1 :] == [
        "--nnodes=2", "--nproc-per-node=8", "--max-restarts=3", "--rdzv-id=31234",
        "--rdzv-backend=c10d", "--rdzv-endpoint=node7:21234",
        "--signals-to-handle=SIGTERM,SIGINT,SIGUSR1", "-m", "rearrange", *ARGUMENTS, "resume=auto",
    ]  # fmt: skip
    assert job.lines("scontrol") == ["show hostnames node[7,9]"]


def test_torchruns_own_parser_takes_the_options(tmp_path):
    from torch.distributed.run import parse_args

    Job(tmp_path, "exit 0", MAX_RESTARTS="1").end()
    arguments = (tmp_path / "arguments").read_text().splitlines()
    args = parse_args(arguments[arguments.index("torchrun") + 1 :])
    assert (args.nnodes, args.nproc_per_node, args.max_restarts) == ("2", "1", 1)
    assert args.signals_to_handle == "SIGTERM,SIGINT,SIGUSR1"
    assert args.training_script_args == [*ARGUMENTS, "resume=auto"]


def test_when_time_is_up_the_ranks_save_and_the_job_goes_back_into_the_queue(tmp_path):
    job = Job(tmp_path, SAVES)
    job.wait_for("started")
    job.tell(signal.SIGUSR1)
    job.tell(signal.SIGUSR1)  # once more
    code, out = job.end()
    assert code == 75 and "job 31234 goes back into the queue" in out
    assert job.lines("signals")[0] == "USR1" and (tmp_path / "saved").exists()
    assert job.lines("scontrol")[1:] == ["requeue 31234"]


def test_one_of_an_array_goes_back_alone(tmp_path):
    """The array's first job has the array's own id: by that all of them would go back."""
    array = {"SLURM_ARRAY_JOB_ID": "31234", "SLURM_ARRAY_TASK_ID": "3"}
    job = Job(tmp_path, SAVES, **array)
    job.wait_for("started")
    job.tell(signal.SIGUSR1)
    assert job.end()[0] == 75
    assert job.lines("scontrol")[1:] == ["requeue 31234_3"]


def test_the_ranks_get_all_cores_that_were_asked_for(tmp_path):
    """srun of 22.05 to 23.02 gives one to each task unless it is told in its own words."""
    Job(tmp_path, "exit 0", SLURM_CPUS_PER_TASK="128").end()
    assert "--cpus-per-task=128" in (tmp_path / "arguments").read_text().splitlines()


@pytest.mark.parametrize(
    ("task", "signum", "code"),
    [
        (SAVES, signal.SIGTERM, 143),
        (f"trap 'sleep 0.3; exit 0' USR1; {RUN}", signal.SIGUSR1, 0),
        ("exit 2", None, 2),
    ],
    ids=["cancelled", "complete just in time", "mistake"],
)
def test_nothing_else_goes_back_into_the_queue(tmp_path, task, signum, code):
    job = Job(tmp_path, task)
    if signum is not None:
        job.wait_for("started")
        job.tell(signum)
    assert job.end()[0] == code
    assert len(job.lines("scontrol")) == 1
    assert (tmp_path / "saved").exists() == (task == SAVES)


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGTERM, 143), (signal.SIGUSR1, 75)])
def test_a_signal_before_the_training_has_begun_is_heard(tmp_path, signum, code):
    (tmp_path / "hold").touch()
    job = Job(tmp_path, SAVES)
    job.wait_for("scontrol")
    job.tell(signum)
    (tmp_path / "hold").unlink()
    assert job.end()[0] == code
    requeued = ["requeue 31234"] if signum == signal.SIGUSR1 else []
    assert job.lines("scontrol")[1:] == requeued


@pytest.mark.slow
def test_a_real_training_saves_goes_back_and_goes_on(tmp_path):
    arguments = [
        "train", "env=CartPole-v1", "num_envs=2", "num_steps=32", "policy=mlp", "device=cpu",
        "ppo.num_minibatches=2", "checkpoint_interval_s=0", f"run_dir={tmp_path / 'run'}",
    ]  # fmt: skip
    variables = {
        "PYTHON": sys.executable, "PYTHONPATH": str(SCRIPT.parents[2]), "RANKS_PER_NODE": "2",
        "SLURM_JOB_NUM_NODES": "1", "HEAD": "localhost", "MASTER_PORT": "0", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    (tmp_path / "job").mkdir()
    job = Job(tmp_path / "job", "", [*arguments, "total_steps=100000000"], REAL, **variables)
    job.wait_for("../run/checkpoints", TRAIN_LIMIT_S)
    job.tell(signal.SIGUSR1)
    code, out = job.end()
    assert code == 75 and "stopped by SIGUSR1: saved" in out, out
    summary = strict_json((tmp_path / "run/summary.json").read_text())
    step = load_newest(tmp_path / "run/checkpoints").step
    assert summary["stopped_by"] == "SIGUSR1" and summary["total_steps"] == step
    assert summary["restarts"] == 0  # the environment workers did not hear the signal

    (tmp_path / "again").mkdir()
    job = Job(tmp_path / "again", "", [*arguments, f"total_steps={step + 1}"], REAL, **variables)
    assert job.end()[0] == 0
    assert strict_json((tmp_path / "run/summary.json").read_text())["total_steps"] > step
