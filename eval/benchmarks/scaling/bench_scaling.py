"""`rearrange bench scaling`: how training speed scales with ranks, measured and simulated.

    measured     1, 2, 4, ... ranks of the trainer on this machine; environments, policy and
                 learner sleep (`workload.py`), synchronisation and all-reduces are real
    simulated    up to 1,024 ranks, with the measured costs
    preemption   the chosen S against the best S, on random timings

The efficiency of R ranks is their speed over the sum of the same R ranks' speeds on their own.
"""

from __future__ import annotations

import platform
import sys
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from rearrange.configs.benches import BenchScalingCfg
from rearrange.errors import UserError
from rearrange.eval.benchmarks.criteria import names_of, report
from rearrange.eval.benchmarks.scaling import preemption_check
from rearrange.eval.benchmarks.scaling.calibration import (
    Measurements,
    assumptions,
    calibrate,
    errors,
    predict,
    rates_alone,
)
from rearrange.eval.benchmarks.scaling.measure import check_settings, measure
from rearrange.eval.benchmarks.scaling.plot import draw
from rearrange.eval.benchmarks.scaling.simulation import WAYS, Costs, StepTable
from rearrange.eval.benchmarks.scaling.workload import workload_of
from rearrange.eval.benchmarks.trainers.bench_trainers import Threshold
from rearrange.eval.missing_episodes import versions
from rearrange.system.machine import num_cores
from rearrange.system.outputs import atomic_write_figure, kept_or_temporary, prepare_output

BAR_RANKS = 8  # the paper's figures are for 8 GPUs
LARGEST_OWN_CORES = 0.3  # with more the ranks wait for this machine's cores
LARGEST_ALL_CORES = 0.9  # as they do if others keep these busy
PREEMPTION_TITLES = {
    "means": "each step takes its mean",
    "same": "the rollout it was chosen from",
    "next": "the next rollout",
}


def run(cfg: BenchScalingCfg) -> int:
    """Measures, simulates, prints tables and returns 1 if a threshold is missed.

    Raises UserError for a way that does not exist or a folder that cannot be used, before anything
    is measured.
    """
    cfg.ranks = sorted({1, *cfg.ranks})
    ways = names_of("ways", cfg.ways, tuple(WAYS))
    output = prepare_output(cfg.output)
    if output is not None and output.suffix == ".png":
        raise UserError(f"output is for the figures, the plot stands beside it; got {output}")
    with kept_or_temporary(cfg.keep_dir, "scaling-") as root:
        check_settings(cfg, root)
        measured = measure_all(cfg, ways, root)
    results = summarise(cfg, ways, measured)
    criteria = criteria_of(results)
    code = report(table(results, criteria), results, criteria, output)
    if output is not None:
        atomic_write_figure(output.with_suffix(".png"), draw(results))
    return code


def measure_all(cfg: BenchScalingCfg, ways: list[str], root: Path) -> Measurements:
    """All measured points, with progress on stderr."""
    from tqdm import tqdm

    total = len(cfg.ranks) * len(ways)
    with tqdm(total=total, desc="scaling", unit="run", disable=None, file=sys.stderr) as bar:

        def notify(num_ranks: int, way: str, found: Any) -> None:
            bar.update()
            tqdm.write(
                f"{num_ranks} ranks {way}: {found.rate:.1f} steps/s, "
                f"{found.own_cores:.0%} of the cores",
                file=sys.stderr,
            )
            if max(found.own_cores - LARGEST_OWN_CORES, found.all_cores - LARGEST_ALL_CORES) > 0.0:
                tqdm.write(
                    f"warning: this machine is a limit: the ranks took {found.own_cores:.0%} of "
                    f"its cores, all processes {found.all_cores:.0%}; slow_motion= makes steps "
                    "rarer",
                    file=sys.stderr,
                )

        return {ranks: measure(cfg, ranks, ways, root, notify) for ranks in cfg.ranks}


def summarise(cfg: BenchScalingCfg, ways: list[str], measured: Measurements) -> dict[str, Any]:
    """The results, as written to the JSON file; rates in steps per second, times in s."""
    work, num_rollouts = workload_of(cfg), cfg.warmup_rollouts + cfg.num_rollouts
    settings = (num_rollouts, cfg.warmup_rollouts)
    here = StepTable(work, max(cfg.ranks))
    costs = calibrate(measured, here, *settings)
    apart = errors(measured, here, costs, *settings)
    points = {
        ranks: {
            way: asdict(figure)
            | {"efficiency": efficiency(measured, ranks, way), "simulated": apart[ranks][way]}
            for way, figure in of_ranks.items()
        }
        for ranks, of_ranks in measured.items()
    }
    simulated, lines = simulate_all(cfg, ways, costs), []
    if simulated:
        lines = assumptions(costs, here, max(cfg.simulated_ranks))
    return {
        "settings": asdict(cfg),
        "workload": asdict(work),
        "measured": points,
        "costs": asdict(costs),
        "assumptions": lines,
        "simulated": simulated,
        "preemption": preemption_check.check(cfg.draws, cfg.seed),
        "machine": {
            "processor": platform.processor() or platform.machine(),
            "cores": num_cores(), "system": platform.platform(),
        },
        "versions": versions() | {"torch": metadata.version("torch")},
    }  # fmt: skip


