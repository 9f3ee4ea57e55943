"""Outputs of the stages: averaged weights, each skill's file, and its success.

OUT/pick.safetensors                  metadata: recipe, stages with steps and time, commits, seed
OUT/evaluation/pick-ver-802816-200/   what `evaluate` writes of 200 episodes
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from rearrange import __version__
from rearrange.commands.skills.plan import Step, output_folder
from rearrange.commands.skills.runner import Task
from rearrange.commands.training.export import export
from rearrange.commands.training.recipes import begins_with
from rearrange.commands.training.training_env import beginning, beginning_checksum
from rearrange.configs.schema import TrainSkillsCfg
from rearrange.errors import UserError
from rearrange.eval.episode_store import EPISODES_FILE, SETTINGS_FILE, stored_settings
from rearrange.skills.deployed.skill_files import find_weights, read_skill, weights_checksum
from rearrange.skills.deployed.trained_skills import weights_digest
from rearrange.system.checked_json import strict_json
from rearrange.system.machine import commit, num_cores
from rearrange.system.outputs import atomic_write_json, prepare_folder
from rearrange.ver.run.metrics import CHECKPOINTS_FOLDER, SUMMARY_FILE
from rearrange.ver.run.run_state import MEMORY_FOLDER

PLAN_FILE = "plan.json"
MAX_MEGABYTES = {"laptop": 6.0, "paper": 64.0}  # of a skill's file; the network `paper` has 30
SPLIT, SEED = "val", 0  # of the episodes


def tasks(cfg: TrainSkillsCfg, steps: Sequence[Step]) -> list[Task]:
    """All tasks of one skill, in order."""
    found: list[Task] = []
    for step in steps:
        found += [_beginning(step, steps), _training(step, steps), _forgetting(step)]
        if cfg.evaluate_stages and step is not steps[-1]:
            found += _evaluation(cfg, step, step.weights)
    file = skill_file(cfg, steps)
    name = f"{steps[0].skill} file"
    is_written_now = partial(is_written, cfg, steps)
    found.append(Task(name, is_written_now, work=partial(write_file, cfg, steps)))
    if cfg.evaluate_episodes:
        found += _evaluation(cfg, steps[-1], file)
    return found


def skill_file(cfg: TrainSkillsCfg, steps: Sequence[Step]) -> Path:
    """Where `skills=OUT` looks for it; beside it if that one has further stages already, which
    `stop_after` leaves out."""
    path = output_folder(cfg) / f"{steps[0].skill}.safetensors"
    if cfg.stop_after is not None:
        names = [step.stage.name for step in steps]
        with suppress(UserError, KeyError, TypeError):
            known = [stage["name"] for stage in read_skill(path).origin["stages"]]
            if len(known) > len(names) and known[: len(names)] == names:
                return path.with_stem(f"{path.stem}-{names[-1]}")
    return path


def write_file(cfg: TrainSkillsCfg, steps: Sequence[Step]) -> None:
    """Exports the last stage's weights."""
    most = MAX_MEGABYTES[cfg.preset]
    export([steps[-1].weights], skill_file(cfg, steps), most, origin_of(cfg, steps))


def is_written(cfg: TrainSkillsCfg, steps: Sequence[Step]) -> bool:
    """Whether the file exists and comes from these stages, with the weights of the last."""
    with suppress(UserError):
        skill = read_skill(skill_file(cfg, steps))
        if skill.origin.get("stages") != origin_of(cfg, steps)["stages"]:
            return False
        last = find_weights(steps[-1].weights).weights
        return weights_checksum(skill.weights) == weights_checksum(last)
    return False


def origin_of(cfg: TrainSkillsCfg, steps: Sequence[Step]) -> dict[str, Any]:
    """A skill's origin, for its file."""
    stages: list[dict[str, Any]] = []
    for step in steps:
        summary = step.summary() or {}
        method = step.settings.method if step.settings is not None else step.stage.method
        stages.append(
            {
                "name": step.stage.name,
                "method": method,
                "steps": summary.get("total_steps"),
                "wall_time_s": summary.get("wall_time_s"),
                **({"average": list(step.stage.average)} if step.stage.average else {}),
            }
        )
    plan = _plan_of(cfg)
    *before, overrides = plan.get("overrides") or [list(cfg.forwarded)]
    return {
        "recipe": f"train-skills preset={cfg.preset}",
        "overrides": overrides,
        **({"overrides_before": before} if before else {}),
        "seed": cfg.seed,
        "stages": stages,
        "version": __version__,
        "commits": plan.get("commits", []),
    }


def begin(cfg: TrainSkillsCfg) -> None:
    """Writes the folder's preset and seed, the commit, and what was given beside the recipe.

    Raises UserError if the folder is for something else.
    """
    path = output_folder(cfg) / PLAN_FILE
    own = {"preset": cfg.preset, "seed": cfg.seed}
    plan = _plan_of(cfg)
    found = {name: plan[name] for name in own if name in plan}
    if found and found != own:
        raise UserError(
            f"{path.parent} holds skills of {found}, not of {own}: choose another output, or the "
            "same preset and seed"
        )
    commits, given = plan.get("commits", []), plan.get("overrides", [])
    if (now := commit()) is not None and now not in commits[-1:]:
        commits = [*commits, now]
    if (overrides := list(cfg.forwarded)) not in given[-1:]:
        given = [*given, overrides]
    atomic_write_json(path, own | {"commits": commits, "overrides": given})


