"""The logs of a training: metrics.jsonl, TensorBoard and summary.json.

    metrics.jsonl   a line an update: {"step": ..., "time_s": ..., "episode/return": ..., ...}
    tensorboard/    the same numbers for TensorBoard; logger=wandb: to W&B instead
    summary.json    at the end

Metrics are named group/name. Values that are not finite are written as null: JSON has no NaN.
`time_s` is the wall time spent training, summed over all processes that trained this run.
`episode/success`, `episode/return` and so on average the newest 100 episodes or a few more, equally
many of each environment of all ranks: see `episode_window.py`.
"""

import json
import logging
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from rearrange.errors import UserError
from rearrange.system.checked_json import is_object, strict_json
from rearrange.system.files import read_whole_file, write_whole_file
from rearrange.ver.run.episode_window import EpisodeWindow, finite_or_none
from rearrange.ver.run.progress import Progress
from rearrange.ver.run.tensorboard import Film, TensorBoard
from rearrange.ver.run.weights_and_biases import WeightsAndBiases

METRICS_FILE = "metrics.jsonl"
MAX_METRICS = 2**28  # bytes; a hundred thousand updates
MAX_LINE = 2**18  # bytes; ours have one or two kilobytes
SUMMARY_FILE = "summary.json"
CHECKPOINTS_FOLDER = "checkpoints"
SUMMED = ("speed/sps", "ver/sequences", "ver/learned_steps")  # over ranks, as are all faults
LARGEST = ("ver/longest_sequence", "speed/collect_s", "speed/learn_s")
LEARNED = ("loss/", "ppo/", "ver/", "imitation/")  # means over the steps of a rollout

logger = logging.getLogger(__name__)


class RunLog:
    """Writes one training's metrics and shows its progress.

    Args:
        run_dir: created if it does not exist.
        total_steps: environment steps at which the training will be complete.
        is_quiet: show no progress.
        start_step: the step the training resumes from; metrics beyond it are dropped, because that
            part is trained again.
        settings: nested; TensorBoard and W&B show them beside the results.
        label: what the progress begins with, such as "stage 2 of 3".
        logger: tensorboard or wandb.

    Raises:
        UserError: if W&B cannot start a run.
        OSError: here and in `update`, if the files cannot be written. metrics.jsonl then ends with
            a whole line.
    """

    def __init__(
        self,
        run_dir: Path,
        total_steps: int,
        is_quiet: bool = False,
        start_step: int = 0,
        settings: Mapping[str, Any] | None = None,
        label: str = "",
        logger: str = "tensorboard",
    ) -> None:
        run_dir.mkdir(parents=True, exist_ok=True)
        self.path = run_dir / METRICS_FILE
        self._earlier_s = _drop_lines_beyond(self.path, start_step)
        self._started = time.monotonic()
        self._descriptor: int | None = os.open(
            self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666
        )
        self._progress = Progress(total_steps, start_step, is_quiet, label=label)
        self._validation: dict[str, float | None] = {}
        if logger == "wandb":
            self._board = WeightsAndBiases(run_dir)
        else:
            # TensorBoard then hides what an earlier process wrote beyond the step we resume from.
            self._board = TensorBoard(run_dir / "tensorboard", start_step + 1)
        self._board.show_settings(settings or {})

    @property
    def wall_time_s(self) -> float:
        """Time spent training this run, earlier processes included."""
        return self._earlier_s + time.monotonic() - self._started

    def update(self, metrics: Mapping[str, float | None], step: int) -> None:
        """Appends a line, and moves the progress on to `step`."""
        values = {name: finite_or_none(value) for name, value in metrics.items()}
        line = {"step": int(step), "time_s": round(self.wall_time_s, 3)} | values
        self._append(json.dumps(line, allow_nan=False).encode() + b"\n")
        self._board.show_numbers(values, step)
        self._validation |= {n: v for n, v in values.items() if n.startswith("validation/")}
        self._progress.show(step, self._validation | values)

    def show_film(self, film: Film, step: int) -> None:
        """For TensorBoard or W&B alone."""
        self._board.show_film(film, step)

    def close(self) -> None:
        """Closes the files; may be called twice."""
        self._progress.close()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        self._board.close()

    def __enter__(self) -> "RunLog":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _append(self, line: bytes) -> None:
        """One write straight to the file, so that a kill loses at most the line being written."""
        assert self._descriptor is not None, "the log is closed"
        size = os.fstat(self._descriptor).st_size
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._descriptor, size)
            error.filename = str(self.path)
            raise


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a metrics.jsonl, each {step, time_s, name: number or None}.

    An unfinished last line is skipped: its writer was killed, or is still writing it.

    Raises:
        UserError: if there is no such file, or it is not one of metrics.
    """
    if not path.exists():
        raise UserError(f"there is no {path}: choose the folder of a training run")
    content = read_whole_file(path, MAX_METRICS)
    lines: list[dict[str, Any]] = []
    for number, text in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            lines.append(_parsed(text))
        except ValueError as error:
            raise UserError(f"{path} is damaged in line {number}: {error}") from error
    return lines


class SilentLog:
    """The log of a rank that writes nothing."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    @property
    def wall_time_s(self) -> float:
        return time.monotonic() - self._started

    def update(self, metrics: Mapping[str, float | None], step: int) -> None:
        """Nothing."""

    def show_film(self, film: Film, step: int) -> None:
        """Nothing."""

    def __enter__(self) -> "SilentLog":
        return self

    def __exit__(self, *exception: object) -> None:
        """Nothing."""


