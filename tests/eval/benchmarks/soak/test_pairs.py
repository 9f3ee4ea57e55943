"""A handful of those trainings that lose a worker and the fork server together."""

import json
import subprocess
import sys

import pytest


@pytest.mark.slow  # the pool's own test has the server die at the worst instant
def test_no_training_ends_without_having_saved(tmp_path):
    output = tmp_path / "pairs.json"
    command = [sys.executable, "-m", "rearrange", "chaos", "pairs=4", f"output={output}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = json.loads(output.read_text())["faults"]
    assert [end["ok"] for end in row["ends"]] == [True] * 4
