"""Divides rewards by the standard deviation of the discounted return: values of order one.

    G_t = gamma G_{t-1} + r_t, from 0 at each episode's start, one for each environment
    scaled reward = r_t / std(G)

The scaling of Engstrom et al. 2020, "Implementation matters in deep policy gradients", section 2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from rearrange.ver.rollout.types import Gather


class RewardScaler:
    """Running standard deviation of the discounted return; `state` goes into checkpoints."""

    def __init__(self, num_envs: int, gamma: float) -> None:
        self.gamma = gamma
        self.returns = np.zeros(num_envs)  # G of each environment's last step
        self.count, self.mean, self.square = 0.0, 0.0, 0.0  # square: sum of squared deviations

    def update(
        self,
        env_ids: np.ndarray,
        rewards: np.ndarray,
        is_first: np.ndarray,
        gather: Gather = lambda values: [values],
    ) -> None:
        """Adds steps, [S] each, those of one environment oldest first.

        Sums restart at the starts of episodes, as steps before one may have been dropped.

        Args:
            gather: returns the values of all ranks, so that all have the same scale.
        """
        values: list[float] = []
        for e, reward, is_start in zip(
            env_ids.tolist(), rewards.tolist(), is_first.tolist(), strict=True
        ):
            value = reward if is_start else self.gamma * self.returns[e] + reward
            self.returns[e] = value
            values.append(value)
        for part in gather(torch.tensor(values, dtype=torch.float64)):
            for value in part.tolist():
                self.count += 1.0
                delta = value - self.mean
                self.mean += delta / self.count
                self.square += delta * (value - self.mean)

    @property
    def scale(self) -> float:
        """Factor on rewards."""
        if self.count < 2.0:
            return 1.0
        return 1.0 / math.sqrt(self.square / self.count + 1e-8)

    def state(self) -> dict[str, Any]:
        return {"returns": self.returns.tolist(), "moments": [self.count, self.mean, self.square]}

    def load(self, state: dict[str, Any]) -> None:
        """Restores the result of `state`.

        If the number of environments has changed, all begin new episodes, with sums of 0.
        """
        returns = np.array(state["returns"], np.float64)
        self.returns = returns if len(returns) == len(self.returns) else np.zeros_like(self.returns)
        self.count, self.mean, self.square = state["moments"]
