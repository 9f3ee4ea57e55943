"""A folder lock, so that only one process writes; it is released when its owner is gone.

    .lock    a record: host, boot, process, its start, since when, and a heartbeat counter

Two things show that an owner is alive. The kernel's lock on the file (flock; over NFS the server's)
is released when its process ends, however that happens: between processes of one machine it alone
decides. Between machines it is not always effective (a file system mounted without locks, a server
that forgot them), so the record has a heartbeat: a process that finds a record of another machine
watches it for some beats.

    kernel's lock   record                      then
    taken           any                         refused, after a moment for an owner that is ending
    free            none, or of this machine    ours
    free            of another, beating         refused
    free            of another, silent          ours, with a warning
    not available   of this machine             depends on whether that process is alive

It cannot be known whether a silent machine is dead, or frozen and will continue. A process that was
believed dead finds another's record at its next `check` and must stop writing.
"""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from rearrange.errors import UserError
from rearrange.system.processes import start_of

LOCK_FILE = ".lock"
HEARTBEAT_S = 10.0
SILENT_S = 35.0  # three beats and a server's pause: an owner silent for so long counts as dead
SETTLE_S = 1.0  # without the kernel's lock: longer than it takes to write a record
LEAVING_S = 5.0  # a killed process may take so long to release its lock
_LOOK_EVERY_S = 0.1
_RECORD_BYTES = 512  # fixed length: a new beat needs no new space on a full disk
_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}

log = logging.getLogger(__name__)


class FolderLockLost(RuntimeError):
    """The folder is no longer ours.

    `is_taken`: another process writes there; otherwise it was deleted or moved away.
    """

    def __init__(self, message: str, is_taken: bool) -> None:
        super().__init__(message)
        self.is_taken = is_taken


class FolderLock:
    """A folder that this process alone writes into. Made by `lock_folder`."""

    def __init__(self, folder: Path, descriptor: int, is_locked: bool) -> None:
        self.folder, self._path = folder, folder / LOCK_FILE
        self._descriptor = descriptor
        self._record = _own_record()
        try:
            self._write()
        except OSError:  # a full disk
            with suppress(OSError):
                self._path.unlink()
            os.close(descriptor)
            raise
        if not is_locked:  # two may have started at once: the last one to write owns it
            time.sleep(SETTLE_S)
            if not self._is_ours():
                os.close(descriptor)
                raise _in_use(folder, _read(self._path))
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._heartbeat, name="folder lock", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raises FolderLockLost if the folder is gone or was taken over. Costs one stat call."""
        try:
            if _is_same(self._path, self._descriptor):
                if self._is_ours():
                    return
                raise FolderLockLost(f"{self.folder} was taken over by {self._owner()}", True)
        except FileNotFoundError:
            if self.folder.is_dir():  # somebody removed only the lock: a request to take over
                raise FolderLockLost(f"the lock {self._path} was removed", True) from None
            lost = f"{self.folder} was deleted or moved away; the last state is saved in a new one"
            raise FolderLockLost(lost, False) from None
        raise FolderLockLost(f"{self.folder} was replaced; it is used by {self._owner()}", True)

    def release(self) -> None:
        """Releases the lock; calling it again does nothing."""
        if self._is_over.is_set():
            return
        self._is_over.set()
        self._thread.join()
        with suppress(OSError):
            if _is_same(self._path, self._descriptor) and self._is_ours():
                self._path.unlink()
        os.close(self._descriptor)

    def _heartbeat(self) -> None:
        while not self._is_over.wait(HEARTBEAT_S):
            with suppress(OSError):  # readers then believe us silent; `check` tells us
                if _is_same(self._path, self._descriptor) and self._is_ours():
                    self._record["beat"] += 1
                    self._write()

    def _write(self) -> None:
        content = json.dumps(self._record).encode().ljust(_RECORD_BYTES) + b"\n"
        os.pwrite(self._descriptor, content, 0)
        with suppress(OSError):  # a network file system then shows it later
            os.fsync(self._descriptor)

    def _is_ours(self) -> bool:
        return _parsed(os.pread(self._descriptor, 4096, 0)).get("token") == self._record["token"]

    def _owner(self) -> str:
        return describe_owner(_read(self._path))


@contextmanager
def lock_folder(folder: Path, setting: str = "run_dir") -> Generator[FolderLock]:
    """Creates the folder if needed and holds its lock within the block.

    Args:
        setting: the one that named the folder, for messages.

    Raises:
        UserError: if another process writes there, naming it; if it cannot be a folder.
    """
    was_there = folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FolderLock(folder, *_acquire(folder))
    except (FileExistsError, NotADirectoryError) as error:
        raise UserError(f"{setting} must be a folder, {folder} is a file or below one") from error
    except OSError as error:
        if not was_there:
            with suppress(OSError):
                folder.rmdir()
        raise UserError(f"cannot write into {setting} {folder}: {error.strerror}") from error
    try:
        yield lock
    finally:
        lock.release()
        if not was_there:  # nothing came of it
            with suppress(OSError):
                folder.rmdir()


def describe_owner(content: bytes) -> str:
    """The owner that a lock's record names, for messages."""
    record = _parsed(content)
    if not record:
        return "another process"
    where = "" if _is_of_this_machine(record) else f" on {record['host']}"
    return f"process {record['pid']}{where}, since {record['since']}"


