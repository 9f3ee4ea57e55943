"""pyrefly finds nothing wrong in the package, as `[tool.pyrefly]` in pyproject.toml asks."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(importlib.util.find_spec("pyrefly") is None, reason="pip install pyrefly")
def test_the_types_are_right():
    command = [sys.executable, "-m", "pyrefly", "check", "--python-interpreter-path"]
    done = subprocess.run([*command, sys.executable], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and " 0 errors" in done.stderr, done.stdout + done.stderr
