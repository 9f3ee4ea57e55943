"""Steps the environments: in worker processes, or in this process in serial mode.

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
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from rearrange.errors import UserError
from rearrange.system.open_files import raise_file_limit
from rearrange.ver.workers import shared_memory as sm
from rearrange.ver.workers.environment_worker import (
    ANSWER,
    REQUEST,
    MakeEnv,
    SlotEnvironment,
    WorkerCfg,
)
from rearrange.ver.workers.forking import WorkerProcess, end_process
from rearrange.ver.workers.launching import ForkLauncher, Launcher, RemoteEnvs, Work
from rearrange.ver.workers.restarts import FailedResets, RestartBudget
from rearrange.ver.workers.shared_memory import SlotLayout, StepSlots
from rearrange.ver.workers.waiting import Waiting

log = logging.getLogger(__name__)
_PER_CORE = 2  # processes: one more than cores can run fills in while another waits for its action
_CHECK_EVERY_S = 0.25  # between looks for silent workers
_FILES_PER_WORKER = 2  # that stay open: its requests, and what tells that it ended


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
    """So many workers are replaced; one more ends the training, with its work saved."""
    restart_refill_s: float = 10.0
    """After so long one of these restarts comes back."""
    awake_us: float = 1000.0
    """So long each side waits awake for the other's next word, where there are more cores than
    workers and nothing else wants them: waking up takes 40 us on a virtual machine."""
    python: str | None = None
    """Another Python that makes and steps the environments, 3.9 or newer and with numpy: its
    interpreter, or the folder of a virtual or conda environment. For `train`."""

    def __post_init__(self) -> None:
        if self.envs_per_worker < 0:
            raise ValueError(f"envs_per_worker must not be negative, got {self.envs_per_worker}")
        if self.max_restarts < 0:
            raise ValueError(f"max_restarts must not be negative, got {self.max_restarts}")
        for name in ("step_timeout_s", "start_timeout_s", "restart_refill_s"):
            if not 0.0 < getattr(self, name) <= 1e6:  # the system's waiting takes no more
                raise ValueError(f"{name} must lie in (0, 1e6], got {getattr(self, name)}")
        if not 0.0 <= self.awake_us <= 1e6:
            raise ValueError(f"awake_us must lie in [0, 1e6], got {self.awake_us}")

    def sized(self, num_envs: int, cores: int) -> PoolCfg:
        """With the number of environments of a process, chosen for so many cores."""
        size = self.envs_per_worker or max(1, num_envs // (_PER_CORE * cores))
        has_spare_core = -(-num_envs // size) < cores
        return replace(
            self, envs_per_worker=size, awake_us=self.awake_us if has_spare_core else 0.0
        )


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
    keeps_until_receive = False

    def __init__(
        self,
        make_env: MakeEnv,
        layout: SlotLayout,
        cfg: WorkerCfg,
        episode_numbers: np.ndarray,  # [E] of the next episodes
        is_fresh: bool,
    ) -> None:
        self.num_envs = self.round_size = layout.num_envs
        self.cfg = cfg
        self.slots = StepSlots.allocate(layout)
        self._failed_resets = FailedResets(cfg.failed_resets)
        self.environments = [
            SlotEnvironment(make_env, e, self.slots, cfg, int(episode_numbers[e]), is_fresh)
            for e in range(self.num_envs)
        ]
        self._ready: list[int] = []

    def start(self) -> None:
        for environment in self.environments:
            environment.start()
        self._ready = list(range(self.num_envs))

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What `restore` needs beside the slots: JSON values, and arrays by name."""
        values = [
            {
                "clock": env.clock,
                "is_whole": env.is_whole,
                "seed_number": env.seed_number,
                "age": env.age,
            }
            for env in self.environments
        ]
        actions = {
            f"actions/{e}": np.stack(env.actions)
            for e, env in enumerate(self.environments)
            if env.actions
        }
        return {"environments": values}, actions

    def restore(self, values: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Starts in the states that were saved; no environment is announced."""
        saved = zip(self.environments, values["environments"], strict=True)
        for e, (environment, episode) in enumerate(saved):
            actions = list(arrays.get(f"actions/{e}", ()))
            environment.replay(actions, episode["seed_number"], episode["age"])
            environment.clock, environment.is_whole = episode["clock"], episode["is_whole"]

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

    def failed_resets(self) -> dict[int, int]:
        """Seed -> how often its reset failed; of the one that ended the training, too."""
        self._failed_resets.note(self.slots, list(range(self.num_envs)))
        return self._failed_resets.counts

    def close(self) -> None:
        environments, self.environments = self.environments, []
        for environment in environments:
            environment.env.close()


@dataclass
class _Worker:
    envs: list[int]
    process: WorkerProcess
    requests: Connection  # write end
    generation: int
    owed: dict[int, float] = field(default_factory=dict)  # env -> deadline on the monotonic clock


class WorkerPool:
    """Environments in worker processes.

    Workers are forked from a server that has imported `preload` once; they import no torch. Where
    environments are made elsewhere, their own launcher starts the workers.
    """

    keeps_until_receive = False

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
        """Raises UserError if this process may not have as many files open as workers need."""
        self.num_envs = self.round_size = layout.num_envs
        self.restarts = 0
        self._worker_cfg = replace(cfg, awake_s=1e-6 * pool_cfg.awake_us)
        self._cfg, self._is_fresh = pool_cfg, is_fresh
        num_workers = -(-layout.num_envs // pool_cfg.envs_per_worker)
        raise_file_limit(_FILES_PER_WORKER * num_workers, f"{num_workers} environment workers")
        self._budget = RestartBudget(pool_cfg.max_restarts, pool_cfg.restart_refill_s)
        self._failed_resets = FailedResets(cfg.failed_resets)
        self._numbers = episode_numbers.astype(np.int64).copy()
        self._launcher: Launcher = (
            make_env.launcher()
            if isinstance(make_env, RemoteEnvs)
            else ForkLauncher(make_env, preload)
        )
        self.slots = self._launcher.allocate(layout)
        self.slots.episode_number[:] = self._numbers - 1  # of those that have not answered yet
        self._answers, self._answers_write = multiprocessing.Pipe(duplex=False)
        os.set_blocking(self._answers.fileno(), False)
        self._poll = select.poll()
        self._poll.register(self._answers.fileno(), select.POLLIN)
        self._waiting = Waiting(self._poll, self._worker_cfg.awake_s)
        self._workers: list[_Worker] = []
        self._worker_of: dict[int, _Worker] = {}
        self._by_sentinel: dict[int, _Worker] = {}
        self._faults: list[Fault] = []
        self._lock = threading.Lock()  # inference threads send while the collector replaces
        self._next_check = self._last_look = time.monotonic()

    def start(self) -> None:
        """Starts the workers; their environments announce themselves as they become ready."""
        self._launcher.prepare()
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
        is_owed = self._cfg.awake_us > 0.0 and any(worker.owed for worker in self._workers)
        events = self._waiting.wait(timeout_s, is_owed)
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

    def failed_resets(self) -> dict[int, int]:
        """Seed -> how often its reset failed."""
        return self._failed_resets.counts

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers, by their first environment."""
        pids = (worker.process.pid for worker in self._workers)
        return [pid for pid in pids if pid is not None]  # all have been started

    def close(self) -> None:
        """Ends all workers; calling it again does nothing."""
        workers, self._workers = self._workers, []
        self._worker_of, self._by_sentinel = {}, {}
        for worker in workers:
            worker.requests.close()  # the worker reads the end of its pipe and leaves
        deadline = time.monotonic() + 2.0
        for worker in workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
            end_process(worker.process)
        if workers:
            self._answers.close()
            self._answers_write.close()
        self._launcher.close()

    # --- private -------------------------------------------------------------------------------

    def _add(self, envs: list[int], generation: int, is_fresh: bool) -> None:
        cfg = replace(self._worker_cfg, failed_resets=self._failed_resets.counts)
        episodes = [(e, int(self._numbers[e]), is_fresh) for e in envs]
        work = Work(episodes, self.slots, cfg, self._answers_write, generation % 65536)
        process, writer = self._launcher.launch(work, f"environment worker {envs[0]}")
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
                cause = ([""] + message.strip().splitlines())[-1]
                self._replace(worker, f"raised {cause}", ready, details=message)
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

    def _replace(self, worker: _Worker, reason: str, ready: list[int], details: str = "") -> None:
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        self._poll.unregister(worker.process.sentinel)
        del self._by_sentinel[worker.process.sentinel]
        end_process(worker.process)
        self._failed_resets.note(self.slots, worker.envs)
        ready[:] = [e for e in ready if e not in worker.envs]
        what = f"environment worker of {_names(worker.envs)} {reason}"
        with self._lock:
            worker.requests.close()
            # A thread that still sends finds it busy, also if no other comes and the training ends.
            worker.owed = dict.fromkeys(worker.envs, np.inf)
        details = details and f"\n{details}"
        if not self._budget.take():
            if details:
                log.warning("%s%s", what, details)
            raise TooManyRestarts(
                f"{what}; the budget of {self._cfg.max_restarts} restarts is spent, one comes back "
                f"every {self._cfg.restart_refill_s:g} s"
            )
        self.restarts += 1
        log.warning("%s; restarting it (number %d)%s", what, self.restarts, details)
        self._faults.append(Fault(worker.envs, reason))
        with self._lock:
            self._add(worker.envs, worker.generation + 1, is_fresh=False)


def _names(envs: list[int]) -> str:
    return f"environment {envs[0]}" if len(envs) == 1 else f"environments {envs[0]}-{envs[-1]}"