def _acquire(folder: Path) -> tuple[int, bool]:
    """A descriptor of the folder's lock and whether the kernel keeps it for us.

    Raises UserError and OSError.
    """
    path, end = folder / LOCK_FILE, time.monotonic() + LEAVING_S
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o666)
        try:
            is_locked = _try_lock(descriptor)
            with suppress(FileNotFoundError):
                if is_locked is not False and _is_same(path, descriptor):
                    _wait_for_silence(folder, path, is_locked)
                    return descriptor, bool(is_locked)
            if time.monotonic() > end:
                raise _in_use(folder, _read(path))
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # taken, or its owner just released it and removed the file
        time.sleep(_LOOK_EVERY_S)


def _try_lock(descriptor: int) -> bool | None:
    """Whether we hold the kernel's lock; None where the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return None
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        return False
    return True


def _wait_for_silence(folder: Path, path: Path, is_locked: bool | None) -> None:
    """Returns when the owner that the record names is gone, as far as can be known."""
    content = _read(path)
    record = _parsed(content)
    if not record:
        return
    if _is_of_this_machine(record):
        if is_locked:
            return
        if record["processes"] == _process_space():
            if start_of(record["pid"]) == record["started"]:
                raise _in_use(folder, content)
            return
    owner = describe_owner(content)
    log.warning(
        "%s was used by %s: waiting %.0f s for a sign of life", folder, owner, SILENT_S
    )  # it ended without a word, or its machine did
    end = time.monotonic() + SILENT_S
    while time.monotonic() < end:
        time.sleep(min(_LOOK_EVERY_S, HEARTBEAT_S))
        if _read(path) != content:
            raise _in_use(folder, _read(path))
    log.warning("no sign of life from %s: going on in its place", owner)


def _in_use(folder: Path, content: bytes) -> UserError:
    record, way_on = _parsed(content), "wait for its end or choose another folder"
    if record and not _is_of_this_machine(record):
        way_on += f"; if that machine is dead for certain, remove {folder / LOCK_FILE}"
    return UserError(f"{folder} is in use by {describe_owner(content)}: {way_on}")


def _own_record() -> dict[str, Any]:
    return {
        "host": socket.gethostname(),
        "boot": _boot(),
        "processes": _process_space(),
        "pid": os.getpid(),
        "started": start_of(os.getpid()),
        "since": datetime.now().astimezone().isoformat(" ", "seconds"),
        "token": uuid.uuid4().hex,
        "beat": 0,
    }


def _is_of_this_machine(record: dict[str, Any]) -> bool:
    return record["boot"] == _boot() and bool(record["boot"])


def _boot() -> str:
    """Changes with every start of this machine; empty where it cannot be known."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _process_space() -> str:
    """Process ids are comparable between processes with the same one: containers differ."""
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid")
    return ""


def _is_same(path: Path, descriptor: int) -> bool:
    """Whether the name still leads to the file that is open."""
    named, opened = os.stat(path), os.fstat(descriptor)
    return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)


def _read(path: Path) -> bytes:
    """Its present content: opened again, so that a network file system asks its server."""
    with suppress(OSError):
        return path.read_bytes()[:4096]
    return b""


def _parsed(content: bytes) -> dict[str, Any]:
    """The record in a content; empty if it is not one."""
    texts = ("host", "boot", "processes", "since", "token")
    with suppress(ValueError, RecursionError):
        parsed = json.loads(content)
        record = cast("dict[str, Any]", parsed if isinstance(parsed, dict) else {})
        if all(
            isinstance(record.get(name), kind)
            for name, kind in [*((name, str) for name in texts), ("pid", int), ("started", int)]
        ):
            return record
    return {}
