"""A2C as an algorithm of your own: this file is all it takes.

    PYTHONPATH=examples/my_algorithm rearrange train env=CartPole-v1 algorithm=a2c:A2C \\
        num_steps=16 total_steps=100000

One step of the optimiser for each rollout, all of which is one minibatch (Mnih et al. 2016).
S: steps of a rollout, B = S of its only minibatch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.optim import Optimizer

from rearrange.ver.rollout.storage import RolloutStorage
from rearrange.ver.rollout.types import Policy, PolicyInputs, PolicyStep
from rearrange.ver.update.algorithm import Algorithm, Sequences, UpdateContext
from rearrange.ver.update.packing import minibatch_rows


class A2C(Algorithm):
    """`algorithm_kwargs.NAME=VALUE` sets the keywords that stand here."""

    def __init__(
        self,
        *args: Any,
        learning_rate: float = 3e-3,
        value_coef: float = 0.5,
        entropy_coef: float = 0.01,
        max_reward: float = 1.0,
        **others: Any,
    ) -> None:
        super().__init__(*args, **others)  # policy, cfg, num_envs, device, rng, ranks
        self._learning_rate, self._max_reward = learning_rate, max_reward
        self._value_coef, self._entropy_coef = value_coef, entropy_coef
        self._weights = list(self.policy.parameters())
        self._optimizer = torch.optim.RMSprop(self._weights, learning_rate, alpha=0.99, eps=1e-5)

    def act(self, policy: Policy, inputs: PolicyInputs) -> PolicyStep:
        """As the policy says. `Algorithm` does the same; here to be changed."""
        return policy.act(*inputs)

    def store(
        self, storage: RolloutStorage, row: int, reward: float, terminated: bool, truncated: bool
    ) -> None:
        """Rewards are clipped, as the paper does."""
        reward = max(-self._max_reward, min(self._max_reward, float(reward)))
        storage.complete(row, reward, terminated, truncated)

    def compute_returns(self, storage: RolloutStorage) -> Sequences:
        """Advantages as `returns.gamma` and `returns.gae_lambda` say, of mean 0 and spread 1."""
        sequences = super().compute_returns(storage)
        advantage = storage.advantage[sequences.rows]
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        storage.advantage[sequences.rows] = advantage
        return sequences

    def update(
        self, storage: RolloutStorage, sequences: Sequences, context: UpdateContext
    ) -> dict[str, float]:
        if context.should_cut():
            return {}
        (part,) = minibatch_rows(*sequences, 1, self.rng)
        minibatch = storage.minibatch(*part)
        now = self.policy.evaluate(minibatch)
        policy_loss = -(now.log_prob * minibatch.advantage).mean()
        value_loss = 0.5 * (now.value - minibatch.returns).square().mean()
        loss = policy_loss + self._value_coef * value_loss
        loss = loss - self._entropy_coef * now.entropy.mean()

        self._optimizer.param_groups[0]["lr"] = self._learning_rate * context.lr_factor
        self._optimizer.zero_grad()
        loss.backward()
        self.ranks.average_gradients(self._weights, [loss.detach()], len(part.rows))
        torch.nn.utils.clip_grad_norm_(self._weights, 0.5)
        self._optimizer.step()
        self.num_applied += 1
        context.after_step()
        self.policy.observe(minibatch.observation, self.ranks.gather_rows)
        return {"loss/policy": policy_loss.item(), "loss/value": value_loss.item()}

    def optimizers(self) -> dict[str, Optimizer]:
        """Saved in every checkpoint, so that `resume=auto` goes on where it was."""
        return {"optimizer": self._optimizer}
