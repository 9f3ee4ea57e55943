"""The skill policy: one network from observation, previous action and memory to action and value.

    pictures  -- DepthEncoder ------------------+
         \\-- nearest surface of each cell --+    |
    scans     -- two small layers ----------+---+
    vectors   -- normalise -- linear, activation --> MLP -- LSTM --> action distribution
    previous action -- linear, activation ------+               \\-> value

Wijmans et al. 2022 (VER), section 4. Every three-dimensional observation is a picture, every other
one a vector; long vectors beside short ones are scans. The presets differ in sizes and in what is
left out; the vectors go in as they are where there is no embedding for them.

E: environments   B: steps of a minibatch   Q: sequences   A: action dimensions   K: state size
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rearrange.skills.network.distributions import Distribution, action_head
from rearrange.skills.network.encoder import DepthEncoder, EncoderCfg
from rearrange.skills.network.levelled import LEVELLED_SIZE, levelled, names_to_level
from rearrange.skills.network.nearest import nearest_cells
from rearrange.skills.network.normalizer import RunningNormalizer, only_own
from rearrange.skills.network.precision import PRECISIONS, fastest_dtype
from rearrange.skills.network.recurrent import Memory
from rearrange.system.registry import Registry
from rearrange.ver.rollout.types import Evaluation, Gather, Minibatch, PolicyStep
from rearrange.ver.workers.spaces import ActionSpec, ObservationSpec

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}
MAX_SIZE, MAX_LAYERS = 65536, 64  # of one layer, and how many
MAX_PARAMETERS = 500_000_000  # 2 GB, and with gradients and moments 8
SHORT = 32  # numbers; a vector of more is a scan
SCAN_WIDTH = 2  # width of the scans' first layer, in embedding sizes


STANDARD = "standard"  # the network of this module
NETWORKS: Registry[Callable[..., SkillPolicy]] = Registry("network")
"""Policy networks: called with the observation's and the action's spec and a `PolicyCfg`."""


@dataclass(kw_only=True)
class PolicyCfg:
    """Sizes and choices. The defaults are the `small` preset."""

    encoder: EncoderCfg = field(default_factory=EncoderCfg)
    """The pictures' network; unused where the observation has no picture."""
    vector_size: int = 128
    """Embedding of all vector observations together. 0: they go in as they are."""
    scan_size: int = 64
    """Embedding of all scans together: vectors of more than 32 numbers where there are shorter ones
    too, which they would drown. 0: they are like the others."""
    nearest_cells: int = 0
    """Cells a side of a picture whose nearest surface goes in as a scan, beside what the encoder
    makes of it, see `nearest.py`. 0: none."""
    has_levelled: bool = False
    """Vectors of the hand's axes go in in those of the base too, see `levelled.py`."""
    prev_action_size: int = 32
    """Embedding of the previous action. 0: the policy does not see it."""
    hidden_sizes: list[int] = field(default_factory=lambda: [256])
    """Widths of the layers between the embeddings and the memory."""
    activation: str = "relu"
    """Of embeddings and hidden layers: relu, tanh or gelu."""
    lstm_hidden: int = 256
    """Width of the memory."""
    lstm_layers: int = 2
    """Layers of the memory. 0: no memory."""
    separate_critic: bool = False
    """The value has hidden layers and a memory of its own; embeddings are shared."""
    initial_log_std: float = -0.5
    """Of the Gaussians at the start, in units in which [-1, 1] is the whole range."""
    initial_means: list[float] = field(default_factory=list)
    """Of the same, one for each dimension of the action, inside (-1, 1). Empty: 0."""
    normalize_observations: bool = False
    """Vector observations by their running mean and standard deviation."""
    precision: str = "float32"
    """Of the encoder's stages: float32, bfloat16, or auto, bfloat16 where the processor computes in
    it. Weights and all the rest are float32."""
    network: str = STANDARD
    """The class, one of `NETWORKS` or package.module:Name."""
    compile: bool = False
    """Compile the encoder by torch.compile. Not for a CPU: minutes of compiling, and slower."""

    def __post_init__(self) -> None:
        for name, known in (("activation", ACTIVATIONS), ("precision", PRECISIONS)):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}"
                )
        for name in (
            "vector_size", "scan_size", "nearest_cells", "prev_action_size", "lstm_layers",
        ):  # fmt: skip
            most = MAX_LAYERS if name == "lstm_layers" else MAX_SIZE
            if not 0 <= getattr(self, name) <= most:
                raise ValueError(f"{name} must lie in [0, {most}], got {getattr(self, name)}")
        if self.nearest_cells and not self.scan_size:
            raise ValueError("nearest_cells go in as a scan and need a scan_size above 0, got 0")
        if self.lstm_layers and not 1 <= self.lstm_hidden <= MAX_SIZE:
            raise ValueError(f"lstm_hidden must lie in [1, {MAX_SIZE}], got {self.lstm_hidden}")
        if not all(1 <= size <= MAX_SIZE for size in self.hidden_sizes):
            raise ValueError(
                f"hidden_sizes must all lie in [1, {MAX_SIZE}], got {self.hidden_sizes}"
            )
        if len(self.hidden_sizes) > MAX_LAYERS:
            raise ValueError(f"hidden_sizes must be at most {MAX_LAYERS} numbers")
        if not math.isfinite(self.initial_log_std):
            raise ValueError(f"initial_log_std must be finite, got {self.initial_log_std}")
        if any(not -1.0 < mean < 1.0 for mean in self.initial_means):
            raise ValueError(f"initial_means must lie inside (-1, 1), got {self.initial_means}")


