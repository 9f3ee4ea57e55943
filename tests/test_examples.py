"""The examples run, and do what they say."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name):
    """A script as a module, which does nothing yet."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_skill_picks_something_up(capsys):
    successes = load("run_a_skill").main("pick", 2)
    lines = capsys.readouterr().out.splitlines()
    assert len(successes) == len(lines) == 2 and any(successes)
    assert ["success" in line for line in lines] == successes


def test_a_plan_is_carried_out():
    words = [sys.executable, str(EXAMPLES / "plan_and_carry_out.py"), "rearrange_easy", "0"]
    lines = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    planned = [line.strip().partition("(")[0] for line in lines if line.startswith("  ")]
    assert lines[-1] == "success"
    assert [line.partition(":")[0] for line in lines if line.endswith(": done")] == planned


def test_a_training_gives_a_policy(capsys, tmp_path):
    mean = load("train_cartpole").main(2048, str(tmp_path / "run"))
    assert (
        mean > 9.0 and (tmp_path / "run/summary.json").exists()
    )  # it falls after 8 at the soonest
    said = capsys.readouterr().out
    assert said.startswith("2048 steps") and "first action" in said


def test_every_cell_of_the_notebook_runs(monkeypatch, capsys):
    import matplotlib

    matplotlib.use("agg")
    notebook = json.loads((EXAMPLES / "tour.ipynb").read_text())
    codes = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    assert all(c.get("outputs", []) == [] for c in notebook["cells"])  # none is kept in the file
    names = {}
    for number, code in enumerate(codes):
        exec(compile(code, f"tour.ipynb, cell {number}", "exec"), names)
    assert len(codes) == 6
    assert names["depth"].shape == (128, 128, 1) and names["training"].total_steps == 4096
    assert names["plan"].steps[0].startswith("navigate(")
    assert "steps" in capsys.readouterr().out
    names["env"].close()


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_a_script_says_how_it_is_started(path):
    assert f"python examples/{path.name}" in path.read_text().splitlines()[2]
    assert "rearrange" in sys.modules
