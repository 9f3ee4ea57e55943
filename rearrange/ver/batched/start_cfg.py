"""BatchedCfg, and how a training's start modes look to `EpisodeTracker`.

start_mode   first episodes                                after that
off          whole                                         at once, whenever one ends
clock        cut short by a random number of steps         at once
advance      begun by a random number of random steps      at once
staggered    groups, `rollout` steps apart (`StaggerCfg`)  at the next gate; none is longer
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rearrange.ver.rollout.staggered import HOW, EpisodeTracker, StaggerCfg
from rearrange.ver.workers.environment_worker import WorkerCfg, start_offset

STAGGERED = "staggered"


@dataclass(kw_only=True)
class BatchedCfg:
    num_threads: int = 0
    """That step homes; 0: one a core. Other environments know no threads."""
    num_groups: int = 0
    """start_mode=staggered: groups of environments that are reset together; 0: as many as
    start_horizon has rollouts."""
    has_gates: bool = True
    """start_mode=staggered: what ends early waits until a group is reset anyway."""
    how: str = "advance"
    """start_mode=staggered: `advance` spreads the groups by random steps before the training, `cut`
    by cutting first episodes short."""

    def __post_init__(self) -> None:
        for name in ("num_threads", "num_groups"):
            if getattr(self, name) < 0:
                raise ValueError(f"batched.{name} must not be negative, got {getattr(self, name)}")
        if self.how not in HOW:
            raise ValueError(f"batched.how must be one of {', '.join(HOW)}; got '{self.how}'")


def tracker_of(
    cfg: WorkerCfg, batched: BatchedCfg, num_envs: int, num_steps: int, is_fresh: bool = True
) -> EpisodeTracker:
    """Of environments that begin as `cfg.start_mode` says.

    Args:
        num_steps: of each environment in a rollout.
        is_fresh: apply clock and advance; false on resuming.
    """
    if cfg.start_mode == STAGGERED:
        stagger = StaggerCfg(
            horizon=cfg.start_horizon, rollout_steps=num_steps, num_groups=batched.num_groups,
            how=batched.how, has_gates=batched.has_gates,
        )  # fmt: skip
        return EpisodeTracker(stagger, num_envs)
    envs = range(cfg.first_env, cfg.first_env + num_envs)
    offsets = [start_offset(cfg, env) if is_fresh else 0 for env in envs]
    how = "advance" if cfg.start_mode == "advance" else "cut"
    plain = StaggerCfg(
        horizon=cfg.start_horizon, rollout_steps=num_steps, how=how, has_gates=False, is_limit=False
    )
    return EpisodeTracker(plain, num_envs, np.array(offsets))
