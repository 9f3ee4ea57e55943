"""The evaluation over a world of plain numbers: same results, whole files, lost workers."""

import html
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
from dataclasses import fields
from datetime import datetime
from pathlib import Path

import fake_world
import pytest

from rearrange.commands.settings import load
from rearrange.configs.schema import EvaluateCfg, TaskCfg
from rearrange.errors import UserError
from rearrange.eval.evaluate import evaluate
from rearrange.eval.workers import WorkerError, WorkerPool
from rearrange.system.machine import num_cores
from tests.waits import wait_until

TASK = TaskCfg(
    name="fake", title="Fake <House>", stage_skills=[["navigate", "pick"], ["navigate", "place"]]
)


def settings(folder, **options):
    return EvaluateCfg(task=TASK, **({"num_episodes": 7, "output_dir": str(folder)} | options))


def lines_of(folder):
    return [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]


def test_results_do_not_depend_on_the_number_of_workers(tmp_path):
    summaries = []
    for num_workers in (1, 3):
        folder = tmp_path / str(num_workers)
        summary = evaluate(settings(folder, num_workers=num_workers), fake_world.make_env_and_agent)
        summaries.append({key: summary[key] for key in ("success", "stages", "skills")})
    assert (tmp_path / "1/episodes.jsonl").read_bytes() == (
        tmp_path / "3/episodes.jsonl"
    ).read_bytes()
    assert summaries[0] == summaries[1]


class PoolHere(WorkerPool):
    """Runs its episodes in this process."""

    def run(self, indices, on_steps=None):
        env, agent = self._make_env_and_agent(self._cfg)
        for index in indices:
            yield self._cfg.run_episode(env, agent, index, lambda: None)


def test_a_resumed_evaluation_had_no_more_workers_than_episodes_to_run(tmp_path, monkeypatch):
    monkeypatch.setattr("rearrange.eval.missing_episodes.WorkerPool", PoolHere)
    had = []
    for num_episodes in (5, 6):
        cfg = settings(tmp_path, num_episodes=num_episodes, num_workers=3)
        summary = evaluate(cfg, fake_world.make_env_and_agent)
        had.append((summary["num_workers"], summary["kept_episodes"]))
    assert had == [(3, 0), (1, 5)]


