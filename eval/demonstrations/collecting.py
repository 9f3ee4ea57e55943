"""Collecting demonstrations: worker processes run episodes, then one dataset is assembled.

    settings.json, episodes.jsonl    as an evaluation writes them (`eval/episode_store.py`):
                                     what it depends on, and a line for each finished episode
    pieces/000012.*                  an episode each; gone in the end
    episodes.json.gz                 the episodes themselves, as an episode file
    summary.json                     last: with it all is there
    data, meta, videos, ...          the data set, as its format has it

The same command goes on where one was ended. A finished data set is never changed.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rearrange.configs.collecting import CollectCfg
from rearrange.errors import UserError
from rearrange.eval.demonstrations.demonstration import DEPTH
from rearrange.eval.demonstrations.formats import (
    EPISODES,
    FORMATS,
    SUMMARY,
    check_packages,
    read_summary,
)
from rearrange.eval.demonstrations.recorder import RecordingEnv, facts_of
from rearrange.eval.episode_store import EpisodeStore, settings_of
from rearrange.eval.missing_episodes import Notify, versions
from rearrange.eval.progress import Progress
from rearrange.eval.runner import (
    EpisodeRecord,
    EpisodeRunnerCfg,
    follow_episode,
    make_env_and_agent,
)
from rearrange.eval.workers import WorkerPool
from rearrange.planner.agents.agent import Agent
from rearrange.system.files import UNFINISHED, remove_unfinished
from rearrange.system.folder_lock import FolderLock, FolderLockLost, lock_folder
from rearrange.system.machine import commit, machine, num_cores
from rearrange.system.outputs import atomic_write_json, prepare_folder, write_error
from rearrange.tasks.episodes.files import check_num_episodes, read_episodes, write_episodes

PIECES = "pieces"
_MAKING = f"{UNFINISHED}-data"  # where a data set grows


@dataclass(frozen=True, kw_only=True)
class CollectingRunner:
    """What a worker needs to know to demonstrate any episode; a `workers.EpisodeRunner`."""

    runner: EpisodeRunnerCfg
    format: str  # noqa: A003
    folder: str  # of the pieces
    record: int = 0

    def run_episode(
        self, env: RecordingEnv, agent: Agent, index: int, on_step: Callable[[], None]
    ) -> EpisodeRecord:
        """Runs an episode and writes its piece."""
        record = follow_episode(env, agent, self.runner, index, lambda info: on_step())
        demonstration = env.demonstration(facts_of(env, self.runner.agent, record))
        write_episodes(self._spec(index), [env.world.episode])
        FORMATS[self.format].write_piece(demonstration, self.piece(index))
        return record

    def read_record(self, values: dict[str, Any]) -> EpisodeRecord:
        return self.runner.read_record(values)

    def progress_text(self, records: list[EpisodeRecord]) -> str:
        return self.runner.progress_text(records)

    @property
    def title(self) -> str:
        return self.runner.title

    def video_path(self, index: int) -> Path:
        return self.runner.video_path(index)

    def piece(self, index: int) -> Path:
        """An episode's file."""
        return Path(self.folder) / f"{index:06d}{FORMATS[self.format].suffix}"

    def spec(self, index: int) -> Any:
        """The episode itself, of one that was demonstrated."""
        return read_episodes(self._spec(index))[0]

    def has(self, index: int) -> bool:
        """Whether an episode's files are there."""
        return self.piece(index).is_file() and self._spec(index).is_file()

    def _spec(self, index: int) -> Path:
        return Path(self.folder) / f"{index:06d}.json.gz"


def make_recording_env(cfg: CollectingRunner) -> tuple[RecordingEnv, Agent]:
    """The environment, with the head camera and the handles whoever acts, and the agent.

    A policy that learns from a drawer's demonstrations has to be told where its handle is.
    """
    env, agent = make_env_and_agent(cfg.runner, depth=True, handle_sensors=True)
    spaces = env.observation_space.spaces
    pictures = [name for name in spaces if len(spaces[name].shape) > 1 and name != DEPTH]
    if pictures and not FORMATS[cfg.format].has_all_pictures:
        env.close()
        raise UserError(
            f"format={cfg.format} keeps depth pictures alone, agent={cfg.runner.agent} also sees "
            f"{' and '.join(pictures)}: format=hdf5 or minari"
        )
    return RecordingEnv(env, agent), agent


