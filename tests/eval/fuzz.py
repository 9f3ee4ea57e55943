"""Damaged input for every parser: each case ends well or in one `UserError` line.

    python tests/eval/fuzz.py 100000     cases of random kinds; another seed as second number

A case that raises anything else, takes more than 20 s or leaves the process with 1 GB more is told
with its number, kind and seed, and its content is kept.
"""

from __future__ import annotations

import random
import resource
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from fuzz_cases import Sample, damaged, samples

from rearrange.errors import UserError

LONGEST_S, MOST_BYTES = 20.0, 2**30


@dataclass
class Failure:
    case: int
    kind: str
    what: str
    content: bytes


def fuzz(
    num_cases: int, seed: int, folder: Path, kinds: list[Sample] | None = None
) -> list[Failure]:
    """Runs so many cases, all kinds in turn; what went wrong.

    Args:
        folder: an empty one, for the files.
    """
    kinds = samples(folder) if kinds is None else kinds
    failures = []
    for case in range(num_cases):
        sample = kinds[case % len(kinds)]
        content = damaged(sample.content, random.Random(f"{seed} {case}"))
        if what := _tried(sample, content):
            failures.append(Failure(case, sample.name, what, content))
    return failures


def _tried(sample: Sample, content: bytes) -> str | None:
    """What went wrong with a case, if anything."""
    before, begin = _peak_bytes(), time.monotonic()
    what = None
    try:
        sample.parse(content)
    except UserError as error:
        if "\n" in str(error):
            what = f"a message of several lines: {error!r}"
    except Exception:
        what = traceback.format_exc()
    took, grown = time.monotonic() - begin, _peak_bytes() - before
    if what is None and took > LONGEST_S:
        what = f"took {took:.0f} s"
    if what is None and grown > MOST_BYTES:
        what = f"took {grown >> 20} MiB"
    return what


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(arguments: list[str]) -> int:
    """Runs the cases and tells; exit code 1 if any failed."""
    num_cases, seed = (*map(int, arguments), *(1000, 0)[len(arguments) :])
    with tempfile.TemporaryDirectory() as folder:
        failures = fuzz(num_cases, seed, Path(folder))
    for failure in failures[:50]:
        with tempfile.NamedTemporaryFile(prefix="fuzz-", delete=False) as file:
            file.write(failure.content)
        print(f"case {failure.case}, {failure.kind}, seed {seed}, {file.name}:\n{failure.what}")
    peak = _peak_bytes() >> 20
    print(f"{num_cases} cases, {len(failures)} failed; the process took at most {peak} MiB")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
