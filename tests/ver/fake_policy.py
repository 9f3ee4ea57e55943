"""A policy whose numbers are known functions of what it is given; `recurrent` ones remember.

memory' = 0.5 memory + 0.001 step + 0.1 previous action    (0 before an episode's first step)
value   = weight (memory' + 0.01 step)
action  ~ uniform in [-1.5, 1.5]            log_prob = weight - action^2
"""

import torch
from torch import nn

from rearrange.ver.rollout.types import PolicyStep


class FakePolicy(nn.Module):
    def __init__(self, is_recurrent=True):
        super().__init__()
        self.state_size = int(is_recurrent)
        self.weight = nn.Parameter(torch.tensor(1.0))
        self.num_refreshed = 0
        self.batches = []  # how many environments were served at once
        self.generator = torch.Generator().manual_seed(3)

    def act(self, observation, prev_action, is_first, state, deterministic=False):
        assert not state[is_first].any() and not prev_action[is_first].any()
        self.batches.append(len(is_first))
        action = 3.0 * torch.rand(prev_action.shape, generator=self.generator) - 1.5
        memory = self.next_memory(observation, prev_action, state)
        return PolicyStep(
            action, self.weight - action[:, 0] ** 2, self.judge(observation, memory), memory
        )

    def value(self, observation, prev_action, is_first, state):
        return self.judge(observation, self.next_memory(observation, prev_action, state))

    def next_memory(self, observation, prev_action, state):
        step = observation["observation"][:, 2:3]
        return (0.5 * state + 0.001 * step + 0.1 * prev_action)[:, : self.state_size]

    def judge(self, observation, memory):
        return self.weight * (memory.sum(-1) + 0.01 * observation["observation"][:, 2])

    def refresh(self):
        self.num_refreshed += 1
