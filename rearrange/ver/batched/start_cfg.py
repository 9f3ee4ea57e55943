"""BatchedCfg, and the `EpisodeTracker` of each start mode.

start_mode   first episodes                                after that
off          whole                                         at once, whenever one ends
clock        cut short by a random number of steps         at once
advance      begun by a random number of random steps      at once
staggered    groups, `rollout` steps apart (`StaggerCfg`)  none is longer than the horizon; in mode
                                                           batched at the next gate, else at once
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from rearrange.ver.rollout.staggered import HOW, EpisodeTracker, StaggerCfg, Timetable
from rearrange.ver.workers.environment_worker import STAGGERED, WorkerCfg, start_offset

MOST_THREADS = 8  # more gain little: docs/how_to/step_many_at_once.md


@dataclass(kw_only=True)
class BatchedCfg:
    num_threads: int = 0
    """Threads that step homes of each group; 0: one per core, no more than eight in all groups, as
    Python lets one at a time pass. Other environments have none."""
    num_groups: int = 1
    """Groups of environments that take turns with the policy: it decides for one while the others
    take their step. Environments must not draw from global random generators then."""

    def __post_init__(self) -> None:
        if self.num_groups < 1:
            raise ValueError(f"batched.num_groups must be at least 1, got {self.num_groups}")
        if self.num_threads < 0:
            raise ValueError(f"batched.num_threads must not be negative, got {self.num_threads}")

    def threads_of(self, num_cores: int) -> int:
        """Threads of each group on a machine with so many cores."""
        return self.num_threads or min(num_cores, max(2, MOST_THREADS // self.num_groups))


@dataclass(kw_only=True)
class StaggeredStartCfg:
    num_groups: int = 0
    """Groups of environments that begin together; 0: as many as start_horizon has rollouts."""
    how: str = "advance"
    """`advance` spreads the groups by random steps before the training, `cut` by cutting first
    episodes short."""
    has_gates: bool = True
    """mode=batched: environments that end early wait until a group is reset anyway. With workers
    each is reset at once."""

    def __post_init__(self) -> None:
        if self.num_groups < 0:
            raise ValueError(f"stagger.num_groups must not be negative, got {self.num_groups}")
        if self.how not in HOW:
            raise ValueError(f"stagger.how must be one of {', '.join(HOW)}; got '{self.how}'")

    def full(self, horizon: int, num_steps: int) -> StaggerCfg:
        """The staggering for this horizon, and rollouts of so many steps per environment."""
        return StaggerCfg(
            horizon=horizon, rollout_steps=num_steps, num_groups=self.num_groups, how=self.how,
            has_gates=self.has_gates,
        )  # fmt: skip


def staggered_worker_cfg(
    cfg: WorkerCfg, stagger: StaggeredStartCfg, num_envs: int, num_steps: int
) -> WorkerCfg:
    """The same, with the offset of each of `num_envs` environments' first episode."""
    if cfg.start_mode != STAGGERED:
        return cfg
    timetable = Timetable(stagger.full(cfg.start_horizon, num_steps), num_envs)
    offsets = tuple(timetable.offsets.tolist())
    return replace(cfg, offsets=offsets, is_cut=stagger.how == "cut")


def trackers_of(
    cfg: WorkerCfg,
    stagger: StaggeredStartCfg,
    num_envs: int,
    num_steps: int,
    is_fresh: bool = True,
    num_groups: int = 1,
) -> dict[range, EpisodeTracker]:
    """Tracks environments in mode batched, in groups, that start as `cfg.start_mode` says.

    Args:
        num_steps: of each environment in a rollout.
        is_fresh: apply clock and advance; false on resuming.
    """
    if cfg.start_mode == STAGGERED:
        starts = stagger.full(cfg.start_horizon, num_steps)
        timetable = Timetable(starts, num_envs)
    else:
        envs = range(cfg.first_env, cfg.first_env + num_envs)
        offsets = [start_offset(cfg, env) if is_fresh else 0 for env in envs]
        starts = StaggerCfg(
            horizon=cfg.start_horizon, rollout_steps=num_steps, has_gates=False, is_limit=False,
            how="advance" if cfg.start_mode == "advance" else "cut",
        )  # fmt: skip
        timetable = Timetable(starts, num_envs, np.array(offsets))
    ends = [num_envs * i // num_groups for i in range(num_groups + 1)]
    groups = [range(*both) for both in pairwise(ends)]
    return {group: EpisodeTracker(starts, timetable.part(group)) for group in groups}
