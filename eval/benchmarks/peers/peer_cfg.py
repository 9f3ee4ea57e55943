"""Settings of a peer's run, and how its script receives them."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(kw_only=True)
class PeerCfg:
    """What a peer is asked to do: the figures of our own run beside it."""

    env: str = "rearrange/Pick-v0"
    camera_size: int = 64
    num_envs: int = 16
    num_steps: int = 128
    num_rollouts: int = 3
    warmup_rollouts: int = 1
    num_epochs: int = 3
    num_minibatches: int = 2
    learning_rate: float = 2.5e-4
    policy: str = "small"
    lstm_hidden: int = 256
    lstm_layers: int = 2
    seed: int = 0
    device: str = "cpu"

    @property
    def rollout_steps(self) -> int:
        return self.num_envs * self.num_steps

    @property
    def environment(self) -> dict[str, Any]:
        """What `make_gym` wants beside the environment's number."""
        kwargs = {"camera_size": self.camera_size, "seed": self.seed}
        return {"env_id": self.env, "num_envs": self.num_envs, "kwargs": kwargs}


def read_settings() -> tuple[PeerCfg, Path]:
    """For the scripts: their settings, and the file for their answer."""
    settings, answer = sys.argv[1:]
    return PeerCfg(**json.loads(Path(settings).read_text())), Path(answer)
