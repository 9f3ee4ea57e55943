"""Processes of another Python: starting one, and a handle like multiprocessing's.

Its settings are an in-memory file on standard input, so writing never blocks. Each gets its own
process group: whatever it starts ends with it. (A new session would be scheduled apart from this
process, which waits for its answers.) Linux only.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import rearrange
from rearrange.errors import UserError
from rearrange.system.machine import ONE_THREAD
from rearrange.system.stop_signals import signals_blocked
from rearrange.ver.bridge import entry
from rearrange.ver.bridge.messages import Json


class SpawnedProcess:
    """A process, and the processes that it has started."""

    def __init__(self, process: subprocess.Popen) -> None:
        self._process, self.pid = process, process.pid
        self.sentinel = os.pidfd_open(process.pid)

    @property
    def exitcode(self) -> int | None:
        """None while it runs; minus the signal that ended it."""
        # Its id is not reused until `close`: the signals below reach no other process.
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        ended = os.waitid(os.P_PIDFD, self.sentinel, flags)
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def is_alive(self) -> bool:
        return self.exitcode is None

    def join(self, timeout: float | None = None) -> None:
        poll = select.poll()
        poll.register(self.sentinel, select.POLLIN)
        poll.poll(None if timeout is None else timeout * 1000.0)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Ends the processes that it left behind."""
        self.kill()
        self._process.wait()
        os.close(self.sentinel)


class Starter:
    """Starts processes that the kernel ends with this one.

    The kernel takes the starting thread as their parent: this one lives until `close`.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "starter of workers")

    def start(self, python: Path, content: Json, fds: dict[str, int]) -> SpawnedProcess:
        """A process of that Python that runs `entry.py`.

        Args:
            content: of the task; settings common to all tasks are added.
            fds: open files that it inherits, by the names that it uses.

        Raises UserError if it cannot be run.
        """
        return self._thread.submit(_spawn, python, content, fds).result()

    def close(self) -> None:
        self._thread.shutdown()


def shared_file(size: int) -> int:
    """A new unnamed file in memory; the caller closes the descriptor."""
    if sys.platform != "linux":
        raise UserError(f"workers.python needs Linux, this is {sys.platform}")
    fd = os.memfd_create("rearrange")
    os.truncate(fd, size)
    return fd


def _spawn(python: Path, content: Json, fds: dict[str, int]) -> SpawnedProcess:
    content = content | {
        "python": str(python), "package": str(Path(rearrange.__file__).parent),
        "training": os.getpid(), "fds": fds,
    }  # fmt: skip
    environment = os.environ | dict.fromkeys(ONE_THREAD, "1")
    environment.pop("PYTHONHOME", None)  # of our own Python
    with open(shared_file(0), "w+") as told, signals_blocked():
        json.dump(content, told)
        told.flush()
        told.seek(0)
        try:
            process = subprocess.Popen(
                [str(python), entry.__file__],
                stdin=told,
                stdout=2,  # a simulator's output; only the result is ours
                pass_fds=tuple(fds.values()),
                env=environment,
                process_group=0,
            )
        except OSError as error:
            raise UserError(f"{python} cannot be run: {error.strerror}") from error
        return SpawnedProcess(process)
