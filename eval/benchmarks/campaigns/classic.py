"""The trainer on Gymnasium's classic tasks, with the defaults of `rearrange train`.

    python -m rearrange.eval.benchmarks.campaigns.classic output=DIR [tasks=NAME,..] [ways=NAME,..]
        [seeds=0,1,2] [jobs=1] [total_steps=N] [peer_python=PYTHON]

A way is how a task is trained: serial, ver or ddppo (ours; the latter two with worker processes),
or sb3 (Stable-Baselines3's PPO, by a Python that has it; start this in the checkout, so that it
finds us). Runs that are finished are not repeated: the same command continues with what is missing.
After each run DIR/campaign.json and DIR/campaign.md say what there is; DIR/TASK-WAY-SEED are the
runs, for `rearrange plot`.

The figure of a run is the mean return of its last 100 training episodes, of the policy that
explores; a bar has to be reached by such a mean within the run's steps, which the end need not
keep: what is solved gives PPO little but noise to learn from. Intervals are Student's over the
seeds: mean +- t s / sqrt(n).
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
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

OUR_WAYS = {"serial": ["serial=true"], "ver": [], "ddppo": ["mode=ddppo"]}
WAYS = (*OUR_WAYS, "sb3")


@dataclass(frozen=True)
class Task:
    env: str
    total_steps: int
    bar: float | None  # for every seed to reach; None: SB3's mean is the bar of our mean
    ways: tuple[str, ...]


TASKS = {
    "cartpole": Task("CartPole-v1", 100_000, 475.0, ("serial", "ver", "ddppo")),
    "masked_cartpole": Task("rearrange/MaskedCartPole-v1", 300_000, 450.0, ("serial", "ver")),
    "pendulum": Task("Pendulum-v1", 250_000, -250.0, ("serial", "ver", "ddppo")),
    "half_cheetah": Task("HalfCheetah-v5", 200_000, None, ("serial", "ver", "sb3")),
}


@dataclass(frozen=True)
class Run:
    task: str
    way: str
    seed: int
    total_steps: int
    run_dir: Path

    def command(self, python: str = "python") -> list[str]:
        """What is run, as a list for `subprocess`."""
        env = TASKS[self.task].env
        if self.way == "sb3":
            module = "rearrange.eval.benchmarks.peers.sb3_classic"
            return [
                python,
                "-m",
                module,
                env,
                f"{self.total_steps}",
                f"{self.seed}",
                f"{self.run_dir}",
            ]
        overrides = [f"env={env}", f"total_steps={self.total_steps}", f"seed={self.seed}"]
        overrides += [f"run_dir={self.run_dir}", *OUR_WAYS[self.way]]
        return [python, "-m", "rearrange", "train", *overrides]

    def summary(self) -> dict[str, Any] | None:
        """Of a run that reached its steps, else None."""
        return campaigns.finished_summary(self.run_dir, self.total_steps)


@dataclass(kw_only=True)
class CampaignCfg:
    output: Path
    tasks: tuple[str, ...] = tuple(TASKS)
    ways: tuple[str, ...] = WAYS
    seeds: tuple[int, ...] = (0, 1, 2)
    jobs: int = 1
    """Runs at the same time."""
    total_steps: int = 0
    """Of every run; 0: each task's own."""
    peer_python: str = sys.executable

    def runs(self) -> list[Run]:
        """Seed by seed: a part of a campaign then says something about everything."""
        return [
            Run(name, way, seed, steps, self.output / f"{name}-{way}-{seed}")
            for seed in self.seeds
            for way in self.ways
            for name in self.tasks
            if way in TASKS[name].ways
            for steps in [self.total_steps or TASKS[name].total_steps]
        ]


def run(cfg: CampaignCfg) -> int:
    """Does what is missing; 1 if a run failed or a threshold is missed."""
    prepare_folder(cfg.output)
    runs = cfg.runs()
    missing = [one for one in runs if one.summary() is None]
    failed = 0
    with ThreadPoolExecutor(cfg.jobs) as threads:
        jobs = {threads.submit(train, one, cfg.peer_python): one for one in missing}
        for job in as_completed(jobs):
            failed += job.result() != 0
            print(f"{jobs[job].run_dir.name}: exit code {job.result()}", flush=True)
            write_report(runs, cfg.output)
    results = write_report(runs, cfg.output)
    return int(failed > 0 or not all(results["checks"].values()))


def train(one: Run, peer_python: str) -> int:
    """Trains in a process of its own, output to DIR/NAME.log; its exit code."""
    command = one.command(peer_python if one.way == "sb3" else sys.executable)
    if one.way != "sb3" and one.run_dir.exists():
        command.append("resume=auto")
    return campaigns.train(command, one.run_dir)


