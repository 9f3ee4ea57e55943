"""`rearrange evaluate`: runs an agent through many episodes, then writes metrics and a report.

Writes settings.json and episodes.jsonl into output_dir as it goes (`episode_store.py`), then
summary.json, stages.png, report.html and videos/. The same command resumes an interrupted run.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rearrange.configs.schema import EvaluateCfg
from rearrange.eval.episode_store import EpisodeStore, settings_of
from rearrange.eval.metrics import summarise
from rearrange.eval.missing_episodes import (
    Notify,
    print_line,
    record_command,
    run_missing,
    versions,
)
from rearrange.eval.report import draw_stages, summary_table, write_report
from rearrange.eval.runner import (
    EpisodeRunnerCfg,
    check_names,
    make_env_and_agent,
    reset_options,
    runner_cfg,
    sources_of_skills,
)
from rearrange.eval.trained_env import evaluate_run, home_evaluation, run_output_folder
from rearrange.eval.workers import MakeEnvAndAgent
from rearrange.system.files import file_digest, user_path
from rearrange.system.folder_lock import lock_folder
from rearrange.system.outputs import (
    atomic_write_bytes,
    atomic_write_json,
    atomic_write_text,
    expand,
    prepare_folder,
)


def evaluate_settings(cfg: EvaluateCfg, notify: Notify = print_line) -> tuple[dict[str, Any], Path]:
    """Runs the evaluation in MuJoCo: its summary and its folder. Raises UserError."""
    cfg = home_evaluation(cfg)
    if cfg.run is not None:
        return evaluate_run(cfg, notify), run_output_folder(cfg)
    check_names(cfg.task.name, cfg.agent, cfg.split, cfg.homes)
    folder = output_folder(cfg)
    return evaluate(cfg, make_env_and_agent, notify), folder


def evaluate(
    cfg: EvaluateCfg,
    make_env_and_agent: MakeEnvAndAgent,
    notify: Notify = print_line,
    make_runner: Callable[..., EpisodeRunnerCfg] = runner_cfg,
) -> dict[str, Any]:
    """Runs the missing episodes, writes all files and prints the table.

    Returns the summary. Raises UserError if the folder is in use, or holds other results.
    """
    output_dir = output_folder(cfg)
    runner = make_runner(
        cfg,
        episodes=expand(cfg.episodes),
        record=cfg.record,
        video_dir=str(output_dir / "videos"),
        renderer=cfg.renderer,
        title=cfg.task.title,
    )
    reset_options(runner, cfg.num_episodes - 1)  # report a wrong file before the work
    settings = settings_of(runner, versions())
    with lock_folder(output_dir, "output_dir") as lock:
        prepare_folder(output_dir)
        if cfg.record:
            prepare_folder(output_dir / "videos")
        store = EpisodeStore(output_dir, settings, cfg.num_episodes)
        run_facts = run_missing(cfg, runner, make_env_and_agent, store, lock, notify)
        return _write_results(cfg, output_dir, runner, store, run_facts, notify)


def output_folder(cfg: EvaluateCfg) -> Path:
    """Folder of the results: a different one for each task, agent, split and set of homes, or file
    of episodes."""
    if cfg.output_dir is not None:
        return user_path(cfg.output_dir)
    homes = "" if cfg.homes == "hab" else f"-{Path(cfg.homes).stem}"
    there = "" if cfg.backend == "mujoco" else f"-{cfg.backend}"
    where = f"{cfg.split}{homes}"
    if cfg.episodes is not None:
        path = user_path(cfg.episodes)
        where = f"{path.name.split('.')[0]}-{file_digest(path)[:8]}"
    return Path("outputs/evaluate") / f"{cfg.task.name}-{cfg.agent}-{where}{there}"


def _write_results(
    cfg: EvaluateCfg,
    output_dir: Path,
    runner: EpisodeRunnerCfg,
    store: EpisodeStore,
    run_facts: dict[str, Any],
    notify: Notify,
) -> dict[str, Any]:
    """Prints the table, writes all files and returns the summary."""
    sources = sources_of_skills(runner)
    skipped = sources.get("skipped_skills", [])
    needed = [[name for name in stage if name not in skipped] for stage in cfg.task.stage_skills]
    records = [store.records[index] for index in range(cfg.num_episodes)]
    summary = {
        "task": cfg.task.name,
        "agent": cfg.agent,
        "checkpoint": cfg.checkpoint,
        "sample": cfg.sample,
        **sources,
        "split": cfg.split if cfg.episodes is None else None,  # given episodes may be of any
        "homes": cfg.homes if cfg.episodes is None else None,
        "num_episodes": cfg.num_episodes,
        "seed": cfg.seed,
        "episodes": cfg.episodes,
        "backend": cfg.backend,
        **runner.elsewhere(),
        **summarise(records, needed, cfg.seed),
        **run_facts,
        "acting": store.acting,
        "versions": versions(),
    }
    films = [runner.video_path(record.index) for record in records]
    films = [film.relative_to(output_dir) for film in films if film.is_file()]

    def to_film(index: int) -> str | None:
        return record_command(cfg, index, runner.video_path(index))

    try:  # the table first: a full disk may refuse the files
        notify(summary_table(summary, cfg.task))
    finally:  # a closed stdout must not cost the files
        store.write()
        figure = draw_stages(summary, cfg.task)
        atomic_write_bytes(output_dir / "stages.png", figure)
        report = write_report(summary, records, cfg.task, figure, films, to_film)
        atomic_write_text(output_dir / "report.html", report)
        atomic_write_json(
            output_dir / "summary.json", summary
        )  # last: it marks the results as complete
    notify(f"\nreport: {output_dir / 'report.html'}")
    for film in films:
        notify(f"video:  {output_dir / film}")
    return summary
