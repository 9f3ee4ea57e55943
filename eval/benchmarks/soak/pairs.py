"""A worker and the fork server killed within milliseconds of each other, many times over.

    this process -- fork --> a training of seconds, in a session of its own --> its end is judged

The trainings are forked from a process that has imported everything, so that hundreds of them take
minutes. However such a training ends, it has saved; and it ends with 0 at its total only.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import runpy
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from rearrange.eval.benchmarks.chaos.run import START_LIMIT_S, processes
from rearrange.ver.run.checkpoint import load_newest
from rearrange.ver.run.metrics import METRICS_FILE, read_metrics

TOTAL_STEPS = 768
LATEST_S = 0.006  # between the two deaths
END_LIMIT_S = 120.0
COMMAND = (
    "train", "env=CartPole-v1", "policy=mlp", "device=cpu", "num_envs=2", "num_steps=32",
    "num_threads=1", f"total_steps={TOTAL_STEPS}",
)  # fmt: skip


def kill_pairs(times: int, seed: int) -> dict[str, Any]:
    """Does it so often; a row as `chaos` prints them, with every training's end."""
    import torch._dynamo  # noqa: F401  an optimiser imports it, which takes a second
    import torch.utils.tensorboard  # noqa: F401

    import rearrange.skills.network.policy
    import rearrange.ver.trainer  # noqa: F401  what the trainings need, imported once

    rng, begin = random.Random(seed), time.monotonic()
    ends = []
    with tempfile.TemporaryDirectory(prefix="rearrange-pairs-") as folder:
        for number in range(times):
            ends.append(_kill_pair(Path(folder) / f"{number:04d}", rng))
            if (number + 1) % 10 == 0:
                print(f"{number + 1} of {times}", file=sys.stderr, flush=True)
    wrong = [end for end in ends if not end["ok"]]
    kinds = Counter(f"exit code {end['code']} at step {end['step']}" for end in wrong)
    done = sum(end["code"] == 0 and end["ok"] for end in ends)
    seen = f"{done} of {times} went on to their total, {times - done - len(wrong)} ended with 1"
    return {
        "fault": "worker and server",
        "what was done": f"a worker and its fork server killed within 6 ms, {times} times",
        "expected": "no training ends without a checkpoint, or with code 0 before its total",
        "what happened": "; ".join([seen, *(f"{n} x {kind}" for kind, n in kinds.items())]),
        "ok": not wrong,
        "seconds": round(time.monotonic() - begin, 1),
        "ends": ends,
    }


def _kill_pair(run_dir: Path, rng: random.Random) -> dict[str, Any]:
    """One training: its exit code, the steps it came to and saved, and whether that is right."""
    process = multiprocessing.get_context("fork").Process(target=_train, args=(run_dir,))
    process.start()
    assert process.pid is not None  # it was started
    try:
        _wait_for_step(run_dir, process, rng.randrange(64, TOTAL_STEPS // 2))
        server, workers = _family(process.pid)
        is_hit = bool(server and workers)
        if server and workers:
            time.sleep(rng.uniform(0.0, 0.05))
            with suppress(ProcessLookupError):
                os.kill(rng.choice(workers), signal.SIGKILL)
                time.sleep(rng.uniform(0.0, LATEST_S))
                os.kill(server, signal.SIGKILL)
        process.join(END_LIMIT_S)
    finally:
        for pid, (_, session, _) in processes().items():
            if session == process.pid:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        process.join()
    lines = read_metrics(run_dir / METRICS_FILE) if (run_dir / METRICS_FILE).exists() else []
    steps = lines[-1]["step"] if lines else 0
    checkpoint = load_newest(run_dir / "checkpoints")
    saved = checkpoint.step if checkpoint is not None else None
    is_whole = process.exitcode != 0 or steps >= TOTAL_STEPS
    return {
        "code": process.exitcode, "step": steps, "saved": saved, "hit": is_hit,
        "ok": is_hit and is_whole and saved == steps and process.exitcode in (0, 1),
    }  # fmt: skip


def _train(run_dir: Path) -> None:
    """The whole life of a training's process."""
    os.setsid()
    run_dir.mkdir()
    output = os.open(run_dir.with_suffix(".txt"), os.O_WRONLY | os.O_CREAT)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["rearrange", *COMMAND, f"run_dir={run_dir}"]
    runpy.run_module("rearrange", run_name="__main__")


def _wait_for_step(run_dir: Path, process: Any, step: int) -> None:
    end = time.monotonic() + START_LIMIT_S
    while process.is_alive() and time.monotonic() < end:
        path = run_dir / METRICS_FILE
        lines = read_metrics(path) if path.exists() else []
        if lines and lines[-1]["step"] >= step:
            return
        time.sleep(0.005)


def _family(main: int) -> tuple[int | None, list[int]]:
    """The fork server and its workers."""
    living = processes()
    servers = [
        pid
        for pid, (parent, _, command) in living.items()
        if parent == main and "multiprocessing.forkserver" in command
    ]
    server = servers[0] if servers else None
    return server, sorted(pid for pid, (parent, *_) in living.items() if parent == server)
