"""Shared by all benches: prints tables, writes the JSON file, returns the exit code.

results, criteria --> table on the screen, `output` with both in it --> 0, or 1 if one is missed
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from rearrange.system.files import user_path
from rearrange.system.outputs import atomic_write_json


class Criterion(Protocol):
    """A figure and its limit, a dataclass: at most or at least, as the bench has it."""

    name: str

    @property
    def is_met(self) -> bool: ...


def report(
    table: str, results: dict[str, Any], criteria: Sequence[Criterion], output: str | Path | None
) -> int:
    """Prints the table, writes results and criteria to the JSON file, if any; the exit code."""
    print(table)
    if output is not None:
        named = {
            criterion.name: vars(criterion) | {"is_met": criterion.is_met} for criterion in criteria
        }
        atomic_write_json(user_path(output), results | {"bars": named})
    return int(not all(criterion.is_met for criterion in criteria))
