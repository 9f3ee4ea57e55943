"""Ranks on this machine, with torch's elastic agent, as `torchrun --standalone` does.

    this process: the agent --> rank 0, rank 1, ...: `python -m rearrange VERB ...`, as given

If a rank dies, the others are stopped; all are started again and continue by `resume=auto`.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import uuid

from rearrange.cluster.scheme import SchemeCfg
from rearrange.system.machine import single_threaded
from rearrange.system.stop_signals import EXIT_CODES

SHUTDOWN_S = 90  # an update may run for 15 s after a signal, then the checkpoint is written

log = logging.getLogger(__name__)


def run_local_ranks(arguments: list[str], scheme: SchemeCfg) -> int:
    """Runs `rearrange` with these arguments as each rank; returns their common exit code."""
    # imported here: they take a while
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    options = ["-P"] if sys.flags.safe_path else []
    try:
        # one thread, as with torchrun; a rank that learns from images uses more by itself
        with single_threaded(), tempfile.TemporaryDirectory() as folder:
            config = LaunchConfig(
                min_nodes=1, max_nodes=1, nproc_per_node=scheme.world_size,
                run_id=uuid.uuid4().hex, rdzv_backend="c10d", rdzv_endpoint="localhost:0",
                max_restarts=scheme.max_restarts, shutdown_timeout=SHUTDOWN_S,
                signals_to_handle="SIGTERM,SIGINT,SIGUSR1,SIGHUP,SIGQUIT",
                logs_specs=DefaultLogsSpecs(log_dir=folder),
            )  # fmt: skip
            elastic_launch(config, sys.executable)(*options, "-m", "rearrange", *arguments)
    except SignalException as stop:  # the ranks got the signal, too, and have saved
        return EXIT_CODES.get(stop.sigval, 128 + stop.sigval)
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        if failure.exitcode in (2, *EXIT_CODES.values()):  # the rank has printed why
            return failure.exitcode
        log.error("rank %d ended with exit code %d", rank, failure.exitcode)
        return 1
    return 0
