"""Atomic output files: written under a temporary name, synced, renamed.

A full disk, a missing permission or a Ctrl-C leaves the old file unchanged and no partial new one;
errors of the operating system become one `UserError` line.
"""

import errno
import json
import os
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rearrange.errors import UserError
from rearrange.system.files import UNFINISHED, create_new_file, user_path


def write_error(path: Path, error: OSError) -> UserError:
    """The error for a file that could not be written."""
    advice = {
        errno.ENOSPC: "free some space or choose another place",
        errno.EDQUOT: "free some space or choose another place",
        errno.EFBIG: "choose a place that takes larger files",
        errno.EACCES: "choose a place where you may write",
        errno.EPERM: "choose a place where you may write",
        errno.EROFS: "choose a place where you may write",
        errno.ENOTDIR: "a part of the path is a file; choose another place",
        errno.EISDIR: "there is a folder of that name; choose another name",
        errno.ENAMETOOLONG: "choose a shorter name",
    }.get(error.errno or 0, "choose another place")
    return UserError(f"cannot write {path}: {error.strerror or error}; {advice}")


def expand(path: str | None) -> str | None:
    """A path as text with `~` replaced by the home folder; None stays None.

    Raises UserError as `user_path`.
    """
    return None if path is None else str(user_path(path))


def prepare_folder(folder: Path) -> Path:
    """The folder, created if it does not exist and verified to be writable.

    Raises:
        UserError: if it cannot be created or written to.
    """
    probe = folder / f"{UNFINISHED}-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        create_new_file(probe).close()
        probe.unlink()
    except FileExistsError as error:
        raise UserError(f"cannot use {folder} as a folder: it is a file") from error
    except OSError as error:
        raise write_error(folder, error) from error
    return folder


def prepare_file(path: Path) -> Path:
    """Makes sure that a file can be written later: its folder exists, and the path is no folder.

    Raises:
        UserError: if it could not be written.
    """
    target = replaceable(path)
    prepare_folder(target.parent)
    return path


def replaceable(path: Path) -> Path:
    """What is replaced when a file is written: what a link leads to, not the link.

    Raises UserError for a folder, and for a device or pipe, in whose place a file would stand.
    """
    target = Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return target
    except OSError as error:
        raise write_error(path, error) from error
    if stat.S_ISDIR(mode):
        raise write_error(path, IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)))
    if not stat.S_ISREG(mode):
        raise UserError(f"cannot write {path}: it is no regular file; name another")
    return target


def prepare_output(path: str | None) -> Path | None:
    """The file of an `output=` setting, as `prepare_file`; None where none is wanted."""
    return None if path is None else prepare_file(user_path(path))


@contextmanager
def kept_or_temporary(folder: str | None, prefix: str) -> Generator[Path]:
    """A working folder: that of a `keep_dir=` setting, else a temporary one, removed at the end.

    Raises UserError as `prepare_folder`.
    """
    if folder is not None:
        yield prepare_folder(user_path(folder))
        return
    with tempfile.TemporaryDirectory(prefix=prefix) as temporary:
        yield Path(temporary)


@contextmanager
def atomic_path(path: Path) -> Generator[Path]:
    """Gives a temporary path in the same folder; renames it to `path` if the block ends well.

    Raises:
        UserError: if anything in the block raises OSError, or the rename fails.
    """
    target = replaceable(path)
    temporary = target.with_name(f".{target.stem}{UNFINISHED}-{os.getpid()}{path.suffix}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        create_new_file(temporary).close()
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise write_error(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def atomic_write_bytes(path: Path, content: bytes) -> None:
    """Writes a whole file or, raising UserError, none."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content)


def atomic_write_figure(path: Path, figure: Any) -> None:
    """Writes a matplotlib figure; the suffix says in which format."""
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:])


def atomic_write_text(path: Path, content: str) -> None:
    """Writes a whole UTF-8 file or, raising UserError, none."""
    atomic_write_bytes(path, content.encode())


def atomic_write_json(path: Path, value: Any) -> None:
    """Writes a JSON file with a line for each key; NaN is refused, since JSON has none."""
    atomic_write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")
