"""metrics.jsonl survives kills and resumes, JSON never holds NaN, summary and progress add up."""

import errno
import io
import json
import math
import os
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rearrange.errors import UserError
from rearrange.ver.run import tensorboard
from rearrange.ver.run.episode_window import EpisodeWindow
from rearrange.ver.run.metrics import RunLog, merge_ranks, read_metrics, write_summary
from rearrange.ver.run.progress import Progress, duration


def log_steps(run_dir, steps, start_step=0, **metrics):
    with RunLog(run_dir, 1000, is_quiet=True, start_step=start_step) as log:
        for step in steps:
            log.update({"loss/policy": step / 10} | metrics, step)


def steps_in(run_dir):
    return [line["step"] for line in read_metrics(run_dir / "metrics.jsonl")]


def test_each_update_is_a_line_of_strict_json(tmp_path):
    values = {
        "loss/policy": np.float32(0.5),
        "loss/value": torch.tensor(2.0),
        "ppo/approx_kl": float("nan"),
        "ppo/ratio_max": np.float64("inf"),
        "episode/success": None,
    }
    with RunLog(tmp_path / "run", 100, is_quiet=True) as log:
        log.update(values, 10)
        # Written at once, not at the end.
        text = (tmp_path / "run" / "metrics.jsonl").read_text()
    line = json.loads(text, parse_constant=lambda word: pytest.fail(word))
    assert text.endswith("\n") and line.pop("time_s") >= 0
    assert line == {
        "step": 10,
        "loss/policy": 0.5,
        "loss/value": 2.0,
        "ppo/approx_kl": None,
        "ppo/ratio_max": None,
        "episode/success": None,
    }


def test_resume_drops_what_is_trained_again_and_goes_on_in_time(tmp_path):
    log_steps(tmp_path, [10, 20, 30])
    path = tmp_path / "metrics.jsonl"
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    for line, seconds in zip(lines, (100.0, 200.0, 300.0), strict=True):
        line["time_s"] = seconds
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    log_steps(tmp_path, [25, 35], start_step=20)
    assert steps_in(tmp_path) == [10, 20, 25, 35]
    times = [line["time_s"] for line in read_metrics(path)]
    assert times[1] == 200.0 and 200.0 <= times[2] <= times[3] < 250.0
    log_steps(tmp_path, [5])  # a training from its beginning
    assert steps_in(tmp_path) == [5]


def test_half_a_last_line_is_tolerated_and_a_broken_one_before_it_is_not(tmp_path, caplog):
    log_steps(tmp_path, [10, 20])
    path = tmp_path / "metrics.jsonl"
    whole = path.read_bytes()
    for length in range(len(whole.split(b"\n")[0]) + 1, len(whole)):
        path.write_bytes(whole[:length])
        assert steps_in(tmp_path) == [10]
    log_steps(tmp_path, [30], start_step=20)
    assert steps_in(tmp_path) == [10, 30] and not caplog.text
    for damage in (b"{", b"[]", b'{"step": 1.5}', b'{"step": 2, "time_s": NaN}', b"\xff", b""):
        path.write_bytes(damage + b"\n" + whole)
        with pytest.raises(UserError, match="is damaged in line 1: ") as caught:
            read_metrics(path)
        assert "\n" not in str(caught.value)
    log_steps(tmp_path, [30], start_step=20)
    assert steps_in(tmp_path) == [10, 20, 30] and "dropped 1 damaged" in caplog.text


