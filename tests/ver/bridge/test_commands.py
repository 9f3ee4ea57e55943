"""The commands with an interpreter: training there, and one line for what is not possible."""

import json

import pytest

from rearrange.cli import main
from rearrange.commands.doctor import _external_python, _habitat
from rearrange.errors import UserError
from rearrange.ver.bridge.gym_adapter import make_adapted
from rearrange.ver.bridge.habitat import versions_here

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
    found, versions = _external_python(str(bare_python), 20.0)
    assert versions is not None and "numpy" in versions
    assert not found.is_good and not found.is_needed and "numpy" in found.value
    assert "gymnasium, or an old gym" in found.fix  # none is installed; one lies in PYTHONPATH
    lacking, versions = _external_python(str(tmp_path), 20.0)
    assert versions is None
    assert lacking.is_needed and not lacking.is_good and str(tmp_path) in lacking.value


def test_habitat_without_its_python_is_one_line_that_says_how_to_get_it(tmp_path, capsys):
    run_dir = tmp_path / "run"
    assert main(["train", "env=habitat:HabitatPick-v0", f"run_dir={run_dir}"]) == 2
    said = capsys.readouterr().err
    assert "workers.python=FOLDER" in said and said.count("\n") == 1
    assert "habitat-sim and habitat-lab (there: conda install habitat-sim" in said
    assert "pip install habitat-lab==0.3.320260507" in said
    assert not run_dir.exists()


@pytest.mark.skipif(bool(versions_here()), reason="Habitat is installed here")
def test_a_python_without_habitat_is_told_what_it_lacks():
    """Not only that its module cannot be imported."""
    with pytest.raises(UserError, match=r"it lacks habitat-sim and habitat-lab \(there: conda"):
        make_adapted(0, "habitat:HabitatPick-v0", {}, "it")


def test_the_doctor_shows_the_state_of_habitat():
    found = _habitat({"numpy": "1.26.4"})
    assert (found.is_good, found.is_needed) == (False, False)
    assert found.value == "nothing of it in workers.python" and "conda install" in found.fix
    found = _habitat({"habitat-sim": "0.3.3"})
    assert not found.is_good and found.value.startswith("habitat-sim 0.3.3 in")
    assert "conda" not in found.fix and "habitat-lab==0.3.320260507" in found.fix
    found = _habitat({"habitat-sim": "0.3.3", "habitat-lab": "0.3.3"})
    assert found.is_good and found.mark == "ok"
