"""Worker processes that run episodes by index.

    parent                            worker (spawned, one thread, no torch)
    index        -- pipe, JSON -->    run_episode(env, agent, index)
    steps        <-- pipe, JSON --    now and then: how many control steps it has done
    record       <-- pipe, JSON --    the same as in any other worker
    null         -- pipe, JSON -->    ends

A worker that dies or is silent for too long is replaced and its episode repeated, within a budget.
One that goes on stepping is alive, however slow the machine.
An exception in a worker is a defect: it reaches the parent with its traceback and ends the run.
"""

import json
import multiprocessing
import os
import signal
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol

from rearrange.errors import UserError
from rearrange.system.machine import acting_facts, single_threaded
from rearrange.system.open_files import raise_file_limit
from rearrange.system.processes import end_with_parent, main_module_hidden

START_LIMIT_S = 300.0  # so long a worker may be silent until its first episode begins, at least
TELL_EVERY_S = 1.0  # how many steps an episode has by now
_FILES_PER_WORKER = 3  # that stay open: its pipe, and what tells that it ended


class EpisodeRunner(Protocol):
    """What a worker is sent: how to run an episode of its environment. Can be pickled."""

    def run_episode(self, env: Any, agent: Any, index: int, on_step: Callable[[], None], /) -> Any:
        """A record, whose `to_json` gives what `read_record` takes."""
        ...

    def read_record(self, values: dict[str, Any]) -> Any: ...

    def progress_text(self, records: list[Any]) -> str:
        """How it goes so far, for the progress."""
        ...

    @property
    def title(self) -> str: ...

    @property
    def record(self) -> int:
        """So many episodes are filmed, the first ones."""
        ...

    def video_path(self, index: int) -> Path: ...


MakeEnvAndAgent = Callable[[Any], tuple[Any, Any]]
"""From an `EpisodeRunner` to its environment and the agent that acts there."""


class WorkerError(RuntimeError):
    """An exception inside a worker, with the worker's traceback as its message."""


class EpisodeWorker:
    """Runs episodes and tells of each in a message: {record, acting} or, if it failed,
    {mistake: text} or {exception: text}.

    Args:
        folder: where relative paths begin; None: where the process is.
        notify: called about once a second with the steps that an episode has by now.
    """

    def __init__(
        self,
        cfg: EpisodeRunner,
        make_env_and_agent: MakeEnvAndAgent,
        folder: str | None = None,
        notify: Callable[[int], None] = lambda steps: None,
    ) -> None:
        self._cfg, self._make_env_and_agent, self._folder = cfg, make_env_and_agent, folder
        self._notify, self._steps, self._notified_at = notify, 0, 0.0
        self._env_and_agent: tuple[Any, Any] | None = None  # environment and agent

    def open(self) -> dict[str, Any]:
        """Makes environment and agent; empty, or what went wrong."""
        return self._told(self._open)

    def run(self, index: int) -> dict[str, Any]:
        self._steps, self._notified_at = 0, time.monotonic()
        return self._told(lambda: self._run(index))

    def _run(self, index: int) -> dict[str, Any]:
        env, agent = self._open()
        self._notify(0)
        record = self._cfg.run_episode(env, agent, index, self._count)
        return {"record": record.to_json(), "acting": acting_facts()}

    def close(self) -> None:
        if self._env_and_agent is not None:
            self._env_and_agent[0].close()

    def _open(self) -> tuple[Any, Any]:
        if self._env_and_agent is None:
            if self._folder is not None:
                os.chdir(self._folder)
            self._env_and_agent = self._make_env_and_agent(self._cfg)
        return self._env_and_agent

    def _count(self) -> None:
        self._steps += 1
        if (now := time.monotonic()) - self._notified_at >= TELL_EVERY_S:
            self._notified_at = now
            self._notify(self._steps)

    def _told(self, work: Callable[[], Any]) -> dict[str, Any]:
        try:
            message = work()
            return message if isinstance(message, dict) else {}
        except UserError as error:
            return {"mistake": str(error)}
        except Exception:
            return {"exception": traceback.format_exc()}


def record_of(cfg: EpisodeRunner, message: dict[str, Any], index: int | None) -> Any:
    """What a worker's message says of an episode; None for the message that it is open.

    Raises UserError or WorkerError for what happened to it.
    """
    if "mistake" in message:
        raise UserError(message["mistake"])
    if "exception" in message:
        raise WorkerError(f"episode {index}:\n{message['exception']}")
    return cfg.read_record(message["record"]) if message else None


def note_acting(message: dict[str, Any], known: list[dict[str, Any]]) -> None:
    """Adds what the worker's trained skills acted with, if that is new."""
    facts = message.get("acting")
    if facts is not None and facts not in known:
        known.append(facts)


