"""A training as a separate process group, observed from outside. Linux: reads /proc.

chaos -- starts --> main --> resource tracker
                         --> fork server --> environment workers
all in one session, so that processes that outlive the main one are found
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from rearrange.errors import UserError
from rearrange.ver.run.metrics import METRICS_FILE, SUMMARY_FILE, read_metrics

PACKAGE_ROOT = Path(sys.modules["rearrange"].__path__[0]).parent
SHARED_MEMORY = Path("/dev/shm")
START_LIMIT_S = 120.0  # importing torch takes seconds, on a busy machine many
END_LIMIT_S = 60.0
LEAVE_S = 20.0  # longest time for children to notice that their parent is gone; mostly some ms
_LOOK_EVERY_S = 0.02
_OUR_MEMORY = ("pym-", "psm_", "torch_", "sem.")  # how their names in SHARED_MEMORY begin


class ConditionNotMet(Exception):
    """A training did not reach the point of the fault, or did not end."""


class Training:
    """`python -m MODULE WORDS` with default signal handling and its output in a file.

    Args:
        folder: for its output and, unless given, its run_dir.
        words: arguments of `python -m rearrange`, without run_dir.
        module: instead of `rearrange`.
        is_heard: its output goes into a file; else into a pipe that nobody reads.
    """

    def __init__(
        self,
        folder: Path,
        overrides: list[str],
        module: str = "rearrange",
        run_dir: Path | None = None,
        is_heard: bool = True,
    ) -> None:
        self.run_dir = run_dir or folder / "run"
        self._output = folder / f"output-{time.monotonic_ns()}"
        self._shared_before = shared_memory_files()
        self._temporary = folder / "tmp"
        self._temporary.mkdir(exist_ok=True)
        environment = os.environ | {"TMPDIR": str(self._temporary)}
        paths = [str(PACKAGE_ROOT), environment.get("PYTHONPATH")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        command = [sys.executable, "-m", module, *overrides, f"run_dir={self.run_dir}"]
        self._output.touch()
        with open(self._output, "wb") if is_heard else _pipe_without_reader() as output:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
                preexec_fn=_ordinary_signals,
            )
        self.pid = self.process.pid

    def __enter__(self) -> Training:
        return self

    def __exit__(self, *exception: object) -> None:
        for pid in self.members():  # only those of its session
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    # --- waiting -------------------------------------------------------------------------------

    def wait_for(self, condition: Callable[[list[dict[str, Any]]], bool], what: str) -> None:
        """Waits until its metrics satisfy a condition.

        Raises ConditionNotMet if it ends first, or after START_LIMIT_S.
        """
        end = time.monotonic() + START_LIMIT_S
        while time.monotonic() < end:
            is_over = self.process.poll() is not None
            if condition(self.metrics()):
                return
            if is_over:
                code = self.process.returncode
                raise ConditionNotMet(f"it ended with {code} before {what}: {self.last_line()}")
            time.sleep(_LOOK_EVERY_S)
        raise ConditionNotMet(f"no {what} within {START_LIMIT_S:.0f} s: {self.last_line()}")

    def wait_for_step(self, step: int) -> None:
        self.wait_for(lambda lines: bool(lines) and lines[-1]["step"] >= step, f"step {step}")

    def wait(self, limit_s: float = END_LIMIT_S) -> int:
        """Its exit code; raises ConditionNotMet if it does not end in time."""
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise ConditionNotMet(f"it was still there after {limit_s:.0f} s") from None

    def send(self, signum: int, to_group: bool = False) -> None:
        (os.killpg if to_group else os.kill)(self.pid, signum)

    def stop(self) -> None:
        """Freezes the main process, so that its observable state stays constant."""
        self.send(signal.SIGSTOP)
        end = time.monotonic() + END_LIMIT_S
        while state_of(self.pid) not in "TXZ":
            if time.monotonic() > end:
                raise ConditionNotMet("it could not be stopped")

    # --- its files -----------------------------------------------------------------------------

    def metrics(self) -> list[dict[str, Any]]:
        """Metrics so far; none before the file exists."""
        try:
            return read_metrics(self.run_dir / METRICS_FILE)
        except UserError:
            return []

    def summary(self) -> dict[str, Any] | None:
        path = self.run_dir / SUMMARY_FILE
        return json.loads(path.read_text()) if path.exists() else None

    def output(self) -> str:
        return self._output.read_text(errors="replace")

    def last_line(self) -> str:
        return ([""] + self.output().strip().splitlines())[-1]

    def checkpoint_steps(self) -> list[int]:
        """Steps of all manifests, oldest first."""
        return sorted(int(path.stem) for path in (self.run_dir / "checkpoints").glob("*.json"))

    # --- its processes -------------------------------------------------------------------------

    def members(self) -> list[int]:
        """Living processes of its session."""
        return [pid for pid, (_, session, _) in processes().items() if session == self.pid]

    def server(self) -> int:
        """The fork server's process id."""
        for pid, (parent, _, command) in processes().items():
            if parent == self.pid and "multiprocessing.forkserver" in command:
                return pid
        raise ConditionNotMet("there is no fork server")

    def workers(self) -> list[int]:
        """Process ids of the environment workers, oldest first."""
        server = self.server()
        return sorted(pid for pid, (parent, *_) in processes().items() if parent == server)

    def wait_for_new_workers(self, old: list[int], count: int) -> float:
        """Seconds until there are as many workers as in `old`, at least `count` of them new."""
        begin = time.monotonic()

        def are_there(_: object) -> bool:
            with contextlib.suppress(ConditionNotMet):  # the server may have to be restarted first
                now = self.workers()
                return len(now) == len(old) and len({*now} - {*old}) >= count
            return False

        self.wait_for(are_there, f"{count} new workers")
        return time.monotonic() - begin

    def orphans(self) -> list[int]:
        """Processes that are still alive some time after the main process ended."""
        end = time.monotonic() + LEAVE_S
        while (left := self.members()) and time.monotonic() < end:
            time.sleep(_LOOK_EVERY_S)
        return left

    def temporary_left(self) -> list[str]:
        """Folders of multiprocessing that it, and earlier runs in its folder, left behind."""
        names = (path.name for path in self._temporary.iterdir())
        return sorted(name for name in names if name.startswith(("pymp-", "rearrange-")))

    def shared_memory_left(self) -> list[str]:
        """Shared-memory files that were created since its start and are still there, unused.

        A starting process creates one, maps it and unlinks it: for an instant it looks abandoned.
        """
        end = time.monotonic() + LEAVE_S
        left = shared_memory_files() - self._shared_before - in_use()
        while left and time.monotonic() < end:
            time.sleep(_LOOK_EVERY_S)
            left &= shared_memory_files() - in_use()
        return sorted(left)


