"""Shared by campaigns: skipping finished trainings, means over seeds, a table of checks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rearrange.errors import UserError
from rearrange.eval.benchmarks.scaling.measure import ranks_environment
from rearrange.system.checked_json import strict_json
from rearrange.system.outputs import atomic_write_json, atomic_write_text
from rearrange.ver.run.metrics import METRICS_FILE, SUMMARY_FILE, read_metrics


def finished_summary(run_dir: Path, total_steps: int) -> dict[str, Any] | None:
    """The summary of a run that reached its steps and was not stopped, else None.

    Raises UserError for a file that a training has not written.
    """
    path = run_dir / SUMMARY_FILE
    if not path.exists():
        return None
    try:
        summary = strict_json(path.read_text(encoding="utf-8"))
        is_whole = summary.get("stopped_by") is None and summary["total_steps"] >= total_steps
        return summary if is_whole and summary["episode_return"] is not None else None
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} must be the summary of a training, and is not ({type(error).__name__}: "
            f"{error}); remove {run_dir} to train it anew"
        ) from error


def summaries_of(runs: Sequence[Any]) -> list[dict[str, Any]]:
    """The summaries of runs that are all finished."""
    summaries = [one.summary() for one in runs]
    assert None not in summaries
    return summaries


def train(command: list[str], run_dir: Path) -> int:
    """A training in processes of its own, output to RUN_DIR.log; its exit code."""
    # The layers are small: a second thread costs more than it gives.
    with run_dir.with_name(f"{run_dir.name}.log").open("a") as log:
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env=os.environ | ranks_environment(),
        ).returncode  # fmt: skip


def run_missing(runs: list[Any], report: Callable[[list[Any]], dict[str, Any]]) -> int:
    """Trains one after the other what has no summary; 1 if a training failed or a check does.

    Args:
        report: writes about the runs that are finished, after each of them.
    """
    failed, results = 0, None
    for one in runs:
        if one.summary() is None:
            code = train(one.command(), one.run_dir)
            failed += code != 0
            print(f"{one.run_dir.name}: exit code {code}", flush=True)
        results = report([one for one in runs if one.summary() is not None])
    assert results is not None, "there are no runs"
    return int(failed > 0 or not all(results["checks"].values()))


def main(run: Callable[[], int]) -> None:
    """Exits with what `run` gives; a mistake of the caller is one line and 2."""
    try:
        sys.exit(run())
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def curve_mean(run_dir: Path, name: str = "episode/return") -> float:
    """How soon it learned: the running mean of 100 episodes, averaged over the updates."""
    values = [line[name] for line in read_metrics(run_dir / METRICS_FILE)]
    return float(np.mean([value for value in values if value is not None]))


def first_reached(run_dir: Path, bar: float, name: str = "episode/return") -> int | None:
    """The step at which the mean of the last 100 episodes first was `bar` or more, if it ever was.

    Means of fewer episodes, at the beginning, do not count.
    """
    for line in read_metrics(run_dir / METRICS_FILE):
        if line["episode/finished"] >= 100 and line[name] >= bar:
            return int(line["step"])
    return None


def is_not_below(ours: dict[str, float], other: dict[str, float]) -> bool:
    """By the means, or because the intervals overlap."""
    return bool(ours["mean"] >= other["mean"] or ours["high"] >= other["low"])


def has_interval(*rows: dict[str, Any]) -> bool:
    return all(row["last"]["low"] is not None for row in rows)


def mean_text(figure: dict[str, float | None], digits: int = 1) -> str:
    """The mean and, where there is one, its interval."""
    if figure["low"] is None:
        return f"{figure['mean']:.{digits}f}"
    mean, low, high = (f"{figure[name]:.{digits}f}" for name in ("mean", "low", "high"))
    return f"{mean} ({low} to {high})"


def check_lines(checks: dict[str, bool]) -> list[str]:
    """Markdown of {what has to hold: whether it does}."""
    rows = [f"| {name} | {'yes' if is_met else 'NO'} |" for name, is_met in checks.items()]
    return ["", "| check | met |", "|---|---|", *rows]


def write_results(results: dict[str, Any], markdown: str, folder: Path) -> None:
    """FOLDER/campaign.json and FOLDER/campaign.md."""
    atomic_write_json(folder / "campaign.json", results)
    atomic_write_text(folder / "campaign.md", markdown)
