"""The command as people meet it: help that teaches, one line for each mistake, exit codes."""

import importlib.machinery
import importlib.util
import json
import os
import resource
import shlex
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import imageio.v2 as imageio
import pytest

from rearrange import cli
from rearrange.commands.overrides import setting_kinds
from rearrange.configs.verbs import VERBS, config_class


def run(*arguments, **options):
    command = [sys.executable, "-m", "rearrange", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def fails(capsys, *arguments):
    """The one line on stderr of a command that must fail."""
    assert cli.main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ") and captured.err.count("\n") == 1
    return captured.err


def test_help_names_every_verb_and_imports_nothing_heavy():
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = run("--help")
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 1.0  # 0.3 s; torch 2 s
    assert done.returncode == 0 and done.stderr == ""
    assert all(verb in done.stdout for verb in cli.VERBS)
    heavy = "import sys; from rearrange import cli; cli.main(['--help']); "
    # numpy comes with gymnasium, which `import rearrange` makes the environments known to
    heavy += "print(sorted({'mujoco', 'hydra', 'numba', 'torch', 'matplotlib'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_verb_has_settings_and_help_with_a_meaning_for_each(capsys):
    assert set(cli.VERBS) == set(VERBS)
    for verb in VERBS:
        assert cli.main([*verb.split(), "--help"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith(f"rearrange {verb}: ")
        meanings = {
            name.split("=")[0].strip(): meaning.strip()
            for name, meaning in zip(lines, lines[1:], strict=False)
        }
        for name in setting_kinds(config_class(verb)):
            assert len(meanings[name]) > 10, f"{verb} {name}"


def test_help_shows_the_defaults_that_hold(capsys):
    assert cli.main(["help", "train"]) == 0
    text = capsys.readouterr().out
    for line in ("num_envs=8", "policy=auto", "ppo.clip_coef=0.2", "serial=false", "env="):
        assert f"\n  {line}\n" in text
    assert cli.main(["help", "bench", "trainers"]) == 0
    assert "\n  workloads=" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["pick"],
        ["navigate", "method=imitation"],
        ["close_fridge", "stage=cells_ver", "ppo.num_epochs=2"],
    ],
)
def test_help_with_a_skill_shows_what_its_run_will_use(capsys, arguments):
    from rearrange.commands.settings import flattened
    from rearrange.commands.training.resolve import load_training

    assert cli.main(["train-skill", *arguments, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    keys = [line[2:] for line in lines if line.startswith("  ") and line[2:3].strip()]
    shown = dict(line.split("=", 1) for line in keys if "=" in line)
    settings = asdict(load_training("train-skill", arguments))
    del settings["given"], settings["skill"]
    settings["policy"].pop("name"), settings["scheme"].pop("name")
    used = flattened(settings)
    for key, value in used.items():
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        if isinstance(value, bool) or value is None:
            text = text.lower()
        assert shown[key] == ("" if value == {} else text or "[]"), key


def test_every_example_can_be_read():
    from rearrange.commands.settings import load

    for verb in cli.VERBS.values():
        for example in verb.examples:
            arguments = shlex.split(example)
            verb, rest = cli.split_verb(arguments)
            load(verb, rest)


def test_unknown_words_are_answered_with_the_nearest(capsys):
    assert "did you mean 'evaluate'?" in fails(capsys, "evalute")
    assert "did you mean 'num_episodes'?" in fails(capsys, "evaluate", "num_episode=3")
    assert "did you mean 'pick'?" in fails(capsys, "evaluate", "task=pik")
    assert "choose from" in fails(capsys, "help", "xyzzy")


def test_a_setting_is_found_by_its_initials(capsys):
    assert "did you mean 'ppo.learning_rate'?" in fails(capsys, "train", "env=A", "ppo.lr=1e-3")
    assert "did you mean 'ppo.clip_coef'?" in fails(capsys, "train", "env=A", "ppo.clip=0.1")


@pytest.mark.parametrize(
    "arguments",
    [
        ["evaluate", "task=pick", "seed=1", "task=place"],
        ["train-skill", "pick", "skill=place"],
        ["train-skills", "ppo.clip_coef=0.1", "ppo.clip_coef=0.2"],  # passed on
    ],
)
def test_a_setting_that_is_given_twice_is_named_with_both_words(capsys, arguments):
    line, last = fails(capsys, *arguments), arguments[-1]
    key = last.split("=")[0]
    first = next(w for w in arguments if w.split("=")[0] == key) if key != "skill" else "skill=pick"
    assert f"{key} is given twice, {first} and {last}" in line


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            ["evaluate", "checkpoint=a"],
            "checkpoint is for agent=learned; agent=oracle accepts ",
        ),
        (["record", "sample=true"], "sample is for agent=tp_srl, "),
        (["evaluate", "agent=random", "max_failures=3"], "accepts no setting of agents"),
        (["evaluate", "agent=learned", "task=pick", "looks=none"], "looks is for agent=oracle, "),
        (["view", "skills=a"], "agent=you accepts no setting of agents"),
    ],
)
def test_a_setting_that_the_agent_would_ignore_is_refused(capsys, tmp_path, arguments, message):
    here = {"evaluate": "output_dir=", "record": "output="}.get(arguments[0], "")
    assert message in fails(capsys, *arguments, *([f"{here}{tmp_path}/a.mp4"] if here else []))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("renderer=nope", "unknown renderer 'nope'"),
        ("episodes=none.json.gz", "cannot read episodes from none.json.gz"),
        ("output=/proc/x", "cannot write /proc"),
    ],
)
def test_view_tells_mistakes_before_it_serves(capsys, setting, message):
    assert message in fails(capsys, "view", "port=0", setting)
    assert "http" not in capsys.readouterr().out


