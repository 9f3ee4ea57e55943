"""Checkpoints: tensors and a manifest, written atomically and never unpickled.

    checkpoints/000000524288-5f0c9a31.safetensors   tensors; the name ends in their checksum
    checkpoints/000000524288.json                   manifest: names the file above, its size and
                                                    SHA-256, and holds what the caller adds

The tensors' file comes first, the manifest last; it alone makes the checkpoint valid. Saving a step
again writes a new tensors' file beside the old one and then replaces the manifest, so at every
instant each manifest belongs to a file that is complete. The manifest has a checksum of its own.

safetensors holds a JSON header and plain numbers (github.com/huggingface/safetensors, "Format").
"""

import hashlib
import itertools
import json
import logging
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from rearrange.errors import UserError
from rearrange.system.checked_json import is_object, strict_json
from rearrange.system.files import read_whole_file, remove_unfinished, write_whole_file

FORMAT = "rearrange checkpoint"
FORMAT_VERSION = 1
MANIFEST_LIMIT = 16 * 2**20  # bytes; ours have some kilobytes, and take thirty times that in memory
MANIFEST_NAME = re.compile(r"([0-9]{12,18})\.json")
TENSORS_NAME = re.compile(r"([0-9]{12,18})-[0-9a-f]{8}\.safetensors")
MOST_LOOKS, LOOK_AGAIN_S = 10, 0.05  # at a folder that a training may write into

logger = logging.getLogger(__name__)


@dataclass
class Checkpoint:
    step: int
    """Environment steps of the training so far."""
    tensors: dict[str, Tensor]
    """On the CPU."""
    manifest: dict[str, Any]
    """The manifest given to `save_checkpoint`, after JSON: tuples are lists."""
    path: Path
    """The manifest's file."""
    score: tuple[str, float] | None = None
    """Metric and value that it was saved with."""


def save_checkpoint(
    folder: Path,
    step: int,
    tensors: Mapping[str, Tensor],
    manifest: dict[str, Any],
    keep: int = 3,
    *,
    is_milestone: bool = False,
    score: tuple[str, float] | None = None,
) -> Path:
    """Writes a checkpoint and removes those up to it that need not stay; returns its manifest.

    The newest `keep`, milestones and the best stay. Checkpoints of later steps are left alone: they
    belong to another training, or failed to load.

    Args:
        is_milestone: it is never removed.
        score: a metric's name and value, higher is better.

    Raises:
        ValueError: if `manifest` is not valid JSON (NaN is not), or keep < 1.
        OSError: if it cannot be written, for example on a full disk; earlier checkpoints stay and
            nothing half-written does.
    """
    from safetensors.torch import save

    if keep < 1 or step < 0:
        raise ValueError(f"keep must be at least 1 and step not negative, got {keep} and {step}")
    # Copies, because safetensors refuses tensors that share memory.
    copies = {
        name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()
    }
    content = save(copies)
    digest = hashlib.sha256(content).hexdigest()
    tensors_path = folder / f"{step:012d}-{digest[:8]}.safetensors"
    manifest_path = folder / f"{step:012d}.json"
    fields = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "step": step,
        "file": tensors_path.name,
        "size": len(content),
        "sha256": digest,
        "is_milestone": is_milestone or _is_milestone(manifest_path),  # saved for a second time
        "score": None if score is None else {"name": score[0], "value": float(score[1])},
        "contents": json.loads(json.dumps(manifest, allow_nan=False)),  # as it will be read
    }
    text = json.dumps(fields | {"checksum": _checksum(fields)}, indent=1, allow_nan=False) + "\n"

    folder.mkdir(parents=True, exist_ok=True)
    was_there = tensors_path.exists()
    try:
        write_whole_file(tensors_path, content)
        write_whole_file(manifest_path, text.encode())
    except BaseException:
        # The manifest of an earlier save of the same numbers may name this file.
        if not was_there and not _names_file(manifest_path, tensors_path.name):
            with suppress(OSError):
                tensors_path.unlink(missing_ok=True)
        raise
    _prune(folder, step, keep)
    return manifest_path


def load_newest(folder: Path) -> Checkpoint | None:
    """The newest checkpoint that is valid; None if there is none.

    Damaged ones and those of another format are skipped with a warning that names the file. What a
    running training replaces meanwhile is not damaged: the folder is looked at again.

    Raises:
        UserError: if the folder is there and cannot be read.
    """
    for _ in range(MOST_LOOKS):
        names = _listed(folder)
        found, skipped = _newest_of(folder, names)
        if not skipped:
            return found
        time.sleep(LOOK_AGAIN_S)
        if _listed(folder) == names:  # else it was a training at work
            for what in skipped:
                logger.warning("skipping %s", what)
            return found
        if found is not None:
            return found
    return None