def _plan_of(cfg: TrainSkillsCfg) -> dict[str, Any]:
    path = output_folder(cfg) / PLAN_FILE
    try:
        return strict_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: remove it, or choose another output") from error


def evaluation_folder(cfg: TrainSkillsCfg, step: Step) -> Path:
    """Named by the weights, so that those of a longer training are evaluated again, and by the
    number of episodes: `evaluate` refuses a folder with more."""
    name = f"{step.skill}-{step.stage.name}-{step.total_steps}-{cfg.evaluate_episodes}"
    return output_folder(cfg) / "evaluation" / name


def evaluated(cfg: TrainSkillsCfg, step: Step) -> dict[str, Any] | None:
    """The summary of a step's evaluation; None if there is none with this many episodes."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        text = (evaluation_folder(cfg, step) / SUMMARY_FILE).read_text(encoding="utf-8")
        summary = strict_json(text)
        return summary if summary["num_episodes"] == cfg.evaluate_episodes else None
    return None


def turned(cfg: TrainSkillsCfg, before: Step, after: Step) -> tuple[int, int] | None:
    """Episodes that a stage won and lost against the one before; None unless both are evaluated."""
    pair: list[dict[int, bool]] = []
    for step in (before, after):
        if evaluated(cfg, step) is None:
            return None
        text = (evaluation_folder(cfg, step) / EPISODES_FILE).read_text(encoding="utf-8")
        records = [strict_json(line) for line in text.splitlines()]
        pair.append({record["index"]: record["success"] for record in records})
    old, new = pair
    won = sum(new[index] and not old[index] for index in new)
    return won, sum(old[index] and not new[index] for index in new)


def _evaluation(cfg: TrainSkillsCfg, step: Step, weights: Path) -> list[Task]:
    """Of weights; that of others which lay there before goes."""
    folder = evaluation_folder(cfg, step)
    arguments = (
        "evaluate", f"task={step.task}", "agent=learned", f"checkpoint={weights}",
        f"split={SPLIT}", f"seed={SEED}", f"num_episodes={cfg.evaluate_episodes}",
        f"output_dir={folder}", f"num_workers={max(1, num_cores() // cfg.jobs)}",
    )  # fmt: skip
    name = f"{step.name} evaluation"
    log = folder.with_name(f"{folder.name}.log")
    is_current = partial(_is_of, folder, weights)
    outdated = Task(f"{name}, outdated", is_current, work=partial(shutil.rmtree, folder))
    return [outdated, Task(name, lambda: evaluated(cfg, step) is not None, arguments, log)]


def _is_of(folder: Path, weights: Path) -> bool:
    """Whether no evaluation of other weights lies in a folder."""
    if not (folder / SETTINGS_FILE).is_file():
        return True
    return weights_digest(weights) in stored_settings(folder).get("trained_skills", {}).values()


def _beginning(step: Step, steps: Sequence[Step]) -> Task:
    work = partial(check_beginning, step, steps)
    return Task(f"{step.name} beginning", lambda: step.settings is None, work=work)


def check_beginning(step: Step, steps: Sequence[Step]) -> None:
    """Raises UserError if a stage that has begun did so with other weights than its recipe says
    now: a stage before it was put in, taken out, or trained on."""
    known = beginning(step.folder)
    if known is None:
        return  # not begun, or by a version that did not note it
    name = begins_with([other.stage for other in steps], step.stage)
    weights = next((str(other.weights) for other in steps if other.stage.name == name), None)
    if known.get("checksum") != beginning_checksum(weights):
        raise UserError(
            f"{step.folder} began with other weights than those of {name or 'no stage'}, with "
            "which the recipe lets it begin: remove the folder, or choose another output"
        )


def _training(step: Step, steps: Sequence[Step]) -> Task:
    if step.settings is not None:
        return Task(step.name, lambda: step.summary() is not None, step.arguments, step.log)
    return Task(step.name, lambda: False, work=partial(write_mean, step, steps))


def _forgetting(step: Step) -> Task:
    """Removes a finished stage's remembered rollouts, which take gigabytes."""
    memory = step.folder / CHECKPOINTS_FOLDER / MEMORY_FOLDER
    return Task(
        f"{step.name} memory",
        lambda: not memory.exists(),
        work=partial(shutil.rmtree, memory, ignore_errors=True),
    )


def write_mean(step: Step, steps: Sequence[Step]) -> None:
    """Writes the mean of the weights of the stages that the step names."""
    averaged = [other for other in steps if other.stage.name in step.stage.average]
    prepare_folder(step.folder)
    export([other.weights for other in averaged], step.weights, max(MAX_MEGABYTES.values()))
    summary = {"total_steps": 0, "wall_time_s": 0.0, "stopped_by": None}
    atomic_write_json(step.folder / SUMMARY_FILE, summary)
