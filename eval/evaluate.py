"""`rearrange evaluate`: an agent through many episodes, then figures, a report and a table.

Writes into output_dir: summary.json, episodes.jsonl, stages.png, report.html, videos/.
"""

import json
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from tqdm import tqdm

import rearrange
from rearrange.cluster.ray_session import connected
from rearrange.configs.schema import EvaluateCfg
from rearrange.errors import UserError
from rearrange.eval.files import (
    atomic_write_bytes,
    atomic_write_json,
    atomic_write_text,
    expand,
    prepare_folder,
)
from rearrange.eval.metrics import summarise
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
from rearrange.files import remove_unfinished
from rearrange.ver.machine import num_cores

WRITTEN = ("summary.json", "episodes.jsonl", "stages.png", "report.html")


def run(cfg: EvaluateCfg) -> int:
    """Does the evaluation; returns the exit code."""
    check_names(cfg.task.name, cfg.agent, cfg.split)
    evaluate(cfg, make_world)
    return 0


def evaluate(cfg: EvaluateCfg, make_world: MakeWorld) -> dict[str, Any]:
    """Runs the episodes, writes every file and prints the table; returns the summary."""
    output_dir = Path(cfg.output_dir).expanduser()
    videos = output_dir / "videos"
    world = world_of(
        cfg,
        episodes=expand(cfg.episodes),
        record=cfg.record,
        video_dir=str(videos),
        renderer=cfg.renderer,
        title=cfg.task.title,
    )
    sources = sources_of_skills(world)
    reset_options(world, cfg.num_episodes - 1)  # a wrong file is better said before the work
    prepare_folder(output_dir)
    if cfg.record:
        prepare_folder(videos)
    _remove_old_results(output_dir, videos)
    with _workers(cfg, world, make_world) as pool:
        start = time.perf_counter()
        records = _run_all(pool, cfg, output_dir)
        wall_time_s = time.perf_counter() - start
    remove_unfinished(videos)

    skipped = sources.get("skipped_skills", [])
    needed = [[name for name in stage if name not in skipped] for stage in cfg.task.stage_skills]
    figures = summarise(records, needed, cfg.seed)
    summary = {
        "task": cfg.task.name,
        "agent": cfg.agent,
        "checkpoint": cfg.checkpoint,
        "sample": cfg.sample,
        **sources,
        "split": cfg.split,
        "num_episodes": cfg.num_episodes,
        "seed": cfg.seed,
        "episodes": cfg.episodes,
        **figures,
        "wall_time_s": round(wall_time_s, 3),
        "steps_per_second": round(figures["control_steps"] / wall_time_s, 1),
        "num_workers": min(pool.num_workers, cfg.num_episodes),
        "workers_lost": pool.lost,
        "versions": versions(),
    }
    print(summary_table(summary, cfg.task))  # before the files: a full disk may refuse them
    films = [video_path(world, record.index) for record in records]
    films = [film.relative_to(output_dir) for film in films if film.is_file()]
    _write_episodes(output_dir, records)
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


def _run_all(pool: WorkerPool | RayPool, cfg: EvaluateCfg, output_dir: Path) -> list[EpisodeRecord]:
    """All records in the order of their indices; what is finished is kept on an interruption."""
    records: list[EpisodeRecord] = []
    is_complete = False
    try:
        # disable=None: no bar in a log file or a pipe, where stderr is for errors alone.
        with tqdm(
            total=cfg.num_episodes,
            desc=cfg.task.title,
            unit="episode",
            disable=None,
            file=sys.stderr,
        ) as bar:
            for record in pool.run(list(range(cfg.num_episodes))):
                records.append(record)
                bar.update()
                share = sum(r.success for r in records) / len(records)
                bar.set_postfix_str(f"success {share:.1%}")
        is_complete = True
    finally:
        records.sort(key=lambda record: record.index)
        if not is_complete:
            remove_unfinished(output_dir / "videos")
            if records:
                _write_episodes(output_dir, records)
                print(f"kept {len(records)} finished episodes in {output_dir / 'episodes.jsonl'}")
    return records


def _write_episodes(output_dir: Path, records: list[EpisodeRecord]) -> None:
    lines = [json.dumps(record.to_json(), allow_nan=False) + "\n" for record in records]
    atomic_write_text(output_dir / "episodes.jsonl", "".join(lines))


def _remove_old_results(output_dir: Path, videos: Path) -> None:
    """Takes away an earlier run's files, so that old and new ones never stand side by side."""
    try:
        for name in WRITTEN:
            (output_dir / name).unlink(missing_ok=True)
        for film in videos.glob("episode_*.mp4"):
            film.unlink()
    except OSError as error:
        raise UserError(f"cannot replace {error.filename}: {error.strerror}") from error


def versions() -> dict[str, str]:
    """Of everything that can change a result."""
    found = {"rearrange": rearrange.__version__, "python": platform.python_version()}
    for name in ("mujoco", "numpy", "numba", "gymnasium"):
        found[name] = metadata.version(name)
    return found
