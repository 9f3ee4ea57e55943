"""The skill policy: one network from observation, previous action and memory to action and value.

    pictures  -- DepthEncoder ------------------+
         \\-- nearest surface of each cell --+    |
    scans     -- two small layers ----------+---+
    vectors   -- normalise -- linear, activation --> MLP -- LSTM --> action distribution
    previous action -- linear, activation ------+               \\-> value

Wijmans et al. 2022 (VER), section 4. Every three-dimensional observation is a picture, every other
one a vector; long vectors beside short ones are scans. Presets differ in sizes and in which parts
they omit; without an embedding, vectors are used directly.

E: environments   B: steps of a minibatch   Q: sequences   A: action dimensions   K: state size
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

import torch
from torch import Tensor, nn

from rearrange.skills.network.actions.distributions import DiagonalGaussian, Distribution
from rearrange.skills.network.actions.heads import action_head
from rearrange.skills.network.embedding import Embedding, layer
from rearrange.skills.network.normalizer import only_own
from rearrange.skills.network.packed_lstm import shifted
from rearrange.skills.network.policy_cfg import STANDARD, PolicyCfg
from rearrange.skills.network.precision import dtype_of
from rearrange.skills.network.recurrent import Memory
from rearrange.system.registry import Registry
from rearrange.ver.rollout.types import Components, Evaluation, Gather, Minibatch, PolicyStep
from rearrange.ver.workers.spaces import ActionSpec, ObservationSpec

MAX_PARAMETERS = 500_000_000  # 2 GB, or 8 with gradients and moments
NETWORKS: Registry[Callable[..., SkillPolicy]] = Registry("network")
"""Policy networks: called with the observation's and the action's spec and a `PolicyCfg`."""


def build_policy(
    observation_spec: ObservationSpec, action_spec: ActionSpec, cfg: PolicyCfg
) -> SkillPolicy:
    """A policy with fresh weights, drawn from torch's global generator.

    Raises ValueError for sizes that do not fit the spaces or make too large a network, UserError
    for an unknown network.
    """
    draft_policy(observation_spec, action_spec, cfg)
    return NETWORKS[cfg.network](observation_spec, action_spec, cfg)


def draft_policy(
    observation_spec: ObservationSpec, action_spec: ActionSpec, cfg: PolicyCfg
) -> SkillPolicy:
    """What `build_policy` would build, without random numbers and, if it can be, on the meta
    device, which takes no memory. Raises as that does.
    """
    make = NETWORKS[cfg.network]
    try:
        with torch.device("meta"):
            draft = make(observation_spec, action_spec, cfg)
    except RuntimeError:  # one of a user's own that reads a tensor's numbers
        if make is SkillPolicy:
            raise
        with torch.random.fork_rng(devices=[]):
            draft = make(observation_spec, action_spec, cfg)
    count = sum(weight.numel() for weight in draft.parameters())
    if count > MAX_PARAMETERS:
        raise ValueError(
            f"a policy must have at most {MAX_PARAMETERS:.0e} parameters, these sizes make "
            f"{count:.1e}: choose a smaller vector_size, hidden_sizes or lstm_hidden"
        )
    return draft


class Trunk(nn.Module):
    """Hidden layers and memory: [B, inputs] -> [B, `size`]."""

    def __init__(self, inputs: int, cfg: PolicyCfg) -> None:
        super().__init__()
        sizes = [inputs, *cfg.hidden_sizes]
        layers = [layer(a, b, cfg.activation) for a, b in zip(sizes, sizes[1:], strict=False)]
        self.hidden = nn.Sequential(*layers)
        self.memory = None
        if cfg.lstm_layers:
            dtype = dtype_of(cfg.precision)
            self.memory = Memory(sizes[-1], cfg.lstm_hidden, cfg.lstm_layers, dtype)
        self.size = cfg.lstm_hidden if cfg.lstm_layers else sizes[-1]
        self.state_size = self.memory.state_size if self.memory else 0

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """One step of every environment, [E, inputs] and [E, K]: outputs and the state after it."""
        x = self.hidden(x)
        return (x, state) if self.memory is None else self.memory.step(x, state)

    def sequences(self, x: Tensor, batch_sizes: Tensor, start_state: Tensor) -> Tensor:
        """Packed steps [B, inputs] from start_state [Q, K]."""
        x = self.hidden(x)
        return x if self.memory is None else self.memory.sequences(x, batch_sizes, start_state)


class SkillPolicy(nn.Module):
    """Implements `rearrange.ver.rollout.types.Policy`."""

    def __init__(
        self, observation_spec: ObservationSpec, action_spec: ActionSpec, cfg: PolicyCfg
    ) -> None:
        super().__init__()
        self.cfg = cfg
        self.embedding = Embedding(observation_spec, action_spec, cfg)
        num_trunks = 2 if cfg.separate_critic else 1  # the first is the actor's
        trunks = [Trunk(self.embedding.size, cfg) for _ in range(num_trunks)]
        self.trunks = nn.ModuleList(trunks)
        self.actor = action_head(
            trunks[0].size, action_spec, cfg.initial_log_std, cfg.initial_means, cfg.switches,
            cfg.num_blocks, cfg.num_components,
        )  # fmt: skip
        self.num_components = cfg.num_components
        self.critic = nn.Linear(trunks[-1].size, 1)
        nn.init.orthogonal_(self.critic.weight)
        nn.init.zeros_(self.critic.bias)
        # The trunks' own, and the vectors of the step before if changes are seen.
        self.state_sizes = [*(trunk.state_size for trunk in trunks), self.embedding.change_size]
        self.state_size = sum(self.state_sizes)
        if cfg.compile and self.embedding.encoder is not None:
            self.embedding.encoder.compile(dynamic=True)

    def act(
        self,
        observation: dict[str, Tensor],  # {name: [E, ...]}
        prev_action: Tensor,  # [E, A]
        is_first: Tensor,  # [E] bool
        state: Tensor,  # [E, K]
        deterministic: bool = False,
    ) -> PolicyStep:
        """One step of every environment: a sampled action, or the most likely one."""
        features, state = self._step(observation, prev_action, is_first, state)
        block = self.embedding.block_of(observation, is_first)
        distribution: Distribution = self.actor(features[0], block)
        action = distribution.mode() if deterministic else distribution.sample()
        return PolicyStep(
            action=action,
            log_prob=distribution.log_prob(action),
            value=self.critic(features[-1]).squeeze(-1),
            state=state,
        )

    def value(
        self, observation: dict[str, Tensor], prev_action: Tensor, is_first: Tensor, state: Tensor
    ) -> Tensor:
        """The values `act` would report, [E]."""
        features, _ = self._step(observation, prev_action, is_first, state)
        return self.critic(features[-1]).squeeze(-1)

    def evaluate(self, minibatch: Minibatch) -> Evaluation:
        """Stored steps under the present weights, with gradients."""
        distribution, value = self._evaluate(minibatch)
        return Evaluation(
            log_prob=distribution.log_prob(minibatch.action),
            entropy=distribution.entropy(),
            value=value,
        )

    def means(self, minibatch: Minibatch) -> tuple[Tensor, Tensor]:
        """Mean actions [B, A] of Gaussian policies, and values [B], with gradients."""
        distribution, value = self._evaluate(minibatch)
        assert isinstance(distribution, DiagonalGaussian)
        return distribution.mean, value

    def components(self, minibatch: Minibatch) -> tuple[Components, Tensor]:
        """The components that Gaussian policies with several choose from, and values [B], with
        gradients."""
        distribution, value = self._evaluate(minibatch)
        assert isinstance(distribution, DiagonalGaussian) and distribution.components is not None
        return distribution.components, value

    def observe(self, observation: dict[str, Tensor], gather: Gather = only_own) -> None:
        """Merge the ranks' vectors {name: [S, ...]} of a rollout into the running statistics."""
        if self.embedding.normalizer is not None:
            self.embedding.normalizer.update(self.embedding.joined(observation), gather)

    def refresh(self) -> None:
        """Prepares fast acting with the current weights. See `DepthEncoder`."""
        if self.embedding.encoder is not None:
            self.embedding.encoder.refresh()

    def _evaluate(self, minibatch: Minibatch) -> tuple[Distribution, Tensor]:
        """Distribution and value of each step of a minibatch."""
        self.actor.project()
        num_sequences = len(minibatch.start_state)
        # Only the first step of a sequence, one of the first Q rows, can be an episode's first.
        is_fresh = minibatch.is_first[:num_sequences]
        start = torch.where(is_fresh.unsqueeze(-1), 0.0, minibatch.start_state)
        *starts, before = start.split(self.state_sizes, dim=-1)
        vectors = self._vectors(minibatch.observation)
        if vectors is not None:
            before = shifted(before, vectors, minibatch.batch_sizes.tolist())
        x = self.embedding(
            minibatch.observation, minibatch.prev_action, minibatch.is_first, vectors, before
        )
        features = [
            trunk.sequences(x, minibatch.batch_sizes, part)
            for trunk, part in zip(self._trunks(), starts, strict=True)
        ]
        block = self.embedding.block_of(minibatch.observation, x)
        return self.actor(features[0], block), self.critic(features[-1]).squeeze(-1)

    def _vectors(self, observation: dict[str, Tensor]) -> Tensor | None:
        """All vectors, [B, V], if the next step needs them to see what has changed."""
        return self.embedding.joined(observation) if self.embedding.change_size else None

    def _trunks(self) -> Iterable[Trunk]:
        return cast("Iterable[Trunk]", self.trunks)

    def _step(
        self, observation: dict[str, Tensor], prev_action: Tensor, is_first: Tensor, state: Tensor
    ) -> tuple[list[Tensor], Tensor]:
        """Features of actor and critic (one tensor if they share), [E, H] each, and the state."""
        state = torch.where(is_first.unsqueeze(-1), 0.0, state)
        features, states = [], []
        *parts, before = state.split(self.state_sizes, dim=-1)
        vectors = self._vectors(observation)
        x = self.embedding(observation, prev_action, is_first, vectors, before)
        for trunk, part in zip(self._trunks(), parts, strict=True):
            out, after = trunk.step(x, part)
            features.append(out)
            states.append(after)
        if vectors is not None:
            states.append(vectors)
        return features, torch.cat(states, dim=-1) if len(states) > 1 else states[0]


NETWORKS.add(STANDARD, SkillPolicy)
