"""The file formats of demonstrations, by name, and the summary of a finished dataset.

summary.json    the last file written, in every format
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from rearrange.checked_arguments import MAX_WHOLE
from rearrange.errors import UserError
from rearrange.eval.demonstrations.demonstration import Demonstration
from rearrange.eval.demonstrations.hdf5 import Hdf5Format, MinariFormat
from rearrange.eval.demonstrations.lerobot import LeRobotFormat
from rearrange.eval.demonstrations.lerobot_v21 import LeRobot21Format
from rearrange.system.checked_json import Node, strict_json
from rearrange.system.files import read_whole_file

EPISODES, SUMMARY = "episodes.json.gz", "summary.json"
SUMMARY_LIMIT = 2**20  # bytes; ours have 2 kB


class Format(Protocol):
    """Workers write an episode each, a piece; of these the data set is made."""

    @property
    def suffix(self) -> str: ...  # of a piece's file
    @property
    def needs(self) -> Mapping[str, str]: ...  # modules, and the packages that they are in
    @property
    def made(self) -> tuple[str, ...]: ...  # files and folders of the data set, what opens it last

    @property
    def has_all_pictures(self) -> bool: ...  # else of the head's depth alone

    def write_piece(self, demonstration: Demonstration, path: Path) -> None: ...
    def assemble(self, pieces: Sequence[Path], folder: Path) -> None: ...
    def read(self, folder: Path) -> Iterator[Demonstration]: ...


FORMATS: dict[str, Format] = {
    "lerobot": LeRobotFormat(),
    "lerobot-v2.1": LeRobot21Format(),
    "minari": MinariFormat(),
    "hdf5": Hdf5Format(),
}


def check_packages(name: str) -> None:
    """Raises UserError if a package is missing that the format is written and read with."""
    needs = FORMATS[name].needs
    missing = [needs[module] for module in needs if importlib.util.find_spec(module) is None]
    if missing:
        raise UserError(
            f"format={name} needs {' and '.join(missing)}: pip install 'rearrange[collect]'"
        )


def read_summary(folder: Path) -> dict[str, Any]:
    """What a finished data set says of itself. Raises UserError for any other folder."""
    path = folder / SUMMARY
    if not path.is_file():
        raise UserError(f"{folder} must be a finished dataset of `rearrange collect`: no {SUMMARY}")
    try:
        summary = strict_json(read_whole_file(path, SUMMARY_LIMIT).decode())
        node = Node(summary, "")
        node["format"].text(FORMATS)
        count = node["num_episodes"].integer(1, MAX_WHOLE)
        node["num_successes"].integer(0, count)
        node["num_steps"].integer(count, MAX_WHOLE)
    except ValueError as error:
        raise UserError(f"{path} is damaged: {error}") from error
    return summary