_MLP = PolicyCfg(
    vector_size=0,
    scan_size=0,
    prev_action_size=0,
    hidden_sizes=[64, 64],
    activation="tanh",
    lstm_layers=0,
    separate_critic=True,
    normalize_observations=True,
)

PRESETS = {
    # Wijmans et al. 2022: 128x128, half width, LSTM 2 x 512
    "paper": PolicyCfg(
        encoder=EncoderCfg(
            base_width=32, image_size=128, compressed_size=2048, feature_size=512, norm_groups=16
        ),
        vector_size=32,
        hidden_sizes=[],
        lstm_hidden=512,
    ),
    "small": PolicyCfg(),
    "mlp_lstm": replace(
        _MLP,
        prev_action_size=16,
        hidden_sizes=[64],
        lstm_hidden=64,
        lstm_layers=1,
        separate_critic=False,
    ),
    "mlp": _MLP,
}


def policy_json(cfg: PolicyCfg) -> dict[str, Any]:
    """The sizes and choices as files hold them: the network only where it is another than ours."""
    values = asdict(cfg)
    if cfg.network == STANDARD:
        del values["network"]
    return values


def build_policy(
    observation_spec: ObservationSpec, action_spec: ActionSpec, cfg: PolicyCfg
) -> SkillPolicy:
    """A policy with fresh weights, drawn from torch's global generator.

    Raises ValueError for sizes that do not fit the spaces or make too large a network, UserError
    for a network that nobody has added.
    """
    with torch.device("meta"):  # without memory of its own, and without drawing
        draft = NETWORKS[cfg.network](observation_spec, action_spec, cfg)
    count = sum(weight.numel() for weight in draft.parameters())
    if count > MAX_PARAMETERS:
        raise ValueError(
            f"a policy must have at most {MAX_PARAMETERS:.0e} parameters, these sizes make "
            f"{count:.1e}: choose a smaller vector_size, hidden_sizes or lstm_hidden"
        )
    return NETWORKS[cfg.network](observation_spec, action_spec, cfg)


