"""How fast homes in one process are, by threads and number, and what their steps consist of.

measure_speed   beside Gymnasium's vector environments, taking turns
measure_sizes   other numbers of homes
measure_costs   parts of a step --speed_of--> what more threads would do, with a core each
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from rearrange.configs.benches import BenchHomesCfg
from rearrange.tasks.registry import make_env
from rearrange.tasks.vector import job_board
from rearrange.tasks.vector.home_vector_env import HOMES_AHEAD, HomeVectorEnv
from rearrange.tasks.vector.job_board import do_job, take_job

TURN = 20  # steps of one way before the next one's turn
WARM_UP = HOMES_AHEAD + TURN  # steps in which a new batch draws all of its next episodes, and more
STOPS = 0.015  # share of the random actions that call a stop
PHYSICS, PICTURE = "physics", "picture"
PARTS = (PHYSICS, PICTURE, "sensors", "episodes drawn ahead")


def maker(task: str, **options: Any) -> Callable[[], gymnasium.Env]:
    return lambda: make_env(task, **options)


def random_actions(envs: VectorEnv, rng: np.random.Generator) -> np.ndarray:
    """Random actions, [N, A]; a stop is called now and then."""
    actions = rng.uniform(-1.0, 1.0, envs.action_space.shape or ()).astype(np.float32)
    actions[:, -1] -= 1.0 - 2.0 * STOPS
    return actions


def measure_speed(cfg: BenchHomesCfg) -> dict[str, dict[str, float | None]]:
    """Of each way: control steps a second, and processor time of this process for one (s).

    Ways take turns, and a ratio is the median of those of the turns: what another program, or
    another tenant of the machine, does for a while falls on all ways of a turn.
    """
    makers = [maker("pick")] * cfg.num_envs
    ways: dict[str, VectorEnv] = {
        way_of(count): HomeVectorEnv(cfg.num_envs, threads=count) for count in cfg.threads
    }
    ways["SyncVectorEnv"] = SyncVectorEnv(makers)
    ways["AsyncVectorEnv"] = AsyncVectorEnv(makers, context="forkserver")
    times = _in_turns(ways, cfg)  # [turns, 2] of each
    wall, alone = {name: taken[:, 0] for name, taken in times.items()}, way_of(1)
    return {
        name: {
            "steps_per_s": cfg.num_envs / float(np.median(wall[name])),
            "to_one_thread": float(np.median(wall[alone] / wall[name])) if alone in wall else None,
            "to_sync": float(np.median(wall["SyncVectorEnv"] / wall[name])),
            "to_async": float(np.median(wall["AsyncVectorEnv"] / wall[name])),
            "processor_s": float(np.median(times[name][:, 1])) / cfg.num_envs,
        }
        for name in ways
    }


def way_of(threads: int) -> str:
    return f"homes, {threads} thread{'s' * (threads > 1)}"


def _in_turns(ways: dict[str, VectorEnv], cfg: BenchHomesCfg) -> dict[str, np.ndarray]:
    """Mean time of a step by the clock, and the processor's (s), [turns, 2] of each way; closes
    them."""
    times: dict[str, list[np.ndarray]] = {name: [] for name in ways}
    try:
        for envs in ways.values():
            envs.reset(seed=cfg.seed)
            rng = np.random.default_rng(cfg.seed)
            for _ in range(WARM_UP):
                envs.step(random_actions(envs, rng))
        for turn in range(-(-cfg.num_steps // TURN)):
            for name, envs in ways.items():
                rng = np.random.default_rng([cfg.seed, turn])
                taken = [timed_step(envs, random_actions(envs, rng)) for _ in range(TURN)]
                times[name].append(np.mean(taken, axis=0))
    finally:
        for envs in ways.values():
            with suppress(ConnectionError):  # Ctrl-C may have ended its processes first
                envs.close()
    return {name: np.array(taken) for name, taken in times.items()}


def measure_sizes(cfg: BenchHomesCfg) -> dict[str, dict[str, float]]:
    """Control steps a second of other numbers of homes, by threads: {"8": {"1": ..., "2": ...}}."""
    found = {}
    for size in cfg.sizes:
        ways: dict[str, VectorEnv] = {
            str(count): HomeVectorEnv(size, threads=count) for count in cfg.threads
        }
        times = _in_turns(ways, cfg)
        found[str(size)] = {
            count: size / float(np.median(taken[:, 0])) for count, taken in times.items()
        }
    return found


def timed_step(envs: VectorEnv, actions: np.ndarray) -> tuple[float, float]:
    """A step's time by the clock, and the processor's (s)."""
    wall, cpu = time.perf_counter(), time.process_time()
    envs.step(actions)
    return time.perf_counter() - wall, time.process_time() - cpu


def measure_costs(cfg: BenchHomesCfg) -> dict[str, float]:
    """Seconds that parts of a home's step take on one thread; what is left over is "rules, infos
    and the rest"."""
    homes = HomeVectorEnv(cfg.num_envs, threads=1)
    spent: dict[str, float] = dict.fromkeys(PARTS, 0.0)
    homes.reset(seed=cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    for _ in range(WARM_UP):
        homes.step(random_actions(homes, rng))

    def timed(call: Any, name: str) -> Any:
        def method(*arguments: Any) -> Any:
            begin = time.perf_counter()
            try:
                return call(*arguments)
            finally:
                spent[name] += time.perf_counter() - begin

        return method

    do = {PHYSICS: timed(do_job, PHYSICS), PICTURE: timed(do_job, PICTURE)}

    def finish_jobs(rows: np.ndarray, shared: np.ndarray, first: int, end: int) -> bool:
        while not rows[first:end, job_board.IS_DONE].all():
            number = take_job(shared)
            do[PHYSICS if rows[number, job_board.WORLD] else PICTURE](rows, number)
        return True  # nobody closes these homes meanwhile

    for home in homes.homes:
        home._sensors.read = timed(home._sensors.read, "sensors")
        home.prepare = timed(home.prepare, "episodes drawn ahead")
    own: Any = vars(job_board)
    before = own["finish_jobs"]
    try:
        own["finish_jobs"] = finish_jobs
        begin = time.perf_counter()
        for _ in range(cfg.num_steps):
            homes.step(random_actions(homes, rng))
        total = time.perf_counter() - begin
    finally:
        own["finish_jobs"] = before
        homes.close()
    costs = {name: value / cfg.num_steps / cfg.num_envs for name, value in spent.items()}
    whole = total / cfg.num_steps / cfg.num_envs
    return costs | {"rules, infos and the rest": whole - sum(costs.values())}


def speed_of(costs: dict[str, float], threads: int) -> float:
    """Control steps a second that a model expects of so many threads, each with a core of its own.

    One thread does all of Python, and with the others physics and pictures: all have work until the
    step is over, or Python is all there is to wait for.
    """
    alone = costs[PHYSICS] + costs[PICTURE]
    locked = sum(costs.values()) - alone
    return 1.0 / max(locked, (locked + alone) / threads)
