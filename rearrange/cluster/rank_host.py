"""RankHost: a Ray actor that runs one rank's process on a machine of the cluster.

    RankGroup -- Ray's calls --> RankHost -- starts --> `python -m rearrange VERB ...`

The process is what torchrun would start: it reads its rank from the same variables, receives
signals in its main thread, and knows nothing of Ray. It ends with its host, which ends with its
machine.
"""

from __future__ import annotations

import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import rearrange
from rearrange.system.processes import end_with_parent
from rearrange.system.stop_signals import EXIT_CODES

PACKAGE_ROOT = Path(rearrange.__file__).parents[1]


@dataclass(frozen=True)
class Spot:
    """The machine of a host."""

    node: str
    address: str
    port: int
    """A free port there."""
    gpus: tuple[str, ...]
    """Ids of the GPUs that Ray assigned."""


@dataclass
class Report:
    """What a rank did since it was last asked."""

    code: int | None
    """Its exit code; None while it runs."""
    out: str
    err: str


def variables_of(spots: list[Spot]) -> list[dict[str, str]]:
    """torchrun's environment variables for each rank, given the machines of the ranks' hosts.

    The ranks of a machine see all their GPUs, in the order of their local ranks, as NCCL prefers.
    """
    ranks_on: dict[str, list[int]] = defaultdict(list)
    for rank, spot in enumerate(spots):
        ranks_on[spot.node].append(rank)
    found: list[dict[str, str]] = []
    for rank, spot in enumerate(spots):
        here = ranks_on[spot.node]
        variables = {
            "RANK": rank, "WORLD_SIZE": len(spots),
            "LOCAL_RANK": here.index(rank), "LOCAL_WORLD_SIZE": len(here),
            "MASTER_ADDR": spots[0].address, "MASTER_PORT": spots[0].port,
        }  # fmt: skip
        gpus = [gpu for other in here for gpu in spots[other].gpus]
        if gpus:
            variables["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        found.append({name: str(value) for name, value in variables.items()})
    return found


class RankHost:
    def find_spot(self) -> Spot:
        import ray.util

        context = ray.get_runtime_context()
        gpus = context.get_accelerator_ids().get("GPU", [])
        address = ray.util.get_node_ip_address()
        with socket.socket() as free:
            free.bind(("", 0))
            port = free.getsockname()[1]
        return Spot(context.get_node_id(), address, port, tuple(map(str, gpus)))

    def start(self, arguments: list[str], variables: dict[str, str], folder: str) -> None:
        """Starts the process.

        Args:
            arguments: what follows `rearrange`.
            variables: to add to its environment.
            folder: its working directory, that of the original command.

        Raises OSError if this machine has no such folder.
        """
        paths = [str(PACKAGE_ROOT), os.environ.get("PYTHONPATH")]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))} | variables
        options = ["-P"] if sys.flags.safe_path else []
        self._out = tempfile.TemporaryFile()  # noqa: SIM115  as long as the host lives
        self._err = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, *options, "-m", __name__, str(os.getpid()), *arguments],
            cwd=folder, env=environment, stdin=subprocess.DEVNULL,
            stdout=self._out, stderr=self._err,
        )  # fmt: skip
        self._num_read = {self._out: 0, self._err: 0}

    def look(self) -> Report:
        code = self._process.poll()  # first: so that all it wrote before it ended is there
        return Report(code, self._read(self._out), self._read(self._err))

    def send(self, signum: int) -> None:
        """Sends the process a signal, if it still runs."""
        self._process.send_signal(signum)

    def _read(self, file: Any) -> str:
        content = os.pread(file.fileno(), 2**20, self._num_read[file])
        self._num_read[file] += len(content)
        return content.decode(errors="replace")


def start_here(arguments: Sequence[str], stream: BinaryIO) -> subprocess.Popen[bytes]:
    """Starts `rearrange` with these arguments, shielded from Ctrl-C; it ends with this process."""
    options = ["-P"] if sys.flags.safe_path else []
    return subprocess.Popen(
        [sys.executable, *options, "-m", __name__, str(os.getpid()), *arguments],
        stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
    )  # fmt: skip


def main() -> int:
    """The rank's process: HOST'S-PROCESS-ID VERB ..."""
    os.setsid()  # Ctrl-C reaches it only through its host
    # Ray's processes ignore Ctrl-C, and their children inherit that.
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    for signum in EXIT_CODES:
        signal.signal(signum, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not end_with_parent(int(sys.argv[1])):
        return 1  # its host has just gone
    sys.argv[:2] = ["rearrange"]
    runpy.run_module("rearrange", run_name="__main__")  # which exits
    return 0


if __name__ == "__main__":
    sys.exit(main())
