"""`rearrange chaos`: breaks small trainings in many ways and reports what happened.

Nothing is simulated: every training is a separate process tree; faults are real signals, a full
disk, damaged files. `eval/benchmarks/chaos/faults.py` lists faults and expectations.
"""

from __future__ import annotations

import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rearrange.errors import UserError
from rearrange.eval.benchmarks.chaos.faults import FAULTS
from rearrange.eval.benchmarks.chaos.harness import Check, Finding, Harness
from rearrange.eval.benchmarks.chaos.run import ConditionNotMet
from rearrange.eval.benchmarks.soak.kills import soak_with_kills
from rearrange.eval.benchmarks.soak.pairs import kill_pairs
from rearrange.eval.benchmarks.soak.soak import soak
from rearrange.system.files import user_path
from rearrange.system.outputs import atomic_write_json, prepare_output

if TYPE_CHECKING:
    from rearrange.configs.benches import ChaosCfg

_AT_ONCE = 3  # trainings at a time; they mostly start up and wait
_WIDTHS = {"fault": 22, "what was done": 28, "expected": 34, "what happened": 46}


def run(settings: ChaosCfg) -> int:
    """Breaks trainings, prints the table; 1 if one did not end as it should."""
    if sys.platform != "linux":
        raise UserError("chaos reads /proc: it runs on Linux only")
    prepare_output(settings.output)  # what is wrong with it, before the work
    if settings.pairs:
        return _report(settings, [kill_pairs(settings.pairs, settings.seed)])
    minutes = settings.soak_minutes
    if minutes > 0.0:
        if settings.soak_kills:
            return _report(settings, [soak_with_kills(minutes, settings.seed, settings.soak_kills)])
        return _report(settings, [soak(minutes, settings.seed)])
    chosen = [fault for fault in FAULTS if fault[2] or not settings.quick]
    seeds = np.random.SeedSequence(settings.seed).spawn(len(chosen))
    with tempfile.TemporaryDirectory(prefix="rearrange-chaos-") as folder:

        def attempt(number: int) -> dict[str, Any]:
            name, do, _ = chosen[number]
            place = Path(folder) / f"{number:02d}"
            place.mkdir()
            harness = Harness(place, np.random.default_rng(seeds[number]), settings.quick)
            row = _attempt(name, do, harness)
            mark = "ok" if row["ok"] else "WRONG"
            print(f"{mark:<6} {name} ({row['seconds']:.0f} s)", file=sys.stderr, flush=True)
            return row

        with ThreadPoolExecutor(_AT_ONCE) as threads:
            jobs = [threads.submit(attempt, number) for number in range(len(chosen))]
            try:
                rows = [job.result() for job in jobs]
            except BaseException:
                threads.shutdown(cancel_futures=True)
                raise
    return _report(settings, rows)


def _report(settings: ChaosCfg, rows: list[dict[str, Any]]) -> int:
    print(table(rows))
    if settings.output is not None:
        atomic_write_json(user_path(settings.output), {"seed": settings.seed, "faults": rows})
    return 0 if all(row["ok"] for row in rows) else 1


def _attempt(name: str, do: Callable[[Harness], Finding], harness: Harness) -> dict[str, Any]:
    begin = time.monotonic()
    try:
        finding = do(harness)
    except (ConditionNotMet, OSError, LookupError) as error:  # a process or file was not there
        finding = harness.finding
        finding.checks.append(Check(f"{type(error).__name__}: {error}", False))
    return {
        "fault": name,
        "what was done": finding.done,
        "expected": finding.expected,
        "what happened": finding.happened,
        "ok": finding.is_right,
        "seconds": round(time.monotonic() - begin, 1),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The findings, a block of lines each, for a wide terminal."""
    lines = [_line(list(_WIDTHS), "ok"), _line(["-" * width for width in _WIDTHS.values()], "--")]
    for row in rows:
        cells = [textwrap.wrap(row[name], width) for name, width in _WIDTHS.items()]
        mark = "yes" if row["ok"] else "NO"
        for number in range(max(map(len, cells))):
            line = [cell[number] if number < len(cell) else "" for cell in cells]
            lines.append(_line(line, mark if number == 0 else ""))
    num_right = sum(row["ok"] for row in rows)
    return "\n".join([*lines, "", f"{num_right} of {len(rows)} ended as they should"])


def _line(cells: list[str], mark: str) -> str:
    widths = _WIDTHS.values()
    text = "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True))
    return f"{text}  {mark}".rstrip()