class Embedding(nn.Module):
    """The inputs of one step, whatever they are, as one vector [B, `size`]."""

    def __init__(
        self, observation_spec: ObservationSpec, action_spec: ActionSpec, cfg: PolicyCfg
    ) -> None:
        super().__init__()
        shapes = {name: tuple(spec.shape) for name, spec in sorted(observation_spec.items())}
        self.pictures = [name for name, shape in shapes.items() if len(shape) == 3]
        self.vectors = [name for name in shapes if name not in self.pictures]
        self.scans = [name for name in self.vectors if math.prod(shapes[name]) > SHORT]
        if not cfg.scan_size or len(self.scans) == len(self.vectors):
            self.scans = []
        self.vectors = [name for name in self.vectors if name not in self.scans]
        self.to_level = names_to_level(shapes) if cfg.has_levelled else []
        if not shapes:
            raise ValueError("the observation must have at least one entry, got none")
        self.num_choices = tuple(action_spec.num_choices) if action_spec.kind != "box" else ()
        self.size = self.picture_size = self.scan_size = self.num_cells = 0
        self.encoder = self.normalizer = self.vector_layer = self.prev_action_layer = None
        self.scan_layer = None
        if self.pictures:
            height, width = (min(shapes[name][axis] for name in self.pictures) for axis in (0, 1))
            channels = sum(shapes[name][2] for name in self.pictures)
            dtype = PRECISIONS[cfg.precision] or fastest_dtype()
            self.encoder = DepthEncoder(height, width, channels, cfg.encoder, dtype)
            self.picture_size = cfg.encoder.feature_size
            self.size += self.picture_size
            self.num_cells = cfg.nearest_cells
            if self.num_cells > min(height, width):
                raise ValueError(
                    f"nearest_cells must be at most the picture's {min(height, width)} pixels a "
                    f"side, got {self.num_cells}"
                )
        if self.scans or self.num_cells:
            length = sum(math.prod(shapes[name]) for name in self.scans)
            length += self.num_cells**2 * sum(shapes[name][2] for name in self.pictures)
            self.scan_layer = nn.Sequential(
                _layer(length, SCAN_WIDTH * cfg.scan_size, cfg.activation),
                _layer(SCAN_WIDTH * cfg.scan_size, cfg.scan_size, cfg.activation),
            )
            with torch.no_grad():  # as of pictures: small until it has learned to see
                self.scan_layer[1][0].weight.mul_(cfg.encoder.output_gain)
            self.scan_size = cfg.scan_size
            self.size += cfg.scan_size
        if self.vectors:
            length = sum(math.prod(shapes[name]) for name in self.vectors)
            length += LEVELLED_SIZE * len(self.to_level)
            if cfg.normalize_observations:
                self.normalizer = RunningNormalizer(length)
            if cfg.vector_size:
                self.vector_layer = _layer(length, cfg.vector_size, cfg.activation)
            self.size += cfg.vector_size or length
        if cfg.prev_action_size:
            length = sum(self.num_choices) or action_spec.size
            self.prev_action_layer = _layer(length, cfg.prev_action_size, cfg.activation)
            self.size += cfg.prev_action_size

    def forward(
        self, observation: dict[str, Tensor], prev_action: Tensor, is_first: Tensor
    ) -> Tensor:
        parts = []
        if self.encoder is not None:
            parts.append(self.encoder(self._stacked(observation)))
        if self.scan_layer is not None:
            parts.append(self.scan_layer(self._scanned(observation)))
        if self.vectors:
            x = self.joined(observation)
            if self.normalizer is not None:
                x = self.normalizer(x)
            parts.append(x if self.vector_layer is None else self.vector_layer(x))
        if self.prev_action_layer is not None:
            if self.num_choices:
                prev_action = self._one_hot(prev_action)
            # where, not times: what stands there before an episode's first step may be anything
            prev_action = torch.where(is_first.unsqueeze(-1), 0.0, prev_action)
            parts.append(self.prev_action_layer(prev_action))
        return torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0]

    def joined(self, observation: dict[str, Tensor]) -> Tensor:
        """All vectors but scans one after another, and some levelled, [B, length] float32."""
        joined = _joined(observation, self.vectors)
        if not self.to_level:
            return joined
        return torch.cat([joined, levelled(observation, self.to_level)], dim=-1)

    def _scanned(self, observation: dict[str, Tensor]) -> Tensor:
        """All scans one after another, and the pictures' cells, [B, length] float32."""
        parts = [_joined(observation, self.scans)] if self.scans else []
        if self.num_cells:
            parts += [nearest_cells(observation[name], self.num_cells) for name in self.pictures]
        return torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0]

    def _stacked(self, observation: dict[str, Tensor]) -> Tensor:
        """The pictures as channels of one, [B, H, W, C], of the size the encoder wants."""
        if len(self.pictures) == 1:
            return observation[self.pictures[0]]
        sized = [self.encoder.sized(observation[name]) for name in self.pictures]
        return torch.cat(sized, dim=-1)

    def _one_hot(self, action: Tensor) -> Tensor:
        parts = [
            F.one_hot(part.long().clamp(0, n - 1), n)
            for part, n in zip(action.unbind(-1), self.num_choices, strict=True)
        ]
        return torch.cat(parts, dim=-1).float()


