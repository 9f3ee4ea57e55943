"""The whole program as a user runs it: command in, files out."""

import json
import subprocess
import sys

import pytest

from rearrange import cli

STEPS = ["navigate", "pick", "navigate", "place"]


def run(*arguments):
    command = [sys.executable, "-m", "rearrange", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def run_here(*arguments):
    """The same in this process, which need not import all again."""
    assert cli.main(list(arguments)) == 0


def evaluation(folder, *arguments):
    """The words of an evaluation of two episodes."""
    return ("evaluate", "num_episodes=2", "split=val", f"output_dir={folder}", *arguments)


@pytest.fixture(scope="module")
def groceries(tmp_path_factory):
    """An evaluation with one worker, and one with two by a command of its own."""
    folder, task = tmp_path_factory.mktemp("groceries"), "task=prepare_groceries_easy"
    run_here(*evaluation(folder / "1", task, "num_workers=1"))
    done = run(*evaluation(folder / "2", task, "num_workers=2"))
    assert done.returncode == 0, done.stderr
    return folder


def test_the_number_of_workers_changes_no_byte_of_the_episodes(groceries):
    one, two = ((groceries / n / "episodes.jsonl").read_bytes() for n in "12")
    assert one == two


def test_the_summary_counts_what_the_episodes_say(groceries):
    lines = (groceries / "1" / "episodes.jsonl").read_text().splitlines()
    episodes = [json.loads(line) for line in lines]
    summary = json.loads((groceries / "1" / "summary.json").read_text())
    assert summary["num_episodes"] == len(episodes) == 2
    assert summary["control_steps"] == sum(e["steps"] for e in episodes)
    assert [e["index"] for e in episodes] == [0, 1]


def test_the_oracle_brings_the_groceries(groceries):
    """prepare_groceries_easy 0 and 1 of val: fridge to counter."""
    for line in (groceries / "1" / "episodes.jsonl").read_text().splitlines():
        episode = json.loads(line)
        assert episode["success"] and episode["failure"] is None
        assert all(episode["stages"].values())
        assert [name for name, _ in episode["attempts"]][:4] == STEPS
        assert 100 < episode["steps"] < 1500
        assert 1.0 < episode["path_length"] < 30.0  # m


def test_a_report_and_a_figure_lie_beside_them(groceries):
    assert (groceries / "1" / "stages.png").read_bytes().startswith(b"\x89PNG")
    assert "<html" in (groceries / "1" / "report.html").read_text()


def test_chance_brings_nothing(tmp_path):
    task = "task=prepare_groceries_easy"
    run_here(*evaluation(tmp_path / "out", task, "agent=random", "num_workers=1"))
    lines = (tmp_path / "out" / "episodes.jsonl").read_text().splitlines()
    assert len(lines) == 2 and not any(json.loads(line)["success"] for line in lines)


def test_generated_episodes_are_evaluated_from_their_file(tmp_path, groceries):
    """The file of the same episodes gives the same results as their indices."""
    file = tmp_path / "episodes.json.gz"
    arguments = ("task=prepare_groceries_easy", "split=val", "num_episodes=2", f"output={file}")
    run_here("episodes", "generate", *arguments)
    run_here("episodes", "check", f"file={file}")
    run_here(*evaluation(tmp_path / "out", arguments[0], "num_workers=1", f"episodes={file}"))
    from_file = (tmp_path / "out" / "episodes.jsonl").read_bytes()
    assert from_file == (groceries / "1" / "episodes.jsonl").read_bytes()


def test_a_plan_is_printed_a_step_a_line():
    done = run("plan", "task=set_table", "split=val", "index=3")
    assert done.returncode == 0 and done.stderr == ""
    *lines, last = done.stdout.splitlines()
    assert last == f"; {len(lines)} steps, no plan is shorter"
    assert [int(line.split()[0]) for line in lines] == list(range(1, len(lines) + 1))
    assert sum("place(" in line for line in lines) == 2
