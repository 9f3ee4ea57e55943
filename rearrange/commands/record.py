"""`rearrange record`: a video of one episode."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from rearrange.configs.schema import RecordCfg
from rearrange.eval.film.film import FOR_A_PAGE, RECORDING, filming
from rearrange.eval.film.filming_progress import filming_progress
from rearrange.eval.film.gif import film_for
from rearrange.eval.runner import (
    check_names,
    follow_episode,
    make_env_and_agent,
    reset_options,
    runner_cfg,
)
from rearrange.eval.trained_env import home_evaluation, record_run
from rearrange.system.files import user_path
from rearrange.system.outputs import expand, prepare_file


def run(cfg: RecordCfg) -> int:
    """Films the episode and says how it went."""
    cfg = home_evaluation(cfg)
    path = user_path(cfg.output)
    if cfg.run is not None:
        prepare_file(path)
        with film_for(path) as film_path:
            episode = record_run(replace(cfg, output=str(film_path)))
        said = f"a return of {episode.total_return:.5g} after {episode.steps} steps"
        print(f"{said}\nvideo: {path}")
        return 0
    check_names(cfg.task.name, cfg.agent, cfg.split, cfg.homes)
    if cfg.backend == "habitat":
        return _record_in_habitat(cfg, path)
    runner = runner_cfg(cfg, episodes=expand(cfg.episodes))
    prepare_file(path)
    reset_options(runner, cfg.index)  # a wrong file or index is better said before the work
    env, agent = make_env_and_agent(runner)
    style = FOR_A_PAGE if path.suffix == ".gif" else RECORDING
    with (
        film_for(path) as film_path,
        filming(env, agent, film_path, cfg.renderer, cfg.task.title, style) as film,
        filming_progress() as progress,
    ):

        def watch(info: dict[str, Any]) -> None:
            film(info)
            progress(info)

        record = follow_episode(env, agent, runner, cfg.index, watch)
    print(f"{record.result()} after {record.steps} steps in {record.scene}\nvideo: {path}")
    return 0


def _record_in_habitat(cfg: RecordCfg, path: Path) -> int:
    from rearrange.eval.habitat.evaluation import film_in_habitat

    prepare_file(path)
    with film_for(path) as film_path:
        record = film_in_habitat(cfg, film_path)
    print(f"{record.result()} after {record.steps} steps in {record.scene}\nvideo: {path}")
    return 0
