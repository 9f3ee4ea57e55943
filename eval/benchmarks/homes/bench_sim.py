"""`rearrange bench sim`: the cost of a step, an image, a reset and a worker, beside MuJoCo's own.

The yardstick is one 128 x 128 image by `mj_multiRay` of the same scene in the same run: a machine
that is slow or busy is slow for both, so the ratios can be compared between machines.
"""

import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from rearrange.configs.benches import BenchCfg
from rearrange.eval.benchmarks.criteria import report
from rearrange.eval.missing_episodes import versions
from rearrange.system.machine import num_cores
from rearrange.system.outputs import prepare_output

SIZE = 128  # pixels a side, as in the VER paper
MEMORY_STEPS = 500
WORKER = """
import json, sys
import numpy as np
from rearrange.tasks.registry import make_env
size, num_steps, seed = (int(word) for word in sys.argv[1:])
env = make_env(task="pick", split="train", seed=seed, camera_size=size, depth=True)
rng = np.random.default_rng(seed)
index = -1
is_over = True
for _ in range(num_steps):
    if is_over:
        index += 1
        env.reset(options={"index": index})
    action = rng.uniform(-1, 1, env.action_space.shape).astype(np.float32)
    _, _, terminated, truncated, _ = env.step(action)
    is_over = terminated or truncated
with open("/proc/self/status") as file:
    status = dict(line.split(":", 1) for line in file)
kib = {name: int(status[name].split()[0]) for name in ("VmRSS", "VmHWM")}
heavy = [n for n in ("torch", "matplotlib", "scipy", "hydra", "imageio") if n in sys.modules]
print(json.dumps({"rss_mb": kib["VmRSS"] * 1024 / 1e6, "peak_mb": kib["VmHWM"] * 1024 / 1e6,
                  "has_torch": "torch" in sys.modules, "heavy_modules": heavy}))
"""


@dataclass
class Threshold:
    """A figure that has to stay below a limit (design.md, section 9)."""

    name: str
    value: float
    limit: float
    unit: str

    @property
    def is_met(self) -> bool:
        return self.value <= self.limit


def _quieten_warp() -> None:
    """MuJoCo Warp's library greets with a page of text, unless told not to before it starts."""
    with suppress(ImportError):
        import warp

        warp.config.quiet = True


def run(cfg: BenchCfg) -> int:
    """Measures, prints a table and returns 1 if a threshold is missed."""
    prepare_output(cfg.output)  # better said before the work
    results = measure_sim(cfg)
    criteria = criteria_of(results)
    return report(table(results, criteria), results, criteria, cfg.output)


def measure_sim(cfg: BenchCfg) -> dict[str, Any]:
    """All results; times in seconds for one call."""
    _quieten_warp()
    from rearrange.eval.benchmarks.homes.bench_depth import bench_depth
    from rearrange.tasks.registry import make_env

    env = make_env(task="pick", split="train", seed=cfg.seed, camera_size=SIZE, depth=True)
    env.reset(options={"index": 0})
    sim = env.sim
    times: dict[str, float] = {}
    depth = bench_depth(sim.model, sim.data, SIZE, cfg.num_images)
    times |= {name: value for name, value in depth.items() if isinstance(value, float)}
    times |= _colours(env)
    times |= _physics(sim)
    steps, resets = _steps_and_resets(env, cfg)
    times["env.step of Pick, median"] = float(np.median(steps))
    times["env.step of Pick, mean"] = float(np.mean(steps))
    times["reset of a training episode, median"] = float(np.median(resets))
    times["reset of a training episode, 99%"] = float(np.quantile(resets, 0.99))
    env.close()
    yardstick = times["mj_multiRay"]
    return {
        "times_s": times,
        "ratios_to_mj_multiRay": {name: value / yardstick for name, value in times.items()},
        "num_geoms": int(sim.model.ngeom),
        "num_steps": cfg.num_steps,
        "num_resets": len(resets),
        "seed": cfg.seed,
        "worker": _worker(cfg.seed),
        "machine": {"processor": platform.processor() or platform.machine()}
        | {"cores": num_cores(), "system": platform.platform()},
        "versions": versions(),
    }


def _colours(home: Any) -> dict[str, float]:
    """What colours and ids cost of head and arm camera, in the world as it is now (s)."""
    from rearrange.tasks.cameras import ColourSensors, VisualsCache

    sim, cache, found = home.sim, VisualsCache(), {}

    def building() -> None:
        cache.start()
        cache.visuals(sim)

    for name, rgb, panoptic in (
        ("rgb=plain", "plain", False), ("rgb=true", True, False), ("panoptic=true", False, True),
    ):  # fmt: skip
        sensors = ColourSensors(sim.model, SIZE, rgb, panoptic, cache)
        read = partial(sensors.read, sim)
        found[f"{name}: a picture, of two at a time"] = _median(read, 10, warm_up=2) / 2
    found["rgb=true: a reset takes longer by"] = _median(building, 5, warm_up=1)
    return found


