"""What `train-skills` does: the stages of each skill, as commands, in folders of their own.

    OUT/pick/cells   OUT/pick/look   OUT/pick/ver   OUT/pick.safetensors   OUT/place/cells   ...

A stage is over when the summary in its folder says so, and is then not done again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rearrange.commands.training.recipes import recipes_of, weights_of
from rearrange.commands.training.resolve import load_training
from rearrange.commands.training.subject import check_run_folder, newest_metrics, stages_folder
from rearrange.commands.words import group_options
from rearrange.configs.schema import TrainSkillsCfg
from rearrange.configs.stages import Stage
from rearrange.configs.training import RunCfg
from rearrange.errors import UserError, nearest
from rearrange.system.checked_json import strict_json
from rearrange.system.machine import num_cores
from rearrange.ver.run.metrics import SUMMARY_FILE

OWN = ("skill", "stage", "preset", "run_dir", "resume", "method", "warm_start", "seed")
"""Settings of a training that are chosen here."""


@dataclass(frozen=True)
class Step:
    """One stage of one skill."""

    skill: str
    stage: Stage
    place: int
    """Among the skill's stages, from 1."""
    folder: Path
    settings: RunCfg | None
    """What its training runs with; None for a mean of weights."""
    words: tuple[str, ...] = ()
    """Of its own process, behind `rearrange`."""

    @property
    def name(self) -> str:
        return f"{self.skill} {self.stage.name}"

    @property
    def total_steps(self) -> int:
        return self.settings.total_steps if self.settings is not None else 0

    @property
    def weights(self) -> Path:
        """What the next stage begins with."""
        return weights_of(self.stage, self.folder)

    @property
    def log(self) -> Path:
        """What its process says."""
        return self.folder.with_name(f"{self.folder.name}.log")

    def standing(self) -> tuple[int, float]:
        """Steps that are done, and seconds that they took."""
        if (summary := self.summary()) is not None:
            return min(self.total_steps, summary["total_steps"]), summary["wall_time_s"]
        line = newest_metrics(self.folder)
        return min(self.total_steps, line.get("step", 0)), line.get("time_s", 0.0)

    def summary(self) -> dict[str, Any] | None:
        """Of the stage once it is over, None before that."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            summary = strict_json((self.folder / SUMMARY_FILE).read_text(encoding="utf-8"))
            is_over = summary["stopped_by"] is None and summary["total_steps"] >= self.total_steps
            return summary if is_over else None
        return None


def output_folder(cfg: TrainSkillsCfg) -> Path:
    """Named by what makes a difference, so that the same command finds it again."""
    if cfg.output is not None:
        return Path(cfg.output).expanduser()
    return stages_folder(cfg.preset, cfg.seed)


def plan(cfg: TrainSkillsCfg) -> dict[str, list[Step]]:
    """Skill -> its steps in order, each looked at as far as can be without starting it.

    Raises UserError for a skill or stage that there is not, and for what is wrong with a stage.
    """
    known = group_options("skill")
    for name in cfg.skills:
        if name not in known:
            raise UserError(f"unknown skill '{name}': {nearest(name, known)}")
    for word in cfg.passed_on:
        if (key := word.partition("=")[0]) in OWN:
            raise UserError(f"train-skills sets {key} itself, for each stage of each skill")
    return {skill: _steps(cfg, skill) for skill in cfg.skills or known}


def _steps(cfg: TrainSkillsCfg, skill: str) -> list[Step]:
    recipes = recipes_of(skill)
    stages = recipes.stages[cfg.preset]
    if not stages:
        raise UserError(f"{skill} has no stages of preset {cfg.preset}: skills= leaves it out")
    if cfg.stop_after is not None:
        stages = stages[: stages.index(recipes.stage(cfg.preset, cfg.stop_after)) + 1]
    return [_step(cfg, skill, stage, place) for place, stage in enumerate(stages, start=1)]


def _step(cfg: TrainSkillsCfg, skill: str, stage: Stage, place: int) -> Step:
    folder = output_folder(cfg) / skill / stage.name
    if stage.method == "average":
        return Step(skill, stage, place, folder, None)
    words = [skill, f"stage={stage.name}", f"preset={cfg.preset}", f"seed={cfg.seed}"]
    words += [*_threads(cfg), *cfg.passed_on, f"run_dir={folder}", "resume=auto"]
    try:
        settings = load_training("train-skill", words)
    except UserError as error:
        raise UserError(f"{skill}, stage {stage.name}: {error}") from error
    check_run_folder(folder, "auto")
    return Step(skill, stage, place, folder, settings, ("train-skill", *words))


def _threads(cfg: TrainSkillsCfg) -> list[str]:
    """Side by side they share the cores."""
    if cfg.jobs == 1:
        return []
    return [f"num_threads={max(1, num_cores() // cfg.jobs)}"]


def all_steps(steps: dict[str, list[Step]]) -> Sequence[Step]:
    return [step for own in steps.values() for step in own]
