"""A connection to Ray: to an existing cluster, or to a new one on this machine.

    address=HOST:PORT, or RAY_ADDRESS, or `ray start` was called on this machine  -->  joined
    otherwise  -->  started here, and ended with all its processes when the block ends

Two commands never share a cluster that we started, which would end with the first of them: Ray only
joins those that `ray start` made. Ours has no dashboard and sends no usage statistics.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
import signal
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from rearrange.errors import UserError
from rearrange.system.machine import num_cores
from rearrange.system.stop_signals import signals_blocked

OBJECT_STORE_BYTES = 200 * 2**20  # only records and a few lines of text are exchanged
LOCAL = "local"  # Ray's word for a cluster of its own
ANSWER_S = 10.0  # that a cluster has to answer in; Ray by itself tries for a quarter of an hour


@contextmanager
def connected(address: str | None, num_cpus: float = 0.0) -> Generator[ModuleType]:
    """The module `ray`, connected.

    Args:
        address: of a cluster; None: see above; "local": a new one.
        num_cpus: that a new one must offer, even if the machine has fewer cores.

    Raises UserError if Ray is not installed, or nobody answers at the address.
    """
    ray = _imported()
    before = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)}
    address = address or os.environ.get("RAY_ADDRESS") or None
    folder = None
    try:
        if address in (None, LOCAL):
            folder = _start(ray, address, math.ceil(max(num_cores(), num_cpus)))
        else:
            _check_answers(address)
            _join(ray, address)
        _restore(before)  # Ray's own handlers exit at once
        yield ray
    finally:
        ray.shutdown()
        _restore(before)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _imported() -> ModuleType:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        raise UserError(
            "Ray is not installed: pip install 'rearrange[cluster]', in a checkout "
            "pip install -e '.[cluster]'"
        ) from error
    logging.getLogger("ray").setLevel(logging.ERROR)
    return ray


def _start(ray: ModuleType, address: str | None, num_cpus: int) -> str | None:
    """Joins a cluster, or starts one, whose folder is then returned."""
    try:
        with signals_blocked():
            context = _init(
                ray, address=address, num_cpus=num_cpus, include_dashboard=False,
                object_store_memory=OBJECT_STORE_BYTES,
            )  # fmt: skip
        return context.address_info["session_dir"]
    except ValueError:  # so that it claims the cores asked for
        _join(ray, None)
    except Exception as error:  # Ray raises it itself
        raise UserError(f"Ray cannot be started on this machine: {_line(error)}") from error


def _join(ray: ModuleType, address: str | None) -> None:
    try:
        _init(ray, address=address)
    except Exception as error:
        where = "that `ray start` made here (address=local starts another)"
        where = where if address is None else f"at {address}"
        raise UserError(f"cannot join the Ray cluster {where}: {_line(error)}") from error


def _check_answers(address: str) -> None:
    """Raises UserError if nobody listens at HOST:PORT; Ray's other words for a place pass."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER_S).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise UserError(
            f"cannot join the Ray cluster at {address}: nobody answers there "
            f"({_line(error)}); `ray start --head` starts one"
        ) from error


def _init(ray: ModuleType, **options: Any) -> Any:
    return ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _restore(handlers: dict[signal.Signals, Any]) -> None:
    if threading.current_thread() is threading.main_thread():
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
