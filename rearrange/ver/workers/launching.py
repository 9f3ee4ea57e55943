"""The interface for starting worker processes, and the default: forking.

    launcher.allocate(layout)             the slots, in memory that the processes will share
    launcher.launch(work, ...)            a process that does `run_environment_worker`

`rearrange.ver.bridge` has another launcher: processes of another Python.
"""

from __future__ import annotations

import multiprocessing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Protocol, runtime_checkable

from rearrange.ver.workers.environment_worker import MakeEnv, WorkerCfg, run_environment_worker
from rearrange.ver.workers.forking import WorkerProcess, fork_worker, prepare_server
from rearrange.ver.workers.shared_memory import SlotLayout, StepSlots
from rearrange.ver.workers.spaces import ActionSpec, ObservationSpec


@dataclass(frozen=True)
class Work:
    """What one worker process is told."""

    envs: list[tuple[int, int, bool]]  # index, number of its next episode, is fresh
    slots: StepSlots
    cfg: WorkerCfg
    answers: Connection  # write end of the pipe that all workers share
    generation: int


class Launcher(Protocol):
    """Starts worker processes."""

    def allocate(self, layout: SlotLayout) -> StepSlots:
        """New slots, filled with zeros."""
        ...

    def prepare(self) -> None:
        """To be called once before workers are started."""
        ...

    def launch(self, work: Work, name: str) -> tuple[WorkerProcess, Connection]:
        """A new process, and the write end of the pipe that it reads requests from.

        Raises OSError or EOFError if it cannot be had.
        """
        ...

    def close(self) -> None:
        """Its processes have ended, and no more are wanted."""
        ...


@runtime_checkable
class RemoteEnvs(Protocol):
    """A MakeEnv whose environments another program makes: it has workers of its own."""

    def specs(self) -> tuple[ObservationSpec, ActionSpec]:
        """The spaces of an environment that has been started and stepped once."""
        ...

    def launcher(self) -> Launcher: ...


class ForkLauncher:
    """Workers forked from a server that has imported `preload` once."""

    def __init__(self, make_env: MakeEnv, preload: tuple[str, ...]) -> None:
        self._make_env = make_env
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(
            [__name__, "rearrange.ver.workers.fork_server", *preload]
        )

    def allocate(self, layout: SlotLayout) -> StepSlots:
        return StepSlots.allocate(layout, self._context)

    def prepare(self) -> None:
        prepare_server()

    def launch(self, work: Work, name: str) -> tuple[WorkerProcess, Connection]:
        def arguments(requests, server: int | None) -> tuple:
            return (
                self._make_env, work.envs, work.slots.layout, work.slots.memory, work.cfg,
                requests, work.answers, work.generation, server,
            )  # fmt: skip

        return fork_worker(self._context, run_environment_worker, arguments, name)

    def close(self) -> None:
        """The server serves other pools too, and ends with this process."""
