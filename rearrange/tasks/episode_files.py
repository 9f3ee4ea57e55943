"""Episode files, gzip JSON, and the sets that come with the project.

    write_episodes(path, episodes)    whole or not at all, the same bytes every time
    read_episodes(path)               every field checked; anything wrong is one UserError line
    load_episode(task, split, ...)    of the committed validation and test sets, else generated

The committed sets hold what the generator gave when they were written, so that a change of the
generator cannot move the benchmark unseen (a test compares them). They are written by
`python -m rearrange.tasks.episode_files --write`.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import sys
import zlib
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from rearrange.errors import UserError
from rearrange.tasks.episode import EpisodeSpec
from rearrange.tasks.episode_checks import Node, quoted
from rearrange.tasks.episode_schema import episode_from_json, episode_to_json
from rearrange.tasks.generate import TASK_NUMBERS, generate_episode

MAX_BYTES = 256 * 2**20  # of JSON; a file of 10,000 episodes holds about 160 MB
MAX_EPISODES = 100_000
COMMITTED_SPLITS, COMMITTED_SEED, COMMITTED_COUNT = ("val", "test"), 0, 100
COMMITTED_TASKS = (  # as many as stay below 3 MB together
    "tidy_house", "prepare_groceries", "set_table", "tidy_house_easy", "prepare_groceries_easy",
    "set_table_easy",
)  # fmt: skip
_FOLDER = Path(__file__).parent / "episodes_data"


# --- files ---------------------------------------------------------------------------------------


def write_episodes(path: str | os.PathLike[str], episodes: Sequence[EpisodeSpec]) -> None:
    """Writes episodes as gzip JSON.

    Raises UserError if the file cannot be written; then `path` is as it was before.
    """
    content = {"episodes": [episode_to_json(spec) for spec in episodes]}
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, compresslevel=9, mtime=0) as stream:
        stream.write(text.encode())
    _write_whole(Path(path), packed.getvalue())


def _write_whole(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.unfinished-{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        reason = error.strerror or error
        line = f"cannot write {path}: {reason}; choose another place or make room"
        raise UserError(line) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def read_episodes(path: str | os.PathLike[str]) -> tuple[EpisodeSpec, ...]:
    """All episodes of a file.

    Raises:
        UserError: one line that names the file and, as far as it goes, episode and field, what must
            hold and what came.
    """
    path = Path(path)
    root = Node(_decoded(path), f"{path}: ")
    elements = root["episodes"].list(MAX_EPISODES)
    episodes, ids, keys = [], {}, {}
    for i, element in enumerate(elements):
        where = f"{path}: episode {i}: "
        spec = episode_from_json(element.value, where)
        name = element.value["episode_id"]
        key = (spec.task, spec.split, spec.seed, spec.index)
        if ids.setdefault(name, i) != i:
            came = f"{quoted(name)} of episode {ids[name]} again"
            raise UserError(f"{where}episode_id must be new, got {came}")
        if keys.setdefault(key, i) != i:
            came = f"those of episode {keys[key]} again"
            raise UserError(f"{where}task, split, seed and index must be new, got {came}")
        episodes.append(spec)
    return tuple(episodes)


def _decoded(path: Path) -> Any:
    """The JSON value in a gzip file. Every way to fail is a UserError."""
    if not path.is_file():
        what = "there is no such file" if not path.exists() else "it is not a regular file"
        raise UserError(f"cannot read episodes from {path}: {what}")
    try:
        with gzip.open(path, "rb") as stream:
            text = stream.read(MAX_BYTES + 1)
    except EOFError:
        line = f"{path} must be a whole gzip file, but it ends early; copy it again"
        raise UserError(line) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        line = f"{path} must be a gzip file, but cannot be unpacked ({error}); copy it again"
        raise UserError(line.replace("\n", " ")) from None
    except OSError as error:
        raise UserError(f"cannot read episodes from {path}: {error.strerror or error}") from error
    if len(text) > MAX_BYTES:
        line = f"{path} must hold at most {MAX_BYTES >> 20} MB of JSON, but holds more; split it"
        raise UserError(line)
    try:
        return json.loads(
            text.decode("utf-8"), object_pairs_hook=_no_key_twice, parse_constant=_no_constant
        )
    except UnicodeDecodeError as error:
        raise UserError(f"{path} must hold UTF-8 text, but byte {error.start} is none") from None
    except RecursionError:
        raise UserError(f"{path} must hold episodes, but its JSON is nested too deeply") from None
    except ValueError as error:  # JSONDecodeError, and integers beyond Python's limit of digits
        line = f"{path} must hold JSON, but: {error}"
        raise UserError(line.replace("\n", " ")) from None


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError(f"a key comes twice among {quoted([key for key, _ in pairs])}")
    return members


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


# --- the committed sets --------------------------------------------------------------------------


def committed_path(task: str, split: str) -> Path:
    """Where the committed set of a task and split is, if there is one."""
    return _FOLDER / split / f"{task}.json.gz"


def load_episode(task: str, split: str, seed: int, index: int, starts: str = "task") -> EpisodeSpec:
    """The episode: of the committed set if that holds it, otherwise generated.

    Raises UserError as `generate_episode`, and if the committed file is damaged.
    """
    if seed == COMMITTED_SEED and split in COMMITTED_SPLITS and task in COMMITTED_TASKS:
        found = _committed(task, split).get(index)
        if found is not None:
            return found
    return generate_episode(task, split, seed, index, starts)


@lru_cache(maxsize=8)
def _committed(task: str, split: str) -> dict[int, EpisodeSpec]:
    """Episodes of a committed set by index; empty if there is no such file."""
    path = committed_path(task, split)
    if not path.exists():
        return {}
    episodes = read_episodes(path)
    for i, spec in enumerate(episodes):
        if (spec.task, spec.split, spec.seed) != (task, split, COMMITTED_SEED):
            raise UserError(f"{path}: episode {i} must be of {task} {split} seed {COMMITTED_SEED}")
    return {spec.index: spec for spec in episodes}


def build_committed_sets(folder: Path = _FOLDER, count: int = COMMITTED_COUNT) -> list[Path]:
    """Generates and writes the sets, `count` episodes each; gives the files written."""
    paths = []
    for split in COMMITTED_SPLITS:
        for task in COMMITTED_TASKS:
            path = folder / split / f"{task}.json.gz"
            seed = COMMITTED_SEED
            write_episodes(path, [generate_episode(task, split, seed, i) for i in range(count)])
            paths.append(path)
    return paths


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the committed sets. Exit code 2 if they cannot be written."""
    parser = argparse.ArgumentParser(
        prog="python -m rearrange.tasks.episode_files",
        description=f"Generate the committed episodes: {', '.join(COMMITTED_TASKS)}; "
        f"{' and '.join(COMMITTED_SPLITS)}; {COMMITTED_COUNT} each.",
    )
    parser.add_argument("--write", action="store_true", required=True, help="replace the files")
    parser.parse_args(arguments)
    try:
        for path in build_committed_sets():
            print(f"{path.stat().st_size / 1000:6.0f} kB  {path.parent.name}/{path.name}")
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


assert set(COMMITTED_TASKS) <= set(TASK_NUMBERS)
if __name__ == "__main__":
    sys.exit(main())
