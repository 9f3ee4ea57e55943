"""A long training whose memory and open files are watched: a leak shows as a slope.

The slope is a least-squares line through the means of equal blocks of time after the warm-up; means
of blocks because neighbouring samples are alike. Its 95% interval comes from Student's t with
blocks - 2 degrees of freedom.
"""

from __future__ import annotations

import math
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rearrange.eval.benchmarks.chaos.run import END_LIMIT_S, Training, open_files, resident_mib

SAMPLE_EVERY_S = 2.0
WARM_UP = 0.25  # of the time
NUM_BLOCKS = 12
T_95 = 2.228  # of Student's t with NUM_BLOCKS - 2 = 10 degrees of freedom, two-sided
NOISE_MIB = 1.0  # growth over the measured time that would still pass for noise of the allocator
OVERRIDES = (
    "env=CartPole-v1",
    "num_envs=4",
    "num_steps=128",
    "device=cpu",
    "checkpoint_interval_s=30",
)


class Slope(NamedTuple):
    per_hour: float
    half_width: float  # of the 95% interval
    mean: float


def fit_slope(times_s: np.ndarray, values: np.ndarray) -> Slope:
    """Slope per hour of samples, with its interval."""
    blocks = np.array_split(np.arange(len(times_s)), NUM_BLOCKS)
    hours = np.array([times_s[block].mean() for block in blocks]) / 3600.0
    means = np.array([values[block].mean() for block in blocks])
    centred = hours - hours.mean()
    spread = float((centred**2).sum())
    slope = float((centred * means).sum()) / spread
    rest = means - means.mean() - slope * centred
    error = math.sqrt(float((rest**2).sum()) / (NUM_BLOCKS - 2) / spread)
    return Slope(slope, T_95 * error, float(means.mean()))


def soak(minutes: float, seed: int) -> dict[str, Any]:
    """Trains in CartPole for so long; a row as `chaos` prints them, with all the samples."""
    with (
        tempfile.TemporaryDirectory(prefix="rearrange-soak-") as folder,
        Training(
            Path(folder), ["train", *OVERRIDES, f"seed={seed}", "total_steps=10000000000"]
        ) as run,
    ):
        run.wait_for_step(1)
        samples = watch(run, 60.0 * minutes)
        run.send(signal.SIGINT)
        code = run.wait(END_LIMIT_S)
        steps = run.metrics()[-1]["step"]
    times = np.array(samples["time_s"])
    is_warm = times >= WARM_UP * times[-1]
    seen, is_flat = [f"{steps} steps, exit code {code}"], code == 130
    slopes = {}
    for name, values in samples.items():
        if name == "time_s":
            continue
        values = np.array(values)[is_warm]
        slope = fit_slope(times[is_warm], values)
        slopes[name] = slope._asdict()
        is_noise = slope.per_hour <= slope.half_width + 1e-6  # constant but for rounding
        if "mib" in name:
            is_noise |= slope.per_hour <= NOISE_MIB * 3600.0 / (times[-1] * (1.0 - WARM_UP))
        is_flat &= is_noise
        seen.append(
            f"{name} {slope.mean:.1f}, slope {slope.per_hour:+.2f} +- {slope.half_width:.2f} per h"
        )
    return {
        "fault": "time",
        "what was done": f"CartPole-v1 trained for {minutes:g} minutes, 4 workers",
        "expected": "memory and open files flat after the first quarter: slope within noise",
        "what happened": "; ".join(seen),
        "ok": bool(is_flat),
        "seconds": round(60.0 * minutes, 1),
        "slopes": slopes,
        "samples": samples,
    }


def watch(run: Training, seconds: float) -> dict[str, list[float]]:
    """Samples of memory (MiB) and open files of the main process and, summed, of the workers."""
    names = ("time_s", "main_mib", "workers_mib", "main_files", "workers_files")
    samples: dict[str, list[float]] = {name: [] for name in names}
    begin = time.monotonic()
    while (now := time.monotonic() - begin) < seconds:
        workers = run.workers()
        sample = (
            now,
            resident_mib(run.pid),
            sum(map(resident_mib, workers)),
            open_files(run.pid),
            sum(map(open_files, workers)),
        )
        for name, value in zip(names, sample, strict=True):
            samples[name].append(float(value))
        if len(samples["time_s"]) % 30 == 0:
            text = ", ".join(f"{n} {v:.1f}" for n, v in zip(names, sample, strict=True))
            print(text, file=sys.stderr, flush=True)
        time.sleep(SAMPLE_EVERY_S)
    return samples