def test_outputs_that_cannot_be_written_are_found_before_the_work(capsys, monkeypatch, tmp_path):
    def work(*_):
        raise AssertionError("the work has begun")

    monkeypatch.setattr("rearrange.commands.record.make_env_and_agent", work)
    monkeypatch.setattr("rearrange.commands.training.export.export", work)
    for name in ("a.mp4", "a.safetensors"):
        (tmp_path / name).mkdir()
    assert "a folder of that name" in fails(capsys, "record", f"output={tmp_path / 'a.mp4'}")
    (tmp_path / "skill").touch()
    arguments = [f"run={tmp_path / 'skill'}", f"output={tmp_path / 'a.safetensors'}"]
    assert "a folder of that name" in fails(capsys, "export-skill", *arguments)


@pytest.fixture
def run_script():
    """The module that `./run` is."""
    script = Path(__file__).parents[1] / "run"
    loader = importlib.machinery.SourceFileLoader("run_script", str(script))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_script", loader))
    loader.exec_module(module)
    return module


def test_tests_run_in_a_process_more_than_cores_unless_they_need_the_terminal(
    run_script, monkeypatch
):
    module = run_script
    for num_cores, num_processes in ((1, "2"), (2, "3"), (64, "8")):
        cores = set(range(num_cores))
        monkeypatch.setattr(
            module.os, "sched_getaffinity", lambda pid, cores=cores: cores, raising=False
        )
        assert module.in_parallel(["-k", "x"])[:3] == ["-n", num_processes, "--dist=loadfile"]
    assert module.in_parallel(["--pdb", "tests/ver"]) == module.in_parallel(["-s"]) == []


def test_run_names_a_place_where_it_may_not_write(run_script, capsys, monkeypatch, tmp_path):
    module = run_script
    monkeypatch.setattr(module, "CHECKOUT", tmp_path)
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(module.os, "access", lambda path, mode: False)  # root may write anywhere
    assert module.main(["list"]) == 2
    line = capsys.readouterr().err
    assert line.startswith(f"error: you may not write {tmp_path}, ") and line.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_bench_by_itself_lists_its_benches(capsys):
    lines = works(capsys, "bench").splitlines()[1:]
    assert [line.split("  ")[1] for line in lines] == [
        "bench sim", "bench homes", "bench trainers", "bench scaling", "bench bridge",
        "bench staggered-resets",
    ]  # fmt: skip
    assert all(len(line.split("  ")[-1]) > 20 for line in lines)