def collect(
    cfg: CollectCfg, runner: EpisodeRunnerCfg, folder: Path, notify: Notify
) -> dict[str, Any]:
    """Demonstrates the episodes that are missing and makes the data set; returns the summary.

    Raises UserError if a package is missing, and if the folder is in use or holds something else.
    """
    check_packages(cfg.format)
    check_num_episodes(cfg.num_episodes)
    check_folder(folder)
    with lock_folder(folder, "output") as lock:
        settings = settings_of(runner, versions()) | {"format": cfg.format}
        store = EpisodeStore(folder, settings, cfg.num_episodes)
        if (folder / SUMMARY).exists():
            return _finished(folder, store, cfg.num_episodes, notify)
        pieces = prepare_folder(folder / PIECES)
        whole = CollectingRunner(runner=runner, format=cfg.format, folder=str(pieces))
        run_facts = _run_missing(cfg, whole, store, lock, notify)
        notify(f"making the data set of {cfg.num_episodes} episodes")
        numbers = range(cfg.num_episodes)
        specs = [whole.spec(number) for number in numbers]
        assemble(folder, cfg.format, [whole.piece(number) for number in numbers], specs)
        records = [store.records[index] for index in range(cfg.num_episodes)]
        store.write()
        summary = _summary(cfg, runner, records) | run_facts | {"acting": store.acting}
        atomic_write_json(folder / SUMMARY, summary)
        shutil.rmtree(pieces)
    return summary


def check_folder(folder: Path) -> None:
    """Raises UserError for a folder with things in it that no collecting has written."""
    with suppress(OSError):
        inside = {path.name for path in folder.iterdir()}
        if inside - {".lock"} and "settings.json" not in inside:
            raise UserError(
                f"{folder} has other contents: choose another output, or remove it to start over"
            )


def _finished(
    folder: Path, store: EpisodeStore, num_episodes: int, notify: Notify
) -> dict[str, Any]:
    if len(store.records) != num_episodes:
        raise UserError(
            f"{folder} is a finished dataset of {len(store.records)} episodes, got "
            f"{num_episodes=}: choose another output, or remove it to start over"
        )
    notify(f"all {num_episodes} demonstrations are there already")
    return read_summary(folder)


def _run_missing(
    cfg: CollectCfg, runner: CollectingRunner, store: EpisodeStore, lock: FolderLock, notify: Notify
) -> dict[str, Any]:
    """Runs what has no piece yet; returns what the summary says of the run."""
    pieces = Path(runner.folder)
    remove_unfinished(pieces)
    if store.damaged:
        notify(store.on_damaged())
    there = {index for index in store.records if runner.has(index)}
    missing = [index for index in range(cfg.num_episodes) if index not in there]
    if there:
        notify(f"kept {len(there)} of {cfg.num_episodes} episodes in {lock.folder}")
    pool = WorkerPool(
        runner, cfg.num_workers or num_cores(), make_recording_env, cfg.episode_timeout_s,
        cfg.max_restarts,
    )  # fmt: skip
    is_complete = False
    steps = sum(store.records[index].steps for index in there)
    try:
        with Progress(runner.title, cfg.num_episodes, len(there), steps) as progress:
            for record in pool.run(missing, progress.underway) if missing else ():
                _check_lock(lock)
                store.acts_with(pool.acting)
                store.add(record)
                progress.step(runner.progress_text([*store.records.values()]), record.steps)
        is_complete = True
    finally:
        if not is_complete:
            remove_unfinished(pieces)
            store.write()
            if store.records:
                more = "the same command goes on"
                notify(f"kept {len(store.records)} finished episodes in {lock.folder}: {more}")
    return {"workers_lost": pool.lost, "kept_episodes": len(there)}


def _check_lock(lock: FolderLock) -> None:
    try:
        lock.check()
    except FolderLockLost as lost:
        raise UserError(f"{lost}: collecting stops") from lost


def assemble(folder: Path, name: str, pieces: Sequence[Path], episodes: Sequence[Any]) -> None:
    """Makes the data set of pieces beside the place where it belongs, then puts it there.

    Args:
        name: of the format.
        episodes: those of the pieces, in their order.

    Raises UserError if it cannot be written.
    """
    form, making = FORMATS[name], folder / _MAKING
    shutil.rmtree(making, ignore_errors=True)
    try:
        making.mkdir()
        form.assemble(pieces, making)
        write_episodes(folder / EPISODES, episodes)
        for made in form.made:  # what opens it last
            if (making / made).exists():
                _replace(making / made, folder / made)
    except OSError as error:
        raise write_error(folder, error) from error
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _replace(source: Path, target: Path) -> None:
    """Puts it in place of what an ended command left there, without a summary."""
    if target.is_dir():
        shutil.rmtree(target)
    os.replace(source, target)


def _summary(
    cfg: CollectCfg, runner: EpisodeRunnerCfg, records: list[EpisodeRecord]
) -> dict[str, Any]:
    return {
        "format": cfg.format,
        "task": runner.task,
        "agent": runner.agent,
        "split": runner.split,
        "homes": runner.homes,
        "seed": runner.seed,
        "num_episodes": len(records),
        "num_successes": sum(record.success for record in records),
        "num_steps": sum(record.steps for record in records),
        "command": None
        if cfg.given is None
        else shlex.join(["rearrange", "collect", *cfg.given.overrides]),
        "commit": commit(),
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions(),
    }
