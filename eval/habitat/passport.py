"""The passport: the same skill files on the same episodes in both simulators, side by side.

per task:  evaluate in MuJoCo, evaluate in habitat-lab  ->  paired difference, failures
           both reset to the same episodes              ->  how far they agree, memory
"""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import asdict, dataclass
from html import escape
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from rearrange.configs.schema import EvaluateCfg
from rearrange.eval.compare import Comparison, compare, read_result
from rearrange.eval.habitat.agreement import agreement
from rearrange.eval.habitat.client import HabitatEnv
from rearrange.eval.habitat.evaluation import evaluate_settings
from rearrange.eval.habitat.lab.stock_env import StockCfg
from rearrange.eval.missing_episodes import Notify
from rearrange.eval.runner import film_of
from rearrange.system.files import user_path
from rearrange.system.html import page, table
from rearrange.system.processes import most_memory_mb
from rearrange.tasks.env import RearrangeEnv

SIMULATORS = ("mujoco", "habitat")
PICTURE = 128  # pixels a side of the depth images that are compared
_HIGHER_IS_BETTER = ("depth_near",)


@dataclass(frozen=True, kw_only=True)
class TaskPassport:
    """What both simulators say of one task: a skill's own, or one of HAB by a chain of skills."""

    task: str
    comparison: Comparison
    """A: ours, B: Habitat's."""
    failures: dict[str, dict[str, int]]
    """Simulator -> failure -> episodes."""
    steps_per_second: dict[str, float | None]
    memory_mb: dict[str, float]
    """Simulator -> most memory of a process with one environment, after the resets."""
    resets: dict[str, float]
    """Largest difference at a reset, of each thing that `agreement` measures; the smallest share of
    `depth_near`."""
    films: dict[str, str]
    """Simulator -> film of episode 0, if there is one."""
    base: str
    """`habitat.base`: how the base moved in Habitat."""


def task_passport(cfgs: dict[str, EvaluateCfg], num_resets: int, notify: Notify) -> TaskPassport:
    """Evaluates one task in both; `cfgs` by simulator, of the same episodes. Raises UserError."""
    summaries, folders = {}, {}
    for name in SIMULATORS:
        notify(f"\n{cfgs[name].task.name} in {name}")
        summaries[name], folders[name] = evaluate_settings(cfgs[name], notify)
    results = {name: read_result(folders[name]) for name in SIMULATORS}
    failures = {
        name: dict(Counter(r.failure for r in found.records.values() if r.failure is not None))
        for name, found in results.items()
    }
    films = {name: film_of(str(folders[name] / "videos"), 0) for name in SIMULATORS}
    starts, memory_mb = resets(cfgs["habitat"], num_resets)
    return TaskPassport(
        task=cfgs["habitat"].task.name,
        comparison=compare(results["mujoco"], results["habitat"]),
        failures=failures,
        steps_per_second={name: summaries[name].get("steps_per_second") for name in SIMULATORS},
        memory_mb=memory_mb,
        resets=worst_of(starts),
        films={name: str(film) for name, film in films.items() if film.is_file()},
        base=cfgs["habitat"].habitat.base,
    )


def resets(cfg: EvaluateCfg, num_resets: int) -> tuple[list[dict[str, float]], dict[str, float]]:
    """`agreement` of the first episodes, and memory by simulator, MB. Raises UserError."""
    if num_resets == 0:
        return [], {}
    task, python, data = cfg.task.name, cfg.habitat.python, cfg.habitat.data
    assert python is not None and data is not None  # the evaluation had them
    stock = StockCfg(task=task, split=cfg.split, camera_size=PICTURE, seed=cfg.seed)
    there = HabitatEnv(python, user_path(data).resolve(), stock, delay=0)
    ours = RearrangeEnv(
        task, cfg.split, cfg.seed, camera_size=PICTURE, observation_delay=0, handle_sensors=True
    )
    try:
        found = [agreement(ours, there, index) for index in range(num_resets)]
        own = (task, cfg.split, cfg.seed, num_resets)
        with get_context("spawn").Pool(1) as pool:
            return found, {"mujoco": pool.apply(memory_here, own), "habitat": there.memory_mb()}
    finally:
        ours.close()
        there.close()


