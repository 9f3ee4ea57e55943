"""The entropy bonus coefficient alpha, learned to keep the policy at a target entropy.

    loss = alpha (H - H_target),  alpha = exp(log_alpha) within [minimum, maximum]

Minimised over log_alpha alone: alpha rises while the policy's entropy H lies below the target and
falls while it lies above. The rule is that of Haarnoja et al. 2018 (SAC applications, section 5);
start, bounds and target are those of Wijmans et al. 2022 (VER).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(kw_only=True)
class EntropyCfg:
    learned: bool = True
    """False: alpha stays what `initial` says (0: no bonus)."""
    target: float = 0.0
    """Wanted mean entropy, nats. Of discrete actions it is never negative, so 0 means none kept."""
    initial: float = 1e-3
    """alpha at the start."""
    minimum: float = 1e-4
    """Lower bound of a learned alpha."""
    maximum: float = 1.0
    """Upper bound of a learned alpha."""
    learning_rate: float = 2.5e-4
    """Of Adam on log_alpha: about the relative change of alpha per optimiser step."""

    def __post_init__(self) -> None:
        for name in ("target", "initial", "minimum", "maximum", "learning_rate"):
            if not math.isfinite(getattr(self, name)):
                raise ValueError(f"entropy {name} must be finite, got {getattr(self, name)}")
        if self.initial < 0.0:
            raise ValueError(f"entropy initial must not be negative, got {self.initial}")
        if not self.learned:
            return
        if not 0.0 < self.minimum <= self.initial <= self.maximum:
            raise ValueError(
                "a learned entropy coefficient needs 0 < minimum <= initial <= maximum, "
                f"got {self.minimum}, {self.initial}, {self.maximum}"
            )
        if self.learning_rate <= 0.0:
            raise ValueError(f"entropy learning_rate must be positive, got {self.learning_rate}")


class EntropyCoefficient(nn.Module):
    """Holds log_alpha; the owner steps an optimiser on it, then calls `project`."""

    def __init__(self, cfg: EntropyCfg) -> None:
        super().__init__()
        self.cfg = cfg
        self.log_alpha = nn.Parameter(torch.empty(()), requires_grad=cfg.learned)
        self.begin()

    @torch.no_grad()
    def begin(self) -> None:
        """Sets alpha to what it is at the start."""
        self.log_alpha.fill_(math.log(self.cfg.initial) if self.cfg.initial > 0.0 else -math.inf)

    @property
    def value(self) -> Tensor:
        """alpha, a detached scalar: the policy's loss must not move it."""
        return self.log_alpha.detach().exp()

    def loss(self, entropy_mean: Tensor) -> Tensor:
        """Scalar with a gradient for log_alpha only; 0 where the coefficient is fixed."""
        if not self.cfg.learned:
            return self.log_alpha.new_zeros(())
        return self.log_alpha.exp() * (entropy_mean.detach() - self.cfg.target)

    @torch.no_grad()
    def project(self) -> None:
        """Puts alpha back within its bounds."""
        if self.cfg.learned:
            self.log_alpha.clamp_(math.log(self.cfg.minimum), math.log(self.cfg.maximum))
