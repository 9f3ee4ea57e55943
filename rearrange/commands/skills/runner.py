"""Runs queues of tasks as separate processes, several at a time, until all are done.

    queue of pick: cells --> look --> ver --> file --> evaluation
    queue of place: ...                                             at most `jobs` queues at a time

Processes end with this one, get signals only from it, and write their output into log files. A
signal is passed on once, and each process saves its work before it exits.
"""

from __future__ import annotations

import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from rearrange.cluster.rank_host import start_here
from rearrange.errors import UserError, one_line
from rearrange.system.outputs import write_error
from rearrange.system.stop_signals import EXIT_CODES, StopSignals

POLL_S = 0.25
TAIL_BYTES = 4096


@dataclass(frozen=True)
class Task:
    name: str
    is_over: Callable[[], bool]
    """Whether there is nothing left to do; called when the task is due."""
    arguments: tuple[str, ...] = ()
    """Arguments after `rearrange`, for its own process."""
    log: Path | None = None
    work: Callable[[], None] | None = None
    """Done in this process instead. Raises UserError."""


class Running(NamedTuple):
    task: Task
    process: subprocess.Popen[bytes]
    log_begin: int
    """Bytes of the log before this process: those of earlier attempts."""


@dataclass
class Outcome:
    failures: dict[str, str] = field(default_factory=dict[str, str])
    """Task -> why it failed."""
    is_stopped: bool = False


def run_queues(
    queues: Mapping[str, Sequence[Task]],
    jobs: int,
    stop: StopSignals,
    look: Callable[[list[str]], None] = lambda names: None,
    poll_s: float = POLL_S,
) -> Outcome:
    """Runs each queue's tasks in order. A queue whose task fails ends there, the others go on.

    Args:
        look: called repeatedly with the names of the running tasks.
    """
    waiting = {name: deque(tasks) for name, tasks in queues.items()}
    running: dict[str, Running] = {}
    outcome, is_told = Outcome(), False
    try:
        while True:
            for name, (task, process, log_begin) in list(running.items()):
                if (code := process.poll()) is None:
                    continue
                del running[name]
                if code != 0 and not stop.is_set():
                    outcome.failures[task.name] = _reason(task, code, log_begin)
                    del waiting[name]
            _begin(waiting, running, jobs, stop, outcome)
            if stop.is_set() and not is_told:
                is_told = True
                assert stop.signum is not None
                for each in running.values():
                    each.process.send_signal(stop.signum)
            if not running and (stop.is_set() or not waiting):
                outcome.is_stopped = stop.is_set()
                return outcome
            look([each.task.name for each in running.values()])
            time.sleep(poll_s)
    finally:
        for each in running.values():  # their last output is not read any more
            each.process.kill()
            each.process.wait()


def _begin(
    waiting: dict[str, deque[Task]],
    running: dict[str, Running],
    jobs: int,
    stop: StopSignals,
    outcome: Outcome,
) -> None:
    """Starts as many tasks as allowed, those of queues in progress first."""
    for name in list(waiting):
        if stop.is_set() or len(running) >= jobs:
            return
        tasks = waiting[name]
        while name not in running and tasks:
            task = tasks.popleft()
            try:
                if task.is_over():
                    continue
                if task.work is not None:
                    task.work()
                else:
                    running[name] = start(task)
            except (UserError, OSError) as error:  # the other queues go on
                outcome.failures[task.name] = one_line(error)
                tasks.clear()
        if name not in running:
            del waiting[name]


def start(task: Task) -> Running:
    """Starts the task's process. Raises UserError if its log cannot be written."""
    assert task.log is not None, f"{task.name} has no log"
    try:
        task.log.parent.mkdir(parents=True, exist_ok=True)
        with open(task.log, "ab") as log:
            return Running(task, start_here(task.arguments, log), log.tell())
    except OSError as error:
        raise write_error(task.log, error) from error


def _reason(task: Task, code: int, log_begin: int) -> str:
    """Why a process ended: the last line of its output, which begins there in its log."""
    if code in EXIT_CODES.values() or code < 0:
        return f"ended by a signal ({code}), see {task.log}; the same command goes on"
    assert task.log is not None
    content = task.log.read_bytes()[log_begin:][-TAIL_BYTES:].decode(errors="replace")
    lines = [line for line in content.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error: ")]
    said = (errors or lines or [f"exit code {code}"])[-1]
    return f"{said.removeprefix('error: ')} (see {task.log})"