def test_killed_writer_leaves_whole_lines(tmp_path):
    code = """
import sys
from pathlib import Path
from rearrange.ver.run.metrics import RunLog
log = RunLog(Path(sys.argv[1]), 10**9, is_quiet=True)
for step in range(10**9):
    log.update({f"loss/{i}": step / 3 for i in range(30)}, step)
    if step == 20:
        print("running", flush=True)
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert writer.stdout.readline() == "running\n"
    writer.send_signal(signal.SIGKILL)
    writer.communicate()
    steps = steps_in(tmp_path)
    assert steps == list(range(len(steps))) and len(steps) > 20


def test_full_disk_passes_up_and_leaves_whole_lines(tmp_path, monkeypatch):
    log = RunLog(tmp_path, 100, is_quiet=True)
    log.update({"loss/policy": 1.0}, 10)
    write, is_full = os.write, [False, True]

    def write_on_full_disk(descriptor, content):
        if is_full.pop(0):
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, bytes(content)[:7])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_on_full_disk)
        with pytest.raises(OSError) as caught:
            log.update({"loss/policy": 2.0}, 20)
    assert caught.value.errno == errno.ENOSPC and caught.value.filename.endswith("metrics.jsonl")
    log.update({"loss/policy": 3.0}, 30)
    log.close()
    log.close()
    assert steps_in(tmp_path) == [10, 30]


class Deaf(io.StringIO):
    """A terminal or a pipe that nobody reads any more."""

    def __init__(self, is_terminal):
        super().__init__()
        self.isatty = lambda: is_terminal

    def write(self, text):
        raise OSError(5, "Input/output error")


@pytest.mark.parametrize("stream", [Deaf(False), Deaf(True), None])
def test_a_dead_stderr_loses_no_metrics(tmp_path, monkeypatch, stream):
    monkeypatch.setattr(sys, "stderr", stream)
    with RunLog(tmp_path, total_steps=100) as log:
        log.update({"loss/value": 1.0}, 50)
        log.update({"loss/value": 2.0}, 100)
    assert [line["step"] for line in read_metrics(log.path)] == [50, 100]


def test_file_that_is_missing_is_one_line(tmp_path):
    with pytest.raises(UserError, match="there is no .*choose the folder of a training run"):
        read_metrics(tmp_path / "metrics.jsonl")
    with pytest.raises(UserError, match="cannot read "):
        read_metrics(tmp_path)


def test_tensorboard_holds_the_numbers_and_hides_what_was_trained_again(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log_steps(tmp_path, [10, 20, 30])
    log_steps(tmp_path, [25], start_step=20, nothing=None)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert events.Tags()["scalars"] == ["loss/policy"]
    found = {event.step: event.value for event in events.Scalars("loss/policy")}
    assert found == {10: 1.0, 20: 2.0, 25: 2.5}


def test_tensorboard_hides_all_of_a_run_that_begins_again(tmp_path):
    """Killed before its first checkpoint, say."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    log_steps(tmp_path, [10, 20, 30])
    log_steps(tmp_path, [15], start_step=0)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("loss/policy")] == [15]


