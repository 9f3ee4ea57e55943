"""A Python that has numpy and a stand-in for an old gym, and nothing else."""

import shlex
import sys
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory):
    """The folder of an environment whose Python sees the standard library, numpy and `old_gym`."""
    folder = tmp_path_factory.mktemp("bare")
    libraries, program = folder / "lib", folder / "bin" / "python"
    libraries.mkdir()
    for found in Path(np.__file__).parents[1].glob("numpy*"):  # its shared libraries too
        (libraries / found.name).symlink_to(found)
    seen = f"{libraries}:{Path(__file__).parent / 'old_gym'}"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH={shlex.quote(seen)} exec {shlex.quote(sys.executable)} -S "$@"\n'
    )
    program.chmod(0o755)
    return folder
