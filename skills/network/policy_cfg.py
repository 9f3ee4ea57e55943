"""Settings of the policy network, and presets.

Wijmans et al. 2022 (VER), section 4, is the preset `paper`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from torch import nn

from rearrange.skills.network.pictures.encoder import EncoderCfg
from rearrange.skills.network.precision import PRECISIONS

ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}
MAX_SIZE, MAX_LAYERS = 65536, 64  # of one layer, and how many
MOST_LOG_STD = 20  # far beyond where distributions are held
STANDARD = "standard"  # the network of `policy.py`


@dataclass(kw_only=True)
class PolicyCfg:
    """Sizes and choices. The defaults are the `small` preset."""

    encoder: EncoderCfg = field(default_factory=EncoderCfg)
    """The network for pictures; unused if the observation has none."""
    vector_size: int = 128
    """Embedding of all vector observations together. 0: they are used directly."""
    scan_size: int = 64
    """Embedding of all scans together: vectors of more than 32 numbers beside shorter ones, which
    they would drown. 0: they are treated like the others."""
    nearest_cells: int = 0
    """Cells per side of a picture whose nearest surface is used as a scan, beside the encoder's
    features, see `nearest.py`. 0: none."""
    base_frame_vectors: bool = False
    """Also give vectors of the hand's frame in the base's frame, see `base_frame.py`."""
    vector_changes: bool = False
    """Also give how each vector has changed since the step before, see `changes.py`."""
    prev_action_size: int = 32
    """Embedding of the previous action. 0: the policy does not see it."""
    hidden_sizes: list[int] = field(default_factory=lambda: [256])
    """Widths of the layers between the embeddings and the memory."""
    activation: str = "relu"
    """Activation of embeddings and hidden layers: relu, tanh or gelu."""
    lstm_hidden: int = 256
    """Width of the memory."""
    lstm_layers: int = 2
    """Layers of the memory. 0: no memory."""
    separate_critic: bool = False
    """Separate hidden layers and memory for the value; embeddings are shared."""
    initial_log_std: float = -0.5
    """Log-std of the Gaussians at the start, where [-1, 1] is the whole range."""
    initial_means: list[float] = field(default_factory=list)
    """Means at the start, one per dimension of the action, inside (-1, 1). Empty: 0."""
    switches: list[int] = field(default_factory=list)
    """Dimensions of a Box action of which only the sign matters: binary distributions."""
    num_components: int = 1
    """Means of a Box action that the actor chooses from, see `actions/mixture.py`. 1: the mean."""
    normalize_observations: bool = False
    """Normalise vector observations by their running mean and standard deviation."""
    precision: str = "float32"
    """Of the encoder's stages, and of the memory's products while learning: float32, bfloat16, or
    auto: bfloat16 if the processor supports it. Weights and everything else are float32."""
    num_blocks: int = 1
    """Policies that share these layers, as `sapg.num_blocks` says; the first one leads."""
    block_size: int = 32
    """Length of the learned vector of each policy (32 in Singla et al. 2024, SAPG)."""
    network: str = STANDARD
    """The class, one of `NETWORKS` or package.module:Name."""
    compile: bool = False
    """Use torch.compile for the encoder. Not on a CPU: minutes of compiling, and slower."""

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
        for name in ("num_blocks", "block_size", "num_components"):
            if not 1 <= getattr(self, name) <= MAX_SIZE:
                raise ValueError(f"{name} must lie in [1, {MAX_SIZE}], got {getattr(self, name)}")
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
        if not abs(self.initial_log_std) <= MOST_LOG_STD:
            room = f"[-{MOST_LOG_STD}, {MOST_LOG_STD}]"
            raise ValueError(f"initial_log_std must lie in {room}, got {self.initial_log_std}")
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
    """The settings as stored in files: network, switches, changes, components and blocks only if
    they differ from the defaults."""
    values = asdict(cfg)
    if cfg.network == STANDARD:
        del values["network"]
    if not cfg.switches:
        del values["switches"]
    if not cfg.vector_changes:
        del values["vector_changes"]
    if cfg.num_components == 1:
        del values["num_components"]
    if cfg.num_blocks == 1:
        del values["num_blocks"], values["block_size"]
    return values
