"""Ranks on this machine, with torch's elastic agent, as `torchrun --standalone` does.

    this process: the agent --> rank 0, rank 1, ...: `python -m rearrange VERB ...`, as given

If a rank dies, the others are stopped; all are started again and continue by `resume=auto`. A
mistake of the caller's ends them all at once: the rank that finds it writes it into a file.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import threading
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from rearrange.cluster.scheme import MISTAKE, SchemeCfg
from rearrange.errors import UserError, one_line
from rearrange.system.files import write_whole_file
from rearrange.system.machine import single_threaded
from rearrange.system.processes import end_with_parent
from rearrange.system.stop_signals import EXIT_CODES, is_shielded

SHUTDOWN_S = 90  # an update may run for 15 s after a signal, then the checkpoint is written
MISTAKE_FILE = "REARRANGE_MISTAKE_FILE"
"""The variable of ranks that says where a mistake is written."""
AGENT = "REARRANGE_AGENT"
"""The variable of ranks that says which process started them."""
_LOOK_S = 0.1  # between looks whether there is one
_AGENT_LOGS = ("agent.server.api", "multiprocessing.api")

log = logging.getLogger(__name__)


def run_local_ranks(arguments: list[str], scheme: SchemeCfg) -> int:
    """Runs `rearrange` with these arguments as each rank; returns their common exit code.

    Raises UserError for a mistake that only a rank could find.
    """
    # imported here: they take a while
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    options = ["-P"] if sys.flags.safe_path else []
    is_silent = not _has_descriptor()
    with tempfile.TemporaryDirectory() as folder:
        mistake = Path(folder) / "mistake"
        config = LaunchConfig(
            min_nodes=1, max_nodes=1, nproc_per_node=scheme.world_size,
            run_id=uuid.uuid4().hex, rdzv_backend="c10d", rdzv_endpoint="localhost:0",
            max_restarts=scheme.max_restarts, shutdown_timeout=SHUTDOWN_S,
            signals_to_handle=",".join(_signals_of_agent()),
            logs_specs=DefaultLogsSpecs(
                log_dir=folder, redirects=Std.ALL if is_silent else Std.NONE
            ),
        )  # fmt: skip
        try:
            # one thread, as with torchrun; a rank that learns from images uses more by itself
            with single_threaded(), _ended_by(mistake):
                elastic_launch(config, sys.executable)(*options, "-m", "rearrange", *arguments)
        except SignalException as stop:  # the ranks got the signal, too, and have saved
            _raise_if_there(mistake)
            return EXIT_CODES.get(stop.sigval, 128 + stop.sigval)
        except ChildFailedError as error:
            _raise_if_there(mistake)
            rank, failure = error.get_first_failure()
            if is_silent:
                _show_errors(Path(folder), rank)
            if failure.exitcode in (MISTAKE, *EXIT_CODES.values()):  # the rank has printed why
                return failure.exitcode
            log.error("rank %d ended with exit code %d", rank, failure.exitcode)
            return 1
    return 0


def _signals_of_agent() -> list[str]:
    """What the agent hands on to its ranks: not a closed terminal's under nohup."""
    names = ["SIGTERM", "SIGINT", "SIGUSR1", "SIGQUIT"]
    return names if is_shielded(signal.SIGHUP) else [*names, "SIGHUP"]


def tell_mistake(error: UserError) -> bool:
    """In a rank: tells who started it, which prints it once. False: nobody asked for that."""
    if MISTAKE_FILE not in os.environ:
        return False
    with suppress(OSError):
        write_whole_file(Path(os.environ[MISTAKE_FILE]), one_line(error).encode())
        return True
    return False


def leave_with_agent() -> None:
    """In a rank: saves its work and leaves if who started it is killed, which nobody else tells."""
    if (agent := os.environ.get(AGENT)) and not end_with_parent(int(agent), signal.SIGTERM):
        os.kill(os.getpid(), signal.SIGTERM)  # it has just gone


@contextmanager
def _ended_by(mistake: Path) -> Generator[None]:
    """Ends the agent, which would start the ranks again, once a rank has told a mistake."""
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(_LOOK_S):
            if mistake.exists():
                os.kill(os.getpid(), signal.SIGTERM)  # the agent ends the ranks
                return

    def is_about_else(record: logging.LogRecord) -> bool:
        return not mistake.exists()

    logs = [logging.getLogger(f"torch.distributed.elastic.{name}") for name in _AGENT_LOGS]
    watcher = threading.Thread(target=watch, daemon=True)
    os.environ |= {MISTAKE_FILE: str(mistake), AGENT: str(os.getpid())}
    for each in logs:
        each.addFilter(is_about_else)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()
        del os.environ[MISTAKE_FILE], os.environ[AGENT]
        for each in logs:
            each.removeFilter(is_about_else)


def _raise_if_there(mistake: Path) -> None:
    if mistake.exists():
        raise UserError(mistake.read_text(encoding="utf-8"))


def _has_descriptor() -> bool:
    """Whether what is printed goes to a file or terminal, where ranks can print too."""
    try:
        sys.stdout.fileno()
    except (AttributeError, ValueError, OSError):
        return False
    return True


def _show_errors(folder: Path, rank: int) -> None:
    """What a rank said last, where its output was kept from the terminal."""
    found = sorted(folder.glob(f"*/attempt_*/{rank}/stderr.log"))
    if found:
        print(found[-1].read_text(encoding="utf-8", errors="replace"), file=sys.stderr)
