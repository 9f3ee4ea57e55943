"""Actor: the policy that acts while rollouts are collected, and its version of the weights.

    policy that learns -- refresh --> policy that acts -- act --> PolicyStep

They are the same object where collecting and learning alternate; where they overlap, a copy acts,
under a lock. `refresh` is the only place where the acting weights change: it copies them, lets the
policy rebuild what it caches for acting, and records their version. Every step is stored with that
version, so a missing `refresh` after an update shows in `ver/policy_lag`.
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
"""Acting policy and its input -> action: `Algorithm.act`."""


class Decision(NamedTuple):
    """A decision, and the version of the weights that made it."""

    step: PolicyStep
    policy_version: int  # updates so far
    weights_step: int  # optimiser steps so far


def by_policy(policy: Policy, inputs: PolicyInputs) -> PolicyStep:
    """An action sampled from the policy."""
    return policy.act(*inputs)


class Actor:
    """Decides for the collector, from one thread or several.

    Args:
        learned: the policy that is being trained.
        decide: how the acting policy is queried.
        is_copy: act with a copy, because the learned policy changes meanwhile.
    """

    def __init__(self, learned: Policy, decide: Decide = by_policy, is_copy: bool = False) -> None:
        self._learned, self._decide = learned, decide
        self.policy = copy.deepcopy(learned) if is_copy else learned
        self._lock: AbstractContextManager[object] = threading.Lock() if is_copy else nullcontext()
        self._versions = (0, 0)

    @property
    def state_size(self) -> int:
        """K, floats of memory per environment."""
        return self.policy.state_size

    def refresh(self, policy_version: int, weights_step: int) -> None:
        """Acts with the current learned weights from now on.

        Args:
            policy_version: updates that went into them.
            weights_step: optimiser steps that went into them.
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
        """Value estimates of these observations, [E]."""
        with self._lock:
            return self.policy.value(*inputs)