def write_report(runs: list[Run], folder: Path) -> dict[str, Any]:
    """Writes campaign.json and campaign.md about the runs that are finished."""
    rows: list[dict[str, Any]] = []
    for name in dict.fromkeys(one.task for one in runs):
        for way in dict.fromkeys(one.way for one in runs if one.task == name):
            found = [one for one in runs if (one.task, one.way) == (name, way) and one.summary()]
            if found:
                rows.append(row_of(name, way, found))
    results = {"rows": rows, "checks": checks_of(rows)}
    campaigns.write_results(results, table(results), folder)
    return results


def row_of(name: str, way: str, runs: list[Run]) -> dict[str, Any]:
    """A line of the table: one task trained in one way, over the seeds."""
    summaries, bar = campaigns.summaries_of(runs), TASKS[name].bar
    return {
        "task": name,
        "env": TASKS[name].env,
        "way": way,
        "steps": max(one.total_steps for one in runs),
        "seeds": [one.seed for one in runs],
        "returns": [summary["episode_return"]["mean"] for summary in summaries],
        "last": mean_over_seeds([summary["episode_return"]["mean"] for summary in summaries]),
        "curve": mean_over_seeds([campaigns.curve_mean(one.run_dir) for one in runs]),
        "reached": [campaigns.first_reached(one.run_dir, bar) for one in runs] if bar else None,
        "wall_time_s": float(np.median([summary["wall_time_s"] for summary in summaries])),
        "command": " ".join(runs[0].command()).replace(str(runs[0].run_dir), "DIR"),
        "versions": summaries[0]["versions"],
    }


def checks_of(rows: list[dict[str, Any]]) -> dict[str, bool]:
    """Whether every bar is met, and of ver beside ddppo and of ours beside SB3's."""
    by_key = {(row["task"], row["way"]): row for row in rows}
    checks: dict[str, bool] = {}
    for (task, way), row in by_key.items():
        bar, sb3, ddppo = TASKS[task].bar, by_key.get((task, "sb3")), by_key.get((task, "ddppo"))
        if bar is not None:
            checks[f"{task} {way}: every seed reaches {bar:g}"] = None not in row["reached"]
        elif sb3 is not None and way != "sb3":
            is_met = row["last"]["mean"] >= sb3["last"]["mean"]
            checks[f"{task} {way}: mean >= SB3's"] = is_met
        # a single seed says nothing about how far seeds lie apart
        if way == "ver" and ddppo is not None and has_interval(row, ddppo):
            for figure in ("last", "curve"):
                name = f"{task} {figure}: ver is not below ddppo (95% intervals)"
                checks[name] = is_not_below(row[figure], ddppo[figure])
    return checks


def table(results: dict[str, Any]) -> str:
    """Markdown."""
    lines = [
        "| env | way | steps | return at the end: mean (95% interval) | each seed "
        "| bar reached after | over the training: mean (95% interval) | wall time (s) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in results["rows"]:
        seeds = ", ".join(f"{value:.1f}" for value in row["returns"])
        steps: list[int | None] = row["reached"] or []
        reached = ", ".join(f"{step}" if step else "never" for step in steps)
        lines.append(
            f"| {row['env']} | {row['way']} | {row['steps']} | {mean_text(row['last'])} | {seeds} "
            f"| {reached} | {mean_text(row['curve'])} | {row['wall_time_s']:.0f} |"
        )
    lines += campaigns.check_lines(results["checks"])
    lines += ["", "Commands, of the first seed:", ""]
    lines += [f"    {row['command']}" for row in results["rows"]]
    return "\n".join(lines) + "\n"


def parse(arguments: list[str]) -> CampaignCfg:
    """The settings. Raises UserError for an unknown argument."""
    values: dict[str, Any] = {}
    for argument in arguments:
        name, _, value = argument.partition("=")
        if name in ("tasks", "ways"):
            known = TASKS if name == "tasks" else WAYS
            values[name] = tuple(value.split(","))
            for item in values[name]:
                if item not in known:
                    raise UserError(f"{name} must be of {', '.join(known)}; got '{item}'")
        elif name in ("seeds", "jobs", "total_steps"):
            if not all(item.isdecimal() for item in value.split(",")):
                raise UserError(f"{name} must be whole numbers, got '{value}'")
            numbers = tuple(int(item) for item in value.split(","))
            values[name] = numbers if name == "seeds" else numbers[0]
        elif name in ("output", "peer_python") and value:
            path = user_path(value).absolute()
            values[name] = path if name == "output" else str(path)
        else:
            raise UserError(f"cannot read '{argument}': see the top of {__name__}")
    if "output" not in values:
        raise UserError("output=DIR must be given")
    if values.get("jobs", 1) < 1:
        raise UserError(f"jobs must be at least 1, got {values['jobs']}")
    return CampaignCfg(**values)


if __name__ == "__main__":
    campaigns.main(lambda: run(parse(sys.argv[1:])))
