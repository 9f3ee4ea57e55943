"""How worker processes start and end: forked from a server that is started once.

    this process -- socket --> fork server (imports once) -- fork --> worker, worker, ...

The server may be killed at any instant, also while it is asked for a worker: it is started anew.
Its socket lies in a folder that would stay behind when this process is killed: the server removes
it then, and if it was killed as well the next training does, by the owner that the name tells.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import forkserver, process, resource_tracker, util
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

from rearrange.system.machine import single_threaded
from rearrange.system.open_files import TOO_MANY
from rearrange.system.processes import main_module_hidden, start_of
from rearrange.system.stop_signals import signals_blocked

FOLDER_NAME = re.compile(r"rearrange-([0-9a-f]+)-([0-9a-f]+)-([0-9a-f]+)-\w+")
_START_ATTEMPTS = 20  # at forking a worker, whose server may be killed again and again
_START_PAUSE_S = 0.05  # a killed server may need so long to end
_KILL_PATIENCE_S = 5.0  # the kernel may need a while to end a process that waits for a disk
_SOCKET_PATH_BYTES = 107  # sun_path of unix(7), with its end
_SOCKET_NAME = "/listener-12345678"

log = logging.getLogger(__name__)


class WorkerProcess(Protocol):
    """A process as `multiprocessing` has them."""

    @property
    def pid(self) -> int | None: ...
    @property
    def sentinel(self) -> int:
        """A file descriptor that can be read once the process has ended."""
        ...

    @property
    def exitcode(self) -> int | None:
        """None while it runs; minus the signal that ended it."""
        ...

    def is_alive(self) -> bool: ...
    def join(self, timeout: float | None = None) -> None: ...
    def kill(self) -> None: ...
    def close(self) -> None:
        """Frees what belongs to it, which has ended."""
        ...


def prepare_server() -> None:
    """To be called once before workers are started."""
    resource_tracker.ensure_running()  # its start would end `signals_blocked` too early
    config = _config()  # not public; else the folder has a name of its own
    if config.get("tempdir") is not None or sys.platform != "linux":
        return
    _remove_stale_folders()
    folder = tempfile.mkdtemp(prefix=_folder_prefix(os.getpid()))
    if len(os.fsencode(folder + _SOCKET_NAME)) > _SOCKET_PATH_BYTES:
        os.rmdir(folder)
        return
    options = {"ignore_errors": True}
    util.Finalize(None, shutil.rmtree, (folder,), options, exitpriority=-100)
    config["tempdir"] = folder


def fork_worker(
    context: Any,
    target: Callable[..., None],
    arguments: Callable[[Any, int | None], tuple],
    name: str,
) -> tuple[BaseProcess, Any]:
    """A new process, and the write end of the pipe that it reads requests from.

    Args:
        arguments: of `target`, given the read end and the server's process id, if it is known.

    Raises OSError or EOFError if it cannot be had.
    """
    for attempts_left in reversed(range(_START_ATTEMPTS)):
        reader, writer = context.Pipe(duplex=False)
        try:
            with main_module_hidden(), single_threaded(), signals_blocked():  # main: torch
                forkserver.ensure_running()
                server = getattr(forkserver._forkserver, "_forkserver_pid", None)  # not public
                args = arguments(reader, server)
                worker = context.Process(target=target, args=args, name=name, daemon=True)
                worker.start()
            return worker, writer
        except (OSError, EOFError) as error:
            writer.close()  # whoever was forked after all reads the end of its requests
            if not attempts_left or getattr(error, "errno", None) in TOO_MANY:
                raise  # each attempt with too many open files leaves some more open
            log.warning("%s could not be forked (%r); trying again", name, error)
            _restore_folder()
            time.sleep(_START_PAUSE_S)
        finally:
            reader.close()
    raise AssertionError("unreachable")


def _config() -> dict[str, Any]:
    """What multiprocessing keeps of this process."""
    return getattr(process.current_process(), "_config")  # noqa: B009


def _restore_folder() -> None:
    """A server that ended by itself took the folder along: the next one needs it."""
    folder = _config().get("tempdir")
    if folder is not None and FOLDER_NAME.fullmatch(os.path.basename(folder)):
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)


def end_process(worker: WorkerProcess) -> None:
    """Kills it if need be, also while it is stopped, and frees what belongs to it."""
    if worker.is_alive():
        worker.kill()
        worker.join(_KILL_PATIENCE_S)
    if worker.is_alive():
        log.warning("process %d does not end", worker.pid)
    else:
        worker.close()


def _folder_prefix(pid: int) -> str:
    """Tells the owner: in which space of process ids, its id there, and when it started."""
    return f"rearrange-{_process_space():x}-{pid:x}-{start_of(pid):x}-"


def _remove_stale_folders() -> None:
    """Removes those of this user whose owner is gone for certain."""
    for entry in os.scandir(tempfile.gettempdir()):
        match = FOLDER_NAME.fullmatch(entry.name)
        if match is None or int(match[1], 16) != _process_space():
            continue  # of another container its processes cannot be seen
        with suppress(OSError):
            is_ours = entry.is_dir(follow_symlinks=False)
            is_ours &= entry.stat(follow_symlinks=False).st_uid == os.geteuid()
            if is_ours and start_of(int(match[2], 16)) != int(match[3], 16):
                shutil.rmtree(entry.path)


def _process_space() -> int:
    """Process ids mean the same among those who have the same one: containers differ."""
    with suppress(OSError):
        return os.stat("/proc/self/ns/pid").st_ino
    return 0
