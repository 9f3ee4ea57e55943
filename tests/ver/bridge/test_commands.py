"""The commands with an interpreter: training there, and one line for what is not possible."""

import json

import pytest

from rearrange.cli import main
from rearrange.commands.doctor import _other_python

SMALL = ["num_envs=2", "num_steps=16", "policy=mlp", "ppo.num_minibatches=2"]


def test_an_old_environment_is_trained_in_and_the_training_goes_on(bare_python, tmp_path, capsys):
    arguments = ["train", "env=Counting-v0", f"workers.python={bare_python}", *SMALL]
    arguments.append(f"run_dir={tmp_path / 'run'}")
    assert main([*arguments, "total_steps=64"]) == 0
    assert main([*arguments, "total_steps=128", "resume=auto"]) == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["total_steps"] == 128 and summary["success"]["mean"] == 1.0
    assert "Counting-v0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["train", "env=nowhere:Any-v0"], "cannot import 'nowhere' for env 'nowhere:Any-v0'"),
        (["train", "env=Unmade-v0"], "cannot make env 'Unmade-v0' in"),
        (["train", "env=Counting-v0", "serial=true"], "needs serial=false"),
        (["train-skill", "pick"], "workers.python is for `rearrange train`"),
    ],
)
def test_what_cannot_be_is_one_line_and_code_2(bare_python, tmp_path, capsys, arguments, line):
    run_dir = tmp_path / "run"
    assert main([*arguments, f"workers.python={bare_python}", f"run_dir={run_dir}"]) == 2
    said = capsys.readouterr().err
    assert line in said and said.count("\n") == 1 and str(bare_python) in said
    assert not run_dir.exists()


def test_the_doctor_looks_at_an_interpreter(bare_python, tmp_path):
    found = _other_python(str(bare_python), 20.0)
    assert not found.is_good and not found.is_needed and "numpy" in found.value
    assert "gymnasium, or an old gym" in found.fix  # none is installed; one lies in PYTHONPATH
    lacking = _other_python(str(tmp_path), 20.0)
    assert lacking.is_needed and not lacking.is_good and str(tmp_path) in lacking.value
