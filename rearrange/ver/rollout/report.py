"""The collector's report on a rollout, and the exceptions that end one.

E environments.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


class NonFinite(RuntimeError):
    """An environment or an update produced a number that is not finite."""


class Stopped(Exception):
    """The training was asked to stop while collecting."""


@dataclass
class EpisodeEnd:
    """One finished episode."""

    env: int
    total_return: float
    length: int
    infos: np.ndarray  # [num_infos], NaN where there is none
    is_whole: bool  # false for a first episode that was cut short


@dataclass
class CollectReport:
    """Statistics of one rollout, apart from the steps."""

    steps_per_env: np.ndarray  # [E]
    step_s: np.ndarray  # [E] mean time from one step to the next
    episodes: list[EpisodeEnd] = field(default_factory=list[EpisodeEnd])
    wall_s: float = 0.0
    inference_s: float = 0.0  # the policy, summed over inference workers
    inference_env_s: float = 0.0  # the same, summed over the environments waiting for it
    waiting_s: float = 0.0  # no requests: all environments are busy
    environment_s: float = 0.0  # summed over environments
    num_batches: int = 0
    num_requests: int = 0
    num_nonfinite: int = 0
    num_dropped_steps: int = 0
    num_steps: int = 0  # S, fewer if it was stopped early
    num_steps_all: int = 0  # of all ranks
