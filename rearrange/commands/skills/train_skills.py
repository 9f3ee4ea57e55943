"""`rearrange train-skills`: every stage of every skill from scratch, then files and a report.

    plan --> stages, each a process --> OUT/NAME.safetensors --> evaluation --> OUT/report.html

The same command continues after Ctrl-C, a kill or `max_hours`.
"""

from __future__ import annotations

import shlex
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rearrange.commands.skills.plan import Step, all_steps, output_folder, plan
from rearrange.commands.skills.rates import Rates
from rearrange.commands.skills.report import write_report
from rearrange.commands.skills.runner import Outcome, run_queues
from rearrange.commands.skills.stage_outputs import begin, evaluated, skill_file, tasks
from rearrange.commands.skills.status_table import StatusTable
from rearrange.configs.choices import group_options
from rearrange.configs.schema import TrainSkillsCfg
from rearrange.system.console import print_line
from rearrange.system.folder_lock import lock_folder
from rearrange.system.outputs import atomic_write_text, prepare_folder
from rearrange.system.stop_signals import StopSignals
from rearrange.ver.run.progress import duration

REPORT_FILE = "report.html"


def run(cfg: TrainSkillsCfg) -> int:
    """Trains them; 0 if all went well, 1 if a stage failed, or the code of a signal.

    Raises UserError, before anything is started, for what is wrong with one of the stages, or a
    folder that is in use or holds skills of another preset or seed.
    """
    skills = plan(cfg)
    steps, output = all_steps(skills), output_folder(cfg)
    rates = Rates(steps)
    status_table = StatusTable(steps, rates, cfg.jobs)
    with lock_folder(output, "output"):
        prepare_folder(output)
        begin(cfg)
        print_line(status_table.table())
        stop = StopSignals()
        queues = {skill: tasks(cfg, own) for skill, own in skills.items()}
        with stop.listening():
            look = with_limit(status_table.show, stop, cfg.max_hours)
            try:
                outcome = run_queues(queues, cfg.jobs, stop, look)
            finally:
                status_table.close()
        atomic_write_text(output / REPORT_FILE, write_report(cfg, skills, outcome.failures))
        print_line(results(cfg, skills, outcome.failures))
        return _end(outcome, stop, output)


def results(cfg: TrainSkillsCfg, skills: dict[str, list[Step]], failures: Mapping[str, str]) -> str:
    """A line for each skill; what those that failed have left behind is not offered.

    The file is as good without its evaluation.
    """
    lines: list[str] = []
    done: list[list[Step]] = []
    width = max(map(len, [*skills, "report"])) + 2
    for skill, steps in skills.items():
        seconds = sum(step.standing()[1] for step in steps)
        num_done = sum(step.summary() is not None for step in steps)
        parts = [f"{num_done} of {len(steps)} stages in {duration(seconds)}"]
        failed = {name for name in failures if name.startswith(f"{skill} ")}
        if failed - {f"{steps[-1].name} evaluation"}:
            parts.append("failed")
        elif num_done == len(steps) and (path := skill_file(cfg, steps)).is_file():
            done.append(steps)
            parts.append(str(path))
            if (found := evaluated(cfg, steps[-1])) is not None:
                success = found["success"]
                parts.append(
                    f"{success['mean']:.1%} ({success['low']:.1%} to {success['high']:.1%}) of "
                    f"{cfg.evaluate_episodes} validation episodes"
                )
        lines.append(f"{skill:<{width}}{', '.join(parts)}")
    lines.append(f"{'report':<{width}}{output_folder(cfg) / REPORT_FILE}")
    return "\n".join([*lines, *what_next(cfg, done)])


def what_next(cfg: TrainSkillsCfg, done: Sequence[Sequence[Step]]) -> list[str]:
    """Commands to use the finished skills."""
    if not done:
        return []
    folder, first = shlex.quote(str(output_folder(cfg))), done[0]
    runs = shlex.join(str(step.folder) for step in first if step.settings is not None)
    trained = f"task={first[0].task} agent=learned skills={folder}"
    if len(done) == len(group_options("skill")):
        trained = f"task=tidy_house agent=tp_srl skills={folder}"
    return [
        "",
        f"how good      rearrange evaluate {trained}",
        f"watch one     rearrange record {trained}",
        f"curves        rearrange plot {runs}",
    ]


def _end(outcome: Outcome, stop: StopSignals, output: Path) -> int:
    """Prints failures; returns the exit code."""
    with suppress(OSError):
        for name, reason in outcome.failures.items():
            print(f"{name}: {reason}", file=sys.stderr)
        if outcome.is_stopped:
            print(f"stopped by {stop.name}: saved; the same command goes on", file=sys.stderr)
    return stop.exit_code or min(1, len(outcome.failures))


def with_limit(
    show: Callable[[list[str]], None], stop: StopSignals, max_hours: float
) -> Callable[[list[str]], None]:
    """`show`, and a stop after so many hours, with the notice "start me again"."""
    end = time.monotonic() + 3600.0 * max_hours

    def look(names: list[str]) -> None:
        if max_hours and time.monotonic() > end:
            stop.request(signal.SIGUSR1)
        show(names)

    return look
