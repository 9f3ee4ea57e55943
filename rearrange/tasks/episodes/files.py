"""Episode files, gzip JSON, and the sets shipped with the project.

    write_episodes(path, episodes)    whole or not at all, the same bytes every time
    read_episodes(path)               every field checked; any error is one UserError line
    load_episode(task, split, ...)    of the committed validation and test sets, else generated

The committed sets are the generator's output at the time they were written, so that a change of the
generator cannot change the benchmark unnoticed (a test compares them). They are written by
`python -m rearrange.tasks.episodes.files --write`.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import sys
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from rearrange.errors import UserError, one_line
from rearrange.sim.homes.layout import HAB
from rearrange.system.checked_json import Node
from rearrange.system.files import write_whole_file
from rearrange.tasks.episodes.generate import generate_episode
from rearrange.tasks.episodes.schema import episode_from_json, episode_to_json
from rearrange.tasks.episodes.text import packed_episodes
from rearrange.tasks.rules.episode import EpisodeSpec

MAX_EPISODES = 15_000
MAX_BYTES = 256 * 2**20  # of JSON; so many episodes have 240 MB at most
COMMITTED_SPLITS, COMMITTED_SEED, COMMITTED_COUNT = ("val", "test"), 0, 100
COMMITTED_TASKS = (  # as many as fit into 3 MB together
    "tidy_house", "prepare_groceries", "set_table", "tidy_house_easy", "prepare_groceries_easy",
    "set_table_easy",
)  # fmt: skip
_FOLDER = Path(__file__).parent / "data"


def check_num_episodes(count: int) -> None:
    """Raises UserError for more episodes than are read back from a file."""
    if count > MAX_EPISODES:
        raise UserError(
            f"num_episodes must be at most {MAX_EPISODES}, got {count}: make several files, each "
            "with its own seed"
        )


# --- files ---------------------------------------------------------------------------------------


def write_episodes(path: str | os.PathLike[str], episodes: Sequence[EpisodeSpec]) -> None:
    """Writes episodes as gzip JSON.

    Raises UserError if they are too many or the file cannot be written; `path` is unchanged then.
    """
    check_num_episodes(len(episodes))
    content = {"episodes": [episode_to_json(spec) for spec in episodes]}
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, compresslevel=9, mtime=0) as stream:
        stream.write(text.encode())
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole_file(path, packed.getvalue())
    except OSError as error:
        reason = error.strerror or error
        line = f"cannot write {path}: {reason}; choose another place or make room"
        raise UserError(line) from error


def read_episodes(path: str | os.PathLike[str]) -> tuple[EpisodeSpec, ...]:
    """All episodes of a file.

    Raises:
        UserError: one line that names the file and, if known, episode and field, what must hold and
            what was found.
    """
    path = Path(path)
    episodes, keys = [], {}
    for i, element in enumerate(packed_episodes(path, MAX_BYTES)):
        if i == MAX_EPISODES:
            raise UserError(f"{path} must hold at most {MAX_EPISODES} episodes, it holds more")
        where = f"{path}: episode {i}: "
        spec = episode_from_json(element, where)
        key = (spec.task, spec.split, spec.seed, spec.index)  # an episode_id is only the index
        if keys.setdefault(key, i) != i:
            got = f"those of episode {keys[key]} again"
            raise UserError(f"{where}task, split, seed and index must be new, got {got}")
        episodes.append(spec)
    return tuple(episodes)


# --- the committed sets --------------------------------------------------------------------------


def committed_path(task: str, split: str) -> Path:
    """Path of the committed set of a task and split, if there is one."""
    return _FOLDER / split / f"{task}.json.gz"


def load_episode(
    task: str, split: str, seed: int, index: int, starts: str = "task", homes: str = HAB
) -> EpisodeSpec:
    """The episode: from the committed set if it is in there, otherwise generated.

    Raises UserError as `generate_episode`, and if the committed file or episode is damaged.
    """
    is_committed = seed == COMMITTED_SEED and split in COMMITTED_SPLITS and task in COMMITTED_TASKS
    if is_committed and homes == HAB and starts != "varied":  # whose random stream is another
        found = _committed(task, split).get(index)
        if found is not None:
            return found
    return generate_episode(task, split, seed, index, starts, homes)


class _CommittedSet:
    """The episodes of a committed set by index; none if there is no such file.

    Each is decoded when it is first asked for: all of them take a worker half a second.
    """

    def __init__(self, task: str, split: str) -> None:
        self._path, self._lock = committed_path(task, split), threading.Lock()
        self._encoded: dict[int, tuple[str, Any]] = {}  # index -> where it stands, and its JSON
        self._decoded: dict[int, EpisodeSpec] = {}
        if not self._path.exists():
            return
        expected = (task, split, COMMITTED_SEED)
        for i, element in enumerate(packed_episodes(self._path, MAX_BYTES)):
            where = f"{self._path}: episode {i}: "
            ours = Node(element, where)["rearrange"]
            if tuple(ours[name].value for name in ("task", "split", "seed")) != expected:
                line = f"{self._path}: episode {i} must be of {task} {split}"
                raise UserError(f"{line} seed {COMMITTED_SEED}")
            index = ours["index"].integer(0, MAX_EPISODES)
            if index in self._encoded:
                raise UserError(f"{where}index must be new, got {index} again")
            self._encoded[index] = (where, element)

    def get(self, index: int) -> EpisodeSpec | None:
        """Raises UserError if it is damaged."""
        with self._lock:  # of homes that are reset by several threads
            if index in self._encoded:
                where, element = self._encoded[index]
                self._decoded[index] = episode_from_json(element, where)
                del self._encoded[index]
            return self._decoded.get(index)


@lru_cache(maxsize=8)
def _committed(task: str, split: str) -> _CommittedSet:
    return _CommittedSet(task, split)


def build_committed_sets(folder: Path = _FOLDER, count: int = COMMITTED_COUNT) -> list[Path]:
    """Generates and writes the sets, `count` episodes each; returns the files written."""
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
        prog="python -m rearrange.tasks.episodes.files",
        description=f"Generate the committed episodes: {', '.join(COMMITTED_TASKS)}; "
        f"{' and '.join(COMMITTED_SPLITS)}; {COMMITTED_COUNT} each.",
    )
    parser.add_argument("--write", action="store_true", required=True, help="replace the files")
    parser.parse_args(arguments)
    try:
        for path in build_committed_sets():
            print(f"{path.stat().st_size / 1000:6.0f} kB  {path.parent.name}/{path.name}")
    except UserError as error:
        print("error:", one_line(error), file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
