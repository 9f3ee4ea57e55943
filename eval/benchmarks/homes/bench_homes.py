"""`rearrange bench homes`: N homes in one process, beside Gymnasium's vector environments.

    equal     HomeVectorEnv and SyncVectorEnv of single homes in lockstep: every array, bit for bit
    speed     control steps a second by threads, SyncVectorEnv, AsyncVectorEnv, taking turns
    sizes     the same of other numbers of homes
    costs     where a step's time goes, on one thread, and what that means for more cores than here
    resets    the slowest steps of all beside the median, resets and drawn episodes included
    memory    what a further home takes

What else the machine does falls on all ways alike, so that their ratios can be compared. The bar of
resets is one of processor time, which it does not touch.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
from gymnasium.vector import SyncVectorEnv

from rearrange.configs.benches import BenchHomesCfg
from rearrange.eval.benchmarks.criteria import names_of, report
from rearrange.eval.benchmarks.homes.bench_sim import Threshold
from rearrange.eval.benchmarks.homes.home_speed import (
    maker,
    measure_costs,
    measure_sizes,
    measure_speed,
    random_actions,
    speed_of,
    timed_step,
    way_of,
)
from rearrange.eval.missing_episodes import versions
from rearrange.system.machine import num_cores
from rearrange.system.outputs import prepare_output
from rearrange.tasks.rules.definition import TASKS
from rearrange.tasks.vector.home_vector_env import HomeVectorEnv

MODES = ("NextStep", "SameStep")
EXTRAPOLATED = (4, 16, 64)  # threads
TWO_BATCHES = """
import sys
import numpy as np
from rearrange.tasks.vector.home_vector_env import HomeVectorEnv
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
    names_of("tasks", cfg.tasks, tuple(TASKS))
    results = measure_homes(cfg)
    criteria = criteria_of(results)
    return report(table(results, criteria), results, criteria, cfg.output)


def measure_homes(cfg: BenchHomesCfg) -> dict[str, Any]:
    """All results; times in seconds."""
    costs = measure_costs(cfg)
    return {
        "equal": compare(cfg),
        "speed": measure_speed(cfg),
        "sizes": measure_sizes(cfg),
        "costs_s": costs,
        "model": {str(count): speed_of(costs, count) for count in (*cfg.threads, *EXTRAPOLATED)},
        "resets": _resets(cfg),
        "memory_mb": _memory_of_a_home(cfg),
        "num_envs": cfg.num_envs,
        "seed": cfg.seed,
        "cores": num_cores(),
        "versions": versions(),
    }


def compare(cfg: BenchHomesCfg) -> dict[str, int]:
    """Episodes that were compared, and steps whose answers were not the same in all bits."""
    tasks = names_of("tasks", cfg.tasks, tuple(TASKS))
    found = {"episodes": 0, "steps": 0, "different": 0}
    for number, task in enumerate(tasks):
        mode = MODES[number % 2]
        homes = HomeVectorEnv(cfg.num_envs, task, threads=max(cfg.threads), autoreset_mode=mode)
        singles = SyncVectorEnv([maker(task)] * cfg.num_envs, autoreset_mode=mode)
        seed = cfg.seed + number
        found["different"] += not equal(homes.reset(seed=seed), singles.reset(seed=seed))
        wanted = cfg.episodes * (number + 1) / len(tasks)
        rng = np.random.default_rng(seed)
        while found["episodes"] < wanted:
            actions = random_actions(homes, rng)
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


def _resets(cfg: BenchHomesCfg) -> dict[str, float]:
    """Of Pick's steps, over the end of all first episodes: the 99% quantile beside the median."""
    homes = HomeVectorEnv(cfg.num_envs, threads=max(cfg.threads))
    homes.reset(seed=cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    times = np.array(
        [timed_step(homes, random_actions(homes, rng)) for _ in range(cfg.reset_steps)]
    )
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
    """What has to hold of many homes in one process; of speed, with two cores or more."""
    criteria = [
        Threshold("steps that differ from single homes", results["equal"]["different"], 0.0, ""),
        Threshold(
            "99% of steps / median", results["resets"]["processor"], 3.0, "of processor time"
        ),
    ]
    if results["memory_mb"] is not None:
        criteria.append(Threshold("memory of a further home", results["memory_mb"], 4.0, "MB"))
    two = results["speed"].get(way_of(2))
    if two is not None and results["cores"] >= 2:
        for than, ratio, least in (
            ("one thread's", "to_one_thread", 1.9),
            ("AsyncVectorEnv's", "to_async", 1.5),
            ("SyncVectorEnv's", "to_sync", 2.0),
        ):
            name = f"time of 2 threads / {than}"
            if two[ratio] is not None:
                criteria.append(Threshold(name, 1.0 / two[ratio], 1.0 / least, f"(1 / {least:g})"))
    return criteria


def table(results: dict[str, Any], criteria: list[Threshold]) -> str:
    """What the command prints."""
    known, same = results["num_envs"], results["equal"]
    lines = [
        f"{known} homes of Pick, {results['cores']} cores; "
        f"{same['episodes']} episodes, {same['steps']} steps compared with single homes",
        "",
        f"{'way':<24}{'steps / s':>11}{'/ 1 thread':>12}{'/ Sync':>8}{'/ Async':>9}"
        f"{'own CPU ms':>12}",
    ]
    for name, one in results["speed"].items():
        to_one = one["to_one_thread"]
        ratios = f"{'':>12}" if to_one is None else f"{to_one:>12.2f}"
        ratios += f"{one['to_sync']:>8.2f}{one['to_async']:>9.2f}"
        cpu = f"{1e3 * one['processor_s']:>12.3f}"
        lines.append(f"{name:<24}{one['steps_per_s']:>11.0f}{ratios}{cpu}")
    for size, speeds in results["sizes"].items():
        shown = ", ".join(f"{speed:.0f} with {count}" for count, speed in speeds.items())
        lines.append(f"{size} homes: steps / s by threads: {shown}")
    costs = results["costs_s"]
    lines += ["", "of a home's step, one thread:"]
    lines += [
        f"  {name:<28}{1e6 * cost:>6.0f} us{100 * cost / sum(costs.values()):>7.1f}%"
        for name, cost in costs.items()
    ]
    lines.append("expected by these costs, steps / s:")
    for count, speed in results["model"].items():
        how = ", extrapolated: a core each" if int(count) in EXTRAPOLATED else ""
        lines.append(f"  {count + ' threads' + how:<42}{speed:>8.0f}")
    lines.append(f"99% of steps / median, by the clock: {results['resets']['clock']:.2f}")
    lines += ["", f"{'bar':<40}{'measured':>12}{'at most':>12}"]
    for criterion in criteria:
        verdict = "met" if criterion.is_met else "MISSED"
        numbers = f"{criterion.value:>12.3g}{criterion.limit:>12.3g} {criterion.unit}"
        lines.append(f"{criterion.name:<40}{numbers}   {verdict}")
    return "\n".join(lines)
