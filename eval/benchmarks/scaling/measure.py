"""Starts the ranks of `rearrange bench scaling` with torchrun and reads their measurements.

A measurement is one variant on one number of ranks. For one rank it covers each rank of the largest
group on its own, all at the same time: their environments differ, and a group can only be compared
with the same ranks on their own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import rearrange
from rearrange.configs.benches import BenchScalingCfg
from rearrange.errors import UserError
from rearrange.system.checked_json import is_object, strict_json
from rearrange.system.machine import num_cores
from rearrange.system.outputs import atomic_write_json, prepare_folder

FREE_SETTINGS = ("output", "ranks", "ways", "simulated_ranks", "draws", "keep_dir")
END_PATIENCE_S = 40.0  # torchrun gives its ranks 30 s to save and leave


@dataclass
class Measured:
    """One variant on R ranks, means over the rollouts after the warm-up."""

    rate: float
    """Steps per second that were learned from, without stale ones."""
    rates_alone: list[float]
    """The same of each rank on its own, if R is 1."""
    rollout_s: float
    """From one update's end to the next."""
    collect_s: float
    """The slowest rank's collecting time in it."""
    stopped: float
    """Share of the ranks that were stopped early."""
    stale: float
    """Share of steps of the previous rollout among those learned from."""
    error_s: float | None
    """Mean absolute error of the predicted collecting time, if there is one."""
    all_reduce_s: float
    """Averaging one gradient."""
    own_cores: float
    """CPU time of all these ranks, as a share of this machine's cores."""
    all_cores: float
    """CPU time of everything on this machine."""


def measure(
    cfg: BenchScalingCfg, num_ranks: int, ways: list[str], root: Path, notify: Callable[..., None]
) -> dict[str, Measured]:
    """Measures what is missing in `root`; variant -> results.

    Args:
        notify: called with (num_ranks, variant, results) after each.

    Raises RuntimeError with the last lines of the ranks' output if they fail.
    """
    # One rank means each rank of the largest group on its own.
    num_processes = max(cfg.ranks) if num_ranks == 1 else num_ranks
    folder = prepare_folder(root / f"ranks_{num_ranks:04}_of_{num_processes:04}")
    answers = {way: _answers(folder, way, num_processes) for way in ways}
    found: dict[str, Measured] = {}

    def look() -> None:
        for way, paths in answers.items():
            if way not in found and all(path.exists() for path in paths):
                found[way] = read_answers(paths, cfg, is_alone=num_ranks == 1)
                notify(num_ranks, way, found[way])

    look()
    missing = [way for way in ways if way not in found]
    if missing:
        for path in (path for way in missing for path in answers[way]):
            path.unlink(missing_ok=True)  # from ranks that were interrupted
        job = {
            "settings": asdict(cfg), "ways": missing, "folder": str(folder.absolute()),
            "is_alone": num_ranks == 1,
        }  # fmt: skip
        atomic_write_json(folder / "job.json", job)
        with _torchrun(folder, num_processes) as ranks:
            while ranks.poll() is None:
                time.sleep(0.2)
                look()
        look()
        if ranks.returncode != 0 or len(found) < len(ways):
            lines = (folder / "log.txt").read_text(errors="replace").splitlines()
            errors = [line for line in lines if "Error: " in line]
            text = "\n".join([*errors[:2], "...", *lines[-6:]])
            raise RuntimeError(f"{num_ranks} ranks ended with {ranks.returncode}:\n{text}")
    return {way: found[way] for way in ways}


def check_settings(cfg: BenchScalingCfg, root: Path) -> None:
    """Raises UserError if the folder holds measurements with other settings."""
    path = root / "settings.json"
    own = {name: value for name, value in asdict(cfg).items() if name not in FREE_SETTINGS}
    if path.exists():
        try:
            kept = strict_json(path.read_text(encoding="utf-8"))
        except ValueError:
            kept = None
        if not is_object(kept):
            raise UserError(f"{path} holds no settings: choose another keep_dir")
        different = [name for name in own if kept.get(name) != own[name]]
        if different:
            name = different[0]
            raise UserError(
                f"{root} was measured with {name}={kept.get(name)}, now it is {own[name]}: "
                "choose another keep_dir"
            )
    atomic_write_json(path, own)


def read_answers(paths: list[Path], cfg: BenchScalingCfg, is_alone: bool) -> Measured:
    """The results of one variant from the files of its ranks."""
    answers = [strict_json(path.read_text()) for path in paths]
    runs = [
        answer["lines"][cfg.warmup_rollouts - 1 :]
        for answer in (answers if is_alone else [answers[0]])
    ]

    def mean(name: str) -> float | None:
        values = [line[name] for lines in runs for line in lines[1:] if line[name] is not None]
        return float(np.mean(np.abs(values))) if values else None

    rates = [
        (lines[-1]["step"] - lines[0]["step"]) / (lines[-1]["time_s"] - lines[0]["time_s"])
        for lines in runs
    ]
    spans = [(lines[-1]["time_s"] - lines[0]["time_s"]) / (len(lines) - 1) for lines in runs]
    own, everything = _cores(answers, cfg.warmup_rollouts)
    collect_s = mean("speed/collect_s")
    assert collect_s is not None  # every rollout was collected
    return Measured(
        rate=float(np.mean(rates)), rates_alone=rates if is_alone else [],
        rollout_s=float(np.mean(spans)), collect_s=collect_s,
        stopped=mean("ver/preempt_share") or 0.0, stale=mean("ver/fraction_stale") or 0.0,
        error_s=mean("ver/preempt_error_s"),
        all_reduce_s=float(np.mean([answer["all_reduce_s"] for answer in answers])),
        own_cores=own, all_cores=everything,
    )  # fmt: skip


def _cores(answers: list[dict[str, Any]], warmup: int) -> tuple[float, float]:
    """CPU time of these ranks and of all processes, as shares of the cores."""
    own, everything = 0.0, []
    for answer in answers:
        first, last = answer["marks"][warmup - 1], answer["marks"][-1]
        seconds, used, busy = (b - a for a, b in zip(first, last, strict=True))
        own += used / seconds / num_cores()
        everything.append(busy / seconds / (os.cpu_count() or 1))
    return own, float(np.mean(everything))


def _answers(folder: Path, way: str, num_processes: int) -> list[Path]:
    return [folder / f"{way}_{rank:03}.json" for rank in range(num_processes)]


def ranks_environment() -> dict[str, str]:
    """Variables for ranks: one thread each, and a checkout's code is found by PYTHONPATH."""
    variables = {"OMP_NUM_THREADS": "1"}
    checkout = Path(rearrange.__file__).resolve().parent.parent
    if (checkout / "pyproject.toml").is_file():
        variables["PYTHONPATH"] = str(checkout)
    return variables


@contextmanager
def _torchrun(folder: Path, num_processes: int):
    """Starts ranks for the folder's job; they end with the block."""
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone",
        f"--nproc-per-node={num_processes}", "-m", "rearrange.eval.benchmarks.scaling.rank",
        str(folder.absolute() / "job.json"),
    ]  # fmt: skip
    with open(folder / "log.txt", "wb") as log:
        child = subprocess.Popen(
            command, env=os.environ | ranks_environment(), stdin=subprocess.DEVNULL,
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        yield child
    finally:
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            child.send_signal(signal.SIGTERM)  # its ranks have their own process groups
            child.wait(END_PATIENCE_S)
        if child.poll() is None:
            child.kill()
            child.wait()