def _newest_of(folder: Path, names: frozenset[str]) -> tuple[Checkpoint | None, list[str]]:
    """Of these files the newest checkpoint that is valid, and what is wrong with others."""
    manifests = sorted(filter(MANIFEST_NAME.fullmatch, names), key=_step_of, reverse=True)
    steps = {*map(_step_of, manifests)}
    skipped = [
        f"{folder / name}: it has no manifest"
        for name in sorted(filter(TENSORS_NAME.fullmatch, names))
        if _step_of(name) not in steps
    ]
    for name in manifests:
        try:
            return load_checkpoint(folder / name), skipped
        except UserError as error:
            skipped.append(f"a checkpoint: {error}")
    return None, skipped


def _listed(folder: Path) -> frozenset[str]:
    """Names in a folder; none without one. Raises UserError if it cannot be read."""
    try:
        return frozenset(entry.name for entry in folder.iterdir())
    except FileNotFoundError:
        return frozenset()
    except OSError as error:
        raise UserError(f"cannot read the checkpoints in {folder}: {error.strerror}") from error


def load_checkpoint(path: Path) -> Checkpoint:
    """One checkpoint by its manifest's file.

    Raises:
        UserError: if it is missing, damaged or of another format.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    fields = _read_manifest(path)
    tensors_path = path.with_name(fields["file"])
    try:
        if not tensors_path.is_file():
            raise _unusable(path, f"{tensors_path.name} is missing")
        size = tensors_path.stat().st_size
        if size != fields["size"]:
            reason = f"{tensors_path.name} has {size} bytes instead of {fields['size']}"
            raise _unusable(path, reason)
        content = tensors_path.read_bytes()
    except OSError as error:
        reason = f"{tensors_path.name} cannot be read ({error.strerror})"
        raise _unusable(path, reason) from error
    if hashlib.sha256(content).hexdigest() != fields["sha256"]:
        raise _unusable(path, f"{tensors_path.name} does not match its checksum")
    try:
        tensors = load(content)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise _unusable(path, f"{tensors_path.name} is not a safetensors file") from error
    return Checkpoint(fields["step"], tensors, fields["contents"], path, _score(fields))


def best_checkpoint(folder: Path) -> tuple[Path, str, float] | None:
    """Manifest file, metric and value of the highest score; the newer of equals.

    None if no checkpoint has a score. Scores of another metric than the newest's do not count.
    """
    scores = {path: _score(fields) for path, fields in _readable(folder)}
    best = _best(scores)
    score = None if best is None else scores[best]
    return None if best is None or score is None else (best, *score)


def newest_manifests(folder: Path, count: int) -> list[dict[str, Any]]:
    """Contents of the newest `count` checkpoints whose manifests are intact."""
    return [fields["contents"] for _, fields in itertools.islice(_readable(folder), count)]


def with_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under the names `prefix/name`."""
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def below_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those named `prefix/name`, under `name`."""
    start = f"{prefix}/"
    return {
        name.removeprefix(start): value for name, value in tensors.items() if name.startswith(start)
    }


def _unusable(path: Path, reason: str) -> UserError:
    return UserError(f"checkpoint {path} cannot be used: {reason}")


def _checksum(fields: dict[str, Any]) -> str:
    """SHA-256 of the fields, independent of the file's layout."""
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _read_manifest(path: Path) -> dict[str, Any]:
    """The manifest's fields, each of the right type."""
    name = MANIFEST_NAME.fullmatch(path.name)
    if name is None:
        raise UserError(f"a checkpoint is given by its manifest, 000000524288.json; got {path}")
    try:
        if not path.is_file():
            raise _unusable(path, "its manifest is missing or not a file")
        if path.stat().st_size > MANIFEST_LIMIT:
            raise _unusable(path, f"its manifest is larger than {MANIFEST_LIMIT >> 20} MiB")
        fields = strict_json(read_whole_file(path, MANIFEST_LIMIT).decode())
    except OSError as error:
        raise _unusable(path, f"its manifest cannot be read ({error.strerror})") from error
    except UserError:
        raise
    except ValueError as error:  # also of the decoding
        raise _unusable(path, f"its manifest is not JSON ({error})") from error
    if not is_object(fields) or fields.get("format") != FORMAT:
        raise _unusable(path, "its manifest is not one of a checkpoint")
    version = fields.get("format_version")
    if version != FORMAT_VERSION or type(version) is not int:
        known = f"this program reads {FORMAT_VERSION}"
        raise _unusable(path, f"its format version is {shown(version)}, {known}")
    kinds = {"step": int, "file": str, "size": int, "sha256": str, "contents": dict}
    for key, kind in (kinds | {"checksum": str}).items():
        if type(fields.get(key)) is not kind:  # not isinstance: true is an int to Python
            raise _unusable(path, f"its manifest has no valid '{key}'")
    try:
        checksum = _checksum({key: value for key, value in fields.items() if key != "checksum"})
    except RecursionError as error:
        raise _unusable(path, "its manifest is nested too deeply") from error
    if checksum != fields["checksum"]:
        raise _unusable(path, "its manifest does not match its checksum")
    file = TENSORS_NAME.fullmatch(fields["file"])  # a plain name: it cannot lead elsewhere
    if file is None or not int(file[1]) == int(name[1]) == fields["step"]:
        raise _unusable(path, "its manifest belongs to another step")
    return fields


