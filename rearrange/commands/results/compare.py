"""`rearrange compare`: two evaluations of the same episodes, paired."""

from dataclasses import asdict

from rearrange.configs.schema import CompareCfg
from rearrange.eval.compare import compare, read_result, table
from rearrange.system.files import user_path
from rearrange.system.outputs import atomic_write_json, prepare_output


def run(cfg: CompareCfg) -> int:
    """Prints each later evaluation beside the first."""
    output = prepare_output(cfg.output)
    results = [read_result(user_path(run)) for run in cfg.runs]
    first = results[0]
    found = [compare(first, other) for other in results[1:]]
    print("\n\n".join(table(first, b, c) for b, c in zip(results[1:], found, strict=True)))
    if output is not None:
        rows = [
            {"a": str(first.folder), "b": str(b.folder)} | asdict(c)
            for b, c in zip(results[1:], found, strict=True)
        ]
        atomic_write_json(output, rows)
    return 0
