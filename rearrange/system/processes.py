"""Processes: their start time and memory, and ending a child with its parent, even while the child
is stopped."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import types
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # prctl(2)


def end_with_parent(parent: int | None, signum: int = signal.SIGKILL) -> bool:
    """Has the kernel kill this process when its parent ends; Linux only.

    Args:
        parent: id of the expected parent; None: unknown.
        signum: the signal that it then gets.

    Returns False if that parent has already ended: this process should then exit by itself.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signum)
    return parent is None or os.getppid() == parent


def start_of(pid: int) -> int:
    """When a process started, in the kernel's clock ticks, 0 if there is none: ids are reused."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return 0


def most_memory_mb() -> float:
    """The most memory that this process has had, MB; macOS tells bytes, others KiB."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most * (1 if sys.platform == "darwin" else 1024) / 1e6


@contextmanager
def main_module_hidden() -> Generator[None]:
    """Processes that Python starts within the block do not import the caller's main script
    again."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
