"""pyright finds nothing wrong in the rooms that `[tool.pyright]` in pyproject.toml names."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(importlib.util.find_spec("pyright") is None, reason="pip install pyright")
def test_the_types_are_right():
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1].startswith("0 errors"), done.stdout
