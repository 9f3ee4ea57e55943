"""The commands as functions: `rearrange.evaluate`, `rearrange.plan`, `rearrange.train`.

    evaluate(task="pick", agent="learned", num_episodes=20)     -> EvaluationResult
    plan(task="set_table", index=3)                             -> PlanResult
    train(env="CartPole-v1", total_steps=100_000)               -> Training

Keywords are the settings of the command of that name (`rearrange evaluate --help`), as Python has
them: numbers, booleans, lists, paths, None. Those of parts, which the command writes with a dot, go
in a dict: `ppo={"clip_coef": 0.1}`. A value that does not fit raises `rearrange.errors.UserError`
with the line that the command would end with. Nothing is printed, and nothing ends the program.
"""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, get_origin, overload

from rearrange.errors import UserError


class Estimate(NamedTuple):
    """A mean over episodes with its 95% interval, which a single episode has none of."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class EvaluationResult:
    """What an evaluation found."""

    success: Estimate | None
    """Share of episodes; None where the environment does not tell of success."""
    stages: dict[str, Estimate]
    """Stage of a long task -> share of episodes that reached it."""
    episode_return: Estimate | None
    """Of `run=` in an environment that is not of the home."""
    episodes: list[dict[str, Any]] = field(repr=False)
    """A line of episodes.jsonl each, in order of the index."""
    summary: dict[str, Any] = field(repr=False)
    """What summary.json holds."""
    output_dir: Path | None
    """Where the files are; None if none were wanted."""


@dataclass(frozen=True)
class PlanResult:
    """A plan, shown to be valid."""

    steps: list[str]
    """Such as "pick(apple)" of the home, and "(move a b)" of PDDL files."""
    is_shortest: bool
    """Whether that is known."""
    at_least: int
    """No plan has fewer steps; 0 if nothing is known."""
    problem: str | None = field(repr=False)
    """The PDDL problem of an episode of the home."""


@dataclass(frozen=True)
class Training:
    """What a training ended with; `rearrange.load_skill(run_dir)` gives the policy."""

    run_dir: Path
    """Of method=imitation_ver, stopped before its last stage: the folder of the one it was in."""
    total_steps: int
    episode_return: dict[str, float] | None
    """Of the last episodes, {mean, std, episodes}; None if none ended. So with `success`."""
    success: dict[str, float] | None
    stopped_by: str | None
    """SIGINT and so on; None if it came to its end. `resume="auto"` goes on."""
    summary: dict[str, Any] = field(repr=False)
    """What summary.json holds."""


class TrainingError(RuntimeError):
    """A training ended before its total; its work is saved in its folder."""


def evaluate(**settings: Any) -> EvaluationResult:
    """Runs an agent, or what a training run learned (`run=`), through many episodes.

    Files are written only into `output_dir`, if it is given; what it holds already is not run
    again. Raises UserError.
    """
    from rearrange.commands.settings import load
    from rearrange.eval.habitat.evaluation import evaluate_settings
    from rearrange.eval.missing_episodes import silent

    with contextlib.ExitStack() as stack:
        is_kept = str(settings.get("output_dir")).lower() not in ("none", "null")  # as typed
        if not is_kept:
            if settings.get("record"):
                raise UserError("record= needs output_dir=, where the videos go")
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="rearrange-"))
            settings = settings | {"output_dir": folder}
        cfg = load("evaluate", overrides_of(settings, "evaluate"))
        summary, output_dir = evaluate_settings(cfg, silent)
        with open(output_dir / "episodes.jsonl", encoding="utf-8") as lines:
            episodes = [json.loads(line) for line in lines]
    success: Mapping[str, Any] = summary["success"]
    return EvaluationResult(
        success=_estimate(success),
        stages={stage["name"]: _estimate(stage) for stage in summary.get("stages", [])},
        episode_return=_estimate(summary.get("episode_return")),
        episodes=episodes,
        summary=summary,
        output_dir=output_dir if is_kept else None,
    )


def plan(**settings: Any) -> PlanResult:
    """The plan for an episode of the home (`task`, `split`, `seed`, `index`), or for PDDL files
    (`domain`, `problem`). Raises UserError, also where there is no plan.
    """
    from rearrange.commands.plan import find_plan
    from rearrange.commands.settings import load

    found = find_plan(load("plan", overrides_of(settings, "plan")))
    return PlanResult(found.steps, found.plan.is_shortest, found.plan.lower_bound, found.problem)


def train(**settings: Any) -> Training:
    """Trains a skill of the home (`skill="pick"`) or in any Gymnasium environment (`env=`).

    Signals stop it as they stop the command, with its work saved. Raises UserError, and
    TrainingError for what ends a training early.
    """
    if ("skill" in settings) == ("env" in settings):
        raise UserError("train needs skill=, such as 'pick', or env=, such as 'CartPole-v1'")
    from rearrange.commands.training import train as command
    from rearrange.commands.training.resolve import load_training

    verb = "train-skill" if "skill" in settings else "train"
    cfg = load_training(verb, overrides_of(settings, verb))
    with _silence() as said:
        code = command.run(cfg)
    if code not in (0, *command.EXIT_CODES.values()):
        lines = said.getvalue().strip().splitlines()
        raise TrainingError((lines or ["it ended"])[-1].removeprefix("error: "))
    run_dir = command.folder_of_last_stage(cfg)
    summary = json.loads((run_dir / "summary.json").read_text(encoding="utf-8"))
    names = ("total_steps", "episode_return", "success", "stopped_by")
    return Training(run_dir=run_dir, summary=summary, **{name: summary[name] for name in names})


def overrides_of(settings: Mapping[str, Any], verb: str | None = None) -> list[str]:
    """Settings as the command's overrides.

    Args:
        verb: whose settings they are, to find an empty dict for one that takes none.

    Raises UserError for values that no override can be.
    """
    overrides: list[str] = []
    for name, value in settings.items():
        if isinstance(value, Mapping):
            if not value and verb is not None:
                _check_is_part(verb, name)
            inner = overrides_of(value)
            overrides += [f"{name}.{override}" for override in inner]
        else:
            overrides.append(f"{name}={_text_of(name, value)}")
    return overrides


def _text_of(name: str, value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "none" if value is None else str(value).lower()
    if isinstance(value, list | tuple):
        items = [_text_of(name, item) for item in value]
        if any("," in item for item in items):
            raise UserError(f"{name}: an element of a list must not hold a comma")
        return f"[{','.join(items)}]"
    if isinstance(value, str | int | float | Path):
        return str(value)
    try:
        plain = value.item()  # a number of numpy's; its longest kind stays one
        return str(plain) if type(plain) is type(value) else _text_of(name, plain)
    except (AttributeError, ValueError):  # the second: several
        kind = type(value).__name__
        raise UserError(f"{name} must be a number, a text, a list or a dict, got {kind}") from None


def _check_is_part(verb: str, name: str) -> None:
    """Raises UserError for a setting that is known and is no dict: unknown ones are named later."""
    from rearrange.commands.overrides import setting_kinds
    from rearrange.configs.verbs import config_class

    kinds = setting_kinds(config_class(verb))
    is_part = get_origin(kinds.get(name)) is dict or any(k.startswith(f"{name}.") for k in kinds)
    if not is_part:
        raise UserError(f"{name} must not be a dict in the settings of {verb}, got an empty one")


@overload
def _estimate(values: None) -> None: ...
@overload
def _estimate(values: Mapping[str, Any]) -> Estimate: ...
def _estimate(values: Mapping[str, Any] | None) -> Estimate | None:
    return None if values is None else Estimate(values["mean"], values["low"], values["high"])


@contextlib.contextmanager
def _silence() -> Generator[io.StringIO]:
    """What a command says goes there instead."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        yield said
