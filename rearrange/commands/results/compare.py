"""`rearrange compare`: two evaluations of the same episodes, paired."""

from dataclasses import asdict
from pathlib import Path

from rearrange.configs.schema import CompareCfg
from rearrange.eval.compare import compare, read_result, table
from rearrange.system.outputs import atomic_write_json


def run(cfg: CompareCfg) -> int:
    """Prints each later evaluation beside the first."""
    results = [read_result(Path(run).expanduser()) for run in cfg.runs]
    first, found = results[0], []
    for other in results[1:]:
        found.append(compare(first, other))
    print("\n\n".join(table(first, b, c) for b, c in zip(results[1:], found, strict=True)))
    if cfg.output is not None:
        rows = [
            {"a": str(first.folder), "b": str(b.folder)} | asdict(c)
            for b, c in zip(results[1:], found, strict=True)
        ]
        atomic_write_json(Path(cfg.output).expanduser(), rows)
    return 0