class Trunk(nn.Module):
    """Hidden layers and memory: [B, inputs] -> [B, `size`]."""

    def __init__(self, inputs: int, cfg: PolicyCfg) -> None:
        super().__init__()
        sizes = [inputs, *cfg.hidden_sizes]
        layers = [_layer(a, b, cfg.activation) for a, b in zip(sizes, sizes[1:], strict=False)]
        self.hidden = nn.Sequential(*layers)
        self.memory = (
            Memory(sizes[-1], cfg.lstm_hidden, cfg.lstm_layers) if cfg.lstm_layers else None
        )
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
        self.trunks = nn.ModuleList(Trunk(self.embedding.size, cfg) for _ in range(num_trunks))
        self.actor = action_head(
            self.trunks[0].size, action_spec, cfg.initial_log_std, cfg.initial_means
        )
        self.critic = nn.Linear(self.trunks[-1].size, 1)
        nn.init.orthogonal_(self.critic.weight)
        nn.init.zeros_(self.critic.bias)
        self.state_sizes = [trunk.state_size for trunk in self.trunks]
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
        distribution: Distribution = self.actor(features[0])
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
        return distribution.mean, value

    def observe(self, observation: dict[str, Tensor], gather: Gather = only_own) -> None:
        """Merge the ranks' vectors {name: [S, ...]} of a rollout into the running statistics."""
        if self.embedding.normalizer is not None:
            self.embedding.normalizer.update(self.embedding.joined(observation), gather)

    def refresh(self) -> None:
        """The weights will be these for a while: acting may be made quick. See `DepthEncoder`."""
        if self.embedding.encoder is not None:
            self.embedding.encoder.refresh()

    def _evaluate(self, minibatch: Minibatch) -> tuple[Distribution, Tensor]:
        """Distribution and value of each of a minibatch's steps."""
        self.actor.project()
        num_sequences = len(minibatch.start_state)
        # Only the first step of a sequence, one of the first Q rows, can be an episode's first.
        is_fresh = minibatch.is_first[:num_sequences]
        start = torch.where(is_fresh.unsqueeze(-1), 0.0, minibatch.start_state)
        x = self.embedding(minibatch.observation, minibatch.prev_action, minibatch.is_first)
        features = [
            trunk.sequences(x, minibatch.batch_sizes, part)
            for trunk, part in zip(self.trunks, start.split(self.state_sizes, dim=-1), strict=True)
        ]
        return self.actor(features[0]), self.critic(features[-1]).squeeze(-1)

    def _step(
        self, observation: dict[str, Tensor], prev_action: Tensor, is_first: Tensor, state: Tensor
    ) -> tuple[list[Tensor], Tensor]:
        """Features of actor and critic (one tensor if they share), [E, H] each, and the state."""
        state = torch.where(is_first.unsqueeze(-1), 0.0, state)
        features, states = [], []
        x = self.embedding(observation, prev_action, is_first)
        parts = state.split(self.state_sizes, dim=-1)
        for trunk, part in zip(self.trunks, parts, strict=True):
            out, after = trunk.step(x, part)
            features.append(out)
            states.append(after)
        return features, torch.cat(states, dim=-1) if len(states) > 1 else states[0]


def _joined(observation: dict[str, Tensor], names: list[str]) -> Tensor:
    parts = [observation[name].flatten(1).float() for name in names]
    return torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0]


def _layer(inputs: int, outputs: int, activation: str) -> nn.Sequential:
    """Linear and activation, orthogonal."""
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, math.sqrt(2.0))
    nn.init.zeros_(linear.bias)
    return nn.Sequential(linear, ACTIVATIONS[activation]())


NETWORKS.add(STANDARD, SkillPolicy)
