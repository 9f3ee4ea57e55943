"""The command as people meet it: help that teaches, one line for each mistake, exit codes."""

import os
import subprocess
import sys
import time

import pytest

from rearrange import cli
from rearrange.configs.schema import VERB_CONFIGS


def run(*words, **options):
    command = [sys.executable, "-m", "rearrange", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def fails(capsys, *words):
    """The one line on stderr of a command that must fail."""
    assert cli.main(list(words)) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ") and captured.err.count("\n") == 1
    return captured.err


def test_help_names_every_verb_and_imports_nothing_heavy():
    start = time.perf_counter()
    done = run("--help")
    assert time.perf_counter() - start < 1.5  # 0.1 s by itself; the machine may be busy
    assert done.returncode == 0 and done.stderr == ""
    assert all(verb in done.stdout for verb in cli.VERBS)
    heavy = "import sys; from rearrange import cli; cli.main(['--help']); "
    heavy += "print(sorted({'numpy', 'mujoco', 'hydra', 'torch', 'matplotlib'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_verb_has_settings_and_help_with_a_meaning_for_each(capsys):
    assert set(cli.VERBS) == set(VERB_CONFIGS)
    for verb, cls in VERB_CONFIGS.items():
        assert cli.main([verb, "--help"]) == 0
        text = capsys.readouterr().out
        meanings = cli.field_docs(cls)
        for name in cls.__dataclass_fields__:
            assert name in text and len(meanings[name]) > 10, f"{verb} {name}"


def test_unknown_words_are_answered_with_the_nearest(capsys):
    assert "did you mean 'evaluate'?" in fails(capsys, "evalute")
    assert "did you mean 'num_episodes'?" in fails(capsys, "evaluate", "num_episode=3")
    assert "did you mean 'pick'?" in fails(capsys, "evaluate", "task=pik")
    assert "choose from" in fails(capsys, "help", "xyzzy")


def test_missing_and_wrong_files_are_one_line(capsys, tmp_path):
    for path in (tmp_path / "nothing.pddl", tmp_path):
        line = fails(capsys, "plan", f"domain={path}", f"problem={path}")
        assert str(path) in line
    assert "nothing" in fails(capsys, "episodes", "check", f"file={tmp_path / 'nothing.json.gz'}")
    bad = tmp_path / "bad.json.gz"
    bad.write_bytes(b"\x1f\x8b not really")
    assert str(bad) in fails(capsys, "episodes", "check", f"file={bad}")


def test_unknown_agents_and_splits_are_one_line(capsys, tmp_path):
    out = f"output_dir={tmp_path / 'out'}"
    assert "did you mean 'oracle'?" in fails(capsys, "evaluate", "agent=oracel", out)
    assert "unknown split 'dev'" in fails(capsys, "evaluate", "split=dev", out)
    assert not (tmp_path / "out").exists()


def test_unusable_output_folder_is_one_line(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    words = ["evaluate", "num_episodes=1"]
    for folder in (tmp_path / "file", tmp_path / "file" / "below", "/proc/nothing"):
        assert "cannot" in fails(capsys, *words, f"output_dir={folder}")


def test_ctrl_c_and_a_closed_pipe_leave_cleanly(capsys, monkeypatch):
    def interrupt(words):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_dispatch", interrupt)
    assert cli.main([]) == 130
    assert capsys.readouterr().err == "error: interrupted\n"
    shell = f"{sys.executable} -m rearrange --help | head -1"
    done = subprocess.run(shell, shell=True, capture_output=True, text=True, env=os.environ)
    assert done.stderr == ""


def test_defects_of_ours_are_not_hidden(monkeypatch):
    def defect(words):
        raise ZeroDivisionError

    monkeypatch.setattr(cli, "_dispatch", defect)
    with pytest.raises(ZeroDivisionError):
        cli.main([])
