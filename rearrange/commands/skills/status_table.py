"""The status of `train-skills`: the plan before it starts, one line while it works.

pick 2/3 look: 45% of 300k, 512 steps/s, 5:20 left, success 71% | 21 stages: 5:12:00 left
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from rearrange.commands.skills.plan import Step
from rearrange.commands.skills.rates import Rates
from rearrange.commands.training.forecast import memory_line
from rearrange.commands.training.training_env import newest_metrics
from rearrange.ver.run.progress import duration

LINE_EVERY_S = 60.0  # in a log file
REDRAW_EVERY_S = 2.0  # on a terminal
HEADINGS = ("skill", "stage", "method", "steps", "done", "steps/s", "hours left")


class StatusTable:
    """Shows a line on stderr; on a terminal it replaces the last one."""

    def __init__(self, steps: Sequence[Step], rates: Rates, jobs: int) -> None:
        self._steps, self._rates, self._jobs = steps, rates, jobs
        self._is_terminal, self._due = sys.stderr.isatty(), time.monotonic()
        self._told: list[str] = []

    def show(self, names: list[str]) -> None:
        """Prints the line periodically, and in a log file when another task has started."""
        now = time.monotonic()
        is_new = names != self._told
        if not names or (now < self._due and not is_new):
            return
        self._told = list(names)
        self._due = now + (REDRAW_EVERY_S if self._is_terminal else LINE_EVERY_S)
        with suppress(OSError):  # nobody reads it any more
            if self._is_terminal:
                print(f"\r\x1b[K{self.line(names)}", end="", file=sys.stderr, flush=True)
            else:
                print(self.line(names), file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._is_terminal:
            with suppress(OSError):
                print(file=sys.stderr, flush=True)

    def line(self, names: Sequence[str]) -> str:
        """The running stages, and the remaining time of all."""
        self._rates.refresh()
        steps = {step.name: step for step in self._steps}
        parts = [self._stage(steps[name]) if name in steps else name for name in names]
        left = self._rates.all_left(self._jobs)
        rest = "time left not known yet" if left is None else f"{duration(left)} left"
        number = "1 stage" if len(self._steps) == 1 else f"{len(self._steps)} stages"
        return f"{' | '.join(parts)} | {number}: {rest}"

    def table(self) -> str:
        """All stages, with their expected hours."""
        self._rates.refresh()
        rows: list[tuple[str, ...]] = [HEADINGS]
        for step in self._steps:
            rate, seconds = self._rates.rate(step), self._rates.seconds_left(step)
            method = step.settings.method if step.settings is not None else step.stage.method
            rows.append(
                (
                    step.skill, step.stage.name, method, f"{step.total_steps:,}",
                    f"{self._rates.share(step):.0%}",
                    "?" if rate is None else f"{rate:.0f}", _hours(seconds),
                )
            )  # fmt: skip
        widths = [max(len(row[i]) for row in rows) for i in range(len(HEADINGS))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        total = self._rates.all_left(self._jobs)
        machine = f"by steps a second of {self._rates.machine} until there are own ones"
        trainings = [step.settings for step in self._steps if step.settings is not None]
        lines.append(memory_line(trainings, self._jobs))
        lines.append(f"expected: {_hours(total)} hours of training, {machine}")
        return "\n".join(lines)

    def _stage(self, step: Step) -> str:
        number = sum(other.skill == step.skill for other in self._steps)
        begin = f"{step.skill} {step.place}/{number} {step.stage.name}"
        line = newest_metrics(step.folder)
        parts = [f"{begin}: {self._rates.share(step):.0%} of {_short(step.total_steps)}"]
        if line.get("speed/sps"):
            parts.append(f"{line['speed/sps']:.0f} steps/s")
        if (seconds := self._rates.seconds_left(step)) is not None:
            parts.append(f"{duration(seconds)} left")
        if line.get("episode/success") is not None:
            parts.append(f"success {line['episode/success']:.0%}")
        return ", ".join(parts)


def _hours(seconds: float | None) -> str:
    return "?" if seconds is None else f"{seconds / 3600:.2f}"


def _short(steps: int) -> str:
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if steps >= size:
            return f"{steps / size:.4g}{letter}"
    return str(steps)
