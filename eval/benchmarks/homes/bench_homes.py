"""`rearrange bench homes`: N homes in one process, beside Gymnasium's vector environments.

    equal     HomeVectorEnv and SyncVectorEnv of single homes in lockstep: every array, bit for bit
    speed     control steps a second by threads, SyncVectorEnv, AsyncVectorEnv, taking turns
    shares    where a step's time goes, on one thread
    resets    the slowest steps of all beside the median, resets and drawn episodes included
    memory    what a further home takes

What else the machine does falls on all ways alike, so that their ratios can be compared. The bar of
resets is one of processor time, which it does not touch.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from rearrange.configs.benches import BenchHomesCfg
from rearrange.eval.benchmarks.criteria import report
from rearrange.eval.benchmarks.homes.bench_sim import Threshold
from rearrange.eval.missing_episodes import versions
from rearrange.system.machine import num_cores
from rearrange.system.outputs import prepare_output
from rearrange.tasks.registry import make_env
from rearrange.tasks.vector_env import HOMES_AHEAD, HomeVectorEnv

TURN = 20  # steps of one way before the next one's turn
WARM_UP = HOMES_AHEAD + TURN  # steps in which a new batch draws all of its next episodes, and more
STOPS = 0.015  # share of the random actions that call a stop
MODES = ("NextStep", "SameStep")
TWO_BATCHES = """
import sys
import numpy as np
from rearrange.tasks.vector_env import HomeVectorEnv
count, seed = (int(word) for word in sys.argv[1:])
batches, sizes = [], []
for _ in range(2):
    homes = HomeVectorEnv(count, threads=1)
    homes.reset(seed=seed)
    for _ in range(3):
        homes.step(np.zeros(homes.action_space.shape))
    batches.append(homes)
    with open("/proc/self/status") as file:
        status = dict(line.split(":", 1) for line in file)
    sizes.append(int(status["VmRSS"].split()[0]) * 1024 / 1e6)
