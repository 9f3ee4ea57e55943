"""SchemeCfg: how a training runs, independent of what it learns.

    scheme   processes                                        gradients       started by
    serial   one, environments in it                          central         the command
    ver      environment workers; one collects and learns     central         the command
    ranks    world_size of these, on this machine             decentralised   torch's elastic agent
    ray      world_size of these, anywhere in a cluster       decentralised   Ray

Of each kind of process there is the same: gradients are always applied to the weights that they
were computed with (`ver/gradient_staleness` shows it). Whether sampling waits for learning is said
by `mode`: it is synchronous in ver, nover, ddppo and htsrl, asynchronous in async, which has one
learner (`ver/policy_lag` shows what comes of it). An agent's other settings know nothing of this.

The axes, parallel or central and synchronous or asynchronous, are those of PyTorchRL (2020),
section 3.3, figure 1b.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SCHEMES = ("serial", "ver", "ranks", "ray")
MISTAKE = 2  # exit code of a command that reports a mistake of its caller
SPREAD = ("ranks", "ray")  # start processes that run the same arguments again


@dataclass(kw_only=True)
class SchemeCfg:
    name: str = "ver"
    """The scheme's name."""
    world_size: int = 1
    """ranks, ray: processes that learn one policy together."""
    max_restarts: int = 3
    """ranks, ray: so often all ranks are started again, from the newest checkpoint, after one of
    them or its machine was lost."""
    num_cpus: float = 1.0
    """ray: cores that are set aside for each rank and its environments."""
    num_gpus: float = 0.0
    """ray: GPUs for each rank, 0 or 1; of single ranks several may share one, as with 0.25."""
    address: str | None = None
    """ray: HOST:PORT of a cluster; none: that of RAY_ADDRESS, or of `ray start` on this machine, or
    else one for this command alone, as local always is."""

    def __post_init__(self) -> None:
        if self.name not in SCHEMES:
            raise ValueError(f"scheme must be one of {', '.join(SCHEMES)}; got '{self.name}'")
        if self.world_size < 1:
            raise ValueError(f"scheme.world_size must be at least 1, got {self.world_size}")
        if self.world_size > 1 and self.name not in SPREAD:
            raise ValueError(
                f"scheme={self.name} is one process: scheme.world_size={self.world_size} is for "
                f"scheme={' and scheme='.join(SPREAD)}"
            )
        if self.max_restarts < 0:
            raise ValueError(f"scheme.max_restarts must not be negative, got {self.max_restarts}")
        if not self.num_cpus > 0.0:
            raise ValueError(f"scheme.num_cpus must be positive, got {self.num_cpus}")
        is_share = self.world_size == 1 and 0.0 < self.num_gpus < 1.0
        if self.num_gpus not in (0.0, 1.0) and not is_share:
            raise ValueError(
                "scheme.num_gpus must be 0 or 1, or less than 1 if there is one rank: a rank "
                f"learns on one GPU; got {self.num_gpus}"
            )


def is_placed(variables: Mapping[str, str]) -> bool:
    """True for a process that already is one of the ranks, whoever started it."""
    return "RANK" in variables and "WORLD_SIZE" in variables
