"""Shared by all benches: prints tables, writes the JSON file, returns the exit code.

results, criteria --> table on the screen, `output` with both in it --> 0, or 1 if one is missed
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from rearrange.errors import UserError
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


def names_of(setting: str, text: str, known: tuple[str, ...]) -> list[str]:
    """Names with commas between them. Raises UserError for one that is unknown, or for none."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        got = ", ".join(unknown) or "nothing"
        raise UserError(f"{setting} must be some of {', '.join(known)}; got {got}")
    return names
