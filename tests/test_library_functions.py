"""`rearrange.evaluate`, `plan` and `train` do what the commands do, and say nothing."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rearrange
from rearrange import cli
from rearrange.errors import UserError
from rearrange.eval.benchmarks.chaos.harness import FAULTY
from rearrange.library import TrainingError, overrides_of
from rearrange.tasks.episodes.files import write_episodes
from rearrange.tasks.episodes.generate import generate_episode

TRAINING = {"total_steps": 128, "num_steps": 64, "num_envs": 2, "scheme": "serial"}


def test_an_evaluation_is_that_of_the_command_from_a_script_without_a_guard(tmp_path):
    # Its workers would import the script again, and each of them begin an evaluation.
    script = tmp_path / "script.py"
    script.write_text(
        "import rearrange, sys\n"
        "plan = rearrange.plan(task='set_table', index=0)\n"
        "done = rearrange.evaluate(task='navigate', num_episodes=2, num_workers=2)\n"
        "print('torch' in sys.modules, len(plan.steps), plan.steps[0], plan.is_shortest)\n"
        "print(done.episodes, done.success, done.output_dir)\n"
    )
    root = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {root!r}); "
               f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=200)
    assert done.stderr == ""
    plan, evaluation = done.stdout.splitlines()
    assert plan == "False 12 navigate(cab_push_point_5) True"
    folder = tmp_path / "out"
    overrides = ["evaluate", "task=navigate", "num_episodes=2", "num_workers=1"]
    assert cli.main([*overrides, f"output_dir={folder}"]) == 0
    lines = [json.loads(line) for line in (folder / "episodes.jsonl").open()]
    assert evaluation.startswith(f"{lines} Estimate(mean=1.0") and evaluation.endswith(" None")
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["out"]


def test_a_training_gives_what_its_summary_says_and_can_be_evaluated(tmp_path, capsys):
    done = rearrange.train(
        env="CartPole-v1", run_dir=tmp_path / "run", ppo={"num_epochs": 1}, **TRAINING
    )
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert done.total_steps == 128 == summary["total_steps"] and done.stopped_by is None
    assert done.episode_return == summary["episode_return"] and done.run_dir == tmp_path / "run"
    assert "num_epochs: 1" in (tmp_path / "run/config.yaml").read_text()
    found = rearrange.evaluate(
        run=done.run_dir, num_episodes=2, num_workers=1, output_dir=tmp_path / "out"
    )
    assert found.success is None and found.stages == {}
    assert found.episode_return.mean == sum(e["total_return"] for e in found.episodes) / 2
    assert (tmp_path / "out/summary.json").exists() and found.output_dir == tmp_path / "out"
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_pddl_files_are_planned(tmp_path):
    domain, problem = tmp_path / "domain.pddl", tmp_path / "problem.pddl"
    domain.write_text(
        "(define (domain d) (:predicates (at ?x)) (:action go :parameters (?x ?y) "
        ":precondition (at ?x) :effect (and (at ?y) (not (at ?x)))))"
    )
    problem.write_text(
        "(define (problem p) (:domain d) (:objects a b) (:init (at a)) (:goal (at b)))"
    )
    found = rearrange.plan(domain=domain, problem=problem, search="optimal")
    assert found.steps == ["(go a b)"] and found.is_shortest and found.problem is None


def test_mistakes_and_failures_are_exceptions_with_one_line(tmp_path, capsys):
    with pytest.raises(UserError, match="did you mean 'num_episodes'"):
        rearrange.evaluate(num_episode=3)
    with pytest.raises(UserError, match="record= needs output_dir="):
        rearrange.evaluate(record=1)
    with pytest.raises(UserError, match="needs skill=, such as 'pick', or env="):
        rearrange.train(total_steps=10)
    with pytest.raises(UserError, match="is one skill and has no plan"):
        rearrange.plan(task="pick")
    kwargs = {"fault": "nan_reward", "at_step": 10}
    with pytest.raises(TrainingError, match="reward nan") as caught:
        rearrange.train(
            env=FAULTY.removeprefix("env="), env_kwargs=kwargs, run_dir=tmp_path, **TRAINING
        )
    assert "\n" not in str(caught.value)
    assert capsys.readouterr().out == ""


def test_values_become_the_commands_words():
    values = {
        "a": 1, "b": None, "c": True, "d": ["x", 2], "p": Path("q"),
        "e": {"f": 0.5, "g": {"h": "i"}},
    }  # fmt: skip
    assert overrides_of(values) == [
        "a=1",
        "b=none",
        "c=true",
        "d=[x,2]",
        "p=q",
        "e.f=0.5",
        "e.g.h=i",
    ]
    numbers = {"a": np.True_, "b": np.int32(3), "c": np.array([2]), "d": [np.False_], "e": {}}
    assert overrides_of(numbers) == ["a=true", "b=3", "c=2", "d=[false]"]
    with pytest.raises(UserError, match="a text, a list or a dict, got ndarray"):
        overrides_of({"seed": np.array([1, 2])})
    with pytest.raises(UserError, match="index must not be a dict in the settings of plan"):
        rearrange.plan(index={})
    assert overrides_of({"env_kwargs": {}, "ppo": {}}, "train") == []
    with pytest.raises(UserError, match="must not hold a comma"):
        overrides_of({"d": ["x,y"]})
    with pytest.raises(UserError, match="must be a number, a text, a list or a dict, got object"):
        overrides_of({"d": object()})


@pytest.mark.parametrize("folder", ["none", "NULL", None])
def test_an_evaluation_writes_nothing_where_no_folder_is_wanted(monkeypatch, tmp_path, folder):
    monkeypatch.chdir(tmp_path)
    found = rearrange.evaluate(
        task="navigate", agent="random", num_episodes=1, num_workers=1, output_dir=folder
    )
    assert found.output_dir is None and len(found.episodes) == 1
    assert list(tmp_path.iterdir()) == []


def test_an_episode_file_of_another_task_names_the_task(tmp_path):
    path = tmp_path / "picks.json.gz"
    write_episodes(path, [generate_episode("pick", "val", 0, 0)])
    line = f"{path}: episode 0 is of task pick, not of tidy_house: give task=pick"
    with pytest.raises(UserError, match=line):
        rearrange.evaluate(agent="random", num_episodes=1, episodes=path)


def test_a_training_stopped_in_an_early_stage_gives_what_that_stage_has(tmp_path, monkeypatch):
    def stopped(cfg):
        stage = cfg.folder / "imitation"
        stage.mkdir(parents=True)
        summary = {
            "total_steps": 7,
            "episode_return": None,
            "success": None,
            "stopped_by": "SIGINT",
        }
        (stage / "summary.json").write_text(json.dumps(summary))
        return 130

    monkeypatch.setattr("rearrange.commands.training.train.run", stopped)
    found = rearrange.train(skill="pick", method="imitation_ver", run_dir=tmp_path / "run")
    assert (found.run_dir, found.total_steps) == (tmp_path / "run/imitation", 7)
    assert found.stopped_by == "SIGINT"
