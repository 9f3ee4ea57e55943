"""A connection to Ray: to a cluster that is there, or to a Ray of our own on this machine.

    address=HOST:PORT, RAY_ADDRESS, or a node of a cluster runs on this machine  -->  joined
    otherwise  -->  started here, and ended with all its processes when the block ends

Nobody finds a Ray of our own, because it does not stand in Ray's usual folder: two commands do not
share one that would end with the first. No dashboard, no usage statistics.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from rearrange.errors import UserError
from rearrange.ver.machine import num_cores

OBJECT_STORE_BYTES = 200 * 2**20  # only records and a few lines of text travel
LOCAL = "local"  # Ray's word for one of its own

log = logging.getLogger(__name__)


@contextmanager
def connected(address: str | None, num_cpus: float = 0.0) -> Iterator[ModuleType]:
    """The module `ray`, connected.

    Args:
        address: of a cluster; None: that of RAY_ADDRESS or of this machine, else a Ray of our own;
            "local": a Ray of our own.
        num_cpus: that a Ray of our own must offer, even if the machine has fewer cores.

    Raises UserError if Ray is not installed, or does not answer.
    """
    ray = _imported()
    before = {signum: signal.getsignal(signum) for signum in (signal.SIGINT, signal.SIGTERM)}
    folder = None
    try:
        if address == LOCAL or not _joined(ray, address):
            folder = tempfile.mkdtemp(prefix="ray-")
            _start(ray, folder, max(num_cores(), num_cpus))
        _restore(before)  # Ray's own ends the process where it stands
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


def _joined(ray: ModuleType, address: str | None) -> bool:
    """Whether there was a cluster to join."""
    try:
        _init(ray, address=address or "auto")
    except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        given = address or os.environ.get("RAY_ADDRESS")
        if given is None and isinstance(error, ConnectionError):
            return False
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"no Ray cluster at {given or 'this machine'}: {reason}") from error
    return True


def _start(ray: ModuleType, folder: str, num_cpus: float) -> None:
    try:
        _init(
            ray, address=LOCAL, num_cpus=int(num_cpus), include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES, _temp_dir=folder,
        )  # fmt: skip
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"Ray cannot be started on this machine: {reason}") from error


def _init(ray: ModuleType, **options: Any) -> None:
    ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)


def _restore(handlers: dict[int, Any]) -> None:
    if threading.current_thread() is threading.main_thread():
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
