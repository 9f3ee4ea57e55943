"""Periodic evaluation of a training's checkpoints, in separate processes.

    RUN/validation/000000524288/   what `evaluate` writes: summary.json, report.html, videos/
    RUN/validation/000000524288.log

Each is a command that could be typed, `rearrange evaluate run=RUN/checkpoints/000000524288.json`.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from rearrange.cluster.rank_host import start_here
from rearrange.commands.training.training_env import TrainingEnv, named_for_others
from rearrange.configs.training import AnyRunCfg, TrainSkillCfg
from rearrange.errors import UserError
from rearrange.eval.film.gif import GifCfg, length_of, size_of, write_gif
from rearrange.system.checked_json import strict_json
from rearrange.tasks.rules.names import TASK_OF_ID
from rearrange.ver.run.metrics import SUMMARY_FILE
from rearrange.ver.run.tensorboard import Film
from rearrange.ver.run.validation import Validation, ValidationResult

FOLDER = "validation"
SEED = 0  # of the episodes: the same ones at each step and for each training
POLL_S = 0.25
GIF = GifCfg(width=400, fps=6, seconds=10.0)

log = logging.getLogger(__name__)


def validation_of(
    settings: AnyRunCfg, training_env: TrainingEnv, run_dir: Path
) -> Validation | None:
    """None if none is wanted."""
    if not settings.validation.every:
        return None
    arguments = arguments_of(settings, training_env)
    return Validation(settings.validation.every, partial(_measure, arguments, run_dir))


def arguments_of(settings: AnyRunCfg, training_env: TrainingEnv) -> list[str]:
    """What follows `rearrange evaluate run=... output_dir=...`."""
    cfg = settings.validation
    arguments = [f"num_episodes={cfg.num_episodes}", f"record={cfg.record}", f"seed={SEED}"]
    if training_env.known_id in TASK_OF_ID:
        arguments.append("split=val")
        if (homes := training_env.kwargs.get("homes")) is not None:
            arguments.append(f"homes={homes}")
    # Files import nothing: whose module it is must be said.
    env = named_for_others(training_env, settings.policy.network)
    is_said = ":" in env or not isinstance(settings, TrainSkillCfg)
    return [*arguments, f"env={env}"] if is_said else arguments


def _measure(
    arguments: list[str],
    run_dir: Path,
    checkpoint: Path,
    step: int,
    should_stop: Callable[[], bool],
) -> ValidationResult | None:
    """What `evaluate` finds; None, with a warning, where it fails or is stopped."""
    folder = run_dir / FOLDER / f"{step:012d}"
    begin = time.monotonic()
    command = ["evaluate", f"run={checkpoint}", f"output_dir={folder}", *arguments]
    try:
        try:
            code = _run(command, should_stop)
        except UserError as error:
            if "record=0" in command:
                raise
            log.warning("no film at step %d: %s; see %s.log", step, error, folder)
            words = [word for word in command if not word.startswith("record=")]
            code = _run([*words, "record=0"], should_stop)  # many environments have no pictures
        if code is None:
            return None
        summary = strict_json((folder / SUMMARY_FILE).read_text(encoding="utf-8"))
        metrics = metrics_of(summary)
    except (OSError, ValueError, KeyError) as error:  # a UserError is a ValueError
        log.warning("no validation at step %d: %s; see %s.log", step, error, folder)
        return None
    score = next(iter(metrics))
    metrics["validation/time_s"] = time.monotonic() - begin
    return ValidationResult(metrics, score, _film(folder))


def metrics_of(summary: dict[str, Any]) -> dict[str, float]:
    """Success and return, as far as the environment has them, the one that counts first."""
    parts = {"success": summary.get("success"), "return": summary.get("episode_return")}
    known = {name: part["mean"] for name, part in parts.items() if part is not None}
    if not known:
        raise UserError("the evaluation has neither success nor return")
    return {f"validation/{name}": float(value) for name, value in known.items()}


def _run(arguments: list[str], should_stop: Callable[[], bool]) -> int | None:
    """Runs the command to its end; None if it was stopped. Raises UserError if it fails."""
    log_file = Path(arguments[2].partition("=")[2]).with_suffix(".log")
    log_file.parent.mkdir(parents=True, exist_ok=True)
    with open(log_file, "ab") as stream:
        process = start_here(arguments, stream)
    try:
        while (code := process.poll()) is None:
            if should_stop():
                process.send_signal(signal.SIGTERM)
                process.wait()
                return None
            time.sleep(POLL_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if code != 0:
        raise UserError(f"the evaluation ended with exit code {code}")
    return code


def _film(folder: Path) -> Film | None:
    """The first episode's, if there is one that can be shown."""
    for film in sorted((folder / "videos").glob("*.mp4"))[:1]:
        with suppress(UserError, OSError, RuntimeError, StopIteration):
            path = film.with_suffix(".gif")
            write_gif(film, path, length_of(film), GIF)
            content = path.read_bytes()
            return Film("validation/episode", content, *size_of(content))
    return None
