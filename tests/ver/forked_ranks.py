"""Ranks as forks of the test's process: they need not import torch again."""

import functools
import json
import os
import sys
import time
import traceback
from contextlib import suppress
from datetime import timedelta
from multiprocessing import forkserver, process

import torch
from torch import distributed as dist

from rearrange.ver.ranks.distributed import RankInfo, Ranks

TIMEOUT_S = 60.0


@functools.cache
def import_what_is_slow():
    """Here and not in each fork: what torch imports only when it is needed."""
    from torch.utils.tensorboard import SummaryWriter  # noqa: F401

    weight = torch.zeros(1, requires_grad=True)
    weight.sum().backward()
    torch.optim.Adam([weight], fused=True).step()


def on_ranks(work, folder, world_size=2, killed=()):
    """What `work(ranks)` gives in each of them, by way of JSON; None of those that are killed."""
    import_what_is_slow()
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{time.monotonic_ns()}"
    pids = []
    for rank in range(world_size):
        pid = os.fork()
        if pid == 0:
            os._exit(_live(work, folder, name, rank, world_size))
        pids.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert codes == [-9 if rank in killed else 0 for rank in range(world_size)]
    files = [folder / f"{name}-{rank}.json" for rank in range(world_size)]
    return [json.loads(file.read_text()) if file.exists() else None for file in files]


def _live(work, folder, name, rank, world_size):
    try:
        torch.set_num_threads(1)
        # An earlier test's server for new processes is no child of this one.
        server = forkserver._forkserver
        server._forkserver_pid = server._forkserver_address = server._forkserver_alive_fd = None
        # Nor is its folder this one's: a server takes its folder along when it ends.
        process.current_process()._config["tempdir"] = None
        timeout = timedelta(seconds=TIMEOUT_S)
        store = dist.FileStore(str(folder / f"{name}-store"), world_size)
        dist.init_process_group(
            "gloo", store=dist.PrefixStore("group", store), rank=rank, world_size=world_size,
            timeout=timeout,
        )  # fmt: skip
        value = work(Ranks(RankInfo(rank, world_size, rank, world_size), store, TIMEOUT_S))
        (folder / f"{name}-{rank}.json").write_text(json.dumps(value))
        with suppress(RuntimeError):  # if another one was killed
            dist.barrier()  # the store's file goes with whoever leaves last
        return 0
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
