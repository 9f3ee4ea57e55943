"""Two ranks that train for a long time while their processes are killed one by one.

    every 20 s    a worker of any rank
    every 5 min   a rank: its agent starts both again, and they go on
    every 20 min  all of them: started again by hand, resume=auto

After that they are started once more with a total not far away, at which they end by themselves.
A shorter soak has to have its pace raised to see as much.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from rearrange.eval.benchmarks.chaos.run import (
    ConditionNotMet,
    Training,
    open_files,
    processes,
    resident_mib,
)
from rearrange.ver.run.checkpoint import load_newest
from rearrange.ver.run.metrics import read_metrics

PERIODS_S = {"worker": 20.0, "rank": 300.0, "whole": 1200.0}
SAMPLE_EVERY_S = 1.0
END_LIMIT_S = 600.0
LEFT_UPDATES = 20  # from the last start to the total
GROWTH_MIB = 5.0  # of a rank over the second half of its life: the allocator's noise
COMMAND = (
    "train", "env=CartPole-v1", "policy=mlp", "device=cpu", "num_envs=4", "num_steps=64",
    "num_threads=1", "checkpoint_interval_s=2", "scheme=ranks", "scheme.world_size=2",
    "scheme.max_restarts=100000", "resume=auto",
)  # fmt: skip


def soak_with_kills(minutes: float, seed: int, pace: float) -> dict[str, Any]:
    """Does it for so long, killing `pace` times as often; a row as `chaos` prints them."""
    rng, begin = random.Random(seed), time.monotonic()
    overrides = [*COMMAND, f"seed={seed}", f"workers.restart_refill_s={10.0 / pace}"]
    with tempfile.TemporaryDirectory(prefix="rearrange-soak-") as name:
        folder = Path(name)
        watcher = _Watcher(rng, pace)
        while time.monotonic() - begin < 60.0 * minutes:
            with Training(folder, [*overrides, "total_steps=10000000000"]) as run:
                watcher.watch(run, begin + 60.0 * minutes)
                kill_all(run.pid)
                run.wait()
        checkpoint = load_newest(folder / "run" / "checkpoints")
        start = checkpoint.step if checkpoint is not None else 0
        total = start + LEFT_UPDATES * 2 * 4 * 64
        with Training(folder, [*overrides, f"total_steps={total}"]) as run:
            code = run.wait(END_LIMIT_S)
            said = run.last_line()
            kill_all(run.pid)
        lines = read_metrics(folder / "run" / "metrics.jsonl")
        newest = load_newest(folder / "run" / "checkpoints")
        saved = newest.step if newest is not None else None
    problems = account(lines)
    reached = lines[-1]["step"]
    growth = watcher.growth()
    is_right = code == 0 and reached >= total and saved == reached and not problems
    is_right &= growth["median_mib"] <= GROWTH_MIB and growth["median_files"] <= 0
    return {
        "fault": "time and deaths",
        "what was done": f"two ranks trained in CartPole-v1 for {minutes:g} minutes, killed: "
        + ", ".join(f"{n} x {what}" for what, n in watcher.kills.items()),
        "expected": "ends by itself at its total; every step counted once; memory flat",
        "what happened": f"exit code {code} at step {reached} of {total} ({said}), saved at "
        f"{saved}; {len(lines)} updates, {'; '.join(problems[:3]) or 'each counted once'}; over "
        f"the second half of {growth['lives']} ranks' lives: {growth['median_mib']:+.2f} MiB, "
        f"{growth['median_files']:+.0f} open files",
        "ok": bool(is_right),
        "seconds": round(time.monotonic() - begin, 1),
        "kills": dict(watcher.kills),
        "growth": growth,
    }


class _Watcher:
    """Kills by the clock, and samples the ranks in between."""

    def __init__(self, rng: random.Random, pace: float) -> None:
        self.kills: Counter[str] = Counter()
        self._rng, self._pace = rng, pace
        self._next = {what: time.monotonic() + s / pace for what, s in PERIODS_S.items()}
        self._samples: dict[int, list[tuple[float, float, int]]] = defaultdict(list)

    def watch(self, run: Training, end: float) -> None:
        """Until it is time to kill them all. Raises ConditionNotMet if the training ends before."""
        while (now := time.monotonic()) < end:
            if run.process.poll() is not None:
                raise ConditionNotMet(f"it ended with {run.process.returncode}: {run.last_line()}")
            ranks = ranks_of(run.pid)
            for pid in ranks:
                with suppress(OSError):
                    self._samples[pid].append((now, resident_mib(pid), open_files(pid)))
            due = [what for what, at in self._next.items() if at <= now]
            for what in due:
                self._next[what] = now + PERIODS_S[what] / self._pace
                if what == "whole":
                    self.kills[what] += 1
                    return
                pids = ranks if what == "rank" else workers_of(ranks)
                if pids:
                    with suppress(ProcessLookupError):
                        os.kill(self._rng.choice(pids), signal.SIGKILL)
                        self.kills[what] += 1
            if due:
                print(dict(self.kills), file=sys.stderr, flush=True)
            time.sleep(SAMPLE_EVERY_S)

    def growth(self) -> dict[str, float]:
        """Of memory and open files over the second half of each rank's life; medians."""
        changes = []
        for samples in self._samples.values():
            if len(samples) < 20:
                continue
            half = np.array(samples)[len(samples) // 2 :, 1:]
            quarter = max(1, len(half) // 4)
            changes.append(half[-quarter:].mean(axis=0) - half[:quarter].mean(axis=0))
        medians = np.median(changes, axis=0) if changes else np.zeros(2)
        return {
            "lives": len(changes),
            "median_mib": float(medians[0]),
            "median_files": float(round(medians[1])),
        }


def account(lines: list[dict[str, Any]]) -> list[str]:
    """What does not add up: each update begins where the one before ended, and counts its steps."""
    problems, before, finished = [], 0, 0
    for line in lines:
        counted = line.get("ver/preempt_real_steps")
        if counted is not None and line["step"] - before != counted:
            problems.append(f"step {before} and {counted:.0f} more gave {line['step']}")
        if line["step"] <= before:
            problems.append(f"step {line['step']} after {before}")
        if line["episode/finished"] < finished:
            problems.append(f"episodes fell from {finished} at step {line['step']}")
        before, finished = line["step"], line["episode/finished"]
    return problems


def descendants(pid: int) -> dict[int, tuple[int, str]]:
    """Process id -> parent and command line of all that a process has started, and their own."""
    living = processes()
    found: dict[int, tuple[int, str]] = {}
    todo = [pid]
    while todo:
        parent = todo.pop()
        own = {p: (up, line) for p, (up, _, line) in living.items() if up == parent}
        found |= own
        todo += own
    return found


def ranks_of(pid: int) -> list[int]:
    """The ranks' main processes."""
    return [
        child
        for child, (parent, command) in descendants(pid).items()
        if parent == pid and "\0-m\0rearrange\0" in command
    ]


def workers_of(ranks: list[int]) -> list[int]:
    living = processes()
    servers = {
        pid
        for pid, (parent, _, command) in living.items()
        if parent in ranks and "multiprocessing.forkserver" in command
    }
    return [pid for pid, (parent, *_) in living.items() if parent in servers]


def kill_all(pid: int) -> None:
    """The process and all below it; ranks have sessions of their own."""
    for one in (pid, *descendants(pid)):
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
