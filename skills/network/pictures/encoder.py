"""From a depth image to a feature vector: ResNet18 at half width with parts of ConvNeXt.

    picture [B, H, W, C]
      -> 4x4 stride 4 patches (the stem), GroupNorm
      -> stage 1 -> norm, 2x2 stride 2 -> stage 2 -> ... -> stage 4       widths base * (1, 2, 4, 8)
      -> 3x3 convolution to about `compressed_size` numbers, GroupNorm, ReLU
      -> linear, ReLU -> [B, feature_size]

A stage is two basic blocks of two dilated 3x3 convolutions; the patches, the separate
down-sampling layers, the layer scale and the dilation are ConvNeXt's. Wijmans et al. 2022 (VER),
section 4, names these parts; the sizes that it leaves open are our choices, in `EncoderCfg`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rearrange.skills.network.pictures.convolutions import (
    Conv,
    Norm,
    conv3,
    deinterleaved,
    draw_normal,
    interleaved,
    is_matrix,
)
from rearrange.skills.network.pictures.inference_encoder import InferenceEncoder

PATCH = 4  # pixels a side of one patch of the stem (ConvNeXt: 4)
BLOCKS = 2  # a stage, as ResNet18
WIDTHS = (1, 2, 4, 8)  # of the stages, in base widths, as ResNet18
MIN_IMAGE = 8  # pixels a side
MAX_SIZE = 65536  # of everything else that has one
FINE_STAGES = 2
CHUNK = 256  # pictures at a time through the fine stages on a CPU, to fit its caches


@dataclass(kw_only=True)
class EncoderCfg:
    """The encoder's architecture. The defaults are the `small` preset's."""

    base_width: int = 16
    """Channels of the first stage. Half of ResNet18's 64 in the paper."""
    image_size: int = 64
    """Pixels a side; a larger picture is averaged down to it, a smaller one stays as it is."""
    compressed_size: int = 512
    """Approximate input size of the last linear layer (2048 in habitat-baselines)."""
    feature_size: int = 256
    """Length of the feature vector."""
    dilation: int = 2
    """Pixels between the taps of a 3x3 kernel, wherever the map is large enough for it."""
    layer_scale: float = 1e-2
    """How much of a block's branch is added at the start (ConvNeXt: between 1e-6 and 1e-1)."""
    output_gain: float = 0.1
    """Scale of the features at the start. At 1 they are ten times as large as joint angles and
    goals, and drown them until the network has learned to see."""
    norm_groups: int = 1
    """Of every GroupNorm; it must divide base_width. More than 1 is slow on a CPU."""

    def __post_init__(self) -> None:
        if self.norm_groups < 1 or self.base_width % self.norm_groups:
            raise ValueError(
                f"norm_groups must divide base_width ({self.base_width}), got {self.norm_groups}"
            )
        if not MIN_IMAGE <= self.image_size <= MAX_SIZE:
            room = f"[{MIN_IMAGE}, {MAX_SIZE}]"
            raise ValueError(f"image_size must lie in {room}, got {self.image_size}")
        for name in ("base_width", "compressed_size", "feature_size", "dilation"):
            if not 1 <= getattr(self, name) <= MAX_SIZE:
                raise ValueError(f"{name} must lie in [1, {MAX_SIZE}], got {getattr(self, name)}")
        for name in ("layer_scale", "output_gain"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must lie in (0, 1], got {getattr(self, name)}")


class BasicBlock(nn.Module):
    """relu(x + scale * norm(conv(relu(norm(conv(x)))))).

    The layer scale is the weight of the second norm, which already scales the branch per channel: a
    separate factor would be the same function with more work.
    """

    def __init__(self, channels: int, height: int, width: int, dilation: int, cfg: EncoderCfg):
        super().__init__()
        self.conv1 = conv3(channels, channels, height, width, dilation)
        self.norm1 = Norm(cfg.norm_groups, channels)
        self.conv2 = conv3(channels, channels, height, width, dilation)
        self.norm2 = Norm(cfg.norm_groups, channels)
        nn.init.constant_(self.norm2.weight, cfg.layer_scale)

    def forward(self, x: Tensor) -> Tensor:
        branch = F.relu(self.norm1(self.conv1(x)), inplace=True)
        return F.relu(self.norm2(self.conv2(branch)) + x, inplace=True)


class Stage(nn.Module):
    """Two basic blocks on a map of height x width."""

    def __init__(self, channels: int, height: int, width: int, cfg: EncoderCfg) -> None:
        super().__init__()
        # On a smaller map the outer taps of the kernel would all fall outside.
        self.dilation = max(1, min(cfg.dilation, height // 2, width // 2))
        self.is_interleaved = self.dilation > 1 and is_matrix(height, width, self.dilation)
        blocks = [BasicBlock(channels, height, width, self.dilation, cfg) for _ in range(BLOCKS)]
        self.blocks = nn.Sequential(*blocks)

    def forward(self, x: Tensor) -> Tensor:
        if not self.is_interleaved:
            return self.blocks(x)
        return deinterleaved(self.blocks(interleaved(x, self.dilation)), self.dilation)


class Downsample(nn.Module):
    """Norm, then 2x2 stride 2: [B, c, h, w] -> [B, d, ceil(h / 2), ceil(w / 2)]."""

    def __init__(self, channels: int, wider: int, cfg: EncoderCfg) -> None:
        super().__init__()
        self.norm = Norm(cfg.norm_groups, channels)
        self.conv = Conv(channels, wider, 2, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(self.padded(self.norm(x)))

    @staticmethod
    def padded(x: Tensor) -> Tensor:
        """Zeros up to an even height and width."""
        return _padded(x, 2)


class DepthEncoder(nn.Module):
    """[B, H, W, C] in [0, 1] (bytes: in [0, 255]) -> [B, feature_size]."""

    def __init__(
        self,
        height: int,
        width: int,
        channels: int,
        cfg: EncoderCfg,
        dtype: torch.dtype = torch.float32,  # of the stages; all else is float32
    ) -> None:
        super().__init__()
        if min(height, width) < MIN_IMAGE:
            raise ValueError(
                f"a picture must be at least {MIN_IMAGE}x{MIN_IMAGE}, got {height}x{width}"
            )
        self.size = (min(height, cfg.image_size), min(width, cfg.image_size))
        self.dtype = dtype
        h, w = (math.ceil(n / PATCH) for n in self.size)
        c = cfg.base_width
        self.stem = Conv(channels, c, PATCH, stride=PATCH)
        self.stem_norm = Norm(cfg.norm_groups, c)
        fine: list[nn.Module] = []  # while the maps are large
        coarse: list[nn.Module] = []
        for number, factor in enumerate(WIDTHS):
            part = fine if number < FINE_STAGES else coarse
            part.append(Stage(c, h, w, cfg))
            if factor != WIDTHS[-1]:
                part.append(Downsample(c, 2 * c, cfg))
                h, w, c = math.ceil(h / 2), math.ceil(w / 2), 2 * c
        self.fine, self.coarse = nn.Sequential(*fine), nn.Sequential(*coarse)
        compressed = max(1, round(cfg.compressed_size / (h * w)))
        self.compress = conv3(c, compressed, h, w, 1)
        self.compress_norm = Norm(1, compressed)
        self.linear = nn.Linear(compressed * h * w, cfg.feature_size)
        for module in self.modules():
            if isinstance(module, Conv) and module.bias is not None:
                draw_normal(module.weight, 1.0 / math.sqrt(module.weight[0].numel()))
                nn.init.zeros_(module.bias)
        nn.init.orthogonal_(self.linear.weight, math.sqrt(2.0) * cfg.output_gain)
        nn.init.zeros_(self.linear.bias)
        self.to(memory_format=torch.channels_last)  # pyrefly: ignore[no-matching-overload]: stubs lack it
        self._inference: InferenceEncoder | None = None  # made by `refresh`

    def refresh(self) -> None:
        """Call when the weights have changed, before acting with them.

        Small batches without gradients then use functions made from the current weights. Before
        that, and after gradients are taken, weights loaded or modules moved, the modules are used:
        the same numbers, slower. In-place changes of weights go unnoticed.
        """
        self._inference = InferenceEncoder(self)

    def __getstate__(self) -> dict[str, Any]:
        # A copy has its own weights: what was made or compiled from these is not for it.
        return {**super().__getstate__(), "_inference": None}

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self._inference = None
        super()._load_from_state_dict(*args, **kwargs)

    def _apply(self, *args: Any, **kwargs: Any) -> DepthEncoder:
        self._inference = None
        return super()._apply(*args, **kwargs)

    def sized(self, picture: Tensor) -> Tensor:
        """[B, H, W, C] -> [B, h, w, C] float, averaged down to the size the network works on."""
        if picture.dtype == torch.uint8:
            picture = picture.float() / 255.0
        if picture.shape[1:3] == self.size:
            return picture
        (down, odd_rows), (right, odd_columns) = (
            divmod(old, new) for old, new in zip(picture.shape[1:3], self.size, strict=True)
        )
        if odd_rows or odd_columns or (down * right) & (down * right - 1):
            x = F.adaptive_avg_pool2d(picture.permute(0, 3, 1, 2), self.size)
            return x.permute(0, 2, 3, 1)
        # The same to the last bit where 2, 4 or 8 pixels become one, in a tenth of the time.
        total = picture[:, ::down, ::right].clone()
        for place in range(1, down * right):
            total += picture[:, place // right :: down, place % right :: right]
        return total.div_(down * right)

    def forward(self, picture: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            self._inference = None  # an optimiser's step may follow
        is_large = picture.device.type == "cpu" and picture.shape[0] > CHUNK
        if not is_large and not torch.compiler.is_compiling() and self._inference is not None:
            return self._inference(_padded(self._channels_first(picture), PATCH))
        if is_large:
            x = torch.cat([self._fine_features(part) for part in torch.split(picture, CHUNK)])
        else:
            x = self._fine_features(picture)
        x = F.relu(self.compress_norm(self.compress(self.coarse(x))), inplace=True)
        x = x.permute(0, 2, 3, 1).flatten(1)
        return F.relu(self.linear(x.float()), inplace=True)

    def _channels_first(self, picture: Tensor) -> Tensor:
        """A view: in memory the channels stay last, as the layers want them."""
        return self.sized(picture).permute(0, 3, 1, 2)

    def _fine_features(self, picture: Tensor) -> Tensor:
        x = self._channels_first(picture)
        # The stem stays in float32: bfloat16 would round the far half of the depths to 1/256.
        x = self.stem_norm(self.stem(_padded(x, PATCH)))
        return self.fine(x.to(self.dtype))


def _padded(x: Tensor, multiple: int) -> Tensor:
    """Zeros below and to the right, until both sides are a multiple."""
    down, right = -x.shape[2] % multiple, -x.shape[3] % multiple
    return F.pad(x, (0, right, 0, down)) if down or right else x
