"""Runs the episodes that an evaluation's folder lacks, on this machine or a Ray cluster.

Works for any environment: the runner defines an episode (`workers.EpisodeRunner`).
"""

from __future__ import annotations

import platform
import re
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import rearrange
from rearrange.cluster.ray_session import connected
from rearrange.configs.schema import EvaluateCfg, RecordCfg
from rearrange.errors import UserError
from rearrange.eval.episode_store import EpisodeStore
from rearrange.eval.progress import Progress
from rearrange.eval.ray_workers import RayPool
from rearrange.eval.workers import EpisodeRunner, MakeEnvAndAgent, WorkerPool
from rearrange.system.checked_json import strict_json
from rearrange.system.files import remove_unfinished
from rearrange.system.folder_lock import FolderLock, FolderLockLost
from rearrange.system.machine import commit, machine, num_cores

SUMMARY_FILES = ("summary.json", "stages.png", "report.html")
# In the summary, of the command that ran the last episodes.
RUN_FACTS = (
    "wall_time_s", "steps_per_second", "num_workers", "workers_lost", "kept_episodes", "command",
    "commit", "date", "machine",
)  # fmt: skip
Notify = Callable[[str], None]


def print_line(text: str) -> None:
    """A line or more on stdout, at once."""
    print(text, flush=True)


def silent(text: str) -> None:
    """Prints nothing: Python callers get the results as values."""


def run_missing(
    cfg: EvaluateCfg,
    runner: EpisodeRunner,
    make_env_and_agent: MakeEnvAndAgent,
    store: EpisodeStore,
    lock: FolderLock,
    notify: Notify,
) -> dict[str, Any]:
    """Runs episodes that are missing, or not filmed as requested; returns the `RUN_FACTS`."""
    remove_unfinished(lock.folder)
    remove_unfinished(lock.folder / "videos")
    if store.damaged:
        notify(store.on_damaged())
    missing = [index for index in range(cfg.num_episodes) if _is_missing(index, runner, store)]
    if store.records:
        which = "all" if not missing else f"{len(store.records)} of"
        notify(f"kept {which} {cfg.num_episodes} episodes in {lock.folder}")
    if not missing and (found := _old_run(lock.folder)):
        return found
    _remove_old_results(lock.folder)
    with _workers(cfg, runner, make_env_and_agent) as pool:
        start = time.perf_counter()
        records = _run_all(pool, missing, cfg, runner, store, lock, notify) if missing else []
        wall_time_s = time.perf_counter() - start
    remove_unfinished(lock.folder / "videos")
    steps = sum(record.steps for record in records)
    values = (
        round(wall_time_s, 3), round(steps / max(wall_time_s, 1e-6), 1),
        min(pool.num_workers, max(1, len(missing))), pool.lost, cfg.num_episodes - len(records),
        command_line(cfg), commit(), datetime.now().astimezone().isoformat(timespec="seconds"),
        machine(),
    )  # fmt: skip
    return dict(zip(RUN_FACTS, values, strict=True))


def command_line(cfg: EvaluateCfg) -> str | None:
    """The command to repeat; None if the settings are not from a command line."""
    return (
        None if cfg.given is None else shlex.join(["rearrange", "evaluate", *cfg.given.overrides])
    )


def record_command(cfg: EvaluateCfg, index: int, output: Path) -> str | None:
    """The command that films an episode of an evaluation; None as above."""
    if cfg.given is None:
        return None
    shared = {field.name for field in fields(RecordCfg)} - {"index", "output"}
    overrides = [text for text in cfg.given.overrides if re.split(r"[.=]", text)[0] in shared]
    return shlex.join(["rearrange", "record", *overrides, f"index={index}", f"output={output}"])


def _is_missing(index: int, runner: EpisodeRunner, store: EpisodeStore) -> bool:
    is_filmed = index >= runner.record or runner.video_path(index).is_file()
    return index not in store.records or not is_filmed


def _old_run(folder: Path) -> dict[str, Any] | None:
    """What a summary of these same episodes says of their run; None if there is no such summary."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        summary = strict_json((folder / "summary.json").read_text(encoding="utf-8"))
        return {name: summary[name] for name in RUN_FACTS}
    return None


@contextmanager
def _workers(
    cfg: EvaluateCfg, runner: EpisodeRunner, make_env_and_agent: MakeEnvAndAgent
) -> Iterator[WorkerPool | RayPool]:
    """Workers of this machine or of a Ray cluster."""
    if cfg.scheme == "ray":
        with connected(cfg.address, cfg.num_workers):
            yield RayPool(
                runner, cfg.num_workers, make_env_and_agent, cfg.episode_timeout_s, cfg.max_restarts
            )
    else:
        yield WorkerPool(
            runner, cfg.num_workers or num_cores(), make_env_and_agent, cfg.episode_timeout_s,
            cfg.max_restarts,
        )  # fmt: skip


def _run_all(
    pool: WorkerPool | RayPool,
    missing: list[int],
    cfg: EvaluateCfg,
    runner: EpisodeRunner,
    store: EpisodeStore,
    lock: FolderLock,
    notify: Notify,
) -> list[Any]:
    """Runs and stores these episodes; reports what is stored if it is interrupted."""
    records: list[Any] = []
    is_complete = False
    try:
        done = [store.records[i] for i in sorted({*range(cfg.num_episodes)} - {*missing})]
        steps = sum(record.steps for record in done)
        is_quiet = notify is silent
        with Progress(runner.title, cfg.num_episodes, len(done), steps, is_quiet) as progress:
            for record in pool.run(missing, progress.underway):
                if (lost := _taken(lock)) is not None:
                    raise UserError(f"{lost}: the evaluation stops") from lost
                store.acts_with(pool.acting)
                store.add(record)
                records.append(record)
                progress.step(runner.progress_text(list(store.records.values())), record.steps)
        is_complete = True
    finally:
        if not is_complete and _taken(lock) is None:
            remove_unfinished(lock.folder / "videos")
            store.write()
            if store.records:
                path = lock.folder / "episodes.jsonl"
                notify(f"kept {len(store.records)} finished episodes in {path}")
    return records


def _taken(lock: FolderLock) -> FolderLockLost | None:
    """What says that the folder is another's now; one that was deleted is rewritten at the end."""
    try:
        lock.check()
    except FolderLockLost as lost:
        return lost if lost.is_taken else None
    return None


def _remove_old_results(output_dir: Path) -> None:
    """Removes outputs of fewer episodes, so that old and new are never mixed."""
    try:
        for name in SUMMARY_FILES:
            (output_dir / name).unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"cannot replace {error.filename}: {error.strerror}") from error


def versions() -> dict[str, str]:
    """Of everything that can change a result."""
    found = {"rearrange": rearrange.__version__, "python": platform.python_version()}
    for name in ("mujoco", "numpy", "numba", "gymnasium", "torch"):
        found[name] = metadata.version(name)
    return found
