"""How long stages take: from steps a second, those of a table until there are measured ones.

measured   mean over this command's own stages of the same network, method and sight
table      `configs/speeds.yaml`, with the machine that it is of
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rearrange.commands.settings import yaml_file
from rearrange.commands.skills.plan import Step
from rearrange.configs.training import RunCfg

LEAST_S = 30.0  # of training, before a measured rate says anything


def speed_key(settings: RunCfg) -> str:
    """What a stage's rate depends on most: network, method, and whether there are pictures."""
    sight = "blind" if settings.env_kwargs.get("depth") is False else "camera"
    return f"{settings.policy.name}_{settings.method}_{sight}"


class Rates:
    """Steps a second of the stages of a plan."""

    def __init__(self, steps: Sequence[Step], table: dict[str, Any] | None = None) -> None:
        table = yaml_file("speeds.yaml") if table is None else table
        self.machine: str = table["machine"]
        self._table: dict[str, float] = table["steps_per_second"]
        self._steps = steps

    def rate(self, step: Step) -> float | None:
        """Steps a second; None if nobody knows."""
        if step.settings is None:
            return None
        key = speed_key(step.settings)
        return self._measured().get(key, self._table.get(key))

    def seconds_left(self, step: Step) -> float | None:
        """Of a stage, from where it stands; None if nobody knows."""
        left = step.total_steps - step.steps_done()
        if left <= 0:
            return 0.0
        rate = self._own(step) or self.rate(step)
        return left / rate if rate else None

    def all_left(self, jobs: int = 1) -> float | None:
        """Of all stages, with so many at a time; None if nobody knows it of one of them."""
        parts = [self.seconds_left(step) for step in self._steps]
        if any(part is None for part in parts):
            return None
        # a skill's stages wait for one another: no more at a time than there are skills
        return sum(part or 0.0 for part in parts) / min(jobs, len({s.skill for s in self._steps}))

    def _measured(self) -> dict[str, float]:
        done: dict[str, tuple[int, float]] = {}
        for step in self._steps:
            if step.settings is not None and (seconds := step.seconds()) >= LEAST_S:
                count, total = done.get(speed_key(step.settings), (0, 0.0))
                own = (count + step.steps_done(), total + seconds)
                done[speed_key(step.settings)] = own
        return {key: count / total for key, (count, total) in done.items()}

    def _own(self, step: Step) -> float | None:
        seconds = step.seconds()
        return step.steps_done() / seconds if seconds >= LEAST_S else None
