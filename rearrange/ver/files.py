"""Files that are whole or not there, for a process that may be killed at any instruction.

    write under a temporary name -> fsync -> rename over the old file -> fsync of the folder

The rename is atomic (POSIX rename(2)); the two syncs order it behind the content on the disk, so
that a power cut cannot leave a new name with an old or empty content. What the operating system
refuses (a full disk, a folder that is read-only) stays an OSError with the file's name.
"""

import errno
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

UNFINISHED = ".unfinished"  # in the name of every file that is being written


def write_whole_file(path: Path, content: bytes) -> None:
    """Puts a file in place in one step.

    Raises:
        OSError: if it could not be written; the old file is then as it was, and nothing else lies
            beside it. `filename` is always set.
    """
    temporary = path.with_name(f".{path.name}{UNFINISHED}-{os.getpid()}")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        # A write that fails names no file, a rename the temporary one.
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Brings new names and removed ones to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems cannot
            raise
    finally:
        os.close(descriptor)


def remove_unfinished(folder: Path) -> None:
    """Removes what killed processes left half-written in a folder."""
    for leftover in folder.glob(f".*{UNFINISHED}-*"):
        with suppress(OSError):
            leftover.unlink()


def strict_json(text: str) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: if it is no JSON; NaN, infinities and numbers too large for a float are none.
    """

    def refuse(word: str) -> None:
        raise ValueError(f"{word} is no JSON number")

    def number(word: str) -> float:
        value = float(word)
        return value if abs(value) != float("inf") else refuse(word[:20])

    try:
        return json.loads(text, parse_constant=refuse, parse_float=number)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
