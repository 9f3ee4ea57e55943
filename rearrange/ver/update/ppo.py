"""The losses: PPO's clipped objective on weighted steps, and V-trace for off-policy data.

    ratio_b  = exp(log pi(a_b) - log pi_old(a_b))
    policy_b = -min(ratio_b A_b, clip(ratio_b, 1 - eps, 1 + eps) A_b)
    value_b  = 1/2 (V_b - R_b)^2
    loss     = 1/B sum_b w_b (policy_b + value_coef value_b - entropy_coef H_b)

Schulman et al. 2017, equations 7 and 9; w_b are the truncated importance weights of Wijmans et al.
2022 (VER). The sum is divided by B, not by the sum of the weights: an unevenly sampled rollout
makes a smaller step.   B: steps of a minibatch, S: steps of a rollout.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from rearrange.ver.rollout.types import Evaluation, Minibatch
from rearrange.ver.update.returns import check_rows, scan_backwards

# Added to the advantages' standard deviation, so that equal advantages become 0 and not NaN.
ADVANTAGE_EPS = 1e-8


LARGEST = 1e9  # largest setting; the product of two is still finite in float32


@dataclass(kw_only=True)
class PPOCfg:
    """Defaults are the VER paper's; it does not state max_grad_norm."""

    clip_coef: float = 0.2
    """How far the ratio may leave 1 before a step gives no gradient."""
    value_coef: float = 0.5
    """Weight of the value's loss beside the policy's."""
    num_epochs: int = 3
    """Passes over a rollout."""
    num_minibatches: int = 2
    """Equal parts a rollout is cut into, in each epoch anew."""
    max_grad_norm: float = 0.5
    """Gradients are clipped to this norm."""
    learning_rate: float = 2.5e-4
    """Adam's learning rate at the start of the schedule."""
    adam_eps: float = 1e-5
    """Added to Adam's denominator, so that tiny gradients do not cause full steps."""
    normalize_advantages: bool = False
    """To mean 0 and standard deviation 1 within each minibatch, over all ranks."""
    clip_values: bool = False
    """Also clip how far a value moves from the stored one, by clip_coef."""
    max_sequence_length: int | None = None
    """Cut sequences to this many steps before back-propagating; None: only where parts are cut."""
    critic_updates: int = 0
    """First updates, in which only the critic's last layer learns: one fitted to the returns of
    another policy would make a good one worse."""
    target_kl: float | None = None
    """End an update before the first minibatch whose approximate KL divergence from the policy that
    acted exceeds this; None: never."""

    def __post_init__(self) -> None:
        if self.critic_updates < 0:
            raise ValueError(f"critic_updates must not be negative, got {self.critic_updates}")
        for name in ("clip_coef", "max_grad_norm", "learning_rate", "adam_eps", "target_kl"):
            value = getattr(self, name)
            if value is not None and not 0.0 < value <= LARGEST:
                raise ValueError(f"{name} must lie in (0, {LARGEST:g}], got {value}")
        if not 0.0 <= self.value_coef <= LARGEST:
            raise ValueError(f"value_coef must lie in [0, {LARGEST:g}], got {self.value_coef}")
        for name in ("num_epochs", "num_minibatches", "max_sequence_length"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")


def ppo_loss(
    evaluation: Evaluation,  # of the policy being learned, with gradients
    minibatch: Minibatch,
    entropy_coef: float | Tensor,
    cfg: PPOCfg,
    advantages_of_all: Tensor | None = None,  # of all ranks, where there are several
    entropy_bonus: Tensor | None = None,  # [B] added to the coefficient, a step at a time
) -> tuple[Tensor, dict[str, Tensor]]:
    """The scalar to minimise, and detached scalars to log.

    `loss/...` are the three terms as they enter the sum, weighted, before their coefficients;
    `ppo/...` are taken over all steps alike, `ppo/entropy` in nats.
    """
    weight = minibatch.is_weight
    advantage = minibatch.advantage
    if cfg.normalize_advantages:
        known = (advantage if advantages_of_all is None else advantages_of_all).double()
        spread = known.std(correction=0) + ADVANTAGE_EPS  # equal ones have a mean without rounding
        advantage = ((advantage - known.mean()) / spread).to(advantage.dtype)

    log_ratio = evaluation.log_prob - minibatch.log_prob
    ratio = log_ratio.exp()
    clipped_ratio = ratio.clamp(1.0 - cfg.clip_coef, 1.0 + cfg.clip_coef)
    policy_term = -torch.minimum(ratio * advantage, clipped_ratio * advantage)
    if minibatch.policy_weight is not None:
        policy_term = minibatch.policy_weight * policy_term

    value_term = 0.5 * (evaluation.value - minibatch.returns).square()
    if cfg.clip_values:
        move = (evaluation.value - minibatch.value).clamp(-cfg.clip_coef, cfg.clip_coef)
        clipped_term = 0.5 * (minibatch.value + move - minibatch.returns).square()
        value_term = torch.maximum(value_term, clipped_term)

    policy_loss = (weight * policy_term).mean()
    value_loss = (weight * value_term).mean()
    entropy = (weight * evaluation.entropy).mean()
    loss = policy_loss + cfg.value_coef * value_loss - entropy_coef * entropy
    if entropy_bonus is not None:
        loss = loss - (entropy_bonus * weight * evaluation.entropy).mean()

    with torch.no_grad():
        stats = {
            "loss/policy": policy_loss.detach(),
            "loss/value": value_loss.detach(),
            "loss/entropy": entropy.detach(),
            # non-negative, low variance: Schulman, "Approximating KL divergence", k3
            "ppo/approx_kl": (ratio - 1.0 - log_ratio).mean(),
            "ppo/clip_fraction": ((ratio - 1.0).abs() > cfg.clip_coef).float().mean(),
            "ppo/ratio_max": ratio.max(),
            "ppo/ratio_min": ratio.min(),
            "ppo/entropy": evaluation.entropy.mean(),
        }
    return loss, stats


def vtrace(
    log_rhos: Tensor,  # [S] log pi(a) - log mu(a); mu collected the step
    rewards: Tensor,  # [S]
    values: Tensor,  # [S] of the observation before the step
    next_values: Tensor,  # [S] of the observation after it
    terminated: Tensor,  # [S] bool
    ended: Tensor,  # [S] bool; the sequence's last row
    gamma: float,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
    gae_lambda: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Value targets and policy-gradient advantages, each [S] float32; rows stand in sequences.

        rho_t = min(rho_bar, pi/mu)   c_t = lambda min(c_bar, pi/mu)
        v_t   = V_t + rho_t (r_t + gamma V_{t+1} - V_t) + gamma c_t (v_{t+1} - V_{t+1})
        A_t   = r_t + gamma V_{t+1} - V_t + gamma lambda (v_{t+1} - V_{t+1})

    Espeholt et al. 2018 (IMPALA), equation 1, remark 2 and section 4.2, needs c_bar <= rho_bar.
    IMPALA multiplies A_t by rho_t: here PPO's ratio, which is of pi to mu too, does so, and twice
    would be wrong. On-policy A is GAE's. Past a sequence's end v is the value of the last
    observation, or 0 after termination.
    """
    check_rows(log_rhos, rewards, values, next_values, terminated, ended)
    if not 0.0 < c_bar <= rho_bar:
        raise ValueError(f"vtrace needs 0 < c_bar <= rho_bar, got {c_bar} and {rho_bar}")
    rewards, values = rewards.double(), values.double()
    next_values = next_values.double().masked_fill(terminated, 0.0)
    rhos = log_rhos.double().exp()
    clipped_rhos, cs = rhos.clamp(max=rho_bar), rhos.clamp(max=c_bar)

    errors = rewards + gamma * next_values - values
    targets = values + scan_backwards(clipped_rhos * errors, gamma * gae_lambda * cs * ~ended)
    next_targets = torch.where(ended, next_values, torch.cat([targets[1:], next_values[-1:]]))
    advantages = errors + gamma * gae_lambda * (next_targets - next_values)
    return targets.float(), advantages.float()
