"""Generalised advantage estimation, and importance weights for uneven sampling.

    delta_t = r_t + gamma V(o_{t+1}) (1 - terminated_t) - V(o_t)
    A_t     = delta_t + gamma lambda (1 - ended_t) A_{t+1}

Schulman et al. 2016, section 3.   S: steps of a rollout, sequences one after another, each oldest
first. A sequence ends with its episode or with the rollout. Only after termination is the value 0;
time limits and the rollout's end are bootstrapped.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(kw_only=True)
class ReturnsCfg:
    gamma: float = 0.99
    """Discount per control step (VER paper, table of hyper-parameters)."""
    gae_lambda: float = 0.95
    """0 trusts the critic, 1 the rewards."""

    def __post_init__(self) -> None:
        for name in ("gamma", "gae_lambda"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must lie in [0, 1], got {getattr(self, name)}")


def compute_advantages(
    rewards: Tensor,  # [S]
    values: Tensor,  # [S] of the observation before the step
    next_values: Tensor,  # [S] of the observation after it, the last one of an episode included
    terminated: Tensor,  # [S] bool
    ended: Tensor,  # [S] bool; the sequence's last row: terminated, truncated or cut off
    cfg: ReturnsCfg,
) -> Tensor:
    """Advantages, [S] float32 on the rewards' device; the returns are values + advantages.

    Raises ValueError where the shapes differ or a row is terminated but not ended.
    """
    check_rows(rewards, values, next_values, terminated, ended)
    # not a product: the value after a termination is never read, and may be NaN
    bootstraps = next_values.double().masked_fill(terminated, 0.0)
    deltas = rewards.double() + cfg.gamma * bootstraps - values.double()
    return scan_backwards(deltas, cfg.gamma * cfg.gae_lambda * ~ended).float()


def importance_weights(
    env_ids: Tensor,  # [S] int, the environment that made each step
    num_envs: int,
    max_weight: float = 1.0,
) -> Tensor:
    """Truncated importance weight of each step, [S] float32: min(max_weight, (S / num_envs) / n_e).

    n_e steps came from environment e. With a maximum of 1, environments with more than their share
    count less and none counts more (Wijmans et al. 2022, VER, section 4).
    """
    if not max_weight > 0.0:
        raise ValueError(f"max_weight must be positive, got {max_weight}")
    env_ids = env_ids.long()
    counts = torch.bincount(env_ids, minlength=num_envs)
    if len(counts) > num_envs:
        raise ValueError(f"env_ids must lie in 0..{num_envs - 1}, got {len(counts) - 1}")
    weights = len(env_ids) / num_envs / counts.clamp(min=1).double()
    return weights.clamp(max=max_weight).float()[env_ids]


def scan_backwards(
    terms: Tensor,  # [S] float64
    decays: Tensor,  # [S], 0 where a sequence ends
) -> Tensor:
    """x_t = terms_t + decays_t x_{t+1} with x_S = 0, [S] float64 on the device of the terms.

    One pass over plain floats: an operation on tensors per step would cost 100 times as much, and
    on a GPU each would wait for the one before.
    """
    sums = np.empty(len(terms))
    trace = 0.0
    rows = zip(reversed(terms.tolist()), reversed(decays.tolist()), strict=True)
    for t, (term, decay) in enumerate(rows, start=1):
        # a sequence that ended must not inherit a NaN or infinity of the next one (0 * nan is nan)
        trace = term + decay * trace if decay else term
        sums[-t] = trace
    return torch.from_numpy(sums).to(terms.device)


def check_rows(first: Tensor, *others: Tensor) -> None:
    """ValueError unless all are [S] alike; the last two are `terminated` and `ended`."""
    shapes = [tuple(column.shape) for column in (first, *others)]
    if len(set(shapes)) > 1 or len(shapes[0]) != 1:
        raise ValueError(f"columns of a rollout must all have one shape [S], got {shapes}")
    terminated, ended = others[-2:]
    wrong = (terminated & ~ended).nonzero()
    if len(wrong):
        raise ValueError(f"a terminated row must also be ended, row {int(wrong[0])} is not")
