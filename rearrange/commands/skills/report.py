"""The report of `train-skills`: each skill's curves over its stages, times, success."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from rearrange.commands.results.plot import draw
from rearrange.commands.results.training_runs import Run
from rearrange.commands.skills.plan import Step
from rearrange.commands.skills.stage_outputs import SEED, SPLIT, evaluated, origin_of, turned
from rearrange.configs.schema import TrainSkillsCfg
from rearrange.system.html import page, table
from rearrange.ver.run.metrics import METRICS_FILE, read_metrics
from rearrange.ver.run.progress import duration

METRICS = ("episode/success", "episode/return")
SMOOTH = 10  # updates


def write_report(
    cfg: TrainSkillsCfg, skills: Mapping[str, Sequence[Step]], failures: Mapping[str, str]
) -> str:
    """The page as HTML text."""
    title = f"Skills from nothing: preset {cfg.preset}, seed {cfg.seed}"
    first = next(iter(skills.values()))
    origin = origin_of(cfg, first)
    commits = ", then ".join(origin["commits"]) or "unknown"
    given = [*origin.get("overrides_before", []), origin["overrides"]]
    overrides = ", then ".join(" ".join(one) or "none" for one in given)
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p class=quiet>rearrange {escape(origin['version'])}, commit "
        f"{escape(commits)}; settings given beside the recipe: {escape(overrides)}</p>",
        "<h2>Skills</h2>",
        table(
            ("skill", "stage", "method", "steps", "time", "steps/s", "success in training",
             "success on validation", "95% interval", "won, lost"),
            (row for steps in skills.values() for row in _rows(cfg, steps)),
        ),
    ]  # fmt: skip
    if cfg.evaluate_episodes:
        parts.append(
            f"<p class=quiet>Success on validation: most likely actions, split {SPLIT}, seed "
            f"{SEED}, {cfg.evaluate_episodes} episodes; intervals are Wilson's, wider where the "
            "apartments differ. Won, lost: of the same episodes, against the stage before.</p>"
        )
    if failures:
        rows = failures.items()
        parts += ["<h2>What failed</h2>", table(("what", "why"), rows)]
    for skill, steps in skills.items():
        if (picture := curves(steps)) is not None:
            image = base64.b64encode(picture).decode()
            parts.append(f"<h2>{escape(skill)}</h2>")
            parts.append(
                f'<img alt="curves of {escape(skill)}" src="data:image/png;base64,{image}">'
            )
    return page(title, parts)


def runs_of(steps: Sequence[Step]) -> list[Run]:
    """The stages as runs, each starting at the step where the previous one ended."""
    runs: list[Run] = []
    begin = 0
    for step in steps:
        path = step.folder / METRICS_FILE
        lines = read_metrics(path) if path.exists() else []
        if lines:
            shifted = [line | {"step": begin + line["step"]} for line in lines]
            runs.append(Run(step.folder, f"{step.place} {step.stage.name}", shifted))
            begin = shifted[-1]["step"]
    return runs


def curves(steps: Sequence[Step]) -> bytes | None:
    """Success and return over the stages, one colour each, as PNG; None without data."""
    runs = runs_of(steps)
    known = {name for run in runs for line in run.lines for name in line if line[name] is not None}
    metrics = [metric for metric in METRICS if metric in known]
    if not metrics:
        return None
    buffer = io.BytesIO()
    draw(runs, metrics, "step", SMOOTH).savefig(buffer, format="png")
    return buffer.getvalue()


def _rows(cfg: TrainSkillsCfg, steps: Sequence[Step]) -> Iterable[tuple[str, ...]]:
    for step in steps:
        summary = step.summary()
        method = step.settings.method if step.settings is not None else step.stage.method
        if summary is None:
            done = f"{step.standing()[0]} of {step.total_steps}"
            yield (step.skill, step.stage.name, method, done, "", "", "", "", "", "")
            continue
        rate, success = summary.get("steps_per_second"), summary.get("success")
        found: dict[str, Any] = evaluated(cfg, step) or {}
        mean = found.get("success")
        before = steps[step.place - 2] if step.place > 1 else None
        pair = turned(cfg, before, step) if before is not None else None
        yield (
            step.skill, step.stage.name, method, f"{summary['total_steps']}",
            duration(summary["wall_time_s"]), f"{rate:.0f}" if rate else "",
            f"{success['mean']:.1%}" if success else "",
            f"{mean['mean']:.1%}" if mean else "",
            f"{mean['low']:.1%} to {mean['high']:.1%}" if mean else "",
            f"{pair[0]}, {pair[1]}" if pair is not None else "",
        )  # fmt: skip
