"""Queues of tasks: their order, a task that fails, a signal that is handed on."""

import json
import signal
import time

from rearrange.commands.skills.runner import Task, run_queues
from rearrange.errors import UserError
from rearrange.system.stop_signals import StopSignals

TRAIN = ("train", "env=CartPole-v1", "serial=true", "num_envs=2", "num_steps=32", "num_threads=1")


def noting(name, seen, is_over=False):
    return Task(name, lambda: is_over, work=lambda: seen.append(name))


def failing(name):
    def work():
        raise UserError("it is broken")

    return Task(name, lambda: False, work=work)


def test_tasks_run_in_order_and_what_is_over_is_left_out():
    seen = []
    queues = {
        "a": [noting("a1", seen), noting("a2", seen, is_over=True), noting("a3", seen)],
        "b": [noting("b1", seen)],
    }
    outcome = run_queues(queues, 1, StopSignals(), poll_s=0.0)
    assert seen == ["a1", "a3", "b1"] and not outcome.failures and not outcome.is_stopped


def test_a_failure_ends_its_queue_alone(tmp_path):
    seen = []
    wrong = Task("wrong", lambda: False, ("evaluate", "task=pik"), tmp_path / "logs/wrong.log")
    queues = {
        "a": [failing("a1"), noting("a2", seen)],
        "b": [wrong, noting("b2", seen)],
        "c": [noting("c1", seen)],
    }
    outcome = run_queues(queues, 2, StopSignals(), poll_s=0.01)
    assert seen == ["c1"]
    assert outcome.failures["a1"] == "it is broken"
    assert outcome.failures["wrong"].startswith("unknown task 'pik': did you mean 'pick'?")


def test_the_reason_is_of_this_attempt_not_of_one_before(tmp_path):
    log = tmp_path / "a.log"
    for words, said in ((("evaluate", "task=pik"), "unknown task 'pik'"), (("lst",), "lst")):
        outcome = run_queues({"a": [Task("a", lambda: False, words, log)]}, 1, StopSignals())
        assert said in outcome.failures["a"]
    assert log.read_text().count("error: ") == 2


def test_what_the_system_refuses_ends_its_queue_alone_too():
    def work():
        raise OSError(16, "Device or resource busy")

    seen = []
    queues = {"a": [Task("a1", lambda: False, work=work), noting("a2", seen)]}
    outcome = run_queues(queues | {"b": [noting("b1", seen)]}, 2, StopSignals(), poll_s=0.0)
    assert seen == ["b1"] and outcome.failures == {"a1": "[Errno 16] Device or resource busy"}


def test_a_signal_is_handed_on_and_the_work_saved(tmp_path):
    stop, seen, started = StopSignals(), [], time.monotonic()
    arguments = (*TRAIN, "total_steps=100000000", f"run_dir={tmp_path / 'run'}")
    metrics = tmp_path / "run/metrics.jsonl"

    def look(names):
        assert names == ["long"] and time.monotonic() - started < 90.0
        if metrics.exists() and metrics.read_text():
            stop.request(signal.SIGTERM)

    tasks = [Task("long", lambda: False, arguments, tmp_path / "log"), noting("next", seen)]
    outcome = run_queues({"a": tasks}, 1, stop, look)
    assert outcome.is_stopped and not outcome.failures and not seen
    assert json.loads((tmp_path / "run/summary.json").read_text())["stopped_by"] == "SIGTERM"
    assert "stopped by SIGTERM: saved" in (tmp_path / "log").read_text()
