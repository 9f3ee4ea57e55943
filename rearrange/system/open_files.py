"""Checks the limit on open files, pipes and sockets before they are needed."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress

from rearrange.errors import UserError

TOO_MANY = (errno.EMFILE, errno.ENFILE)
SPARE = 24  # for what is open for a moment: a checkpoint, a film, what a new process is told by
_OPEN_ELSEWHERE = 32  # assumed where the system does not say what is open


def raise_file_limit(count: int, what: str) -> None:
    """Lets this process have `count` more files open, and some to spare, before it needs them.

    Its own limit is raised as far as the system lets it, which processes started later inherit.

    Raises:
        UserError: if that is not far enough; `what` says what needs them.
    """
    if sys.platform == "win32":
        return
    import resource

    needed = _num_open() + count + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    with suppress(ValueError, OSError):  # some systems have a limit below the hard one
        most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
        soft = max(soft, most)
    if soft < needed:
        raise UserError(
            f"{what} need {needed} open files, pipes and sockets in one process, which may have "
            f"{soft}: raise the limit (`ulimit -n`), or take fewer"
        )


def advice(error: OSError) -> str:
    """What to do where a file could not be opened because of too many others; empty elsewhere."""
    return "; raise the limit (`ulimit -n`)" if error.errno in TOO_MANY else ""


def _num_open() -> int:
    with suppress(OSError):
        return len(os.listdir("/proc/self/fd"))
    return _OPEN_ELSEWHERE