def run_episode_worker(
    connection: Connection, cfg: EpisodeRunner, make_env_and_agent: MakeEnvAndAgent
) -> None:
    """The whole life of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the parent ends the workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    if not end_with_parent(parent.pid if parent else None):
        return

    def notify(steps: int) -> None:
        connection.send_bytes(json.dumps({"steps": steps}).encode())

    worker = EpisodeWorker(cfg, make_env_and_agent, notify=notify)
    with suppress(EOFError, OSError):  # the parent is gone
        while (index := json.loads(connection.recv_bytes())) is not None:
            connection.send_bytes(json.dumps(worker.run(index)).encode())
    worker.close()


@dataclass
class _Worker:
    process: BaseProcess
    connection: Connection
    index: int | None = None  # of its episode; None while it has none
    deadline: float = float("inf")  # on the monotonic clock (s)
    steps: int = 0  # of its episode, by now
    has_begun: bool = False  # an episode


class WorkerPool:
    """Runs episodes in processes; `lost` counts the workers that died.

    Args:
        timeout_s: so long a worker may be silent in an episode, between control steps.
        max_restarts: how many workers may be replaced.
    """

    def __init__(
        self,
        cfg: EpisodeRunner,
        num_workers: int,
        make_env_and_agent: MakeEnvAndAgent,
        timeout_s: float,
        max_restarts: int,
    ) -> None:
        self.lost, self.num_workers = 0, num_workers
        self.acting: list[dict[str, Any]] = []  # what trained skills acted with, each kind once
        self._cfg, self._make_env_and_agent = cfg, make_env_and_agent
        self._timeout_s, self._max_restarts = timeout_s, max_restarts
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[_Worker] = []

    def run(
        self, indices: list[int], on_steps: Callable[[int], None] = lambda steps: None
    ) -> Iterator[Any]:
        """The records of the episodes, in the order in which they end.

        Args:
            on_steps: called with the control steps of the episodes that run now, all together.

        Raises:
            UserError: if a worker met the caller's mistake, too many workers died, or this process
                may not have as many files open as they need.
            WorkerError: if a worker raised anything else.
        """
        todo = deque(indices)
        num_open = len(indices)
        num_workers = min(self.num_workers, num_open)
        raise_file_limit(_FILES_PER_WORKER * num_workers, f"{num_workers} episode workers")
        try:
            for _ in range(num_workers):
                self._workers.append(self._start())
            while num_open:
                for worker in self._workers:
                    if worker.index is None and todo:
                        self._hand_out(worker, todo.popleft())
                for worker in self._ready():
                    message = self._receive(worker)
                    if message is None:
                        self._replace(worker, todo)
                    elif "steps" in message:
                        worker.steps, worker.deadline = message["steps"], self._deadline()
                        worker.has_begun = True
                        on_steps(self._steps_underway())
                    else:
                        note_acting(message, self.acting)
                        record = record_of(self._cfg, message, worker.index)
                        num_open -= 1
                        worker.index, worker.deadline, worker.steps = None, float("inf"), 0
                        on_steps(self._steps_underway())
                        yield record
        finally:
            self.close()

    def close(self) -> None:
        """Ends all workers; calling it again does nothing."""
        workers, self._workers = self._workers, []
        for worker in workers:
            with suppress(OSError):
                if worker.index is None:
                    worker.connection.send_bytes(b"null")
                else:
                    worker.process.terminate()
        for worker in workers:
            worker.process.join(timeout=2.0)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.connection.close()

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=run_episode_worker,
            args=(theirs, self._cfg, self._make_env_and_agent),
            name="episode worker",
            daemon=True,
        )
        try:
            with main_module_hidden(), single_threaded():
                process.start()
        finally:
            theirs.close()
        return _Worker(process, ours)

    def _hand_out(self, worker: _Worker, index: int) -> None:
        worker.index, worker.deadline = index, self._deadline()
        if not worker.has_begun:
            worker.deadline += max(0.0, START_LIMIT_S - self._timeout_s)
        with suppress(OSError):  # a dead worker is noticed when its answer is read
            worker.connection.send_bytes(json.dumps(index).encode())

    def _deadline(self) -> float:
        """When a worker that tells nothing from now on counts as dead."""
        return time.monotonic() + self._timeout_s

    def _steps_underway(self) -> int:
        return sum(worker.steps for worker in self._workers)

    def _ready(self) -> list[_Worker]:
        """The workers that have answered, died, or are over time."""
        busy = [worker for worker in self._workers if worker.index is not None]
        first = min(worker.deadline for worker in busy)
        answered = wait([w.connection for w in busy], max(0.0, first - time.monotonic()))
        now = time.monotonic()
        return [w for w in busy if w.connection in answered or w.deadline <= now]

    def _receive(self, worker: _Worker) -> dict[str, Any] | None:
        """What the worker says, or None if it has died or is over time."""
        try:
            if not worker.connection.poll():
                return None
            return json.loads(worker.connection.recv_bytes())
        except (EOFError, OSError):
            return None

    def _replace(self, worker: _Worker, todo: deque[int]) -> None:
        """Ends a dead or silent worker and starts another; its episode is to be run again."""
        is_late = worker.deadline <= time.monotonic()
        worker.process.kill()
        worker.process.join()
        worker.connection.close()
        self._workers.remove(worker)
        self.lost += 1
        if self.lost > self._max_restarts:
            code = worker.process.exitcode
            if is_late:
                why = f"was silent for {self._timeout_s:g} s"
                hint = "does it hang? try a larger episode_timeout_s if this machine is slow"
            else:
                why = f"died (exit code {code})"
                hint = "out of memory? try fewer num_workers"
            raise UserError(
                f"{self.lost} workers were lost, the last one {why} in episode "
                f"{worker.index}: {hint}"
            )
        assert worker.index is not None  # who has no episode is not looked at
        todo.appendleft(worker.index)
        self._workers.append(self._start())
