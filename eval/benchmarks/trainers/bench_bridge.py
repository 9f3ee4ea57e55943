"""`rearrange bench bridge`: the cost of a step in another Python, and what killed workers leave.

CartPole-v1 is stepped in turn by this process, by a worker of this Python and by one of the other,
one step each: what else the machine does falls on all three alike. That is done twice: on the
machine as it is, and beside a loop of the lowest priority on each processor. Then one worker of
the other Python is killed again and again.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeVar

import numpy as np

from rearrange.configs.benches import BenchBridgeCfg
from rearrange.system.machine import machine, num_cores, versions
from rearrange.system.outputs import atomic_write_json, prepare_output
from rearrange.tasks.gym_factory import make_gym
from rearrange.ver.bridge.external_python import ExternalEnvs, describe, find_python
from rearrange.ver.workers.environment_worker import MakeEnv, WorkerCfg
from rearrange.ver.workers.first_step import try_environment
from rearrange.ver.workers.pool import PoolCfg, SerialPool, WorkerPool
from rearrange.ver.workers.shared_memory import SlotLayout

ENV = "CartPole-v1"
MOST_OVERHEAD_US = 60.0  # a step there beside one in this process; bar of the project
_LOOP = """
import os, sys
os.nice(19)
while os.getppid() == int(sys.argv[1]):
    for _ in range(100_000):
        pass
"""
_WORKER_CFG = WorkerCfg(seed=0, info_keys=(), start_mode="off", start_horizon=1)
_START_S = 120.0
Pool = TypeVar("Pool", SerialPool, WorkerPool)


def run(cfg: BenchBridgeCfg) -> int:
    """Prints the figures; 1 if the threshold is missed or something is left behind."""
    output = prepare_output(cfg.output)
    python = find_python(cfg.python or sys.executable, "python")
    found = describe(python, _START_S)
    print(f"{python}: {', '.join(f'{name} {version}' for name, version in found.items())}")
    envs, timings = ExternalEnvs(python, ENV, {}), dict[str, dict[str, Any]]()
    timings["the machine as it is"] = _timing(step_times(envs, cfg.num_steps))
    with loops_on_processors():
        timings["beside a loop on each processor"] = _timing(step_times(envs, cfg.num_steps))
    for how, timing in timings.items():
        print(f"{how}:")
        for name, (low, middle, high) in timing["step_us"].items():
            print(f"  {name:<24}{middle:8.1f} us a step (middle half {low:.1f} to {high:.1f})")
        more, beside = timing["overhead_us"], timing["beside_forked_us"]
        print(f"  a step there costs {more:.1f} us more than here, {beside:.1f} more than forked")
    overhead = timings["the machine as it is"]["overhead_us"]
    killing = kill_workers(envs, cfg.num_kills)
    print(
        f"{cfg.num_kills} kills: {killing['seconds']:.2f} s until the next one steps; left: "
        f"{killing['processes']} processes, {killing['files']} files, {killing['memory']} memory"
    )
    left = killing["processes"] + killing["files"] + killing["memory"]
    if output is not None:
        results = {
            "machine": machine(),
            "versions": versions(),
            "other_python": found,
            "timings": timings,
            "overhead_us": overhead,
            "kills": cfg.num_kills,
            "killing": killing,
        }
        atomic_write_json(output, results)
    return int(overhead > MOST_OVERHEAD_US or left > 0)


def _timing(times: dict[str, np.ndarray]) -> dict[str, Any]:
    """Quartiles by who steps, and medians of the differences, us."""
    here, forked, other = times.values()
    return {
        "step_us": {
            name: [float(value) * 1e6 for value in np.percentile(steps, (25, 50, 75))]
            for name, steps in times.items()
        },
        "overhead_us": float(np.median(other - here)) * 1e6,
        "beside_forked_us": float(np.median(other - forked)) * 1e6,
    }


@contextmanager
def loops_on_processors() -> Iterator[None]:
    """Others want every processor, as the workers of a training with many do."""
    words = [sys.executable, "-c", _LOOP, str(os.getpid())]
    with ExitStack() as stack:
        for _ in range(num_cores()):
            process = stack.enter_context(subprocess.Popen(words))
            stack.callback(process.kill)
        yield


def step_times(envs: ExternalEnvs, num_steps: int) -> dict[str, np.ndarray]:
    """Seconds of each step, from its action to its answer, by who takes it."""
    here = partial(make_gym, env_id=ENV)
    pools = {
        "this process": _started(SerialPool(*_arguments(here))),
        "worker of this Python": _workers(here),
        "worker of the other": _workers(envs),
    }
    times = {name: np.zeros(num_steps) for name in pools}
    gc.disable()
    try:
        for number in range(num_steps):
            for name, pool in pools.items():
                pool.slots.action[:] = number % 2
                begin = time.perf_counter()
                pool.send([0])
                while not pool.receive(1.0):
                    pass
                times[name][number] = time.perf_counter() - begin
    finally:
        gc.enable()
        for pool in pools.values():
            pool.close()
    return times


def kill_workers(envs: ExternalEnvs, num_kills: int) -> dict[str, float]:
    """Kills a worker so often, each time once its successor has taken a step.

    Returns the median of the seconds that took, and how many processes and open files are left
    when the pool is closed, and whether its memory is.
    """
    before = _open_files()
    pool = _workers(envs, max_restarts=num_kills)
    memory = {link for link in _open_files() if "memfd:" in link}
    pids, seconds = list(pool.pids), np.zeros(num_kills)
    logging.disable(logging.WARNING)  # each one is told
    for number in range(num_kills):
        begin = time.perf_counter()
        os.kill(pool.pids[0], signal.SIGKILL)
        while not pool.take_faults():
            pool.receive(1.0)
        while not pool.receive(1.0):
            pass
        pool.send([0])
        while not pool.receive(1.0):
            pass
        seconds[number] = time.perf_counter() - begin
        pids += pool.pids
    logging.disable(logging.NOTSET)
    pool.close()
    del pool
    gc.collect()
    left = _open_files()
    return {
        "seconds": float(np.median(seconds)),
        "processes": sum(_is_group(pid) for pid in pids),
        "files": len(left) - len(before),
        "memory": len(memory & set(left)),
    }


def _workers(make_env: MakeEnv, **settings) -> WorkerPool:
    cfg = PoolCfg(**settings).sized(1, num_cores())
    return _started(WorkerPool(*_arguments(make_env), cfg))


def _arguments(make_env: MakeEnv) -> tuple[MakeEnv, SlotLayout, WorkerCfg, np.ndarray, bool]:
    layout = SlotLayout(1, *try_environment(make_env, 0), 0)
    return make_env, layout, _WORKER_CFG, np.zeros(1, np.int64), False


def _started(pool: Pool) -> Pool:
    pool.start()
    while not pool.receive(1.0):
        pass
    return pool


def _open_files() -> list[str]:
    paths = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return sorted(os.readlink(path) for path in paths if os.path.lexists(path))


def _is_group(pid: int) -> bool:
    """Whether a process is left of those that a worker led."""
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True
