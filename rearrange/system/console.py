"""Terminal output that survives a closed terminal or pipe.

The reader of a pipe may leave (`rearrange list | head -1`), a terminal may be closed, a stream may
never have been open. None of that may end the work, lose what it has done or change its exit code.
"""

from __future__ import annotations

import errno
import os
import select
import sys
from contextlib import suppress
from typing import TextIO

from rearrange.errors import one_line

NOBODY = (errno.EPIPE, errno.EIO)  # of a pipe without a reader, of a terminal that was closed


def print_line(text: str) -> None:
    """A line or more on stdout. Raises OSError for what else may happen there: a full disk."""
    try:
        print(text)
    except OSError as error:
        if error.errno not in NOBODY:
            raise


def print_error(message: object) -> None:
    """One line `error: ...` on stderr, or nothing."""
    with suppress(OSError):
        print("error:", one_line(message), file=sys.stderr, flush=True)


def is_gone(stream: TextIO) -> bool:
    """Whether nobody can read any more what is written there."""
    try:
        descriptor = stream.fileno()
    except (AttributeError, ValueError, OSError):  # no file at all: closed, or a test's
        return False
    look = select.poll()
    look.register(descriptor, 0)  # errors and hang-ups are always told
    return bool(look.poll(0))


def open_missing() -> None:
    """Gives descriptors 0 to 2 something to be, where the caller closed them.

    The next file to be opened, such as the metrics, would otherwise get what is said on stderr.
    Python's own name for a stream that was closed is None, to which little can be said.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, "w", encoding="utf-8", closefd=False))  # noqa: SIM115


def detach_streams() -> None:
    """Flushes both streams; what nobody takes is dropped.

    Python would else try once more at its very end and change the exit code.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is None:
            continue
        try:
            stream.flush()
        except OSError as error:
            if error.errno in NOBODY:
                with suppress(OSError):
                    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        except ValueError:  # closed
            pass
