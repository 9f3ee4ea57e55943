"""Does stale experience in preempted rollouts help or harm? CartPole on two ranks, one slow.

    python -m rearrange.eval.benchmarks.campaigns.stale output=DIR [seeds=0,1,2] [total_steps=N]

Each seed is trained twice below torchrun: rollouts of the slow rank, which is stopped early, are
filled with steps of the last one ("fill"), or learned from as they are ("discard"). Steps count
when they are collected. Runs that are finished are not repeated. DIR/campaign.json and
DIR/campaign.md say what there is after each run; DIR/WAY-SEED are the runs.

VER paper, section 2.3. Intervals are Student's over the seeds.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rearrange.errors import UserError
from rearrange.eval.benchmarks.campaigns import shared as campaigns
from rearrange.eval.benchmarks.campaigns.shared import has_interval, is_not_below, mean_text
from rearrange.eval.intervals import mean_over_seeds
from rearrange.system.files import user_path
from rearrange.system.outputs import prepare_folder
from rearrange.ver.run.metrics import METRICS_FILE, read_metrics

WAYS = {"fill": "preemption.fill=true", "discard": "preemption.fill=false"}
RANKS, NUM_ENVS, NUM_STEPS = 2, 8, 64
FULL = NUM_ENVS * NUM_STEPS  # steps of a rank's rollout that nobody stops


@dataclass(frozen=True)
class Run:
    way: str
    seed: int
    total_steps: int
    run_dir: Path

    def command(self) -> list[str]:
        overrides = [
            "env=rearrange.workloads.slow_cartpole:SlowCartPole-v1",
            f"env_kwargs.num_fast={NUM_ENVS}",
            f"num_envs={NUM_ENVS}", f"num_steps={NUM_STEPS}", f"total_steps={self.total_steps}",
            f"seed={self.seed}", f"run_dir={self.run_dir}", "resume=auto", "policy=mlp",
            "device=cpu", "preemption.rule=optimal", WAYS[self.way],
        ]  # fmt: skip
        launcher = ["torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
        return [sys.executable, "-m", *launcher, "-m", "rearrange", "train", *overrides]

    def summary(self) -> dict[str, Any] | None:
        """Of a run that reached its steps, else None."""
        return campaigns.finished_summary(self.run_dir, self.total_steps)

    def metrics(self) -> dict[str, float]:
        """Returns, and what the rollouts were made of from the first one that could be stopped."""
        (summary,) = campaigns.summaries_of([self])
        lines = read_metrics(self.run_dir / METRICS_FILE)
        stopped = lines[2:]
        stale = np.array([line["ver/fraction_stale"] for line in stopped])
        fresh = np.array([line["ver/preempt_real_steps"] for line in stopped])
        batches = fresh / (1.0 - stale) / RANKS  # steps that a rank learned from, on the mean
        return {
            "last": summary["episode_return"]["mean"],
            "curve": campaigns.curve_mean(self.run_dir),
            "stopped": float(np.mean([line["ver/preempt_share"] for line in stopped])),
            "stale": float(stale.mean()),
            "smallest_batch": float(batches.min()),
            "largest_batch": float(batches.max()),
        }


def run(output: Path, seeds: list[int], total_steps: int) -> int:
    """Does what is missing; 1 if a run failed or a check does."""
    prepare_folder(output)
    runs = [Run(way, seed, total_steps, output / f"{way}-{seed}") for seed in seeds for way in WAYS]
    return campaigns.run_missing(runs, lambda finished: report(finished, output))


def report(runs: list[Run], output: Path) -> dict[str, Any]:
    """Writes campaign.json and campaign.md about the runs that are finished; what is in them."""
    rows: dict[str, dict[str, Any]] = {}
    for way in WAYS:
        found = [one.metrics() for one in runs if one.way == way]
        if found:
            columns = {name: [metrics[name] for metrics in found] for name in found[0]}
            rows[way] = {name: mean_over_seeds(values) for name, values in columns.items()}
            rows[way] |= {"seeds": [one.seed for one in runs if one.way == way], "each": columns}
    results = {"rows": rows, "checks": checks_of(rows)}
    campaigns.write_results(results, table(results), output)
    return results


def checks_of(rows: dict[str, Any]) -> dict[str, bool]:
    """What has to hold, as far as there are runs that could show it."""
    checks: dict[str, bool] = {}
    if "fill" in rows:
        each = rows["fill"]["each"]
        batches = each["smallest_batch"] + each["largest_batch"]
        checks["fill: every batch has its full size"] = bool(np.allclose(batches, FULL))
    if set(rows) == set(WAYS) and has_interval(*rows.values()):
        for name in ("curve", "last"):
            what = f"{name}: fill is not below discard (95% intervals)"
            checks[what] = is_not_below(rows["fill"][name], rows["discard"][name])
    return checks


def table(results: dict[str, Any]) -> str:
    """Markdown."""
    lines = [
        "| rollouts that were stopped | seeds | return at the end | over the training "
        "| ranks stopped | stale steps | a rank's batch |",
        "|---|---|---|---|---|---|---|",
    ]
    for way, row in results["rows"].items():
        each = row["each"]
        smallest, largest = min(each["smallest_batch"]), max(each["largest_batch"])
        lines.append(
            f"| {way} | {len(row['seeds'])} | {mean_text(row['last'])} | {mean_text(row['curve'])} "
            f"| {row['stopped']['mean']:.0%} | {row['stale']['mean']:.0%} "
            f"| {smallest:.0f} to {largest:.0f} |"
        )
    lines += campaigns.check_lines(results["checks"])
    return "\n".join(lines) + "\n"


def parse(arguments: list[str]) -> tuple[Path, list[int], int]:
    """The arguments of `run`. Raises UserError for an unknown one."""
    values = {"output": "", "seeds": "0,1,2,3,4", "total_steps": "100000"}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name not in values or not equals:
            raise UserError(f"cannot read '{argument}': see the top of {__name__}")
        if name != "output" and not all(item.isdecimal() for item in value.split(",")):
            raise UserError(f"{name} must be whole numbers, got '{value}'")
        values[name] = value
    if not values["output"]:
        raise UserError("output=DIR must be given")
    if not values["total_steps"].isdecimal():
        raise UserError(f"total_steps must be one number, got '{values['total_steps']}'")
    seeds = [int(item) for item in values["seeds"].split(",")]
    return user_path(values["output"]).absolute(), seeds, int(values["total_steps"])


if __name__ == "__main__":
    campaigns.main(lambda: run(*parse(sys.argv[1:])))
