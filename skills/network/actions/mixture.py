"""Several means to choose from, so that the robot does one thing and not the average of two.

    features -- linear --> mean of the first component [A] ------+
             -- linear --> means of the others [C - 1, A] -------+--> the likeliest one's mean
             -- linear --> logits of the components [C] ---------+

A teacher goes on from here, and backs off from a little farther left. A smooth function of what the
robot sees passes through zero in between: there it stands still, and stays. A choice goes on or
back, and sees by its own speed which of the two it has begun. These are mixture density networks
(Bishop 1994) whose components are of one width.

B: steps   C: components   A: action dimensions
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rearrange.ver.rollout.types import Components

APART = 0.3  # gain of the others' weights: were they alike at first, all would learn the same


class Mixture(nn.Module):
    """The layers of all components but the first one's mean."""

    def __init__(self, features: int, num_actions: int, num_components: int) -> None:
        super().__init__()
        self.others = nn.Linear(features, (num_components - 1) * num_actions)
        self.choice = nn.Linear(features, num_components)
        nn.init.orthogonal_(self.others.weight, APART)
        nn.init.zeros_(self.others.bias)
        nn.init.zeros_(self.choice.weight)
        nn.init.zeros_(self.choice.bias)

    def forward(self, features: Tensor, first: Tensor) -> Components:
        """Of features [B, H] and the first component's mean [B, A], before squashing."""
        others = self.others(features).unflatten(-1, (-1, first.shape[-1]))
        return Components(torch.cat([first.unsqueeze(1), others], dim=1), self.choice(features))