def test_files_hold_what_the_contract_says(tmp_path, capsys):
    evaluate(settings(tmp_path, num_workers=2), fake_world.make_env_and_agent)
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert {"task", "agent", "split", "num_episodes", "seed", "success", "stages"} <= set(summary)
    assert {"skills", "wall_time_s", "control_steps", "steps_per_second", "versions"} <= set(
        summary
    )
    assert summary["success"]["mean"] == pytest.approx(6 / 7)  # all but episode 3
    assert summary["success"]["low"] <= 6 / 7 <= summary["success"]["high"] < 1.0
    assert [stage["name"] for stage in summary["stages"]] == ["stage_0_5", "stage_1"]
    assert summary["skills"]["pick"] == {"attempts": 7, "successes": 7}
    assert summary["control_steps"] == 5 + 6 + 7 + 5 + 6 + 7 + 5
    episodes = lines_of(tmp_path)
    assert [episode["index"] for episode in episodes] == list(range(7))
    assert episodes[3]["failure"] == "place(any_targets|0): object lost"
    assert not episodes[3]["success"]
    assert episodes[3]["last_step"] == "place(any_targets|0, TARGET_any_targets|0)"
    assert episodes[3]["targets"] == {"any_targets|0": ["024_bowl", *fake_world.RECEPTACLES]}
    assert (
        episodes[2]["failure"] is None
        and episodes[2]["last_step"] == ""
        and episodes[2]["steps"] == 7
    )
    assert episodes[2]["force"] == 17.5 and episodes[2]["path_length"] == pytest.approx(0.7)
    assert episodes[1]["scene"] == "layout_1"
    assert (tmp_path / "stages.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "report.html").read_text()
    assert "Fake &lt;House&gt;" in page and "<House>" not in page
    assert "lost what it held while placing the bowl" in page
    assert "1 of 1 placed" in page and "any_targets" not in page and "stage_1" not in page
    out = capsys.readouterr().out
    assert "85.7%" in out and "1 of 1 picked up" in out
    assert "1  lost what it held while placing the first object" in out


def test_the_report_says_how_it_was_made_and_how_to_watch_a_failure(tmp_path):
    out = tmp_path / "out"
    arguments = ["task=pick", "agent=random", "seed=3", "num_episodes=8", "num_workers=1"]
    cfg = load("evaluate", [*arguments, f"output_dir={out}", "homes=procedural"])
    (out / "videos").mkdir(parents=True)
    (out / "videos/episode_0003.mp4").touch()
    summary = evaluate(cfg, fake_world.make_env_and_agent)
    assert summary["command"] == shlex.join(["rearrange", "evaluate", *cfg.given.overrides])
    page = html.unescape((out / "report.html").read_text())
    for fact in ("command", "date", "machine"):
        assert f"{fact}: {summary[fact]}" in page
    assert str(num_cores()) + " cores" in summary["machine"] and "rearrange " in page
    assert datetime.fromisoformat(summary["date"]).tzinfo is not None
    # Episodes 3 and 7 fail alike: the first one is proposed, with a command that leads there.
    assert "(2 episodes failed like this)" in page and "href='videos/episode_0003.mp4'" in page
    (command,) = re.findall(r"<pre>rearrange record (.*?)</pre>", page)
    to_film = load("record", shlex.split(command))
    assert (to_film.index, to_film.output) == (3, str(out / "videos/episode_0003.mp4"))
    own = ("index", "output", "given")
    shared = [field.name for field in fields(to_film) if field.name not in own]
    assert {n: getattr(to_film, n) for n in shared} == {n: getattr(cfg, n) for n in shared}


def test_the_report_has_no_command_where_no_words_led_to_it(tmp_path):
    evaluate(settings(tmp_path, num_workers=1), fake_world.make_env_and_agent)
    page = (tmp_path / "report.html").read_text()
    assert "Failures to watch" in page and "<pre>" not in page and "command: " not in page


@pytest.mark.parametrize(
    ("world", "timeout_s"),
    [(fake_world.make_dying_world, 900.0), (fake_world.make_hanging_world, 4.0)],
)
def test_lost_worker_is_replaced_and_its_episode_repeated(tmp_path, world, timeout_s):
    # the worlds find the path of their mark in the setting `renderer`, which they do not need
    mark = str(tmp_path / "mark")
    cfg = settings(tmp_path, num_workers=2, renderer=mark, episode_timeout_s=timeout_s)
    summary = evaluate(cfg, world)
    assert summary["workers_lost"] == 1
    assert [episode["index"] for episode in lines_of(tmp_path)] == list(range(7))


def test_silent_workers_are_not_taken_for_a_lack_of_memory(tmp_path):
    cfg = settings(
        tmp_path,
        renderer=str(tmp_path / "mark"),
        max_restarts=0,
        num_workers=1,
        episode_timeout_s=4.0,  # counted once the worker has begun
    )
    with pytest.raises(UserError, match="was silent for 4 s in episode 2: does it hang") as caught:
        evaluate(cfg, fake_world.make_hanging_world)
    assert "memory" not in str(caught.value)


def test_too_many_lost_workers_end_the_run_in_one_line(tmp_path):
    cfg = settings(tmp_path, renderer=str(tmp_path / "mark"), max_restarts=0, num_workers=1)
    with pytest.raises(UserError, match="exit code -9") as caught:
        evaluate(cfg, fake_world.make_dying_world)
    assert "\n" not in str(caught.value)
    assert [episode["index"] for episode in lines_of(tmp_path)] == [0, 1]


def test_exception_in_a_worker_arrives_with_its_traceback(tmp_path):
    with pytest.raises(WorkerError, match="one divided by zero"):
        evaluate(settings(tmp_path, num_workers=1), fake_world.make_broken_world)


def test_mistake_in_a_worker_arrives_as_a_mistake(tmp_path):
    with pytest.raises(UserError, match="^unknown split 'nowhere'$"):
        evaluate(settings(tmp_path, num_workers=2, split="nowhere"), fake_world.make_env_and_agent)


def has_processes(session):
    try:
        os.killpg(session, 0)
    except ProcessLookupError:
        return False
    return True


def _hear_interrupts() -> None:
    """A shell starts background jobs deaf to Ctrl-C, and what they start inherits that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_run_keeps_finished_episodes_and_leaves_no_process(tmp_path, number, code):
    script = tmp_path / "main.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            import fake_world
            from rearrange import cli
            from rearrange.eval import evaluate

            if __name__ == "__main__":
                evaluate.make_env_and_agent = fake_world.make_slow_world
                evaluate.check_names = print
                arguments = ["evaluate", "num_episodes=300", "num_workers=2"]
                sys.exit(cli.main([*arguments, "output_dir=" + sys.argv[1]]))
            """
        )
    )
    root = Path(__file__).parents[2]
    env = os.environ | {"PYTHONPATH": f"{root}{os.pathsep}{Path(__file__).parent}"}
    run = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "out")],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=_hear_interrupts,
    )
    wait_until((tmp_path / "out/started_4").exists, run)  # two workers: episodes have ended by then
    run.send_signal(number)
    out, err = run.communicate(timeout=120)
    assert run.returncode == code
    assert err.count("error: ") == 1 and err.splitlines()[-1].startswith("error: ")
    assert err.splitlines()[0].endswith(": 300 episodes to run")
    kept = lines_of(tmp_path / "out")
    assert kept and f"kept {len(kept)} finished episodes" in out
    assert not (tmp_path / "out/summary.json").exists()
    wait_until(lambda: not has_processes(run.pid))