def processes() -> dict[int, tuple[int, int, str]]:
    """Process id -> parent, session, command line, of all living processes but zombies."""
    found: dict[int, tuple[int, int, str]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError):
            # "pid (name) state parent group session ..."; a name may hold spaces and brackets
            state, parent, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            command = (entry / "cmdline").read_bytes().decode(errors="replace")
            if state not in "ZX":
                found[int(entry.name)] = int(parent), int(session), command
    return found


def state_of(pid: int) -> str:
    """State letter of proc(5): R runnable, S sleeping, T stopped, Z zombie; X: gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return "X"


def num_waits(pid: int) -> int:
    """How often a process has gone to sleep to wait for something."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches:"):
                return int(line.split()[1])
    return 0


def resident_mib(pid: int) -> float:
    """Physical memory of a process, without pages shared through the page cache."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024.0
    return 0.0


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def shared_memory_files() -> set[str]:
    """Names of Python's multiprocessing and torch; other programs use others."""
    if not SHARED_MEMORY.is_dir():
        return set()
    return {path.name for path in SHARED_MEMORY.iterdir() if path.name.startswith(_OUR_MEMORY)}


def in_use() -> set[str]:
    """Names in SHARED_MEMORY that a living process has mapped."""
    names: set[str] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                for line in (entry / "maps").read_text().splitlines():
                    _, found, path = line.partition(f"{SHARED_MEMORY}/")
                    if found:
                        names.add(path.split()[0])
    return names


def _pipe_without_reader() -> IO[bytes]:
    reader, writer = os.pipe()
    os.close(reader)
    return open(writer, "wb")


def _ordinary_signals() -> None:
    """Restores Ctrl-C: a shell makes background processes ignore it."""
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_DFL)