print((sizes[1] - sizes[0]) / count)
"""


def run(cfg: BenchHomesCfg) -> int:
    """Measures, prints a table and returns 1 if a threshold is missed."""
    prepare_output(cfg.output)  # better said before the work
    results = measure_homes(cfg)
    criteria = criteria_of(results)
    return report(table(results, criteria), results, criteria, cfg.output)


def measure_homes(cfg: BenchHomesCfg) -> dict[str, Any]:
    """All results; times in seconds."""
    return {
        "equal": compare(cfg),
        "speed": _speed(cfg),
        "shares": _shares(cfg),
        "resets": _resets(cfg),
        "memory_mb": _memory_of_a_home(cfg),
        "num_envs": cfg.num_envs,
        "seed": cfg.seed,
        "cores": num_cores(),
        "versions": versions(),
    }


def compare(cfg: BenchHomesCfg) -> dict[str, int]:
    """Episodes that were compared, and steps whose answers were not the same in all bits."""
    tasks = cfg.tasks.split(",")
    found = {"episodes": 0, "steps": 0, "different": 0}
    for number, task in enumerate(tasks):
        mode = MODES[number % 2]
        homes = HomeVectorEnv(cfg.num_envs, task, threads=max(cfg.threads), autoreset_mode=mode)
        singles = SyncVectorEnv([_maker(task)] * cfg.num_envs, autoreset_mode=mode)
        seed = cfg.seed + number
        found["different"] += not equal(homes.reset(seed=seed), singles.reset(seed=seed))
        wanted = cfg.episodes * (number + 1) / len(tasks)
        rng = np.random.default_rng(seed)
        while found["episodes"] < wanted:
            actions = _actions(homes, rng)
            ours, theirs = homes.step(actions), singles.step(actions)
            found["different"] += not equal(ours, theirs)
            found["episodes"] += int((theirs[2] | theirs[3]).sum())
            found["steps"] += cfg.num_envs
        homes.close()
        singles.close()
    return found


def equal(ours: Any, theirs: Any) -> bool:
    """Whether two answers are the same: types, shapes and every bit, whatever they lie in."""
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(equal(ours[k], theirs[k]) for k in ours)
    if isinstance(ours, tuple) or (isinstance(ours, np.ndarray) and ours.dtype.hasobject):
        return len(ours) == len(theirs) and all(map(equal, ours, theirs))
    if isinstance(ours, np.ndarray):
        same_form = (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        return same_form and ours.tobytes() == theirs.tobytes()
    return bool(ours == theirs)


def _maker(task: str, **options: Any) -> Callable[[], gymnasium.Env]:
    return lambda: make_env(task, **options)


def _actions(envs: VectorEnv, rng: np.random.Generator) -> np.ndarray:
    """Random actions, [N, A]; a stop is called now and then."""
    actions = rng.uniform(-1.0, 1.0, envs.action_space.shape or ()).astype(np.float32)
    actions[:, -1] -= 1.0 - 2.0 * STOPS
    return actions


def _speed(cfg: BenchHomesCfg) -> dict[str, dict[str, float]]:
    """Of each way: control steps a second, and processor time of this process for one (s)."""
    makers = [_maker("pick")] * cfg.num_envs
    ways: dict[str, VectorEnv] = {
        f"homes, {count} thread{'s' * (count > 1)}": HomeVectorEnv(cfg.num_envs, threads=count)
        for count in cfg.threads
    }
    ways["SyncVectorEnv"] = SyncVectorEnv(makers)
    ways["AsyncVectorEnv"] = AsyncVectorEnv(makers, context="forkserver")
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    try:
        for envs in ways.values():
            envs.reset(seed=cfg.seed)
            rng = np.random.default_rng(cfg.seed)
            for _ in range(WARM_UP):
                envs.step(_actions(envs, rng))
        for turn in range(-(-cfg.num_steps // TURN)):
            for name, envs in ways.items():
                rng = np.random.default_rng([cfg.seed, turn])
                times[name] += [_timed(envs, _actions(envs, rng)) for _ in range(TURN)]
    finally:
        for envs in ways.values():
            envs.close()
    means = {name: np.mean(taken, axis=0) for name, taken in times.items()}
    speed = {name: cfg.num_envs / wall for name, (wall, _) in means.items()}
    return {
        name: {
            "steps_per_s": speed[name],
            "to_sync": speed[name] / speed["SyncVectorEnv"],
            "to_async": speed[name] / speed["AsyncVectorEnv"],
            "processor_s": cpu / cfg.num_envs,
        }
        for name, (_, cpu) in means.items()
    }


def _timed(envs: VectorEnv, actions: np.ndarray) -> tuple[float, float]:
    """A step's time by the clock, and the processor's (s)."""
    wall, cpu = time.perf_counter(), time.process_time()
    envs.step(actions)
    return time.perf_counter() - wall, time.process_time() - cpu


def _shares(cfg: BenchHomesCfg) -> dict[str, float]:
    """Parts of a step's time on one thread; what is left over is "rules, infos and the rest"."""
    homes, spent = HomeVectorEnv(cfg.num_envs, threads=1), {}
    homes.reset(seed=cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    for _ in range(WARM_UP):
        homes.step(_actions(homes, rng))

    def watch(thing: Any, method: str, name: str) -> None:
        call = getattr(thing, method)

        def timed(*arguments: Any) -> Any:
            begin = time.perf_counter()
            try:
                return call(*arguments)
            finally:
                spent[name] = spent.get(name, 0.0) + time.perf_counter() - begin

        setattr(thing, method, timed)

    for home in homes.homes:
        watch(home.sim, "step", "physics")
        watch(home._camera, "render", "picture")
        watch(home._sensors, "read", "sensors")
        watch(home, "prepare", "episodes drawn ahead")
    begin = time.perf_counter()
    for _ in range(cfg.num_steps):
        homes.step(_actions(homes, rng))
    total = time.perf_counter() - begin
    homes.close()
    shares = {name: value / total for name, value in spent.items()}
    return shares | {"rules, infos and the rest": 1.0 - sum(shares.values())}


def _resets(cfg: BenchHomesCfg) -> dict[str, float]:
    """Of Pick's steps, over the end of all first episodes: the 99% quantile beside the median."""
    homes = HomeVectorEnv(cfg.num_envs, threads=max(cfg.threads))
    homes.reset(seed=cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    times = np.array([_timed(homes, _actions(homes, rng)) for _ in range(cfg.reset_steps)])
    homes.close()
    middle, late = np.median(times, axis=0), np.quantile(times, 0.99, axis=0)
    ratios = dict(zip(("clock", "processor"), (late / middle).tolist(), strict=True))
    return ratios | {"median_s": float(middle[0])}


def _memory_of_a_home(cfg: BenchHomesCfg) -> float | None:
    """By how much a process grows for each home of a second batch, MB; None: not on Linux."""
    if sys.platform != "linux":
        return None
    command = [sys.executable, "-c", TWO_BATCHES, str(cfg.num_envs), str(cfg.seed)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"the measured process failed:\n{done.stderr}")
    return float(done.stdout)


def criteria_of(results: dict[str, Any]) -> list[Threshold]:
    """What has to hold of many homes in one process."""
    criteria = [
        Threshold("steps that differ from single homes", results["equal"]["different"], 0.0, ""),
        Threshold(
            "99% of steps / median", results["resets"]["processor"], 3.0, "of processor time"
        ),
    ]
    if results["memory_mb"] is not None:
        criteria.append(Threshold("memory of a further home", results["memory_mb"], 4.0, "MB"))
    return criteria


def table(results: dict[str, Any], criteria: list[Threshold]) -> str:
    """What the command prints."""
    known, same = results["num_envs"], results["equal"]
    lines = [
        f"{known} homes of Pick, {results['cores']} cores; "
        f"{same['episodes']} episodes, {same['steps']} steps compared with single homes",
        "",
        f"{'way':<24}{'steps / s':>12}{'/ Sync':>10}{'/ Async':>10}{'own CPU ms':>12}",
    ]
    for name, one in results["speed"].items():
        ratios = f"{one['to_sync']:>10.2f}{one['to_async']:>10.2f}"
        cpu = f"{1e3 * one['processor_s']:>12.3f}"
        lines.append(f"{name:<24}{one['steps_per_s']:>12.0f}{ratios}{cpu}")
    lines += ["", "of a step's time, one thread:"]
    lines += [f"  {name:<28}{100 * share:>6.1f}%" for name, share in results["shares"].items()]
    lines.append(f"99% of steps / median, by the clock: {results['resets']['clock']:.2f}")
    lines += ["", f"{'bar':<40}{'measured':>12}{'at most':>12}"]
    for criterion in criteria:
        verdict = "met" if criterion.is_met else "MISSED"
        numbers = f"{criterion.value:>12.3g}{criterion.limit:>12.3g} {criterion.unit}"
        lines.append(f"{criterion.name:<40}{numbers}   {verdict}")
    return "\n".join(lines)
