"""Blocks of environments, each with a policy of its own: one leads, the others follow.

    environment   0  1  2  3  4  5  6  7        num_blocks = 4
    block         0  1  2  3  0  1  2  3        block 0 leads

Singla et al. 2024, "SAPG: Split and Aggregate Policy Gradients": the policies share all layers and
differ in one learned vector per block. The block is an additional observation, stored and learned
from like all others, in any mode. Neighbouring environments are in different blocks, because groups
of staggered resets are neighbours.

N environments, M blocks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rearrange.errors import UserError
from rearrange.ver.workers.shared_memory import StepSlots
from rearrange.ver.workers.spaces import ArraySpec, ObservationSpec

BLOCK = "sapg_block"  # the observation's name; without it the leader acts
LEADER = 0
MOST_BLOCKS = 64


@dataclass(kw_only=True)
class SapgCfg:
    """The defaults are the paper's, but for max_ratio, which is ours."""

    num_blocks: int = 1
    """Blocks of environments, each with its own policy on shared layers. The first one leads: it
    also learns from the others' steps, and is the resulting policy. 1: PPO."""
    entropy_step: float = 0.003
    """Follower i has i times this much more entropy bonus than the leader."""
    off_policy_ratio: float = 1.0
    """Followers' steps that the leader learns from, per step of its own."""
    max_ratio: float = 10.0
    """Largest weight of such a step: the leader's probability of the action over the follower's."""

    def __post_init__(self) -> None:
        if not 1 <= self.num_blocks <= MOST_BLOCKS:
            raise ValueError(
                f"sapg.num_blocks must lie in [1, {MOST_BLOCKS}], got {self.num_blocks}"
            )
        for name in ("entropy_step", "off_policy_ratio"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0.0):
                raise ValueError(f"sapg.{name} must not be negative, got {value}")
        if not self.max_ratio >= 1.0:
            raise ValueError(f"sapg.max_ratio must be at least 1, got {self.max_ratio}")

    def check(self, num_envs: int, num_steps: int) -> None:
        """Raises ValueError for a rollout of [num_steps, num_envs] that blocks cannot share."""
        if self.num_blocks == 1:
            if self != SapgCfg():
                raise ValueError("sapg.NAME settings need sapg.num_blocks of 2 or more, got 1")
            return
        if num_envs % self.num_blocks:
            raise ValueError(
                f"num_envs ({num_envs}) must be divisible by sapg.num_blocks ({self.num_blocks})"
            )
        if num_steps < 2:
            raise ValueError(
                "sapg.num_blocks of 2 or more need num_steps of 2 or more, as the leader judges a "
                f"step by the next observation; got {num_steps}"
            )

    def place_among_leaders(self, env: int) -> int | None:
        """Index among the leader's environments; None for a follower's."""
        return env // self.num_blocks if env % self.num_blocks == LEADER else None


def with_block(spec: ObservationSpec, num_blocks: int) -> ObservationSpec:
    """The observation spec for a policy of several blocks.

    Raises UserError if the environment has an observation of that name.
    """
    if num_blocks == 1:
        return spec
    if BLOCK in spec:
        raise UserError(f"an observation may not be called {BLOCK} with sapg.num_blocks above 1")
    return spec | {BLOCK: ArraySpec((1,), np.dtype(np.uint8))}


def write_blocks(slots: StepSlots, num_blocks: int) -> None:
    """Writes each environment's block into its row, once: nothing else writes there."""
    if num_blocks > 1:
        blocks = np.arange(slots.layout.num_envs) % num_blocks
        for arrays in (slots.observation, slots.final):
            arrays[BLOCK][:, 0] = blocks
