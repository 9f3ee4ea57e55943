"""`rearrange launch`: many trainings on a Ray cluster, one folder each, with a status table.

    skills x seeds --> `train-skill NAME seed=S run_dir=... resume=auto` --> RankGroup --> table

Ray queues what does not fit. A training whose machine is lost starts again on another one and goes
on from its newest checkpoint; if this command itself is lost, typing it again makes all go on.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rearrange.cluster.ray_session import connected
from rearrange.cluster.scheme import SchemeCfg
from rearrange.commands.overrides import last_override_per_key
from rearrange.commands.training.resolve import load_training
from rearrange.commands.training.training_env import (
    check_run_folder,
    newest_metrics,
    training_env_of,
)
from rearrange.configs.schema import LaunchCfg
from rearrange.errors import UserError
from rearrange.system.files import user_path
from rearrange.system.outputs import prepare_folder
from rearrange.system.stop_signals import StopSignals
from rearrange.ver.run.progress import duration

OWN = ("seed", "run_dir", "resume", "skill", "env")  # settings of a training that are chosen here
TABLE_EVERY_S = 60.0  # in a log file
REDRAW_EVERY_S = 2.0  # on a terminal
HEADINGS = ("run", "state", "steps", "done", "steps/s", "return", "success", "restarts", "where")


@dataclass(frozen=True)
class Job:
    """One training."""

    arguments: list[str]
    run_dir: Path
    total_steps: int
    scheme: SchemeCfg


def run(settings: LaunchCfg) -> int:
    """Trains them all; 0 if each ended well, 1 if one did not, or the code of a signal.

    Raises UserError, before any training starts, for what is wrong with one of them.
    """
    jobs = plan(settings)
    prepare_folder(user_path(settings.run_root))
    largest = max(job.scheme.world_size * job.scheme.num_cpus for job in jobs)
    stop = StopSignals()
    with connected(jobs[0].scheme.address, largest), stop.listening():
        from rearrange.cluster.rank_group import RankGroup, look_until_over

        folder = os.getcwd()
        groups = [RankGroup(job.run_dir.name, job.arguments, job.scheme, folder) for job in jobs]
        status_table = StatusTable(jobs, groups)
        look_until_over(groups, stop, status_table.show)
    print(status_table.table())
    failed = [group for group in groups if group.exit_code]
    for group in failed:
        print(f"{group.name}: exit code {group.exit_code}: {group.reason}", file=sys.stderr)
    return stop.exit_code or min(1, len(failed))


def plan(settings: LaunchCfg) -> list[Job]:
    """The trainings, looked at as far as can be without starting them."""
    for override in settings.forwarded:
        if (key := override.partition("=")[0]) in OWN:
            raise UserError(f"launch sets {key} itself, from skills, envs, seeds and run_root")
    subjects = [("train-skill", f"skill={name}") for name in settings.skills]
    subjects += [("train", f"env={name}") for name in settings.envs]
    jobs = []
    for verb, what in subjects:
        overrides = last_override_per_key([what, "scheme=ray", *settings.forwarded, "resume=auto"])
        cfg = load_training(verb, overrides)
        if cfg.scheme.name != "ray":
            raise UserError(f"launch runs its trainings on Ray, not with scheme={cfg.scheme.name}")
        for seed in settings.seeds:
            name = f"{training_env_of(cfg).short_name}-{cfg.mode}-{seed}"
            run_dir = user_path(settings.run_root) / name
            check_run_folder(run_dir, "auto")
            own = [verb, *overrides, f"seed={seed}", f"run_dir={run_dir}"]
            jobs.append(Job(own, run_dir, cfg.total_steps, cfg.scheme))
    names = [job.run_dir for job in jobs]
    if len({*names}) < len(names):
        raise UserError("two trainings would have the same folder: launch them one after another")
    return jobs


class StatusTable:
    """Shows where the trainings stand, on stderr."""

    def __init__(self, jobs: Sequence[Job], groups: Sequence[Any]) -> None:
        self._jobs, self._groups = jobs, groups
        self._due, self._is_terminal = time.monotonic(), sys.stderr.isatty()
        self._height = 0

    def show(self) -> None:
        """Prints the table if it is time to; on a terminal over the last one."""
        if time.monotonic() < self._due:
            return
        every = REDRAW_EVERY_S if self._is_terminal else TABLE_EVERY_S
        self._due = time.monotonic() + every
        text = self.table()
        if self._is_terminal and self._height:
            print(f"\x1b[{self._height}A\x1b[J", end="", file=sys.stderr)
        self._height = text.count("\n") + 1
        print(text, file=sys.stderr, flush=True)

    def table(self) -> str:
        rows: list[tuple[str, ...]] = [HEADINGS]
        for job, group in zip(self._jobs, self._groups, strict=True):
            state = group.state if group.exit_code is None else _ending(group.exit_code)
            where = ",".join(group.nodes)
            rows.append((job.run_dir.name, state, *_metrics_of(job), str(group.restarts), where))
        widths = [max(len(row[i]) for row in rows) for i in range(len(HEADINGS))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )


def _metrics_of(job: Job) -> tuple[str, ...]:
    """steps, done, steps/s, return, success."""
    line = newest_metrics(job.run_dir)
    if not line:
        return ("",) * 5
    step, rate = line["step"], line.get("speed/sps")
    left = max(0, job.total_steps - step)
    done = f"{min(1.0, step / job.total_steps):.0%}"
    if rate and left:
        done += f", {duration(left / rate)} left"
    forms = (("speed/sps", "{:.0f}"), ("episode/return", "{:.4g}"), ("episode/success", "{:.0%}"))
    values = [form.format(line[n]) if line.get(n) is not None else "" for n, form in forms]
    return (str(step), done, *values)


def _ending(code: int) -> str:
    return {0: "done", 130: "stopped", 143: "stopped", 75: "stopped"}.get(code, "failed")
