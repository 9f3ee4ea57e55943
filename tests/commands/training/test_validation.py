"""Evaluations in the middle of a training: which episodes, what they say, and what is left."""

import json
import subprocess
import sys

import pytest

from rearrange import cli
from rearrange.commands.training import validation
from rearrange.commands.training.resolve import load_training
from rearrange.commands.training.training_env import training_env_of
from rearrange.commands.training.validation import arguments_of, metrics_of, validation_of
from rearrange.errors import UserError

ARGUMENTS = ["train", "env=CartPole-v1", "serial=true", "num_envs=4", "num_steps=64", "device=cpu"]


@pytest.mark.slow
def test_a_training_is_evaluated_as_by_the_command(tmp_path, capsys):
    run_dir = tmp_path / "run"
    arguments = [*ARGUMENTS, "num_threads=1", f"run_dir={run_dir}", "total_steps=512"]
    arguments += ["validation.every=512", "validation.num_episodes=2", "validation.record=0"]
    assert cli.main(arguments) == 0
    out = capsys.readouterr().out
    summary = json.loads((run_dir / "validation/000000000512/summary.json").read_text())
    assert summary["num_episodes"] == 2
    value = summary["episode_return"]["mean"]
    line = json.loads((run_dir / "metrics.jsonl").read_text().splitlines()[-1])
    assert line["step"] == 512 and line["validation/return"] == value
    checkpoint = run_dir / "checkpoints/000000000512.json"
    assert f"validation/return {value:.4g} in {checkpoint}" in out
    assert f"rearrange evaluate run={checkpoint}" in out


def evaluation(tmp_path, monkeypatch, program):
    """What is made of an evaluation that this program, given the words of one, stands for."""

    def start(arguments, stream):
        words = arguments[2].partition("=")[2], *arguments[3:]
        command = [sys.executable, "-c", program, *words]
        return subprocess.Popen(command, stdout=stream, stderr=stream)

    monkeypatch.setattr(validation, "start_here", start)
    settings = load_training("train", ["env=CartPole-v1", "validation.every=8"])
    return validation_of(settings, training_env_of(settings), tmp_path).measure


def test_what_an_evaluation_wrote_is_found(tmp_path, monkeypatch):
    write = "import os, sys; os.mkdir(sys.argv[1]); file = open(sys.argv[1] + '/summary.json', 'w')"
    write += """; file.write('{"episode_return": {"mean": 12.5}}')"""
    measure = evaluation(tmp_path, monkeypatch, write)
    found = measure(tmp_path / "c.json", 8, lambda: False)
    assert (found.score, found.metrics[found.score]) == ("validation/return", 12.5)
    assert found.film is None


def test_an_evaluation_that_fails_or_is_stopped_ends_no_training(tmp_path, monkeypatch, caplog):
    measure = evaluation(tmp_path, monkeypatch, "raise SystemExit(2)")
    assert measure(tmp_path / "c.json", 8, lambda: False) is None
    assert "no validation at step 8: the evaluation ended with exit code 2" in caplog.text
    measure = evaluation(tmp_path, monkeypatch, "import time; time.sleep(60)")
    assert measure(tmp_path / "c.json", 8, lambda: True) is None


def test_an_evaluation_that_fails_with_films_is_tried_once_without(tmp_path, monkeypatch, caplog):
    program = """if 1:
        import os, sys
        folder, *words = sys.argv[1:]
        open(os.path.dirname(folder) + '/tries', 'a').write(words[-1] + chr(10))
        if sum(word.startswith('record=') for word in words) != 1:  # no word may be given twice
            raise SystemExit(3)
        if words[-1] != 'record=0':
            raise SystemExit(2)
        os.mkdir(folder)
        open(folder + '/summary.json', 'w').write('{"success": {"mean": 0.5}}')
    """
    measure = evaluation(tmp_path, monkeypatch, program)
    assert measure(tmp_path / "c.json", 8, lambda: False).metrics["validation/success"] == 0.5
    assert "no film at step 8" in caplog.text and "no validation" not in caplog.text
    tries = (tmp_path / "validation/tries").read_text().split()
    assert tries == ["env=CartPole-v1", "record=0"]


def test_the_home_is_evaluated_in_apartments_it_was_not_trained_in():
    arguments = ["pick", "env_kwargs.homes=procedural", "validation.every=1000"]
    settings = load_training("train-skill", arguments)
    found = arguments_of(settings, training_env_of(settings))
    assert {"split=val", "homes=procedural", "num_episodes=50", "seed=0"} <= {*found}
    arguments[0] = "env=rearrange/Pick-v0"  # as an environment among others
    settings = load_training("train", arguments)
    found = arguments_of(settings, training_env_of(settings))
    assert {"split=val", "homes=procedural", "env=rearrange/Pick-v0"} <= {*found}
    settings = load_training("train", ["env=CartPole-v1"])
    assert "split=val" not in arguments_of(settings, training_env_of(settings))


def test_none_is_wanted_unless_it_is_said(tmp_path):
    settings = load_training("train", ["env=CartPole-v1"])
    assert validation_of(settings, training_env_of(settings), tmp_path) is None


def test_success_counts_more_than_the_return():
    both = {"success": {"mean": 0.5}, "episode_return": {"mean": 7.0}}
    assert next(iter(metrics_of(both))) == "validation/success"
    assert metrics_of({"success": None, "episode_return": {"mean": 7.0}}) == {
        "validation/return": 7.0
    }
    with pytest.raises(UserError, match="neither success nor return"):
        metrics_of({})


def test_environments_of_another_python_cannot_be_evaluated(capsys):
    arguments = [*ARGUMENTS[:2], f"workers.python={sys.executable}", "validation.every=10"]
    assert cli.main(arguments) == 2
    assert "validation.every evaluates in this Python" in capsys.readouterr().err
