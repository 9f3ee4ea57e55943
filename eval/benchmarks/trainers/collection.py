"""How much of the homes' own speed is left when mode=batched collects, with a policy that takes no
time.

    homes alone, homes in a trainer, homes alone, ...     all do nothing, in episodes of full length

What the trainer adds to a step: slots, storage, checks of every number, statistics of episodes.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from rearrange.configs.benches import BenchTrainersCfg
from rearrange.tasks.gym_factory import make_gym, make_gym_vec
from rearrange.tasks.rules.names import SKILL_TASKS
from rearrange.tasks.vector.home_vector_env import HOMES_AHEAD

COLLECTION, HOMES = "free policy", "homes alone"
ROLLOUTS = 2  # measured in a turn, at least
MEASURED = 120  # steps of each home in a turn, at least
TURNS = 5


def measure_collection(cfg: BenchTrainersCfg, task: str) -> dict[str, dict[str, Any]]:
    """Control steps a second of both, medians of turns, in rollouts of `cfg.num_steps`."""
    kwargs = {"camera_size": cfg.camera_size}
    make_envs = partial(make_gym_vec, env_id=SKILL_TASKS[task], kwargs=kwargs)
    found: dict[str, list[float]] = {COLLECTION: [], HOMES: []}
    for _ in range(TURNS):
        found[HOMES].append(_alone(cfg, make_envs))
        with TemporaryDirectory(prefix="bench-") as folder:
            found[COLLECTION].append(_collected(cfg, task, kwargs, make_envs, Path(folder) / "run"))
    return {
        name: {"mean": float(np.median(speeds)), "turns": speeds} for name, speeds in found.items()
    }


def _rollouts(num_steps: int) -> tuple[int, int]:
    """How many rollouts warm up, in which all of the next episodes are drawn, and are measured."""
    return HOMES_AHEAD // num_steps + 1, max(ROLLOUTS, -(-MEASURED // num_steps))


def _alone(cfg: BenchTrainersCfg, make_envs: Any) -> float:
    envs = make_envs(cfg.num_envs)
    warm_up, measured = _rollouts(cfg.num_steps)
    still = np.zeros(envs.action_space.shape, np.float32)
    envs.reset(seed=0)
    for _ in range(warm_up * cfg.num_steps):
        envs.step(still)
    begin = time.perf_counter()
    for _ in range(measured * cfg.num_steps):
        envs.step(still)
    seconds = time.perf_counter() - begin
    envs.close()
    return measured * cfg.num_steps * cfg.num_envs / seconds


def _collected(
    cfg: BenchTrainersCfg, task: str, kwargs: dict[str, Any], make_envs: Any, run_dir: Path
) -> float:
    from rearrange.eval.benchmarks.trainers.bench_stubs import (
        SleepLearnerFactory,
        SleepPolicyFactory,
    )
    from rearrange.ver.run.metrics import METRICS_FILE, read_metrics
    from rearrange.ver.trainer import Trainer
    from rearrange.ver.trainer_cfg import TrainerCfg

    steps, (warm_up, measured) = cfg.num_steps * cfg.num_envs, _rollouts(cfg.num_steps)
    trainer_cfg = TrainerCfg(
        mode="batched", total_steps=(warm_up + measured) * steps, num_envs=cfg.num_envs,
        num_steps=cfg.num_steps, checkpoint_interval_s=1e9,
    )  # fmt: skip
    make_env = partial(make_gym, env_id=SKILL_TASKS[task], num_envs=cfg.num_envs, kwargs=kwargs)
    trainer = Trainer(
        make_env, SleepPolicyFactory(0.0), trainer_cfg, run_dir,
        make_algorithm=SleepLearnerFactory(0.0), make_envs=make_envs, is_quiet=True,
    )  # fmt: skip
    if trainer.run()["stopped_by"] is not None:
        raise KeyboardInterrupt
    ends = [line["time_s"] for line in read_metrics(run_dir / METRICS_FILE)]
    return measured * steps / (ends[-1] - ends[warm_up - 1])
