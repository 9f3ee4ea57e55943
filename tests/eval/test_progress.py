"""How far an evaluation is: episodes, control steps, rate and time left, without a terminal too."""

import io
import sys

import fake_world
import pytest

from rearrange.eval import workers
from rearrange.eval.progress import Progress


class Clock:
    """Stands still until it is set."""

    now = 100.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_pipe_gets_a_line_at_the_start_now_and_then_and_at_the_end(capsys):
    clock = Clock()
    with Progress("Fake", 4, 0, clock=clock) as shown:
        clock.now += 10.0
        shown.underway(1000)  # too soon for a line
        clock.now += 25.0
        shown.underway(3500)  # no episode has ended, so that what is left is not known
        clock.now += 25.0
        shown.underway(1500)  # less than before: one has ended, and is not counted yet
        shown.step("success 100.0%", 4000)
        clock.now += 10.0
        shown.underway(3000)
        clock.now += 10.0
        shown.underway(0)
        shown.step("success 50.0%", 4000)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "Fake: 4 episodes to run",
        "0 of 4 episodes, 3,500 steps, 100 steps/s",
        # three more of 4,000 each, less the 3,000 of those underway
        "1 of 4 episodes, 7,000 steps, 100 steps/s, 1:30 left, success 100.0%",
        "2 of 4 episodes, 8,000 steps, 100 steps/s, 1:20 left, success 50.0%",
    ]


def test_the_time_left_is_known_at_once_from_kept_episodes(capsys):
    clock = Clock()
    with Progress("Fake", 3, 1, done_steps=600, clock=clock) as shown:
        clock.now += 30.0
        shown.underway(300)  # 10 a second, of the 1,200 that two more will take
    assert "1 of 3 episodes, 300 steps, 10 steps/s, 1:30 left" in capsys.readouterr().err


def test_a_terminal_gets_one_line_that_is_written_anew(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Progress("Fake", 2, 0) as shown:
        shown.underway(1234)
        shown.step("success 0.0%", 2000)
    text = sys.stderr.getvalue()
    assert text.count("\n") == 1 and "1,234 steps" in text
    assert "1 of 2 episodes" in text and "left, success 0.0%" in text


def test_nothing_is_said_to_callers_in_python_and_after_a_failure_no_end(capsys):
    with Progress("Fake", 2, 0, is_quiet=True) as shown:
        shown.step("success 0.0%", 5)
    assert capsys.readouterr() == ("", "")
    with pytest.raises(KeyboardInterrupt), Progress("Fake", 2, 0):
        raise KeyboardInterrupt  # an error before anything runs stands alone
    assert capsys.readouterr().err == ""
    with pytest.raises(KeyboardInterrupt), Progress("Fake", 2, 0) as shown:
        shown.underway(1)
        raise KeyboardInterrupt
    assert capsys.readouterr().err == "Fake: 2 episodes to run\n"


def test_a_worker_tells_the_steps_of_a_running_episode(monkeypatch):
    monkeypatch.setattr(workers, "TELL_EVERY_S", 0.0)
    told = []

    class EpisodeRunner:
        def run_episode(self, env, agent, index, on_step):
            for _ in range(3):
                on_step()
            return fake_world.Record()

    worker = workers.EpisodeWorker(EpisodeRunner(), fake_world.make_nothing, notify=told.append)
    assert worker.run(0)["record"] == {} and worker.run(1)["record"] == {}
    assert told == [0, 1, 2, 3, 0, 1, 2, 3]


def test_steps_of_all_workers_add_up(monkeypatch):
    """Both are told of by messages, and those of an ended episode no longer count."""
    pool = workers.WorkerPool(None, 2, None, timeout_s=60.0, max_restarts=0)
    first, second = (workers._Worker(None, connection) for connection in ("a", "b"))
    messages = [(first, 10), (second, 7), (first, 20), (first, None), (second, 9), (second, None)]
    monkeypatch.setattr(workers, "record_of", lambda cfg, message, index: index)
    monkeypatch.setattr(pool, "_start", iter([first, second]).__next__)
    monkeypatch.setattr(pool, "_hand_out", lambda worker, index: setattr(worker, "index", index))
    monkeypatch.setattr(pool, "close", lambda: None)
    monkeypatch.setattr(pool, "_ready", lambda: [messages[0][0]])

    def receive(worker):
        steps = messages.pop(0)[1]
        return {"acting": None} if steps is None else {"steps": steps}

    monkeypatch.setattr(pool, "_receive", receive)
    told = []
    assert list(pool.run([0, 1], told.append)) == [0, 1]
    assert told == [10, 17, 27, 7, 9, 0]
