"""Training runs on disk: their metrics, and what tells one group of seeds from another.

label    environment, mode, policy and blocks of SAPG
         + settings in which runs of one label differ    start_mode=off, start_horizon=0
         + the folder of runs that even have their seed in common
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from rearrange.errors import UserError
from rearrange.system.checked_json import strict_json
from rearrange.system.files import read_whole_file
from rearrange.system.plain_yaml import plain_yaml
from rearrange.ver.run.metrics import METRICS_FILE, SUMMARY_FILE, read_metrics
from rearrange.ver.run.tensorboard import flat

CONFIG_FILE = "config.yaml"
MAX_SETTINGS = 2**18  # bytes; ours have some kilobytes
MOST_NAMED = 4  # settings that are named in a label; of more the folder's name says more
# What makes no other experiment: where and how a run is computed and kept, and how long it went on.
_BESIDE = (
    "seed", "run_dir", "resume", "device", "num_threads", "batched.num_threads", "total_steps",
    "logger", "checkpoint_interval_s", "keep_checkpoints", "keep_milestones", "ranks_timeout_s",
    "warm_start", "env_kwargs.seed",
)  # fmt: skip
_AS_GIVEN = ("env_kwargs.", "algorithm_kwargs.")  # an option that is not there has its default
DEFAULT = "default"
_BESIDE_GROUPS = ("workers.", "scheme.", "validation.", "preemption.")


@dataclass
class Run:
    folder: Path
    label: str
    """Environment, mode and policy, as far as the folder says them."""
    lines: list[dict[str, Any]]
    """Of metrics.jsonl, oldest first."""
    seed: int | None = None
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    """Nested ones with a dot, but for those that make no other experiment."""

    def curve(self, metric: str, x: str, smooth: int) -> tuple[np.ndarray, np.ndarray]:
        """x and y of a metric, [n] each; n is 0 if it never had a value."""
        known = [line for line in self.lines if line.get(metric) is not None]
        times = np.array([line["step" if x == "step" else "time_s"] for line in known], float)
        values = running_mean(np.array([line[metric] for line in known], float), smooth)
        return times, values


def read_run(folder: Path) -> Run:
    """A run's metrics and its label.

    Raises:
        UserError: if the folder is none of a training run, or a file in it is damaged.
    """
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}: give the folders of training runs")
    lines = read_metrics(folder / METRICS_FILE)
    if not lines:
        raise UserError(f"{folder / METRICS_FILE} has no updates yet")
    config = _read(folder / CONFIG_FILE, plain_yaml)
    settings = config | _read(folder / SUMMARY_FILE, strict_json)  # at the run's beginning, and end
    seed = settings.get("seed")
    own = {
        name: value
        for name, value in flat(config).items()
        if name not in _BESIDE and not name.startswith(_BESIDE_GROUPS)
    }
    seed = int(seed) if isinstance(seed, str) and seed.isdecimal() else seed  # YAML's is a text
    return Run(folder, _label(folder, settings), lines, seed if type(seed) is int else None, own)


def told_apart(runs: list[Run]) -> list[Run]:
    """The same, each folder once, where labels also say in which settings runs differ.

    Runs of one label and one seed, no repetitions of each other, are named.
    """
    runs = list({run.folder.resolve(): run for run in runs}.values())
    names = _names([run.folder for run in runs])
    runs = [
        replace(run, label=", ".join([run.label, *_own(run, runs, name)]))
        for run, name in zip(runs, names, strict=True)
    ]
    count = Counter((run.label, run.seed) for run in runs)
    repeated = {label for (label, seed), number in count.items() if number > 1 and seed is not None}
    return [
        replace(run, label=f"{run.label}, {name}") if run.label in repeated else run
        for run, name in zip(runs, names, strict=True)
    ]


def _names(folders: list[Path]) -> list[str]:
    """The end of each folder's path, as short as tells it from the others: a/pick, b/pick."""
    parts = [folder.resolve().parts for folder in folders]

    def name(own: tuple[str, ...]) -> str:
        others = [other for other in parts if other != own]
        ends = (own[-n:] for n in range(1, len(own)))
        end = next((e for e in ends if all(other[-len(e) :] != e for other in others)), own)
        return str(Path(*end))

    return [name(own) for own in parts]


def _own(run: Run, runs: list[Run], name: str) -> list[str]:
    """The settings by which a run differs from others of its label, as far as all have them.

    (Files of older versions lack settings.)

    Of very many differences its folder's name says more.
    """
    alike = [other.settings for other in runs if other.label == run.label]
    every = {setting: None for settings in alike for setting in settings}  # in their order
    names = [
        setting
        for setting in every
        if setting.startswith(_AS_GIVEN) or all(setting in settings for settings in alike)
    ]
    names = [n for n in names if len({str(settings.get(n, DEFAULT)) for settings in alike}) > 1]
    if len(names) > MOST_NAMED:
        return [name]
    return [f"{name}={run.settings.get(name, DEFAULT)}" for name in names]


def running_mean(values: np.ndarray, width: int) -> np.ndarray:
    """Mean of each value and up to `width` - 1 before it, [n]; 1 or less changes nothing."""
    if width <= 1 or len(values) == 0:
        return values
    # Each window by itself: of sums that are subtracted one huge value would stay for good.
    first = np.cumsum(values[: width - 1]) / np.arange(1, min(width, len(values) + 1))
    if len(values) < width:
        return first
    windows = np.lib.stride_tricks.sliding_window_view(values, width)
    return np.concatenate([first, windows.mean(axis=-1)])


def _label(folder: Path, settings: Mapping[str, Any]) -> str:
    """Environment, way and policy of a run; the folder's name where nothing says them."""

    def first(*paths: str) -> str | None:
        for path in paths:
            value: Any = settings
            for key in path.split("."):
                value = value.get(key) if isinstance(value, Mapping) else None
            if isinstance(value, str) and value:
                return value
        return None

    parts = (
        first("env", "env.name", "env.id", "skill"),
        "imitation" if first("method") == "imitation" else first("mode", "trainer.mode"),
        first("policy", "policy.preset", "policy.name"),
        _blocks(settings),
    )
    return ", ".join(part for part in parts if part) or folder.resolve().name


def _blocks(settings: Mapping[str, Any]) -> str | None:
    """SAPG and its blocks, where there are several."""
    sapg = settings.get("sapg")
    count = str(sapg.get("num_blocks")) if isinstance(sapg, Mapping) else "1"  # a text in YAML
    return f"SAPG with {count} blocks" if count.isdecimal() and count != "1" else None


def _read(path: Path, parse: Callable[[str], Any]) -> dict[str, Any]:
    """A file's settings; none if it is not there. Raises UserError if it is damaged."""
    if not path.exists():
        return {}
    try:
        found = parse(read_whole_file(path, MAX_SETTINGS).decode())
    except UserError:
        raise
    except ValueError as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{path} is damaged: {reason}") from error
    if not isinstance(found, dict):
        raise UserError(f"{path} is damaged: it holds no settings")
    return found
