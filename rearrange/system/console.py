"""Terminal output that survives a closed terminal or pipe.

The reader of a pipe may exit (`rearrange list | head -1`), a terminal may be closed, a stream may
never have been open. None of that may stop the program, lose results or change the exit code.
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
    """Prints lines on stdout. Raises OSError for anything but a closed stream, such as a full
    disk."""
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
    """Whether nobody can read what is written there any more."""
    try:
        descriptor = stream.fileno()
    except (AttributeError, ValueError, OSError):  # not a file: closed, or a test's
        return False
    look = select.poll()
    look.register(descriptor, 0)  # poll always reports errors and hang-ups
    return bool(look.poll(0))


def open_missing() -> None:
    """Opens /dev/null for those of descriptors 0 to 2 that the caller closed.

    Otherwise the next file to be opened, such as the metrics, would receive what is written to
    stderr. Python sets a closed stream to None, to which nothing can be written.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, open(descriptor, "w", encoding="utf-8", closefd=False))  # noqa: SIM115


def detach_streams() -> None:
    """Flushes both streams; output that nobody reads is dropped.

    Otherwise Python would try again on exit and change the exit code.
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
