"""Do two ranks learn as well per step as one with twice the environments?

    python -m rearrange.eval.benchmarks.campaigns.ranks output=DIR [tasks=NAME,..] [seeds=0,1,2]

Each task and seed is trained twice: by one rank ("one"), and below torchrun by two ranks that have
half of the environments each ("two"). The batch of an update is the same, half of it on each rank.
Pick is trained without its camera. Runs that are finished are not repeated. DIR/campaign.json and
DIR/campaign.md say what there is after each run; DIR/TASK-WAY-SEED are the runs.

DD-PPO (arXiv 1911.00357), section 3. Intervals are Student's over the seeds.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rearrange.errors import UserError
from rearrange.eval.benchmarks.campaigns import shared as campaigns
from rearrange.eval.benchmarks.campaigns.shared import has_interval, is_not_below, mean_text
from rearrange.eval.intervals import mean_over_seeds
from rearrange.system.files import user_path
from rearrange.system.outputs import prepare_folder

NUM_RANKS = {"one": 1, "two": 2}


@dataclass(frozen=True)
class Task:
    arguments: tuple[str, ...]  # the training
    num_envs: int  # of all ranks together
    total_steps: int


TASKS = {
    "cartpole": Task(("train", "env=CartPole-v1"), 16, 100_000),
    "pick": Task(("train-skill", "pick", "env_kwargs.depth=false"), 16, 100_000),
}


@dataclass(frozen=True)
class Run:
    task: str
    way: str
    seed: int
    run_dir: Path

    def command(self, python: str = sys.executable) -> list[str]:
        task, ranks = TASKS[self.task], NUM_RANKS[self.way]
        program = ["-m", "rearrange"]
        if ranks > 1:
            launcher = ["torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
            program = ["-m", *launcher, *program]
        return [
            python, *program, *task.arguments, f"num_envs={task.num_envs // ranks}",
            f"total_steps={task.total_steps}", f"seed={self.seed}", "num_threads=1", "device=cpu",
            "resume=auto", f"run_dir={self.run_dir}",
        ]  # fmt: skip

    def summary(self) -> dict[str, Any] | None:
        """Of a run that reached its steps, else None."""
        return campaigns.finished_summary(self.run_dir, TASKS[self.task].total_steps)


def run(output: Path, tasks: list[str], seeds: list[int]) -> int:
    """Does what is missing; 1 if a run failed or a check does."""
    prepare_folder(output)
    runs = [
        Run(task, way, seed, output / f"{task}-{way}-{seed}")
        for seed in seeds
        for task in tasks
        for way in NUM_RANKS
    ]
    return campaigns.run_missing(runs, lambda finished: report(finished, output))


def report(runs: list[Run], output: Path) -> dict[str, Any]:
    """Writes campaign.json and campaign.md about the runs that are finished; what is in them."""
    rows: dict[str, dict[str, Any]] = {}
    for task in dict.fromkeys(one.task for one in runs):
        for way in NUM_RANKS:
            found = [one for one in runs if (one.task, one.way) == (task, way)]
            if found:
                rows.setdefault(task, {})[way] = row_of(found)
    results = {"rows": rows, "checks": checks_of(rows)}
    campaigns.write_results(results, table(results), output)
    return results


def row_of(runs: list[Run]) -> dict[str, Any]:
    """One task trained in one way, over the seeds."""
    summaries = campaigns.summaries_of(runs)
    last = [summary["episode_return"]["mean"] for summary in summaries]
    return {
        "seeds": [one.seed for one in runs],
        "each": last,
        "last": mean_over_seeds(last),
        "curve": mean_over_seeds([campaigns.curve_mean(one.run_dir) for one in runs]),
        "command": " ".join(runs[0].command("python")).replace(str(runs[0].run_dir), "DIR"),
        "versions": summaries[0]["versions"],
    }


def checks_of(rows: dict[str, dict[str, Any]]) -> dict[str, bool]:
    """Whether two ranks are not below one, where there are seeds enough to say so."""
    return {
        f"{task} {figure}: two ranks are not below one (95% intervals)": is_not_below(
            ways["two"][figure], ways["one"][figure]
        )
        for task, ways in rows.items()
        if set(ways) == set(NUM_RANKS) and has_interval(*ways.values())
        for figure in ("last", "curve")
    }


def table(results: dict[str, Any]) -> str:
    """Markdown."""
    lines = [
        "| task | ranks | steps | return at the end: mean (95% interval) | each seed "
        "| over the training: mean (95% interval) |",
        "|---|---|---|---|---|---|",
    ]
    rows = [(task, way, row) for task, ways in results["rows"].items() for way, row in ways.items()]
    for task, way, row in rows:
        each = ", ".join(f"{value:.2f}" for value in row["each"])
        lines.append(
            f"| {task} | {way} | {TASKS[task].total_steps} | {mean_text(row['last'], 2)} | {each} "
            f"| {mean_text(row['curve'], 2)} |"
        )
    lines += campaigns.check_lines(results["checks"])
    lines += [
        "",
        "Commands, of the first seed:",
        "",
        *(f"    {row['command']}" for *_, row in rows),
    ]
    return "\n".join(lines) + "\n"


def parse(arguments: list[str]) -> tuple[Path, list[str], list[int]]:
    """The arguments of `run`. Raises UserError for an unknown one."""
    values = {"output": "", "tasks": ",".join(TASKS), "seeds": "0,1,2"}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name not in values or not equals:
            raise UserError(f"cannot read '{argument}': see the top of {__name__}")
        values[name] = value
    tasks, seeds = values["tasks"].split(","), values["seeds"].split(",")
    unknown = [task for task in tasks if task not in TASKS]
    if unknown:
        raise UserError(f"tasks must be of {', '.join(TASKS)}; got '{unknown[0]}'")
    if not all(seed.isdecimal() for seed in seeds):
        raise UserError(f"seeds must be whole numbers, got '{values['seeds']}'")
    if not values["output"]:
        raise UserError("output=DIR must be given")
    return user_path(values["output"]).absolute(), tasks, [int(seed) for seed in seeds]


if __name__ == "__main__":
    campaigns.main(lambda: run(*parse(sys.argv[1:])))
