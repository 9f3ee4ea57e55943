"""`rearrange evaluate`: an agent through many episodes, then figures, a report and a table.

Writes into output_dir: settings.json and episodes.jsonl as it goes (`kept.py`), and in the end
stages.png, report.html, summary.json; videos/. The same command goes on where one was ended.
"""

import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import rearrange
from rearrange.cluster.ray_session import connected
from rearrange.configs.schema import EvaluateCfg
from rearrange.errors import UserError
from rearrange.eval.kept import KeptEpisodes, settings_of
from rearrange.eval.metrics import summarise
from rearrange.eval.progress import Progress
from rearrange.eval.ray_workers import RayPool
from rearrange.eval.report import draw_stages, summary_table, write_report
from rearrange.eval.runner import (
    EpisodeRecord,
    MakeWorld,
    WorldCfg,
    check_names,
    make_world,
    reset_options,
    sources_of_skills,
    video_path,
    world_of,
)
from rearrange.eval.workers import WorkerPool
from rearrange.system.checked_json import strict_json
from rearrange.system.files import remove_unfinished
from rearrange.system.folder_lock import FolderLost, HeldFolder, hold_folder
from rearrange.system.machine import num_cores
from rearrange.system.outputs import (
    atomic_write_bytes,
    atomic_write_json,
    atomic_write_text,
    expand,
    prepare_folder,
)

MADE_OF_ALL = ("summary.json", "stages.png", "report.html")
# In the summary, of the command that ran the last episodes.
OF_THE_RUN = ("wall_time_s", "steps_per_second", "num_workers", "workers_lost", "kept_episodes")


def run(cfg: EvaluateCfg) -> int:
    """Does the evaluation; returns the exit code."""
    check_names(cfg.task.name, cfg.agent, cfg.split, cfg.homes)
    evaluate(cfg, make_world)
    return 0


def evaluate(cfg: EvaluateCfg, make_world: MakeWorld) -> dict[str, Any]:
    """Runs the episodes that are missing, writes every file and prints the table.

    Returns the summary. Raises UserError if the folder is in use, or holds other results.
    """
    output_dir = output_folder(cfg)
    world = world_of(
        cfg,
        episodes=expand(cfg.episodes),
        record=cfg.record,
        video_dir=str(output_dir / "videos"),
        renderer=cfg.renderer,
        title=cfg.task.title,
    )
    reset_options(world, cfg.num_episodes - 1)  # a wrong file is better said before the work
    settings = settings_of(world, versions())
    with hold_folder(output_dir, "output_dir") as held:
        prepare_folder(output_dir)
        if cfg.record:
            prepare_folder(output_dir / "videos")
        kept = KeptEpisodes(output_dir, settings, cfg.num_episodes)
        of_the_run = _run_missing(cfg, world, make_world, kept, held)
        return _write_results(cfg, world, kept, of_the_run)


def output_folder(cfg: EvaluateCfg) -> Path:
    """Where the results go: of another task, agent, split or set of homes to another folder."""
    if cfg.output_dir is not None:
        return Path(cfg.output_dir).expanduser()
    homes = "" if cfg.homes == "hab" else f"-{Path(cfg.homes).stem}"
    return Path("outputs/evaluate") / f"{cfg.task.name}-{cfg.agent}-{cfg.split}{homes}"


def _run_missing(
    cfg: EvaluateCfg,
    world: WorldCfg,
    make_world: MakeWorld,
    kept: KeptEpisodes,
    held: HeldFolder,
) -> dict[str, Any]:
    """Runs what is not kept, or not filmed as it should be; returns what `OF_THE_RUN` names."""
    remove_unfinished(held.folder)
    remove_unfinished(held.folder / "videos")
    missing = [index for index in range(cfg.num_episodes) if _is_missing(index, world, kept)]
    if kept.records:
        which = "all" if not missing else f"{len(kept.records)} of"
        print(f"kept {which} {cfg.num_episodes} episodes in {held.folder}", flush=True)
    if not missing and (found := _old_run(held.folder)):
        return found
    _remove_old_results(held.folder)
    with _workers(cfg, world, make_world) as pool:
        start = time.perf_counter()
        records = _run_all(pool, missing, cfg, kept, held) if missing else []
        wall_time_s = time.perf_counter() - start
    remove_unfinished(held.folder / "videos")
    steps = sum(record.steps for record in records)
    values = (
        round(wall_time_s, 3), round(steps / max(wall_time_s, 1e-6), 1),
        min(pool.num_workers, cfg.num_episodes), pool.lost, cfg.num_episodes - len(records),
    )  # fmt: skip
    return dict(zip(OF_THE_RUN, values, strict=True))