def test_missing_and_wrong_files_are_one_line(capsys, tmp_path):
    for path in (tmp_path / "nothing.pddl", tmp_path):
        line = fails(capsys, "plan", f"domain={path}", f"problem={path}")
        assert str(path) in line
    assert "nothing" in fails(capsys, "episodes", "check", f"file={tmp_path / 'nothing.json.gz'}")
    bad = tmp_path / "bad.json.gz"
    bad.write_bytes(b"\x1f\x8b not really")
    assert str(bad) in fails(capsys, "episodes", "check", f"file={bad}")
    os.mkfifo(pipe := tmp_path / "pipe")
    (tmp_path / "empty").mkdir()
    learned = ("evaluate", "task=pick", "agent=learned", f"output_dir={tmp_path / 'out'}")
    for path, why in ((pipe, "it is no regular file"), (tmp_path / "empty", "has no checkpoint")):
        assert why in fails(capsys, *learned, f"checkpoint={path}")
    assert "output must end in .mp4 or .gif" in fails(capsys, "record", "output=.mp4")


@pytest.mark.parametrize(
    "words",
    [
        ("homes check", "homes=~nouser/x.json"), ("homes draw", "output=~nouser/x.html"),
        ("evaluate", "agent=random", "output_dir=~nouser/x"), ("record", "output=~nouser/x.mp4"),
        ("compare", "~nouser/x", "~nouser/y"), ("train", "env=CartPole-v1", "run_dir=~nouser/x"),
        ("collect verify", "folder=~nouser/x"), ("plan", "domain=~nouser/x", "problem=~nouser/y"),
    ],
)  # fmt: skip
def test_the_home_folder_of_nobody_is_one_line(capsys, words):
    assert cli.main([*words[0].split(), *words[1:]]) == 2
    error = capsys.readouterr().err
    assert "there is no home folder ~nouser" in error and error.count("\n") == 1


def test_unknown_agents_and_splits_are_one_line(capsys, tmp_path):
    out = f"output_dir={tmp_path / 'out'}"
    assert "did you mean 'oracle'?" in fails(capsys, "evaluate", "agent=oracel", out)
    assert "unknown split 'dev'" in fails(capsys, "evaluate", "split=dev", out)
    assert not (tmp_path / "out").exists()