def _names_file(manifest_path: Path, tensors_name: str) -> bool:
    try:
        return _read_manifest(manifest_path)["file"] == tensors_name
    except UserError:
        return False


def _readable(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The intact manifests and their fields, the newest first."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    for name in sorted(filter(MANIFEST_NAME.fullmatch, names), key=_step_of, reverse=True):
        with suppress(UserError):
            yield folder / name, _read_manifest(folder / name)


def _is_milestone(manifest_path: Path) -> bool:
    try:
        return _read_manifest(manifest_path).get("is_milestone") is True
    except UserError:
        return False


def _score(fields: dict[str, Any]) -> tuple[str, float] | None:
    score = fields.get("score")  # absent in checkpoints from before there were scores
    if not is_object(score):
        return None
    name, value = score.get("name"), score.get("value")
    if isinstance(name, str) and isinstance(value, int | float) and not isinstance(value, bool):
        return name, value
    return None


def _best(scores: Mapping[Path, tuple[str, float] | None]) -> Path | None:
    """Of manifests, the newest first."""
    known = {path: score for path, score in scores.items() if score is not None}
    if not known:
        return None
    name = next(iter(known.values()))[0]
    alike = [path for path, score in known.items() if score[0] == name]
    return max(alike, key=lambda path: known[path][1])  # the first of equals


def _step_of(name: str) -> int:
    return int(name.partition(".")[0].partition("-")[0])


def _prune(folder: Path, step: int, keep: int) -> None:
    """Removes leftovers, and all checkpoints up to `step` but the newest `keep` intact ones,
    milestones and the best."""
    remove_unfinished(folder)
    names = [path.name for path in folder.iterdir()]
    names = [n for n in names if MANIFEST_NAME.fullmatch(n) or TENSORS_NAME.fullmatch(n)]
    names = sorted((n for n in names if _step_of(n) <= step), key=_step_of, reverse=True)
    manifests = [name for name in names if name.endswith(".json")]
    whole = {name: fields for name in manifests if (fields := _whole(folder / name)) is not None}
    newest = list(whole)[:keep]
    best = _best({folder / name: _score(fields) for name, fields in whole.items()})
    stay = {
        name
        for name, fields in whole.items()
        if name in newest or fields.get("is_milestone") is True or folder / name == best
    }
    # Recent damaged ones are kept for inspection.
    last = _step_of(newest[-1]) if len(newest) == keep else 0
    damaged = {name for name in manifests if name not in whole and _step_of(name) > last}
    files = {whole[name]["file"] for name in stay}
    steps = {_step_of(name) for name in damaged}
    removed = [name for name in manifests if name not in stay | damaged]
    removed += [  # after their manifests: a kill in between must not leave one without tensors
        name
        for name in names
        if name not in manifests and name not in files and _step_of(name) not in steps
    ]
    for name in removed:
        with suppress(OSError):
            (folder / name).unlink()


def _whole(manifest_path: Path) -> dict[str, Any] | None:
    """A manifest's fields; None if it or its tensors are damaged.

    Only the tensors' size is checked: reading them would cost as much as writing them.
    """
    try:
        fields = _read_manifest(manifest_path)
        size = manifest_path.with_name(fields["file"]).stat().st_size
    except (UserError, OSError):
        return None
    return fields if size == fields["size"] else None


def shown(value: Any) -> str:
    """A value on one line, short."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