def _is_missing(index: int, world: WorldCfg, kept: KeptEpisodes) -> bool:
    is_filmed = index >= world.record or video_path(world, index).is_file()
    return index not in kept.records or not is_filmed


def _old_run(folder: Path) -> dict[str, Any] | None:
    """What a summary of these same episodes says of their run; None if there is no such summary."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        summary = strict_json((folder / "summary.json").read_text(encoding="utf-8"))
        return {name: summary[name] for name in OF_THE_RUN}
    return None


def _write_results(
    cfg: EvaluateCfg, world: WorldCfg, kept: KeptEpisodes, of_the_run: dict[str, Any]
) -> dict[str, Any]:
    """Prints the table, writes all files and returns the summary."""
    output_dir = output_folder(cfg)
    sources = sources_of_skills(world)
    skipped = sources.get("skipped_skills", [])
    needed = [[name for name in stage if name not in skipped] for stage in cfg.task.stage_skills]
    records = [kept.records[index] for index in range(cfg.num_episodes)]
    summary = {
        "task": cfg.task.name,
        "agent": cfg.agent,
        "checkpoint": cfg.checkpoint,
        "sample": cfg.sample,
        **sources,
        "split": cfg.split,
        "homes": cfg.homes,
        "num_episodes": cfg.num_episodes,
        "seed": cfg.seed,
        "episodes": cfg.episodes,
        **summarise(records, needed, cfg.seed),
        **of_the_run,
        "acting": kept.acting,
        "versions": versions(),
    }
    films = [video_path(world, record.index) for record in records]
    films = [film.relative_to(output_dir) for film in films if film.is_file()]
    try:  # the table before the files, which a full disk may refuse
        print(summary_table(summary, cfg.task), flush=True)
    finally:  # nor does a closed stdout cost the files
        kept.write()
        figure = draw_stages(summary, cfg.task)
        atomic_write_bytes(output_dir / "stages.png", figure)
        report = write_report(summary, records, cfg.task, figure, films)
        atomic_write_text(output_dir / "report.html", report)
        atomic_write_json(output_dir / "summary.json", summary)  # last: with it the rest is there
    print(f"\nreport: {output_dir / 'report.html'}")
    for film in films:
        print(f"video:  {output_dir / film}")
    return summary


@contextmanager
def _workers(
    cfg: EvaluateCfg, world: WorldCfg, make_world: MakeWorld
) -> Iterator[WorkerPool | RayPool]:
    """Workers of this machine or of a Ray cluster."""
    if cfg.scheme == "ray":
        with connected(cfg.address, cfg.num_workers):
            yield RayPool(
                world, cfg.num_workers, make_world, cfg.episode_timeout_s, cfg.max_restarts
            )
    else:
        yield WorkerPool(
            world, cfg.num_workers or num_cores(), make_world, cfg.episode_timeout_s,
            cfg.max_restarts,
        )  # fmt: skip


def _run_all(
    pool: WorkerPool | RayPool,
    missing: list[int],
    cfg: EvaluateCfg,
    kept: KeptEpisodes,
    held: HeldFolder,
) -> list[EpisodeRecord]:
    """Runs and keeps these episodes; tells what is kept if it is interrupted."""
    records: list[EpisodeRecord] = []
    is_complete = False
    try:
        with Progress(
            cfg.task.title, cfg.num_episodes, cfg.num_episodes - len(missing)
        ) as progress:
            for record in pool.run(missing):
                _check_ours(held)
                kept.acts_with(pool.acting)
                kept.add(record)
                records.append(record)
                progress.step(sum(r.success for r in kept.records.values()) / len(kept.records))
        is_complete = True
    finally:
        if not is_complete:
            remove_unfinished(held.folder / "videos")
            kept.write()
            if kept.records:
                path = held.folder / "episodes.jsonl"
                print(f"kept {len(kept.records)} finished episodes in {path}")
    return records


def _check_ours(held: HeldFolder) -> None:
    try:
        held.check()
    except FolderLost as lost:
        if lost.is_taken:  # a deleted one is written anew in the end
            raise UserError(f"{lost}: this evaluation ends") from lost


def _remove_old_results(output_dir: Path) -> None:
    """Takes away what was made of fewer episodes, so that old and new never stand side by side."""
    try:
        for name in MADE_OF_ALL:
            (output_dir / name).unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"cannot replace {error.filename}: {error.strerror}") from error


def versions() -> dict[str, str]:
    """Of everything that can change a result."""
    found = {"rearrange": rearrange.__version__, "python": platform.python_version()}
    for name in ("mujoco", "numpy", "numba", "gymnasium", "torch"):
        found[name] = metadata.version(name)
    return found
