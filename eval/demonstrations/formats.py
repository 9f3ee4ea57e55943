"""The file formats of demonstrations, by name."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from rearrange.errors import UserError
from rearrange.eval.demonstrations.demonstration import Demonstration
from rearrange.eval.demonstrations.hdf5 import Hdf5Format, MinariFormat
from rearrange.eval.demonstrations.lerobot import LeRobotFormat


class Format(Protocol):
    """Workers write an episode each, a piece; of these the data set is made."""

    @property
    def suffix(self) -> str: ...  # of a piece's file
    @property
    def needs(self) -> Mapping[str, str]: ...  # modules, and the packages that they are in
    @property
    def made(self) -> tuple[str, ...]: ...  # files and folders of the data set, what opens it last

    def write_piece(self, demonstration: Demonstration, path: Path) -> None: ...
    def assemble(self, pieces: Sequence[Path], folder: Path) -> None: ...
    def read(self, folder: Path) -> Iterator[Demonstration]: ...


FORMATS: dict[str, Format] = {
    "lerobot": LeRobotFormat(),
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