def test_unusable_output_folder_is_one_line(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    arguments = ["evaluate", "num_episodes=1"]
    for folder in (tmp_path / "file", tmp_path / "file" / "below", "/proc/nothing"):
        line = fails(capsys, *arguments, f"output_dir={folder}")
        assert "output_dir must be a folder" in line or "cannot write into output_dir" in line


@pytest.mark.parametrize(
    "arguments",
    [
        "bench sim", "bench homes", "bench bridge", "doctor", "chaos quick=true", "compare {0} {0}",
        "plan task=tidy_house",
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_written_is_found_before_the_work(capsys, tmp_path, arguments):
    (tmp_path / "file").write_text("")
    output = tmp_path / "file" / "a.json"
    line = fails(capsys, *arguments.format(tmp_path).split(), f"output={output}")
    assert f"cannot use {output.parent} as a folder" in line


# --- the commands on the real world ---------------------------------------------------------------


def works(capsys, *arguments):
    """What a command that must end well prints."""
    assert cli.main(list(arguments)) == 0
    captured = capsys.readouterr()
    tells_how_far = arguments[0] in ("evaluate", "record")  # now and then, on a slow machine
    assert "error" not in captured.err and (tells_how_far or captured.err == "")
    return captured.out


def test_evaluate_gives_the_same_episodes_whatever_the_workers(capsys, tmp_path):
    arguments = ["evaluate", "task=open_drawer", "agent=random", "num_episodes=3"]
    for num_workers in (1, 2):
        folder = tmp_path / str(num_workers)
        works(capsys, *arguments, f"num_workers={num_workers}", f"output_dir={folder}")
    first, second = ((tmp_path / n / "episodes.jsonl").read_bytes() for n in ("1", "2"))
    assert first == second and first.count(b"\n") == 3
    summary = json.loads((tmp_path / "2/summary.json").read_text())
    assert summary["success"]["mean"] == 0.0 and summary["stages"] == []


def test_record_makes_a_film_of_the_episode(capsys, tmp_path):
    film = tmp_path / "film.mp4"
    out = works(capsys, "record", "task=close_drawer", "agent=oracle", "index=2", f"output={film}")
    steps = int(out.split(" after ")[1].split()[0])
    with imageio.get_reader(film) as reader:
        pictures = [picture for picture in reader]  # list() trusts its length, which is infinite
    assert len(pictures) == pytest.approx(steps / 3 + 45, abs=3)  # every third step, and 1.5 s
    assert pictures[0].shape == (720, 1280, 3)
    assert (pictures[0].astype(int) - pictures[-1]).std() > 5  # something has moved


def test_plan_prints_the_steps_of_an_episode_and_writes_its_problem(capsys, tmp_path):
    problem = tmp_path / "problem.pddl"
    out = works(capsys, "plan", "task=set_table", "index=3", f"output={problem}")
    steps = [line.split(maxsplit=1)[1] for line in out.splitlines()]
    assert sum("pick(" in step and step.startswith("pick up the ") for step in steps) == 2
    assert "open the drawer" in out and "open_cab(cab_push_point_5)" in out
    assert problem.read_text().startswith("(define (problem")
    assert "is one skill" in fails(capsys, "plan", "task=pick")


def test_episode_files_are_made_checked_and_evaluated(capsys, tmp_path):
    path = tmp_path / "few.json.gz"
    arguments = ["task=pick", "split=test", "num_episodes=2", f"output={path}"]
    works(capsys, "episodes", "generate", *arguments)
    assert "2 episodes" in works(capsys, "episodes", "check", f"file={path}")
    mixed = ["task=close_fridge", "homes=mixed", f"output={tmp_path / 'mixed.json.gz'}"]
    works(capsys, "episodes", "generate", *mixed, "num_episodes=3")
    works(capsys, "episodes", "check", f"file={tmp_path / 'mixed.json.gz'}")
    arguments = ["evaluate", "task=pick", "agent=random", f"episodes={path}", "num_workers=1"]
    out = f"output_dir={tmp_path / 'out'}"
    said = works(capsys, *arguments, "num_episodes=2", out)
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert summary["num_episodes"] == 2
    # Whose they are is the file's matter: no split and no seed of the settings.
    assert (summary["split"], summary["homes"], summary["episodes"]) == (None, None, str(path))
    page = (tmp_path / "out/report.html").read_text()
    assert "random, episodes of few.json.gz, 2 episodes" in said and "seed" not in said
    compared = works(capsys, "compare", str(tmp_path / "out"), str(tmp_path / "out"))
    assert compared.startswith("pick, one file of episodes: 2 episodes that both have")
    assert "<title>Pick: random on episodes of few.json.gz" in page and "2 episodes</p>" in page
    line = fails(capsys, *arguments, "num_episodes=3", f"output_dir={tmp_path / 'more'}")
    assert "no index 2" in line and not (tmp_path / "more").exists()
    other = ["evaluate", "task=place", "num_episodes=1", f"output_dir={tmp_path / 'other'}"]
    assert "is of task pick, not of place: give task=pick" in fails(capsys, *other, *arguments[2:])
    path.write_bytes(path.read_bytes()[:-100])
    damaged = f"output_dir={tmp_path / 'damaged'}"
    assert str(path) in fails(capsys, *arguments, "num_episodes=2", damaged)


def test_list_names_what_there_is(capsys):
    out = works(capsys, "list")
    assert all(word in out for word in ("tidy_house", "oracle", "train", "plain"))
    assert "oracle" not in works(capsys, "list", "tasks")