def _physics(sim: Any) -> dict[str, float]:
    """One control step of a robot at rest in a furnished home with resting clutter (s)."""
    import mujoco

    from rearrange.sim.model import SUBSTEPS

    model = sim.model
    data = mujoco.MjData(model)
    mujoco.mj_copyData(data, model, sim.data)
    still = np.zeros(7)

    def ours() -> None:
        sim.step(still, None, (0.0, 0.0))

    def mj_step() -> None:
        mujoco.mj_step(model, data, SUBSTEPS)

    times = {
        "control step, ours": _median(ours, 300),
        "control step, mj_step alone": _median(mj_step, 300),
    }
    flags = model.opt.enableflags
    model.opt.enableflags = flags & ~int(mujoco.mjtEnableBit.mjENBL_SLEEP)
    times["control step, mj_step without sleep"] = _median(mj_step, 100)
    model.opt.enableflags = flags
    for name, threads in (("1 thread", 1), (f"{num_cores()} threads", num_cores())):
        value = _batch_step(sim, threads, SUBSTEPS)
        if value is not None:
            times[f"control step, mujoco.batch, {name}"] = value
    return times


def _batch_step(sim: Any, num_threads: int, substeps: int, num_worlds: int = 16) -> float | None:
    """A control step of one of many worlds in MuJoCo's own batch; None if it has none (s)."""
    try:
        from mujoco.batch import Batch  # pyrefly: ignore[missing-import]: its stubs lack it
    except ImportError:
        return None
    batch = Batch(sim.model, num_worlds, num_threads, persistent=True)  # sleep asks for it
    batch.bind("qpos")[:] = sim.data.qpos
    batch.bind("ctrl")[:] = sim.data.ctrl
    return _median(lambda: batch.step(nstep=substeps), 40, warm_up=20) / num_worlds


def _steps_and_resets(env: Any, cfg: BenchCfg) -> tuple[list[float], list[float]]:
    """Times of env.step under random actions with all sensors, and of the resets between (s)."""
    rng = np.random.default_rng(cfg.seed)
    steps: list[float] = []
    resets: list[float] = []

    def reset(index: int) -> None:
        env.reset(options={"index": index})

    while len(steps) < cfg.num_steps:
        _timed(resets, reset, len(resets))
        is_over = False
        while not is_over and len(steps) < cfg.num_steps:
            action = rng.uniform(-1.0, 1.0, env.action_space.shape).astype(np.float32)
            _, _, terminated, truncated, _ = _timed(steps, env.step, action)
            is_over = terminated or truncated
    while len(resets) < cfg.num_resets:
        _timed(resets, reset, len(resets))
    return steps, resets


def _timed(times: list[float], call: Callable[..., Any], *arguments: Any) -> Any:
    start = time.perf_counter()
    result = call(*arguments)
    times.append(time.perf_counter() - start)
    return result


def _median(call: Callable[[], Any], repeats: int, warm_up: int = 10) -> float:
    times: list[float] = []
    for _ in range(warm_up):
        call()
    for _ in range(repeats):
        _timed(times, call)
    return float(np.median(times))


def _worker(seed: int) -> dict[str, Any]:
    """Memory of a process that runs one Pick environment with all sensors, and what it imported."""
    command = [sys.executable, "-c", WORKER, str(SIZE), str(MEMORY_STEPS), str(seed)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"the measured worker failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def criteria_of(results: dict[str, Any]) -> list[Threshold]:
    """The criteria of design.md, section 9, that concern the simulator."""
    ratios, worker = results["ratios_to_mj_multiRay"], results["worker"]
    reset_ms = 1e3 * results["times_s"]["reset of a training episode, median"]
    return [
        Threshold("depth image / mj_multiRay", ratios["depth"], 1 / 12, ""),
        Threshold("env.step of Pick / mj_multiRay", ratios["env.step of Pick, mean"], 1 / 6, ""),
        Threshold("reset of a training episode", reset_ms, 20.0, "ms"),
        Threshold("memory of a worker", worker["rss_mb"], 250.0, "MB"),
        Threshold("torch in a worker", float(worker["has_torch"]), 0.0, ""),
    ]


def table(results: dict[str, Any], criteria: list[Threshold]) -> str:
    """What the command prints."""
    lines = [f"{'one call of':<48}{'ms':>10}{'/ mj_multiRay':>16}"]
    for name, value in results["times_s"].items():
        ratio = results["ratios_to_mj_multiRay"][name]
        lines.append(f"{name:<48}{1e3 * value:>10.3f}{ratio:>16.4f}")
    lines += ["", f"{'bar':<36}{'measured':>12}{'at most':>12}"]
    for criterion in criteria:
        verdict = "met" if criterion.is_met else "MISSED"
        measured, limit = (
            f"{x:.4g} {criterion.unit}".strip() for x in (criterion.value, criterion.limit)
        )
        lines.append(f"{criterion.name:<36}{measured:>12}{limit:>12}   {verdict}")
    worker = results["worker"]
    lines.append(
        f"\nworker: {worker['rss_mb']:.0f} MB resident, {worker['peak_mb']:.0f} MB at most"
    )
    return "\n".join(lines)