def test_a_tenth_file_within_a_second_hides_what_the_ninth_holds(tmp_path, monkeypatch):
    """Names of files end in how many this process has begun, and "10" comes before "9"."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.summary.writer import event_file_writer

    clock, slept = SimpleNamespace(now=1e9), []

    def sleep(seconds):
        slept.append(seconds)
        clock.now += seconds

    monkeypatch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(9))
    fake = SimpleNamespace(time=lambda: clock.now, sleep=sleep)
    monkeypatch.setattr(event_file_writer, "time", fake)
    monkeypatch.setattr(tensorboard, "time", fake)
    log_steps(tmp_path, [10, 20, 30])
    log_steps(tmp_path, [25], start_step=20)
    assert slept == [1.0]
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert {event.step: event.value for event in events.Scalars("loss/policy")} == {
        10: 1.0, 20: 2.0, 25: 2.5,
    }  # fmt: skip
    assert len(list((tmp_path / "tensorboard").iterdir())) == 2


def test_summary_is_strict_json_with_null_for_what_is_unknown(tmp_path):
    window = EpisodeWindow()
    window.add(2.0, 5)
    window.add(4.0, 5)
    settings = {"env": "CartPole-v1", "mode": "ver", "restarts": 1, "versions": {"torch": "2"}}
    returned = write_summary(
        tmp_path,
        **settings,
        total_steps=500,
        wall_time_s=4.0,
        episodes=window,
        last={"loss": [float("nan")]},
    )
    text = (tmp_path / "summary.json").read_text()
    assert json.loads(text, parse_constant=lambda word: pytest.fail(word)) == returned
    assert returned == settings | {
        "total_steps": 500,
        "wall_time_s": 4.0,
        "steps_per_second": 125.0,
        "episode_return": {"mean": 3.0, "std": 1.0, "episodes": 2},
        "success": None,
        "last": {"loss": [None]},
    }
    assert os.listdir(tmp_path) == ["summary.json"]


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


UPDATE = {
    "episode/return": 12.345,
    "episode/success": 0.5,
    "phase/env": 0.25,
    "phase/infer": 0.25,
    "phase/learn": 0.4,
    "phase/wait": 0.1,
}


def test_log_file_gets_a_plain_line_every_half_minute():
    clock, stream = Clock(), io.StringIO()
    progress = Progress(10_000, start_step=1000, stream=stream, clock=clock)
    for update in range(1, 14):
        clock.now = 5.0 * update
        progress.show(1000 + 100 * update, UPDATE if update > 1 else {})
    clock.now = 70.0
    progress.close()
    progress.close()
    shares = "return 12.35, success 50%, env 25% infer 25% learn 40% wait 10%"
    # 100 steps in 5 s are 20/s; lines at 5 s, 35 s and 65 s, and none more at the end: all is said
    assert stream.getvalue().splitlines() == [
        "step 1100 of 10000 (11.0%), 20 steps/s, 7:25 left",
        f"step 1700 of 10000 (17.0%), 20 steps/s, 6:55 left, {shares}",
        f"step 2300 of 10000 (23.0%), 20 steps/s, 6:25 left, {shares}",
    ]


def test_every_line_begins_with_its_label():
    clock, stream = Clock(), io.StringIO()
    progress = Progress(100, stream=stream, clock=clock, label="stage 2 of 3, blind")
    clock.now = 1.0
    progress.show(10, {"validation/success": 0.25})
    progress.close()
    line = "stage 2 of 3, blind: step 10 of 100 (10.0%), 10 steps/s, 0:09 left, validation 25%\n"
    assert stream.getvalue() == line


def test_end_is_shown_though_half_a_minute_is_not_over():
    clock, stream = Clock(), io.StringIO()
    progress = Progress(100, stream=stream, clock=clock)
    for step in (50, 100):
        clock.now += 1.0
        progress.show(step, {})
    progress.close()
    assert stream.getvalue().splitlines()[-1] == "step 100 of 100 (100.0%), 50 steps/s"


def test_terminal_gets_a_bar_and_quiet_gets_nothing():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    progress = Progress(1000, start_step=100, stream=stream)
    progress.show(600, UPDATE)
    progress.close()
    progress.close()
    progress.show(700, UPDATE)
    last = stream.getvalue().split("\r")[-1]
    assert " 60%" in last and "600/1.00k" in last and "return 12.35, success 50%" in last
    quiet = Terminal()
    progress = Progress(1000, is_quiet=True, stream=quiet)
    progress.show(500, UPDATE)
    progress.close()
    assert quiet.getvalue() == ""


def test_durations_read_like_a_clock():
    assert [duration(s) for s in (0, 59.6, 754, 3723, 360_000)] == [
        "0:00",
        "1:00",
        "12:34",
        "1:02:03",
        "100:00:00",
    ]


def test_metrics_of_ranks_are_added_compared_or_averaged():
    first = {"speed/sps": 10.0, "faults/restarts": 1, "ppo/ratio_max": 1.5, "ppo/ratio_min": 0.5}
    second = {"speed/sps": 30.0, "faults/restarts": 0, "ppo/ratio_max": 1.2, "ppo/ratio_min": 0.7}
    first |= {"loss/total": 1.0, "ppo/entropy": math.nan, "ver/longest_sequence": 3.0}
    second |= {"loss/total": 2.0, "ppo/entropy": math.nan, "ver/longest_sequence": 9.0}
    first |= {"ver/learned_steps": 30.0, "speed/idle_s": 1.0}
    second |= {"ver/learned_steps": 10.0, "speed/idle_s": 2.0}
    assert merge_ranks([first]) is first
    assert merge_ranks([first, second]) == {
        "speed/sps": 40.0, "faults/restarts": 1, "ppo/ratio_max": 1.5, "ppo/ratio_min": 0.5,
        "loss/total": 1.25, "ppo/entropy": None, "ver/longest_sequence": 9.0,
        "ver/learned_steps": 40.0, "speed/idle_s": 1.5,
    }  # fmt: skip


@pytest.mark.parametrize("value", ["1" * 401, "[" * 5000, '"' + "x" * 300_000 + '"', "[[]]"])
def test_numbers_of_400_digits_and_the_like_are_one_line(tmp_path, value):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "time_s": 1, "a": ' + value + "}\n")
    with pytest.raises(UserError, match="is damaged in line 1: ") as caught:
        read_metrics(path)
    assert len(str(caught.value)) < 500
    path.unlink()
    path.mkdir()
    with pytest.raises(UserError, match="it is a folder"):
        read_metrics(path)


def test_tensorboards_thread_fails_in_silence(tmp_path, capfd):
    log = RunLog(tmp_path, 10, is_quiet=True)
    thread = log._board._writer._get_file_writer().event_writer._async_writer._worker
    failure = threading.ExceptHookArgs((OSError, OSError(28, "No space left"), None, thread))
    threading.excepthook(failure)
    assert capfd.readouterr().err == ""
    log.close()