def merge_ranks(metrics: list[dict[str, float | None]]) -> dict[str, float | None]:
    """Combines one update's metrics of all ranks.

    Rates, faults and sequences are summed, maxima and minima taken over all ranks, the rest are
    averaged; those of learning are weighted by the steps that each rank learned from. A single
    rank's stay unchanged.
    """
    if len(metrics) == 1:
        return metrics[0]
    merged: dict[str, float | None] = {}
    steps = [line.get("ver/learned_steps") or 1.0 for line in metrics]
    for name in dict.fromkeys(name for line in metrics for name in line):
        values = [finite_or_none(line.get(name)) for line in metrics]
        weights = [n for n, value in zip(steps, values, strict=True) if value is not None]
        values = [value for value in values if value is not None]
        if not values:
            merged[name] = None
        elif name.startswith("faults/") or name in SUMMED:
            merged[name] = sum(values)
        elif name.endswith("_max") or name in LARGEST:
            merged[name] = max(values)
        elif name.endswith("_min"):
            merged[name] = min(values)
        else:
            is_learned = name.startswith(LEARNED)
            merged[name] = float(np.average(values, weights=weights if is_learned else None))
    return merged


def write_summary(
    run_dir: Path | None,
    *,
    env: str,
    mode: str,
    total_steps: int,
    wall_time_s: float,
    episodes: EpisodeWindow,
    restarts: int,
    versions: dict[str, str],
    **others: Any,
) -> dict[str, Any]:
    """Writes summary.json and returns what is in it.

    Args:
        run_dir: None: nothing is written.
        others: further JSON-able values, such as policy and seed.
    """
    summary = {
        "env": env,
        "mode": mode,
        "total_steps": total_steps,
        "wall_time_s": wall_time_s,
        "steps_per_second": total_steps / wall_time_s if wall_time_s > 0 else None,
        "episode_return": episodes.statistics("return"),
        "success": episodes.statistics("success"),
        "restarts": restarts,
        "versions": versions,
    } | others
    summary = _without_nan(summary)
    text = json.dumps(summary, indent=2, allow_nan=False) + "\n"
    if run_dir is not None:
        write_whole_file(run_dir / SUMMARY_FILE, text.encode())
    return summary


def _without_nan(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_nan(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(part) for part in value]
    return finite_or_none(value) if isinstance(value, float) else value


def _parsed(text: bytes) -> dict[str, Any]:
    """One line of metrics.jsonl; raises ValueError if it is none."""
    if len(text) > MAX_LINE:
        raise ValueError(f"it has more than {MAX_LINE >> 10} kB")
    line = strict_json(text.decode())
    if not is_object(line) or type(line.get("step")) is not int:
        raise ValueError("it is not an object with a 'step'")
    if type(line.get("time_s")) not in (int, float):
        raise ValueError("it has no 'time_s'")
    for name, value in line.items():
        if value is not None and type(value) not in (int, float):
            raise ValueError(f"'{name}' is not a number")
    return line


def _drop_lines_beyond(path: Path, step: int) -> float:
    """Keeps only the lines up to `step`; returns the time_s of the last one, or 0."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return 0.0
    kept: list[bytes] = []
    time_s, num_damaged = 0.0, 0
    for text in content.split(b"\n")[
        :-1
    ]:  # whatever follows the last newline is an unfinished line
        try:
            line = _parsed(text)
        except ValueError:
            num_damaged += 1
            continue
        if line["step"] <= step:
            kept.append(text + b"\n")
            time_s = max(time_s, float(line["time_s"]))
    if num_damaged:
        logger.warning("dropped %d damaged lines of %s", num_damaged, path)
    if sum(map(len, kept)) != len(content):
        write_whole_file(path, b"".join(kept))
    return time_s