def efficiency(measured: Measurements, ranks: int, way: str) -> float:
    """Speed over the sum of the same ranks' speeds on their own."""
    alone = measured[1][way].rates_alone
    return 1.0 if ranks == 1 else measured[ranks][way].rate / sum(alone[:ranks])


def simulate_all(
    cfg: BenchScalingCfg, ways: list[str], costs: Costs
) -> dict[int, dict[str, dict[str, float]]]:
    """ranks -> way -> rate and efficiency; for ver also with free all-reduces."""
    from tqdm import tqdm

    if not cfg.simulated_ranks:
        return {}
    sizes = sorted(set(cfg.simulated_ranks))
    found: dict[int, dict[str, dict[str, float]]] = {ranks: {} for ranks in sizes}
    table, settings = (
        StepTable(workload_of(cfg), sizes[-1]),
        (cfg.warmup_rollouts + 6, cfg.warmup_rollouts),
    )
    free = replace(costs, hop_s=0.0, bytes_s=0.0)
    total = len(ways) * len(sizes)
    with tqdm(total=total, desc="simulating", disable=None, file=sys.stderr) as bar:
        for way in ways:
            alone = np.cumsum(rates_alone(way, table, costs, *settings))
            for ranks in sizes:
                rate = predict(ranks, way, table, costs, *settings)
                # the rate is a mean over all ranks; one rank is its own yardstick
                share = 1.0 if ranks == 1 else rate / alone[ranks - 1]
                found[ranks][way] = {"rate": rate, "efficiency": share}
                if way == "ver":
                    rate = predict(ranks, way, table, free, *settings)
                    share = 1.0 if ranks == 1 else rate / alone[ranks - 1]
                    found[ranks][way]["efficiency_free"] = share
                bar.update()
    return found


def criteria_of(results: dict[str, Any]) -> list[Threshold]:
    """The criteria for which there are measurements."""
    points, criteria = results["measured"].get(BAR_RANKS, {}), []
    for other, limit in (("nover", 1.25), ("ddppo", 2.5)):
        if "ver" in points and other in points:
            ratio = points["ver"]["rate"] / points[other]["rate"]
            criteria.append(Threshold(f"{BAR_RANKS} ranks: ver / {other}", ratio, limit))
    if "ver" in points:
        value = points["ver"]["efficiency"]
        criteria.append(Threshold(f"ver: efficiency 1 -> {BAR_RANKS} ranks", value, 0.84))
    worst = max(abs(p["simulated"]) for ways in results["measured"].values() for p in ways.values())
    criteria.append(Threshold("simulation: 1 - its largest error", 1.0 - worst, 0.90))
    scores = results["preemption"]
    criteria.append(Threshold("preemption: S / best, same means", scores["means"]["worst"], 0.97))
    criteria.append(Threshold("preemption: S / best, next rollout", scores["next"]["mean"], 0.97))
    return criteria


def table(results: dict[str, Any], criteria: list[Threshold]) -> str:
    """The command's output."""
    lines = [
        f"{'ranks':>5}  {'measured':<27}{'steps/s':>9}{'efficiency':>12}{'ver /':>7}"
        f"{'stopped %':>11}{'stale %':>9}{'simulated':>11}{'error %':>9}{'cores %':>9}"
    ]
    for ranks, ways in results["measured"].items():
        for way, point in ways.items():
            ratio = f"{ways['ver']['rate'] / point['rate']:.2f}" if "ver" in ways else ""
            lines.append(
                f"{ranks:>5}  {WAYS[way].title:<27}{point['rate']:>9.1f}"
                f"{point['efficiency']:>12.3f}{ratio:>7}"
                f"{100 * point['stopped']:>11.1f}{100 * point['stale']:>9.1f}"
                f"{point['rate'] * (1.0 + point['simulated']):>11.1f}"
                f"{100 * point['simulated']:>9.1f}{100 * point['own_cores']:>9.1f}"
            )
    if results["simulated"]:
        lines += ["", "The simulation assumes:"]
        lines += [f"  - {line}" for line in results["assumptions"]]
        lines += ["", *_simulated(results["simulated"])]
    lines += ["", f"{'chosen S / best S':<36}{'worst':>8}{'5%':>8}{'mean':>8}"]
    for name, title in PREEMPTION_TITLES.items():
        score = results["preemption"][name]
        row = "".join(f"{score[key]:>8.3f}" for key in ("worst", "low", "mean"))
        lines.append(f"{title:<36}{row}")
    lines += ["", f"{'bar':<36}{'measured':>10}{'at least':>10}"]
    for criterion in criteria:
        verdict = "met" if criterion.is_met else "MISSED"
        lines.append(
            f"{criterion.name:<36}{criterion.value:>10.3f}{criterion.limit:>10.2f}   {verdict}"
        )
    return "\n".join(lines)


def _simulated(found: dict[int, dict[str, dict[str, float]]]) -> list[str]:
    """Efficiency of every variant, and ver's speed relative to others."""
    ways = list(next(iter(found.values())))
    head = f"{'ranks':>5}  {'efficiency simulated:':<23}" + "".join(f"{way:>13}" for way in ways)
    lines = [head + ("  ver, all-reduce free" if "ver" in ways else "")]
    for ranks, of_ranks in found.items():
        row = "".join(f"{of_ranks[way]['efficiency']:>13.3f}" for way in ways)
        free = f"{of_ranks['ver']['efficiency_free']:>22.3f}" if "ver" in ways else ""
        lines.append(f"{ranks:>5}{'':<25}{row}{free}")
    return lines
