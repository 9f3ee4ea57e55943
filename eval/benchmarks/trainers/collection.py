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
from rearrange.tasks.vector_env import HOMES_AHEAD

COLLECTION, HOMES = "free policy", "homes alone"
NUM_STEPS = 20  # of each home in a rollout
WARM_UP = 3  # rollouts in which all of the next episodes are drawn
ROLLOUTS = 6  # measured in a turn
TURNS = 5

assert WARM_UP * NUM_STEPS > HOMES_AHEAD


def measure_collection(cfg: BenchTrainersCfg, task: str) -> dict[str, dict[str, Any]]:
    """Control steps a second of both, medians of turns."""
    kwargs = {"camera_size": cfg.camera_size}
    make_envs = partial(make_gym_vec, env_id=SKILL_TASKS[task], kwargs=kwargs)
    found: dict[str, list[float]] = {COLLECTION: [], HOMES: []}
    for _ in range(TURNS):
        found[HOMES].append(_alone(make_envs, cfg.num_envs))
        with TemporaryDirectory(prefix="bench-") as folder:
            found[COLLECTION].append(_collected(cfg, task, kwargs, make_envs, Path(folder) / "run"))
    return {
        name: {"mean": float(np.median(speeds)), "turns": speeds} for name, speeds in found.items()
    }


def _alone(make_envs: Any, num_envs: int) -> float:
    envs = make_envs(num_envs)
    still = np.zeros(envs.action_space.shape, np.float32)
    envs.reset(seed=0)
    for _ in range(WARM_UP * NUM_STEPS):
        envs.step(still)
    begin = time.perf_counter()
    for _ in range(ROLLOUTS * NUM_STEPS):
        envs.step(still)
    seconds = time.perf_counter() - begin
    envs.close()
    return ROLLOUTS * NUM_STEPS * num_envs / seconds


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

    steps = NUM_STEPS * cfg.num_envs
    trainer_cfg = TrainerCfg(
        mode="batched", total_steps=(WARM_UP + ROLLOUTS) * steps, num_envs=cfg.num_envs,
        num_steps=NUM_STEPS, checkpoint_interval_s=1e9,
    )  # fmt: skip
    make_env = partial(make_gym, env_id=SKILL_TASKS[task], num_envs=cfg.num_envs, kwargs=kwargs)
    trainer = Trainer(
        make_env, SleepPolicyFactory(0.0), trainer_cfg, run_dir,
        make_algorithm=SleepLearnerFactory(0.0), make_envs=make_envs, is_quiet=True,
    )  # fmt: skip
    if trainer.run()["stopped_by"] is not None:
        raise KeyboardInterrupt
    ends = [line["time_s"] for line in read_metrics(run_dir / METRICS_FILE)]
    return ROLLOUTS * steps / (ends[-1] - ends[WARM_UP - 1])
