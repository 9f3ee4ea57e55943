"""Actor: the policy that acts while rollouts are collected, and its version of the weights.

    policy that learns -- refresh --> policy that acts -- act --> PolicyStep

Both are one where collecting and learning take turns; where they overlap, a copy acts, under a
lock. `refresh` is the one place where the weights that act change: it brings them over, has the
policy make what it keeps of them for acting, and notes which weights they are. Every step is stored
with that note, so that an update without `refresh` shows in `ver/policy_lag`.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from torch import Tensor

from rearrange.ver.rollout.types import Policy, PolicyInputs, PolicyStep

Decide = Callable[[Policy, PolicyInputs], PolicyStep]
"""The policy that acts and what it sees -> what is done: `Algorithm.act`."""


class Decision(NamedTuple):
    """What was decided, and by which weights."""

    step: PolicyStep
    policy_version: int  # updates so far
    weights_step: int  # optimiser steps so far


def by_policy(policy: Policy, inputs: PolicyInputs) -> PolicyStep:
    """The policy's own action, drawn."""
    return policy.act(*inputs)


class Actor:
    """Decides for the collector, from one thread or several.

    Args:
        learned: the policy that is being learned.
        decide: how the one that acts is asked.
        is_copy: whether that is a copy, because the other changes meanwhile.
    """

    def __init__(self, learned: Policy, decide: Decide = by_policy, is_copy: bool = False) -> None:
        self._learned, self._decide = learned, decide
        self.policy = copy.deepcopy(learned) if is_copy else learned
        self._lock: AbstractContextManager = threading.Lock() if is_copy else nullcontext()
        self._versions = (0, 0)

    @property
    def state_size(self) -> int:
        """K, floats of memory per environment."""
        return self.policy.state_size

    def refresh(self, policy_version: int, weights_step: int) -> None:
        """From now on the weights as they are learned by now.

        Args:
            policy_version: updates that they have seen.
            weights_step: optimiser steps that they have seen.
        """
        with self._lock:
            if self.policy is not self._learned:
                self.policy.load_state_dict(self._learned.state_dict())
            self.policy.refresh()
            self._versions = policy_version, weights_step

    def act(self, inputs: PolicyInputs) -> Decision:
        """Actions for E environments; called without gradients."""
        with self._lock:
            return Decision(self._decide(self.policy, inputs), *self._versions)

    def value(self, inputs: PolicyInputs) -> Tensor:
        """What the policy expects from these observations on, [E]."""
        with self._lock:
            return self.policy.value(*inputs)
