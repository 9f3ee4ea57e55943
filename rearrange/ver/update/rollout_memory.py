"""RolloutMemory: recent rollouts to learn from again, and their files.

    checkpoints/memory/5f0c9a31....safetensors   one rollout, written once, at its first checkpoint;
                                                 named by its checksum
    checkpoints/000000524288.json                names the remembered rollouts, oldest first

So each checkpoint writes only the data collected since the last one. A file is removed when none of
the newest checkpoints names it. A missing or damaged file is skipped with a warning, and training
goes on with the rest.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rearrange.errors import UserError
from rearrange.system.checked_json import is_list, is_object
from rearrange.system.files import read_whole_file, remove_unfinished, write_whole_file
from rearrange.ver.rollout.rows import RolloutRows

_NAME = re.compile(r"([0-9a-f]{64})\.safetensors")
_LENGTHS = "lengths"  # beside the columns
HOST = torch.device("cpu")

log = logging.getLogger(__name__)


@dataclass
class StoredRollout:
    """A rollout: its sequences, concatenated."""

    rows: RolloutRows
    lengths: np.ndarray  # [Q] of the sequences
    record: dict[str, Any] | None = None  # its file's name and size, once there is one


class RolloutMemory:
    """At most `size` rollouts; the oldest is dropped first.

    They lie in the host's memory, of which there is more than a GPU has.
    """

    def __init__(self, size: int) -> None:
        self._rollouts: deque[StoredRollout] = deque(maxlen=size)

    def __len__(self) -> int:
        return len(self._rollouts)

    def __getitem__(self, index: int) -> StoredRollout:
        return self._rollouts[index]

    def add(self, rows: RolloutRows, order: np.ndarray, lengths: np.ndarray) -> None:
        """Adds a copy of the rows in `order`, sequences of these lengths."""
        self._rollouts.append(StoredRollout(RolloutRows(rows.read(order), HOST), lengths))

    def save(self, folder: Path) -> list[dict[str, Any]]:
        """Writes rollouts without a file; returns the entries for a checkpoint, for `load`.

        Raises OSError if a file cannot be written; files already written stay.
        """
        folder.mkdir(parents=True, exist_ok=True)
        records: list[dict[str, Any]] = []
        for rollout in self._rollouts:
            record = rollout.record
            if record is None or not _has_size(folder / record["file"], record["size"]):
                record = rollout.record = _write(folder, rollout)
            records.append(record)
        return records

    def load(self, folder: Path, records: list[dict[str, Any]]) -> None:
        """Restores the result of `save`, as far as the files are there and intact."""
        self._rollouts.clear()
        reasons: list[str] = []
        for record in records:
            try:
                self._rollouts.append(_read(folder, record))
            except (UserError, KeyError, TypeError, ValueError, RuntimeError) as error:
                reasons.append(" ".join(str(error).split()))
        if reasons:
            log.warning(
                "%d of %d remembered rollouts are lost, going on with the others: %s",
                len(reasons), len(records), reasons[0],
            )  # fmt: skip


def prune_memory(folder: Path, named: Iterable[Any]) -> None:
    """Removes the files of rollouts that none of `named` names, and half-written ones.

    Args:
        named: results of `save` from several checkpoints, not yet checked.
    """
    records = [record for part in named if is_list(part) for record in part]
    kept = {str(record.get("file")) for record in records if is_object(record)}
    remove_unfinished(folder)
    with suppress(OSError):
        for path in list(folder.iterdir()):
            if _NAME.fullmatch(path.name) and path.name not in kept:
                path.unlink()


def _write(folder: Path, rollout: StoredRollout) -> dict[str, Any]:
    from safetensors.torch import save

    tensors = {name: column.contiguous() for name, column in rollout.rows.columns().items()}
    tensors[_LENGTHS] = torch.from_numpy(rollout.lengths.astype(np.int64))
    content = save(tensors)
    path = folder / f"{hashlib.sha256(content).hexdigest()}.safetensors"
    if not _has_size(path, len(content)):
        write_whole_file(path, content)
    return {"file": path.name, "size": len(content)}


def _read(folder: Path, record: dict[str, Any]) -> StoredRollout:
    """Raises UserError, or safetensors' own errors for a foreign file."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    name = _NAME.fullmatch(record["file"])  # a plain name: it cannot lead elsewhere
    if name is None:
        raise ValueError(f"{record['file']!r} is not the name of a stored rollout")
    path = folder / record["file"]
    content = read_whole_file(path, record["size"])
    if hashlib.sha256(content).hexdigest() != name[1]:
        raise UserError(f"{path} does not match its checksum")
    try:
        tensors = load(content)
    except SafetensorError as error:
        raise UserError(f"{path} is not a safetensors file") from error
    lengths = tensors.pop(_LENGTHS).numpy()
    rows = RolloutRows(tensors, HOST)
    if lengths.sum() != len(rows) or lengths.min() < 1:
        raise UserError(f"{path}: its sequences do not add up to its {len(rows)} steps")
    return StoredRollout(rows, lengths, dict(record))


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.is_file() and path.stat().st_size == size
    except OSError:
        return False
