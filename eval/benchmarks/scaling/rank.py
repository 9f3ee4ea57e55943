"""One rank of `rearrange bench scaling`: trains each variant in turn, below torchrun.

    torchrun --nproc-per-node=R -m rearrange.eval.benchmarks.scaling.rank JOB.json

It is the trainer itself with a policy, a learner and environments that sleep. The learner's
all-reduces are real: gradients of `gradient_size` numbers, and the check whether to stop, as often
as in real training. Each rank writes its measurements into a file per variant.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rearrange.configs.benches import BenchScalingCfg
from rearrange.eval.benchmarks.scaling.simulation import WAYS
from rearrange.eval.benchmarks.scaling.workload import workload_of
from rearrange.eval.benchmarks.trainers.bench_stubs import SleepLearner, SleepPolicyFactory
from rearrange.eval.benchmarks.trainers.sleeping_pool import DeferredSleepFactory, SleepingPool
from rearrange.system.checked_json import strict_json
from rearrange.system.outputs import atomic_write_json
from rearrange.ver.ranks.distributed import ALONE, Ranks, joined
from rearrange.ver.ranks.preemption import PreemptionCfg
from rearrange.ver.run.metrics import METRICS_FILE, read_metrics
from rearrange.ver.trainer import Trainer
from rearrange.ver.trainer_cfg import TrainerCfg

NEVER_S = 1e9
RANKS_TIMEOUT_S = 300.0
KEPT_METRICS = (
    "step", "time_s", "speed/collect_s", "speed/learn_s", "speed/batch_size",
    "ver/preempt_share", "ver/preempt_error_s", "ver/fraction_stale",
)  # fmt: skip
_WARM_UP, _REPEATS = 5, 25  # of timed all-reduces


@dataclass
class RankJob:
    """The job of the ranks of one group."""

    settings: dict[str, Any]  # of BenchScalingCfg
    ways: list[str]
    folder: str  # for the answers
    is_alone: bool  # each rank trains on its own, all at the same time

    def answer(self, way: str, rank: int) -> Path:
        return Path(self.folder) / f"{way}_{rank:03}.json"


class SyncLearner(SleepLearner):
    """Sleeps for `learning_s` per update and averages gradients with the other ranks meanwhile.

    Attributes:
        marks: for each update (s): the clock, CPU time of this process and of all processes.
    """

    def __init__(self, learning_s: float, gradient_size: int, ranks: Ranks) -> None:
        super().__init__(learning_s)
        self._ranks = ranks
        self._parameter = torch.nn.Parameter(torch.zeros(gradient_size))
        self._parameter.grad = torch.ones(gradient_size)
        self.marks: list[tuple[float, float, float]] = []

    def end_step(self, should_cut: Callable[[], bool]) -> None:
        should_cut()
        self.average()

    def metrics(self, storage: Any) -> dict[str, float]:
        """The share of stale steps."""
        self.marks.append((time.perf_counter(), time.process_time(), machine_busy_s()))
        return {"ver/fraction_stale": float(storage.is_stale[storage.complete_rows()].mean())}

    def average(self) -> None:
        """The end of each minibatch."""
        self._ranks.average_gradients([self._parameter], [])

    def all_reduce_s(self) -> float:
        """Median time of `should_cut` and `average` on otherwise idle ranks."""
        times = []
        for _ in range(_WARM_UP + _REPEATS):
            begin = time.perf_counter()
            self._ranks.any(False)
            self.average()
            times.append(time.perf_counter() - begin)
        return float(np.median(times[_WARM_UP:]))


def train(cfg: BenchScalingCfg, way: str, ranks: Ranks, first_env: int) -> dict[str, Any]:
    """Trains one variant; returns this rank's measurements.

    Raises KeyboardInterrupt if a signal stopped it.
    """
    work, (mode, rule, _) = workload_of(cfg), WAYS[way]
    num_rollouts = cfg.warmup_rollouts + cfg.num_rollouts
    trainer_cfg = TrainerCfg(
        mode=mode, total_steps=num_rollouts * work.rollout_steps * ranks.world_size,
        num_envs=work.num_envs, num_steps=work.num_steps, seed=cfg.seed, device="cpu",
        preemption=PreemptionCfg(rule=rule), checkpoint_interval_s=NEVER_S,
        ranks_timeout_s=RANKS_TIMEOUT_S,
    )  # fmt: skip
    learner = SyncLearner(work.learning_s, cfg.gradient_size, ranks)
    with tempfile.TemporaryDirectory(prefix="scaling-") as folder:
        trainer = Trainer(
            DeferredSleepFactory(work.straggler, first_env), SleepPolicyFactory(work.inference_s),
            trainer_cfg, Path(folder), make_algorithm=lambda *args, **kwargs: learner,
            pool_factory=SleepingPool, ranks=ranks, is_quiet=True,
        )  # fmt: skip
        if trainer.run()["stopped_by"] is not None:
            raise KeyboardInterrupt
        path = Path(folder) / METRICS_FILE
        lines = read_metrics(path) if path.exists() else []
    lines = [{name: line.get(name) for name in KEPT_METRICS} for line in lines]
    return {"lines": lines, "marks": learner.marks, "all_reduce_s": learner.all_reduce_s()}


def machine_busy_s() -> float:
    """CPU time of all processes on this machine since it started (s); 0 if unknown."""
    try:
        fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    except OSError:
        return 0.0
    user, nice, system, idle, waiting, irq, softirq, steal = map(int, fields)
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def main(path: str) -> None:
    """The whole life of the process."""
    torch.set_num_threads(1)
    job = RankJob(**strict_json(Path(path).read_text()))
    cfg = BenchScalingCfg(**job.settings)
    with joined("cpu", RANKS_TIMEOUT_S) as ranks:
        if job.is_alone or ranks.is_first:
            from torch.utils import tensorboard  # noqa: F401 - takes seconds, not to be measured
        for way in job.ways:
            ranks.any(False)  # all begin together
            if job.is_alone:
                # Its environments count from 0, but must be those of this rank.
                metrics = train(cfg, way, ALONE, ranks.rank * cfg.num_envs)
            else:
                metrics = train(cfg, way, ranks, 0)
            atomic_write_json(job.answer(way, ranks.rank), metrics)


if __name__ == "__main__":
    main(sys.argv[1])
