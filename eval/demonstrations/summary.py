"""The summary of a finished dataset: `summary.json`, the last file written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rearrange.errors import UserError
from rearrange.eval.demonstrations.formats import FORMATS
from rearrange.system.checked_json import quoted, strict_json
from rearrange.system.files import read_whole_file

EPISODES, SUMMARY = "episodes.json.gz", "summary.json"
SUMMARY_LIMIT = 2**20  # bytes; ours have 2 kB


def read_summary(folder: Path) -> dict[str, Any]:
    """What a finished data set says of itself. Raises UserError for any other folder."""
    path = folder / SUMMARY
    if not path.is_file():
        raise UserError(f"{folder} must be a finished dataset of `rearrange collect`: no {SUMMARY}")
    try:
        summary = strict_json(read_whole_file(path, SUMMARY_LIMIT).decode())
        if summary["format"] not in FORMATS:
            raise ValueError(summary["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged: {quoted(str(error))}") from error
    return summary