def memory_here(task: str, split: str, seed: int, num_resets: int) -> float:
    """Most memory of this process, MB, after as many resets as there; for a process of its own."""
    env = RearrangeEnv(task, split, seed, camera_size=PICTURE, handle_sensors=True)
    for index in range(num_resets):
        env.reset(options={"index": index})
    return most_memory_mb()


def worst_of(found: list[dict[str, float]]) -> dict[str, float]:
    """Of each measure the value of the episode that agrees least."""
    names = dict.fromkeys(name for one in found for name in one)
    return {
        name: float((np.min if name in _HIGHER_IS_BETTER else np.max)(
            [one[name] for one in found if name in one]))
        for name in names
    }  # fmt: skip


def passport_table(found: list[TaskPassport]) -> str:
    """What the command prints."""
    lines = [f"{'task':<18}{'MuJoCo':>8}{'Habitat':>9}{'difference':>12}   95% interval"]
    for one in found:
        a, b = (getattr(one.comparison, f"success_{which}")["mean"] for which in "ab")
        mean, low, high = (100 * one.comparison.difference[k] for k in ("mean", "low", "high"))
        numbers = f"{100 * a:>7.1f}%{100 * b:>8.1f}%{mean:>+12.1f}   {low:+.1f} to {high:+.1f}"
        lines.append(f"{one.task:<18}{numbers}")
    lines.append(f"the base in Habitat: {', '.join(sorted({one.base for one in found}))}")
    for one in found:
        only = {
            name: sorted(set(one.failures[name]) - set(one.failures[other]))
            for name, other in (SIMULATORS, SIMULATORS[::-1])
        }
        for name, kinds in only.items():
            if kinds:
                counts = ", ".join(f"{kind} {one.failures[name][kind]}" for kind in kinds)
                lines.append(f"{one.task}: only in {name}: {counts}")
        if one.resets:
            parts = ", ".join(f"{name} {value:.2g}" for name, value in one.resets.items())
            lines.append(f"{one.task}: largest differences at reset: {parts}")
    return "\n".join(lines)


def passport_json(found: list[TaskPassport]) -> dict[str, Any]:
    """For passport.json."""
    return {"date": time.strftime("%Y-%m-%d"), "tasks": [asdict(one) for one in found]}


def passport_page(found: list[TaskPassport], folder: Path) -> str:
    """For passport.html in that folder; films are linked."""
    parts = ["<h1>The same skills in MuJoCo and in Habitat</h1>"]
    parts.append(f"<pre>{escape(passport_table(found))}</pre>")
    for one in found:
        parts.append(f"<h2>{escape(one.task)}</h2>")
        kinds = sorted({*one.failures["mujoco"], *one.failures["habitat"]})
        rows = [[k, *(one.failures[name].get(k, 0) for name in SIMULATORS)] for k in kinds]
        parts.append(table(["failure", *SIMULATORS], rows))
        speeds = [one.steps_per_second[name] for name in SIMULATORS]
        shown = ["not measured" if speed is None else f"{speed:.0f}" for speed in speeds]
        rows = [["control steps a second", *shown]]
        if one.memory_mb:
            rows.append(["memory, MB", *(f"{one.memory_mb[name]:.0f}" for name in SIMULATORS)])
        parts.append(table(["", *SIMULATORS], rows))
        rows = [[name, f"{value:.3g}"] for name, value in one.resets.items()]
        parts.append(table(["at reset", "largest difference"], rows))
        for name, film in one.films.items():
            where = escape(os.path.relpath(film, folder), quote=True)
            parts.append(f"<figure><video src='{where}' controls></video>")
            parts.append(f"<figcaption>episode 0 in {escape(name)}</figcaption></figure>")
    return page("passport", parts)
