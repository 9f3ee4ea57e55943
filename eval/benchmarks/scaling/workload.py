"""The workload of `rearrange bench scaling`: R1 in slow motion, with uneven ranks and episodes.

    R1 (see `straggler.py`)      here, with slow_motion 8 and T = 16
    step 20 ms, 128 a rollout    160 ms, 16 a rollout: a rollout takes as long, in fewer steps
    a policy's batch 2 ms        16 ms
    an episode of 200 steps      of 25 steps: as long a time
    environments differ          so do ranks and, from episode to episode, all times

Many ranks share this machine's cores. Sleeping is free, but the trainer's work per step is not:
slow motion makes steps so rare that the cores are mostly idle.
"""

from __future__ import annotations

from rearrange.configs.benches import BenchScalingCfg
from rearrange.eval.benchmarks.trainers.bench_ideal import Workload
from rearrange.workloads.straggler import StragglerCfg

R1 = Workload()


def workload_of(cfg: BenchScalingCfg) -> Workload:
    """The workload of one rank. Rank r has the environments r E to (r + 1) E - 1 of it."""
    r1 = R1.straggler
    shorter = cfg.num_steps / R1.num_steps  # rollouts and episodes, in steps
    longer = cfg.slow_motion * shorter  # the same and what happens once in them, in seconds
    straggler = StragglerCfg(
        base_step_s=cfg.slow_motion * r1.base_step_s,
        group_size=cfg.num_envs,
        group_spread=cfg.rank_spread,
        episode_spread=cfg.episode_spread,
        episode_steps=max(1, round(shorter * r1.episode_steps)),
        reset_low_s=longer * r1.reset_low_s,
        reset_high_s=longer * r1.reset_high_s,
        seed=cfg.seed,
    )
    return Workload(
        straggler=straggler,
        num_envs=cfg.num_envs,
        num_steps=cfg.num_steps,
        inference_s=cfg.slow_motion * R1.inference_s,
        learning_s=longer * R1.learning_s,
    )
