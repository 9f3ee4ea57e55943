"""A slow CartPole, slower still in the environments of some ranks.

    env=rearrange.workloads.slow_cartpole:SlowCartPole-v1

Environments 0 to num_fast - 1 sleep `step_s` a step, the others `slow_factor` times that.
"""

from __future__ import annotations

import time
from typing import Any, SupportsFloat

import gymnasium


class Slow(gymnasium.Wrapper):
    """Sleeps before each step."""

    def __init__(self, env: gymnasium.Env, step_s: float) -> None:
        super().__init__(env)
        self._step_s = step_s

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        time.sleep(self._step_s)
        return super().step(action)


def make_slow(
    index: int = 0, num_fast: int = 8, step_s: float = 0.004, slow_factor: float = 3.0
) -> Slow:
    """Environment `index`, counted over all ranks; Gymnasium adds the time limit."""
    is_fast = index < num_fast
    return Slow(
        gymnasium.make("CartPole-v1").unwrapped, step_s if is_fast else slow_factor * step_s
    )


if "SlowCartPole-v1" not in gymnasium.registry:
    gymnasium.register(
        "SlowCartPole-v1", entry_point="rearrange.workloads.slow_cartpole:make_slow",
        kwargs={"index": 0}, max_episode_steps=500,
    )  # fmt: skip
