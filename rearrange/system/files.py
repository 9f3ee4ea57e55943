"""Atomic writes, for a process that may be killed at any instruction, and reading of untrusted
files.

    write under a temporary name -> fsync -> rename over the old file -> fsync of the folder

The rename is atomic (POSIX rename(2)); the two syncs order it behind the content on the disk, so
that a power cut cannot leave a new name with an old or empty content. Errors of the operating
system (a full disk, a read-only folder) stay OSErrors with the file's name.
"""

import errno
import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from rearrange.errors import UserError

UNFINISHED = ".unfinished"  # in the name of every file that is being written


def user_path(path: str | Path) -> Path:
    """A path as a user writes it, with `~` replaced by the home folder.

    Raises UserError for the home folder of somebody unknown.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        why = "name one that there is, or write the path in full"
        raise UserError(f"there is no home folder {Path(path).parts[0]}: {why}") from error


def file_digest(path: Path) -> str:
    """SHA-256 of a regular file's content. Raises UserError if it cannot be read."""
    descriptor = _open_regular(path)
    try:
        with open(descriptor, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


def write_whole_file(path: Path, content: bytes) -> None:
    """Puts a file in place in one step.

    Raises:
        OSError: if it could not be written; the old file is then unchanged, and no temporary file
            is left. `filename` is always set.
    """
    temporary = path.with_name(f".{path.name}{UNFINISHED}-{os.getpid()}")
    try:
        with create_new_file(temporary) as file:
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


def create_new_file(path: Path) -> BinaryIO:
    """Opens a new file for writing; an old file of that name is removed.

    A symbolic link of that name is not followed, even a dangling one: its target stays as it is.
    """
    path.unlink(missing_ok=True)
    return open(path, "xb")


def sync_folder(folder: Path) -> None:
    """Flushes a folder's entries to the disk: new, renamed and removed files."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems cannot
            raise
    finally:
        os.close(descriptor)


def remove_unfinished(folder: Path) -> None:
    """Removes unfinished files that killed processes left in a folder."""
    for leftover in folder.glob(f".*{UNFINISHED}-*"):
        with suppress(OSError):
            leftover.unlink()


def read_whole_file(path: Path, most: int) -> bytes:
    """The content of a regular file of at most `most` bytes.

    Nothing endless is read (a device, a pipe, a file that keeps growing).

    Raises:
        UserError: in every other case; the line names the file.
    """
    descriptor = _open_regular(path)
    try:
        with open(descriptor, "rb", buffering=0) as file:
            content = bytearray()
            while len(content) <= most and (part := file.read(min(most + 1, 2**24))):
                content += part
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    if len(content) > most:
        raise UserError(f"{path} must have at most {_size(most)}, it has more")
    return bytes(content)


def _open_regular(path: Path) -> int:
    """A descriptor to read a regular file by. Raises UserError for what is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe would block
    except FileNotFoundError as error:
        raise UserError(f"there is no file {path}") from error
    except (OSError, ValueError) as error:  # the second: a NUL character in the name
        raise UserError(f"cannot read {path}: {getattr(error, 'strerror', error)}") from error
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        what = "a folder" if stat.S_ISDIR(mode) else "no regular file"
        raise UserError(f"cannot read {path}: it is {what}")
    return descriptor


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 2**20 else f"{count >> 10} KiB"
