"""Time estimates of stages, from a table of speeds until measured ones are available.

measured   mean over this command's stages of the same network, method and sensors
table      `configs/speeds.yaml`, with the machine that was measured
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rearrange.commands.skills.plan import Step
from rearrange.commands.training.speeds import (
    LEAST_S,
    own_rate,
    speed_key,
    speed_table,
    usual_rate,
)


class Rates:
    """Steps a second of a plan's stages, from their progress at the last `refresh`."""

    def __init__(self, steps: Sequence[Step], table: dict[str, Any] | None = None) -> None:
        self._table = speed_table() if table is None else table
        self.machine: str = self._table["machine"]
        self._steps = steps
        self.refresh()

    def refresh(self) -> None:
        """Reads the progress of all stages."""
        self._done = {step.name: step.working() for step in self._steps}
        sums: dict[str, tuple[int, float]] = {}
        for step in self._steps:
            count, seconds = self._done[step.name]
            if step.settings is not None and seconds >= LEAST_S:
                known = sums.get(speed_key(step.settings), (0, 0.0))
                sums[speed_key(step.settings)] = (known[0] + count, known[1] + seconds)
        self._measured = {key: count / seconds for key, (count, seconds) in sums.items()}

    def rate(self, step: Step) -> float | None:
        """Steps a second; None if unknown."""
        if step.settings is None:
            return None
        measured = self._measured.get(speed_key(step.settings))
        return usual_rate(step.settings, self._table) if measured is None else measured

    def share(self, step: Step) -> float:
        """Completed share of a stage's steps."""
        return self._done[step.name][0] / step.total_steps if step.total_steps else 0.0

    def seconds_left(self, step: Step) -> float | None:
        """Remaining time of a stage; None if unknown."""
        count, seconds = self._done[step.name]
        if (left := step.total_steps - count) <= 0:
            return 0.0
        own = own_rate(count, seconds)
        rate = self.rate(step) if own is None else own
        return left / rate if rate else None

    def all_left(self, jobs: int = 1) -> float | None:
        """Remaining time of all stages, this many at a time; None if one is unknown."""
        of_skill: dict[str, float] = {}
        for step in self._steps:
            if (seconds := self.seconds_left(step)) is None:
                return None
            of_skill[step.skill] = of_skill.get(step.skill, 0.0) + seconds
        # a skill's stages wait for one another
        return max(sum(of_skill.values()) / jobs, *of_skill.values())
