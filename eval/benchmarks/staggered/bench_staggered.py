"""`rearrange bench staggered-resets`: the paper's toy problem, with and without staggering.

    memory     H = 200, p_prog = 0.1: value error, policy KL, forgetting        figures 12 and 13
    horizons   p_prog = 0.5, H from 50 to 500: success at the end               figure 2a

Bharthulwar et al., "Staggered Environment Resets Improve Massively Parallel On-Policy Reinforcement
Learning", sections 4.2 and E. Forgetting of a block is the best accuracy that there ever was in it
less the present one; its figure is the mean over blocks and updates. Accuracy is the chance of the
right action, of the policy itself, in blocks that the rollout did not show too. Intervals are
Student's over seeds.

Legend: U updates, B blocks.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rearrange.configs.benches import BenchStaggeredCfg
from rearrange.errors import UserError
from rearrange.eval.benchmarks.criteria import report
from rearrange.eval.benchmarks.homes.bench_sim import Threshold
from rearrange.eval.benchmarks.staggered.chain_ppo import ChainRun, Learned, train
from rearrange.eval.benchmarks.staggered.plot import draw
from rearrange.eval.intervals import mean_over_seeds
from rearrange.eval.missing_episodes import versions
from rearrange.system.checked_json import strict_json
from rearrange.system.outputs import (
    atomic_write_figure,
    atomic_write_json,
    atomic_write_text,
    kept_or_temporary,
    prepare_output,
)

SWEEP_PROGRESSION = 0.5  # section B.2.2, of figure 2a
WAYS = {"naive": False, "staggered": True}
IN_STEP = 8  # trainings: their weights and moments still fit into a processor's cache
FLAT = 0.1  # of success: less is no change over horizons
# Section E.0.2; the means over seeds of what is drawn in figure 2a the paper does not write.
PAPER = {
    "naive": {"value_error": "> 80", "forgetting": "0.21"},
    "staggered": {"value_error": "<= 2.5", "forgetting": "0.015"},
}


def run(cfg: BenchStaggeredCfg) -> int:
    """Trains, prints a table and returns 1 if a threshold is missed.

    Beside `output` there are then a plot (.png) and the table (.md).
    """
    output = prepare_output(cfg.output)
    if output is not None and output.suffix in (".png", ".md"):
        raise UserError(f"output is for the figures, plot and table stand beside; got {output}")
    with kept_or_temporary(cfg.keep_dir, "staggered-") as root:
        results = summarise(cfg, train_all(runs_of(cfg), root))
    criteria = criteria_of(results)
    text = table(results, criteria)
    code = report(text, results, criteria, output)
    if output is not None:
        atomic_write_figure(output.with_suffix(".png"), draw(results))
        atomic_write_text(output.with_suffix(".md"), f"{text}\n")
    return code


def runs_of(cfg: BenchStaggeredCfg) -> list[ChainRun]:
    """All trainings, those of both ways beside each other."""
    settings = [(cfg.horizon, cfg.progression, seed) for seed in range(cfg.seeds)]
    for seed in range(cfg.sweep_seeds):
        settings += [(horizon, SWEEP_PROGRESSION, seed) for horizon in sorted(set(cfg.horizons))]
    return [
        ChainRun(
            horizon=horizon, progression=progression, is_staggered=is_staggered, seed=seed,
            num_envs=cfg.num_envs, num_updates=cfg.num_updates,
        )
        for horizon, progression, seed in dict.fromkeys(settings)
        for is_staggered in WAYS.values()
    ]  # fmt: skip


def train_all(runs: list[ChainRun], root: Path) -> dict[ChainRun, Learned]:
    """Trains what the folder does not hold yet, with a bar on a terminal, a line each on stderr."""
    from tqdm import tqdm

    paths = {one: root / f"{one.name}.json" for one in runs}
    found = {one: _kept(path, one) for one, path in paths.items() if path.exists()}
    missing = [one for one in runs if one not in found]
    updates = sum(one.num_updates for one in missing)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the layers are small: a second thread costs more than it gives
    try:
        with tqdm(
            total=updates, desc="staggered", unit="update", disable=None, file=sys.stderr
        ) as bar:
            while missing:
                group = [one for one in missing if one.horizon == missing[0].horizon][:IN_STEP]
                tell = partial(bar.update, len(group))
                for one, learned in zip(group, train(group, tell), strict=True):
                    found[one] = learned
                    atomic_write_json(paths[one], asdict(one) | asdict(learned))
                    missing.remove(one)
                    tqdm.write(f"{one.name}: success {learned.success:.3f}", file=sys.stderr)
    finally:
        torch.set_num_threads(threads)
    return {one: found[one] for one in runs}


def _kept(path: Path, one: ChainRun) -> Learned:
    """What a file of an earlier command says. Raises UserError if that was another training."""
    try:
        values = strict_json(path.read_text(encoding="utf-8"))
        mine = {name: values.pop(name) for name in asdict(one)}
        learned = Learned(**values)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} must be a training's figures, and is not: {error}") from error
    for name, value in asdict(one).items():
        if mine[name] != value:
            raise UserError(
                f"{path} was trained with {name}={mine[name]}, now it is {value}: choose another "
                "keep_dir"
            )
    return learned


def summarise(cfg: BenchStaggeredCfg, found: dict[ChainRun, Learned]) -> dict[str, Any]:
    """The results of the trainings, over the seeds."""
    memory, curves, forgetting = {}, {}, {}
    for way in WAYS:
        some = _some(found, way, cfg.horizon, cfg.progression)[: cfg.seeds]
        lost = [forgotten(np.array(one.accuracy)) for one in some]
        memory[way] = {
            "value_error": mean_over_seeds([max(one.value_error) for one in some]),
            "policy_kl": mean_over_seeds([float(np.mean(one.policy_kl)) for one in some]),
            "forgetting": mean_over_seeds([float(one.mean()) for one in lost]),
            "accuracy": mean_over_seeds([float(np.mean(one.accuracy[-1])) for one in some]),
            "success": mean_over_seeds([one.success for one in some]),
        }
        curves[way] = {
            "value_error": [one.value_error for one in some],
            "policy_kl": [one.policy_kl for one in some],
            "accuracy": [np.mean(one.accuracy, axis=1).tolist() for one in some],
        }
        forgetting[way] = np.mean(lost, axis=0).round(4).tolist()
    horizons = {
        horizon: {
            way: {
                "success": mean_over_seeds([one.success for one in some]),
                "accuracy": mean_over_seeds([float(np.mean(one.accuracy[-1])) for one in some]),
            }
            for way in WAYS
            for some in [_some(found, way, horizon, SWEEP_PROGRESSION)[: cfg.sweep_seeds]]
        }
        for horizon in sorted(set(cfg.horizons))
    }
    settings = asdict(cfg)
    for name in ("what", "output", "keep_dir"):
        del settings[name]
    return {
        "memory": memory, "horizons": horizons, "curves": curves, "forgetting": forgetting,
        "settings": settings, "versions": versions(),
    }  # fmt: skip


def forgotten(accuracy: np.ndarray) -> np.ndarray:
    """By how much accuracy [U, B] lies below the best so far, [U, B]."""
    return np.maximum.accumulate(accuracy, axis=0) - accuracy


def _some(
    found: dict[ChainRun, Learned], way: str, horizon: int, progression: float
) -> list[Learned]:
    """Those of a setting, by their seeds."""
    key = (WAYS[way], horizon, progression)
    return [found[r] for r in found if (r.is_staggered, r.horizon, r.progression) == key]


def criteria_of(results: dict[str, Any]) -> list[Threshold]:
    """What has to hold, by the means over seeds."""
    naive, staggered = (results["memory"][way] for way in WAYS)

    def ratio(name: str) -> float:
        """Nothing is met where there is nothing to lower."""
        before = naive[name]["mean"]
        return staggered[name]["mean"] / before if before > 0.0 else 1.0

    criteria = [
        Threshold("largest value error, staggered / naive", ratio("value_error"), 0.1, ""),
        Threshold("forgetting, staggered / naive", ratio("forgetting"), 0.2, ""),
    ]
    horizons = list(results["horizons"])
    if len(horizons) > 1:
        first, last = horizons[0], horizons[-1]
        gains = {
            way: results["horizons"][last][way]["success"]["mean"]
            - results["horizons"][first][way]["success"]["mean"]
            for way in WAYS
        }
        name = f"from H = {first} to {last}"
        criteria += [
            Threshold(f"success lost with staggering {name}", -gains["staggered"], FLAT, ""),
            Threshold(f"success gained without {name}", gains["naive"], -FLAT, ""),
        ]
    return criteria


def table(results: dict[str, Any], criteria: list[Threshold]) -> str:
    """Markdown: what the command prints."""
    cfg, rows = results["settings"], []
    of_memory = {
        "value_error": "largest value error", "policy_kl": "policy KL, mean over updates",
        "forgetting": "forgetting", "accuracy": "accuracy at the end",
        "success": "success at the end",
    }  # fmt: skip
    for name, title in of_memory.items():
        cells = [
            cell
            for way in WAYS
            for cell in (_text(results["memory"][way][name]), PAPER[way].get(name, ""))
        ]
        rows.append(f"| {title} | {' | '.join(cells)} |")
    lines = [
        f"H = {cfg['horizon']}, p_prog = {cfg['progression']:g}, {cfg['num_envs']} chains, "
        f"{cfg['num_updates']} updates, {cfg['seeds']} seeds: mean (95% interval)",
        "",
        "| | naive | paper | staggered | paper |",
        "|---|---|---|---|---|",
        *rows,
    ]
    if results["horizons"]:
        lines += [
            "",
            f"p_prog = {SWEEP_PROGRESSION:g}, {cfg['sweep_seeds']} seeds, at the end of training:",
            "",
            "| H | success, naive | success, staggered | accuracy, naive | accuracy, staggered |",
            "|---|---|---|---|---|",
        ]
    for horizon, ways in results["horizons"].items():
        cells = [_text(ways[way][name]) for name in ("success", "accuracy") for way in WAYS]
        lines.append(f"| {horizon} | {' | '.join(cells)} |")
    lines += ["", "| bar | measured | at most | |", "|---|---|---|---|"]
    for criterion in criteria:
        verdict = "met" if criterion.is_met else "MISSED"
        lines.append(
            f"| {criterion.name} | {criterion.value:.3f} | {criterion.limit:g} | {verdict} |"
        )
    return "\n".join(lines)


def _text(figure: dict[str, float | None]) -> str:
    """A mean and, where there is one, its interval."""
    mean, low, high = (figure[name] for name in ("mean", "low", "high"))
    return f"{mean:.3g}" if low is None else f"{mean:.3g} ({low:.3g} to {high:.3g})"
