"""Embeds the inputs of one step, of any kind, into one vector.

Every three-dimensional observation is a picture, every other one a vector; long vectors beside
short ones are scans. Each of several policies on shared layers (`rearrange.ver.sapg`) adds its own
learned vector; the observation `sapg_block` selects it, the default is the leader's.

B: steps   M: policies
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rearrange.skills.network.base_frame import BASE_FRAME_SIZE, hand_frame_vectors, in_base_frame
from rearrange.skills.network.changes import changes
from rearrange.skills.network.normalizer import RunningNormalizer
from rearrange.skills.network.pictures.encoder import DepthEncoder
from rearrange.skills.network.pictures.nearest import nearest_cells
from rearrange.skills.network.policy_cfg import ACTIVATIONS, PolicyCfg
from rearrange.skills.network.precision import dtype_of
from rearrange.ver.sapg.blocks import BLOCK, LEADER
from rearrange.ver.workers.spaces import ActionSpec, ObservationSpec

SHORT = 32  # numbers; a vector of more is a scan
SCAN_WIDTH = 2  # width of the scans' first layer, in embedding sizes


class Embedding(nn.Module):
    """The inputs of one step, of any kind, as one vector [B, `size`]."""

    def __init__(
        self, observation_spec: ObservationSpec, action_spec: ActionSpec, cfg: PolicyCfg
    ) -> None:
        super().__init__()
        shapes = {
            name: tuple(spec.shape)
            for name, spec in sorted(observation_spec.items())
            if name != BLOCK
        }
        self.pictures = [name for name, shape in shapes.items() if len(shape) == 3]
        self.vectors = [name for name in shapes if name not in self.pictures]
        self.scans = [name for name in self.vectors if math.prod(shapes[name]) > SHORT]
        if not cfg.scan_size or len(self.scans) == len(self.vectors):
            self.scans = []
        self.vectors = [name for name in self.vectors if name not in self.scans]
        self.in_hand_frame = hand_frame_vectors(shapes) if cfg.base_frame_vectors else []
        if not shapes:
            raise ValueError("the observation must have at least one entry, got none")
        self.num_choices = tuple(action_spec.num_choices) if action_spec.kind != "box" else ()
        self.size = self.picture_size = self.scan_size = self.num_cells = 0
        self.encoder = self.normalizer = self.vector_layer = self.prev_action_layer = None
        self.scan_layer = None
        self.change_size = 0  # V, numbers whose changes are seen too
        if self.pictures:
            height, width = (min(shapes[name][axis] for name in self.pictures) for axis in (0, 1))
            channels = sum(shapes[name][2] for name in self.pictures)
            dtype = dtype_of(cfg.precision)
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
            first = layer(length, SCAN_WIDTH * cfg.scan_size, cfg.activation)
            last = layer(SCAN_WIDTH * cfg.scan_size, cfg.scan_size, cfg.activation)
            self.scan_layer = nn.Sequential(first, last)
            with torch.no_grad():  # small at first, like the pictures' features
                for weight in last[0].parameters():
                    if weight.ndim == 2:
                        weight.mul_(cfg.encoder.output_gain)
            self.scan_size = cfg.scan_size
            self.size += cfg.scan_size
        if self.vectors:
            length = sum(math.prod(shapes[name]) for name in self.vectors)
            length += BASE_FRAME_SIZE * len(self.in_hand_frame)
            if cfg.normalize_observations:
                self.normalizer = RunningNormalizer(length)
            if cfg.vector_changes:
                self.change_size = length
                length += self.change_size
            if cfg.vector_size:
                self.vector_layer = layer(length, cfg.vector_size, cfg.activation)
            self.size += cfg.vector_size or length
        if cfg.prev_action_size:
            length = sum(self.num_choices) or action_spec.size
            self.prev_action_layer = layer(length, cfg.prev_action_size, cfg.activation)
            self.size += cfg.prev_action_size
        self.block_vectors = None  # [M, block_size], of norm 1 or so, like one-hot inputs
        if cfg.num_blocks > 1:
            drawn = torch.randn(cfg.num_blocks, cfg.block_size)
            self.block_vectors = nn.Parameter(drawn / math.sqrt(cfg.block_size))
            self.size += cfg.block_size

    def block_of(self, observation: dict[str, Tensor], rows: Tensor) -> Tensor | None:
        """The policy of each of B steps, [B] int64; None if there is only one.

        Args:
            rows: [B, ...]; only the first dimension matters. `len` would fix an exported model's.
        """
        if self.block_vectors is None:
            return None
        if BLOCK in observation:
            return observation[BLOCK][:, 0].long()
        return torch.full((rows.shape[0],), LEADER, device=self.block_vectors.device)

    def forward(
        self, observation: dict[str, Tensor], prev_action: Tensor, is_first: Tensor,
        vectors: Tensor | None = None, before: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """The embedding of B steps, [B, `size`].

        Args:
            vectors: what `joined` returns, if it is known already, [B, V].
            before: that of the step before each, [B, V]; only for `vector_changes`.
        """
        parts = []
        if self.encoder is not None:
            parts.append(self.encoder(self._stacked(observation)))
        if self.scan_layer is not None:
            parts.append(self.scan_layer(self._scanned(observation)))
        if self.vectors:
            joined = self.joined(observation) if vectors is None else vectors
            x = joined if self.normalizer is None else self.normalizer(joined)
            if self.change_size:
                if before is None:
                    raise ValueError("vector_changes need the vectors of the step before")
                scale = None if self.normalizer is None else self.normalizer.scale()
                x = torch.cat([x, changes(joined, before, is_first, scale)], dim=-1)
            parts.append(x if self.vector_layer is None else self.vector_layer(x))
        if self.prev_action_layer is not None:
            if self.num_choices:
                prev_action = self._one_hot(prev_action)
            # where, not a product: the value before an episode's first step is undefined
            prev_action = torch.where(is_first.unsqueeze(-1), 0.0, prev_action)
            parts.append(self.prev_action_layer(prev_action))
        block = self.block_of(observation, is_first)
        if self.block_vectors is not None and block is not None:
            parts.append(self.block_vectors[block])
        return torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0]

    def joined(self, observation: dict[str, Tensor]) -> Tensor:
        """All vectors but scans, concatenated, some also in the base frame, [B, length] float32."""
        joined = _joined(observation, self.vectors)
        if not self.in_hand_frame:
            return joined
        return torch.cat([joined, in_base_frame(observation, self.in_hand_frame)], dim=-1)

    def _scanned(self, observation: dict[str, Tensor]) -> Tensor:
        """All scans and the pictures' cells, concatenated, [B, length] float32."""
        parts = [_joined(observation, self.scans)] if self.scans else []
        if self.num_cells:
            parts += [nearest_cells(observation[name], self.num_cells) for name in self.pictures]
        return torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0]

    def _stacked(self, observation: dict[str, Tensor]) -> Tensor:
        """All pictures as channels of one, [B, H, W, C], of the encoder's size."""
        if len(self.pictures) == 1 or self.encoder is None:
            return observation[self.pictures[0]]
        sized = [self.encoder.sized(observation[name]) for name in self.pictures]
        return torch.cat(sized, dim=-1)

    def _one_hot(self, action: Tensor) -> Tensor:
        parts = [
            F.one_hot(part.long().clamp(0, n - 1), n)
            for part, n in zip(action.unbind(-1), self.num_choices, strict=True)
        ]
        return torch.cat(parts, dim=-1).float()


def _joined(observation: dict[str, Tensor], names: list[str]) -> Tensor:
    parts = [observation[name].flatten(1).float() for name in names]
    return torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0]


def layer(inputs: int, outputs: int, activation: str) -> nn.Sequential:
    """Linear and activation, orthogonal."""
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, math.sqrt(2.0))
    nn.init.zeros_(linear.bias)
    return nn.Sequential(linear, ACTIVATIONS[activation]())
