"""The work of `train-skills`: each skill's stages as commands, each with its own folder.

    OUT/pick/cells   OUT/pick/look   OUT/pick/ver   OUT/pick.safetensors   OUT/place/cells   ...

A stage whose folder has a summary of a complete training is not repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rearrange.commands.overrides import last_override_per_key
from rearrange.commands.training.recipes import recipes_of, weights_of
from rearrange.commands.training.resolve import EPISODES_APART, load_training
from rearrange.commands.training.training_env import (
    check_run_folder,
    newest_metrics,
    stages_folder,
    working_seconds,
)
from rearrange.configs.choices import check_option, group_options
from rearrange.configs.schema import TrainSkillsCfg
from rearrange.configs.stages import Stage
from rearrange.configs.training import TrainSkillCfg
from rearrange.errors import UserError
from rearrange.skills.definition import SKILLS
from rearrange.system.checked_json import strict_json
from rearrange.system.files import user_path
from rearrange.system.machine import num_cores
from rearrange.ver.run.metrics import SUMMARY_FILE

OWN = ("skill", "stage", "preset", "run_dir", "resume", "method", "warm_start", "seed")
"""Settings of a training that are set here."""


@dataclass(frozen=True)
class Step:
    """One stage of one skill."""

    skill: str
    """Its name, without a module."""
    task: str
    """Its task's name for `evaluate`."""
    stage: Stage
    place: int
    """Among the skill's stages, from 1."""
    folder: Path
    settings: TrainSkillCfg | None
    """Settings of its training; None for a mean of weights."""
    arguments: tuple[str, ...] = ()
    """Arguments of its process, after `rearrange`."""

    @property
    def name(self) -> str:
        return f"{self.skill} {self.stage.name}"

    @property
    def total_steps(self) -> int:
        return self.settings.total_steps if self.settings is not None else 0

    @property
    def weights(self) -> Path:
        """Initial weights of the next stage."""
        return weights_of(self.stage, self.folder)

    @property
    def log(self) -> Path:
        """Output of its process."""
        return self.folder.with_name(f"{self.folder.name}.log")

    def standing(self) -> tuple[int, float]:
        """Steps that are done, and seconds that they took."""
        if (summary := self.summary()) is not None:
            return min(self.total_steps, summary["total_steps"]), summary["wall_time_s"]
        line = newest_metrics(self.folder)
        return min(self.total_steps, line.get("step", 0)), line.get("time_s", 0.0)

    def working(self) -> tuple[int, float]:
        """As `standing`, but without pauses, as far as that can be told."""
        count, seconds = self.standing()
        return count, min(seconds, working_seconds(self.folder))

    def summary(self) -> dict[str, Any] | None:
        """The stage's summary once it is complete, else None."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            summary = strict_json((self.folder / SUMMARY_FILE).read_text(encoding="utf-8"))
            is_whole = summary["stopped_by"] is None and "error" not in summary  # its work is saved
            return summary if is_whole and summary["total_steps"] >= self.total_steps else None
        return None


def output_folder(cfg: TrainSkillsCfg) -> Path:
    """Named by the relevant settings, so that the same command finds it again."""
    if cfg.output is not None:
        return user_path(cfg.output)
    return stages_folder(cfg.preset, cfg.seed)


def plan(cfg: TrainSkillsCfg) -> dict[str, list[Step]]:
    """Skill -> its steps in order, each checked as far as possible without starting it.

    Raises UserError for an unknown skill or stage, and for a mistake in a stage.
    """
    names = cfg.skills or group_options("skill")
    for name in names:
        check_option("skill", name)
    for override in cfg.forwarded:
        if (key := override.partition("=")[0]) in OWN:
            raise UserError(f"train-skills sets {key} itself, for each stage of each skill")
    plans: dict[str, list[Step]] = {}
    for name in names:
        steps = _steps(cfg, name)
        if plans.setdefault(steps[0].skill, steps) is not steps:
            raise UserError(f"skills must not name anything twice, got {name} a second time")
    return plans


def _steps(cfg: TrainSkillsCfg, named: str) -> list[Step]:
    """Of a skill by its name, or by `package.module:name`."""
    recipes = recipes_of(named)
    stages = recipes.stages[cfg.preset]
    if not stages:
        raise UserError(f"{named} has no stages of preset {cfg.preset}: leave it out of skills=")
    if cfg.stop_after is not None:
        stages = stages[: stages.index(recipes.stage(cfg.preset, cfg.stop_after)) + 1]
    return [_step(cfg, named, stage, place) for place, stage in enumerate(stages, start=1)]


def _step(cfg: TrainSkillsCfg, named: str, stage: Stage, place: int) -> Step:
    skill, (module, colon, _) = SKILLS.find(named), named.rpartition(":")
    folder = output_folder(cfg) / skill.name / stage.name
    task = f"{module}{colon}{skill.task}"
    if stage.method == "average":
        return Step(skill.name, task, stage, place, folder, None)
    overrides = [named, f"stage={stage.name}", f"preset={cfg.preset}", f"seed={cfg.seed}"]
    overrides += [*_threads(cfg), *_apart(cfg.forwarded, place), f"run_dir={folder}", "resume=auto"]
    overrides = last_override_per_key(overrides)
    try:
        settings = load_training("train-skill", overrides)
    except UserError as error:
        raise UserError(f"{skill.name}, stage {stage.name}: {error}") from error
    assert isinstance(settings, TrainSkillCfg)
    check_run_folder(folder, "auto")
    return Step(skill.name, task, stage, place, folder, settings, ("train-skill", *overrides))


def _apart(forwarded: Sequence[str], place: int) -> list[str]:
    """A given first episode is that of the first stage; later ones keep away from each other."""
    found: list[str] = []
    for override in forwarded:
        key, _, value = override.partition("=")
        if key == "first_episode" and value.isdecimal():  # else the stage's settings refuse it
            override = f"{key}={int(value) + EPISODES_APART * (place - 1)}"
        found.append(override)
    return found


def _threads(cfg: TrainSkillsCfg) -> list[str]:
    """Parallel stages share the cores."""
    if cfg.jobs == 1:
        return []
    return [f"num_threads={max(1, num_cores() // cfg.jobs)}"]


def all_steps(steps: dict[str, list[Step]]) -> Sequence[Step]:
    return [step for own in steps.values() for step in own]
