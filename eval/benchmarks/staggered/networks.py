"""The networks that act on the chain, R of them stacked, and their outputs for all blocks.

    block --+-- embedding -- 4 x (linear, ReLU) -- log-probabilities of actions
            +-- embedding -- 4 x (linear, ReLU) -- value

Bharthulwar et al., "Staggered Environment Resets Improve Massively Parallel On-Policy Reinforcement
Learning", table 2 ("Actor & Critic MLP"). It does not say whether they share layers. Here they do
not, as in CleanRL's and ManiSkill's PPO, on which the paper's other experiments are based.

Legend: R networks, U blocks to ask about, B blocks of the chain, A actions, N chains.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from rearrange.skills.network.embedding import layer
from rearrange.ver.update.ppo import PPOCfg

EMBEDDING, HIDDEN = 64, (256, 256, 256, 256)
ACTOR_GAIN = 0.01  # of the last layer's weights: all actions are alike at the start


class Table(NamedTuple):
    """What the policy does and expects in each block."""

    log_probs: np.ndarray  # [B, A]
    values: np.ndarray  # [B]

    def draw(self, blocks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """An action for each of these, [N]."""
        sums = np.exp(self.log_probs).cumsum(axis=1)
        sums[:, -1] = 1.0  # what is left out by rounding
        return (sums[blocks] <= rng.random((len(blocks), 1))).sum(axis=1)


class Column(nn.Module):
    """Blocks [U] -> outputs [U, O]."""

    def __init__(self, num_blocks: int, num_outputs: int, gain: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_blocks, EMBEDDING)
        sizes = (EMBEDDING, *HIDDEN)
        pairs = zip(sizes, sizes[1:], strict=False)
        self.hidden = nn.Sequential(*(layer(a, b, "relu") for a, b in pairs))
        self.head = nn.Linear(HIDDEN[-1], num_outputs)
        nn.init.orthogonal_(self.head.weight, gain)
        nn.init.zeros_(self.head.bias)

    def forward(self, blocks: Tensor) -> Tensor:
        return self.head(self.hidden(self.embedding(blocks)))


class ChainNetwork(nn.Module):
    """One network: blocks [U] -> log-probabilities [U, A] and values [U]."""

    def __init__(self, num_blocks: int, num_actions: int) -> None:
        super().__init__()
        self.actor = Column(num_blocks, num_actions, ACTOR_GAIN)
        self.critic = Column(num_blocks, 1, 1.0)

    def forward(self, blocks: Tensor) -> tuple[Tensor, Tensor]:
        return self.actor(blocks).log_softmax(dim=-1), self.critic(blocks).squeeze(-1)


class Networks:
    """R networks whose weights are stacked, each drawn by its seed, and Adam."""

    def __init__(self, seeds: list[int], num_blocks: int, num_actions: int, cfg: PPOCfg) -> None:
        self.cfg, drafts = cfg, []
        for seed in seeds:
            torch.manual_seed(seed)
            drafts.append(ChainNetwork(num_blocks, num_actions).state_dict())
        # Matrices the other way round than torch's: their gradients then need no copies.
        self.weights = {
            name: torch.stack([_turned(name, draft[name]) for draft in drafts]).requires_grad_()
            for name in drafts[0]
        }
        """{name: [R, ...]}"""
        self._blocks = torch.arange(num_blocks).repeat(len(seeds), 1)
        self._each = torch.arange(len(seeds)).unsqueeze(-1)
        self.optimizer = torch.optim.Adam(
            self.weights.values(), lr=cfg.learning_rate, eps=cfg.adam_eps, fused=True
        )

    def __call__(self, blocks: Tensor) -> tuple[Tensor, Tensor]:
        """Each network's log-probabilities [R, U, A] and values [R, U] of blocks [R, U]."""
        actor, critic = self._column("actor", blocks), self._column("critic", blocks)
        return actor.log_softmax(dim=-1), critic.squeeze(-1)

    def tables(self) -> list[Table]:
        """What each network makes of all blocks."""
        with torch.no_grad():
            log_probs, values = self(self._blocks)
        pairs = zip(log_probs.double().numpy(), values.double().numpy(), strict=True)
        return [Table(*pair) for pair in pairs]

    def learn(self, losses: Tensor) -> None:
        """A step of each by its loss, [R]; gradients are clipped one by one."""
        self.optimizer.zero_grad(set_to_none=True)
        losses.sum().backward()
        gradients = [weight.grad for weight in self.weights.values() if weight.grad is not None]
        norms = torch.stack([torch.linalg.vector_norm(g.flatten(1), dim=1) for g in gradients])
        factors = self.cfg.max_grad_norm / (torch.linalg.vector_norm(norms, dim=0) + 1e-6)
        for gradient in gradients:
            gradient.mul_(factors.clamp(max=1.0).view(-1, *[1] * (gradient.dim() - 1)))
        self.optimizer.step()

    def _column(self, name: str, blocks: Tensor) -> Tensor:
        """`Column.forward` of each, [R, U, O]."""
        x = self.weights[f"{name}.embedding.weight"][self._each, blocks]
        for i in range(len(HIDDEN)):
            x = self._linear(f"{name}.hidden.{i}.0", x).relu()
        return self._linear(f"{name}.head", x)

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return torch.baddbmm(
            self.weights[f"{name}.bias"].unsqueeze(1), x, self.weights[f"{name}.weight"]
        )


def _turned(name: str, weight: Tensor) -> Tensor:
    return weight if weight.dim() == 1 or name.endswith("embedding.weight") else weight.T
