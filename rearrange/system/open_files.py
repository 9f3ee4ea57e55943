"""Checks the limit on open files, pipes and sockets before they are needed."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress

from rearrange.errors import UserError

TOO_MANY = (errno.EMFILE, errno.ENFILE)
SPARE = 24  # for short-lived ones: a checkpoint, a film, pipes to a new process
_OPEN_ELSEWHERE = 32  # assumed where the system does not say what is open


def raise_file_limit(count: int, what: str) -> None:
    """Makes sure that this process can open `count` more files, and some to spare.

    Its soft limit is raised as far as the system allows; processes started later inherit it.

    Raises:
        UserError: if that is not enough; `what` says what needs them.
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
    """Advice for an error caused by too many open files; empty for any other error."""
    return "; raise the limit (`ulimit -n`)" if error.errno in TOO_MANY else ""


def _num_open() -> int:
    with suppress(OSError):
        return len(os.listdir("/proc/self/fd"))
    return _OPEN_ELSEWHERE
