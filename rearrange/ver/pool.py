"""Who steps the environments: worker processes, or this process in serial mode.

    pool.send([3, 7])          slots.action is set; these environments go
    pool.receive(timeout)      ids of environments whose slots hold something new
    pool.take_faults()         what went wrong since, for the trainer to count and report

A worker that died, raised, or was silent for too long is replaced, within a budget; its
environments start a new episode.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import select
import sys
import threading
import time
import types
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing import resource_tracker

import numpy as np

from rearrange.errors import UserError
from rearrange.ver import shared_memory as sm
from rearrange.ver.environment_worker import (
    ANSWER,
    REQUEST,
    MakeEnv,
    SlotEnvironment,
    WorkerCfg,
    run_environment_worker,
)
from rearrange.ver.machine import one_thread
from rearrange.ver.shared_memory import SlotLayout, StepSlots
from rearrange.ver.stop_signals import signals_blocked

log = logging.getLogger(__name__)
_PER_CORE = 2  # processes: one more than cores can run fills in while another waits for its action
_CHECK_EVERY_S = 0.25  # between looks for silent workers
_KILL_PATIENCE_S = 5.0  # the kernel may need a while to end a process that waits for a disk


@dataclass(kw_only=True)
class PoolCfg:
    envs_per_worker: int = 1
    """Environments stepped by one process, one after another; 0: as many as leave two processes to
    each core. For environments that compute all the time; those that wait want a process each."""
    step_timeout_s: float = 20.0
    """A worker that owes a step for so long counts as hung and is replaced."""
    start_timeout_s: float = 120.0
    """The same for a worker that starts."""
    max_restarts: int = 10
    """So many workers are replaced in a run; one more ends the training, with its work saved."""

    def __post_init__(self) -> None:
        if self.envs_per_worker < 0:
            raise ValueError(f"envs_per_worker must not be negative, got {self.envs_per_worker}")
        if self.max_restarts < 0:
            raise ValueError(f"max_restarts must not be negative, got {self.max_restarts}")
        for name in ("step_timeout_s", "start_timeout_s"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")

    def sized(self, num_envs: int, cores: int) -> PoolCfg:
        """With the number of environments of a process, chosen for so many cores."""
        if self.envs_per_worker:
            return self
        return replace(self, envs_per_worker=max(1, num_envs // (_PER_CORE * cores)))


@dataclass
class Fault:
    """A worker was replaced."""

    envs: list[int]
    reason: str


class TooManyRestarts(RuntimeError):
    """The budget of restarts is spent."""


class SerialPool:
    """All environments in this process, stepped in the order in which they are sent."""

    restarts = 0

    def __init__(
        self,
        make_env: MakeEnv,
        layout: SlotLayout,
        cfg: WorkerCfg,
        episode_numbers: np.ndarray,  # [E] of the next episodes
        is_fresh: bool,
    ) -> None:
        self.num_envs = layout.num_envs
        self.slots = StepSlots.allocate(layout)
        self.environments = [
            SlotEnvironment(make_env, e, self.slots, cfg, int(episode_numbers[e]), is_fresh)
            for e in range(self.num_envs)
        ]
        self._ready: list[int] = []

    def start(self) -> None:
        for environment in self.environments:
            environment.start()
        self._ready = list(range(self.num_envs))

    def replay(self, actions: list[list[np.ndarray]], seed_numbers: list[int]) -> None:
        """Starts in the states that were saved; no environment is announced."""
        for environment, *episode in zip(self.environments, actions, seed_numbers, strict=True):
            environment.replay(*episode)

    @property
    def announced(self) -> list[int]:
        """What `receive` will give."""
        return list(self._ready)

    def send(self, envs: list[int]) -> None:
        for e in envs:
            self.environments[e].step()
        self._ready += envs

    def receive(self, timeout_s: float) -> list[int]:
        ready, self._ready = self._ready, []
        return ready

    def take_faults(self) -> list[Fault]:
        return []

    def close(self) -> None:
        environments, self.environments = self.environments, []
        for environment in environments:
            environment.env.close()


@dataclass
class _Worker:
    envs: list[int]
    process: multiprocessing.process.BaseProcess
    requests: object  # Connection, write end
    generation: int
    owed: dict[int, float] = field(default_factory=dict)  # env -> deadline on the monotonic clock


class WorkerPool:
    """Environments in worker processes.

    Workers are forked from a server that has imported `preload` once; they import no torch.
    """

    def __init__(
        self,
        make_env: MakeEnv,
        layout: SlotLayout,
        cfg: WorkerCfg,
        episode_numbers: np.ndarray,
        is_fresh: bool,
        pool_cfg: PoolCfg,  # `sized`
        preload: tuple[str, ...] = (),
    ) -> None:
        self.num_envs, self.restarts = layout.num_envs, 0
        self._make_env, self._layout, self._worker_cfg = make_env, layout, cfg
        self._cfg, self._is_fresh = pool_cfg, is_fresh
        self._numbers = episode_numbers.astype(np.int64).copy()
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([__name__, *preload])
        self.slots = StepSlots.allocate(layout, self._context)
        self._answers, self._answers_write = self._context.Pipe(duplex=False)
        os.set_blocking(self._answers.fileno(), False)
        self._poll = select.poll()
        self._poll.register(self._answers.fileno(), select.POLLIN)
        self._workers: list[_Worker] = []
        self._worker_of: dict[int, _Worker] = {}
        self._by_sentinel: dict[int, _Worker] = {}
        self._faults: list[Fault] = []
        self._lock = threading.Lock()  # inference threads send while the collector replaces
        self._next_check = self._last_look = time.monotonic()

    def start(self) -> None:
        """Starts the workers; their environments announce themselves as they become ready."""
        resource_tracker.ensure_running()  # its start would end `signals_blocked` too early
        size = self._cfg.envs_per_worker
        try:
            for first in range(0, self.num_envs, size):
                envs = list(range(first, min(first + size, self.num_envs)))
                self._add(envs, generation=0, is_fresh=self._is_fresh)
        except BaseException:
            self.close()
            raise

    def send(self, envs: list[int]) -> None:
        deadline = time.monotonic() + self._cfg.step_timeout_s
        with self._lock:
            for e in envs:
                worker = self._worker_of[e]
                if e in worker.owed:
                    continue  # replaced since the action was asked for: it begins an episode
                worker.owed[e] = deadline
                with suppress(BrokenPipeError):  # it died; its sentinel says so
                    os.write(worker.requests.fileno(), REQUEST.pack(e))

    def receive(self, timeout_s: float) -> list[int]:
        """Environments with something new, possibly none. Replaces broken workers.

        Raises TooManyRestarts when the budget is spent, UserError for a mistake found by a worker.
        """
        ready: list[int] = []
        events = self._poll.poll(max(0.0, timeout_s) * 1000.0)
        broken = [self._by_sentinel[fd] for fd, _ in events if fd in self._by_sentinel]
        if events:
            self._read_answers(ready)
        for worker in broken:
            if worker in self._workers:  # not replaced just now, for what it said before it ended
                worker.process.join(1.0)
                code = worker.process.exitcode
                self._replace(worker, f"ended with exit code {code}", ready)
        now = time.monotonic()
        if now >= self._next_check:
            self._check_silent(now, ready)
        self._last_look = now
        return ready

    def take_faults(self) -> list[Fault]:
        faults, self._faults = self._faults, []
        return faults

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers, by their first environment."""
        return [worker.process.pid for worker in self._workers]

    def close(self) -> None:
        """Ends all workers; calling it again does nothing."""
        workers, self._workers = self._workers, []
        self._worker_of, self._by_sentinel = {}, {}
        for worker in workers:
            worker.requests.close()  # the worker reads the end of its pipe and leaves
        deadline = time.monotonic() + 2.0
        for worker in workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
            _end(worker.process)
        if workers:
            self._answers.close()
            self._answers_write.close()

    # --- private -------------------------------------------------------------------------------

    def _add(self, envs: list[int], generation: int, is_fresh: bool) -> None:
        reader, writer = self._context.Pipe(duplex=False)
        args = (
            self._make_env, [(e, int(self._numbers[e]), is_fresh) for e in envs], self._layout,
            self.slots.memory, self._worker_cfg, reader, self._answers_write, generation % 65536,
        )  # fmt: skip
        name = f"environment worker {envs[0]}"
        process = self._context.Process(
            target=run_environment_worker, args=args, name=name, daemon=True
        )
        with _main_module_hidden(), one_thread(), signals_blocked():
            process.start()
        reader.close()
        deadline = time.monotonic() + self._cfg.start_timeout_s
        worker = _Worker(envs, process, writer, generation, dict.fromkeys(envs, deadline))
        self._workers.append(worker)
        self._worker_of.update(dict.fromkeys(envs, worker))
        self._by_sentinel[process.sentinel] = worker
        self._poll.register(process.sentinel, select.POLLIN)

    def _read_answers(self, ready: list[int]) -> None:
        try:
            data = os.read(self._answers.fileno(), 4 * 4096)
        except BlockingIOError:
            return
        for generation, e in ANSWER.iter_unpack(data):
            worker = self._worker_of[e]
            if generation != worker.generation % 65536:
                continue  # a worker that has been replaced
            worker.owed.pop(e, None)
            if worker.owed:  # it has not been silent: its next environment has the whole time
                deadline = time.monotonic() + self._cfg.step_timeout_s
                worker.owed = {other: max(at, deadline) for other, at in worker.owed.items()}
            if self.slots.fault[e] in (sm.FAULT_EXCEPTION, sm.FAULT_USER):
                message = self.slots.get_message(e)
                if self.slots.fault[e] == sm.FAULT_USER:
                    raise UserError(message)
                self._replace(worker, f"raised an exception:\n{message}", ready)
                continue
            self._numbers[e] = self.slots.episode_number[e] + 1
            ready.append(e)

    def _check_silent(self, now: float, ready: list[int]) -> None:
        stalled = now - self._last_look
        self._next_check = now + _CHECK_EVERY_S
        for worker in list(self._workers):
            if stalled > 0.5 * self._cfg.step_timeout_s:
                # Nobody looked: a long update on all cores, or all of us were stopped (Ctrl-Z).
                worker.owed = {e: deadline + stalled for e, deadline in worker.owed.items()}
            if worker.owed and min(worker.owed.values()) < now:
                self._replace(worker, "did not answer in time", ready)

    def _replace(self, worker: _Worker, reason: str, ready: list[int]) -> None:
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        self._poll.unregister(worker.process.sentinel)
        del self._by_sentinel[worker.process.sentinel]
        _end(worker.process)
        ready[:] = [e for e in ready if e not in worker.envs]
        what = f"environment worker of {_names(worker.envs)} {reason}"
        if self.restarts == self._cfg.max_restarts:
            with self._lock:
                worker.requests.close()
                # A thread that still sends finds it busy; the training ends.
                worker.owed = dict.fromkeys(worker.envs, np.inf)
            raise TooManyRestarts(
                f"{what}; the budget of {self._cfg.max_restarts} restarts is spent"
            )
        self.restarts += 1
        log.warning("%s; restarting it (%d of %d)", what, self.restarts, self._cfg.max_restarts)
        self._faults.append(Fault(worker.envs, reason.splitlines()[0]))
        with self._lock:
            worker.requests.close()
            self._add(worker.envs, worker.generation + 1, is_fresh=False)


def _names(envs: list[int]) -> str:
    return f"environment {envs[0]}" if len(envs) == 1 else f"environments {envs[0]}-{envs[-1]}"


def _end(process: multiprocessing.process.BaseProcess) -> None:
    """Kills it if need be, also while it is stopped, and frees what belongs to it."""
    if process.is_alive():
        process.kill()
        process.join(_KILL_PATIENCE_S)
    if process.is_alive():
        log.warning("process %d does not end", process.pid)
    else:
        process.close()


@contextmanager
def _main_module_hidden():
    """Workers would import the caller's main script again, and with it torch."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
