"""SB3-contrib's RecurrentPPO on a task of the home.

python -m rearrange.eval.benchmarks.peers.sb3 IN OUT
"""

# The peers are installed in an environment of their own.
# pyright: reportMissingImports=false

from __future__ import annotations

import json
import time
from functools import partial
from importlib import metadata

import torch
from gymnasium import spaces
from sb3_contrib import RecurrentPPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import SubprocVecEnv
from torch import Tensor

from rearrange.eval.benchmarks.peers.network import PeerFeatures, count_parameters
from rearrange.eval.benchmarks.peers.peer_cfg import PeerCfg, read_settings
from rearrange.tasks.gym_factory import make_gym


class Features(BaseFeaturesExtractor):
    """Our embedding as SB3 wants it."""

    def __init__(self, observation_space: spaces.Dict, preset: str) -> None:
        features = PeerFeatures(observation_space, preset)
        super().__init__(observation_space, features.size)
        self.features = features

    def forward(self, observations: dict[str, Tensor]) -> Tensor:
        return self.features(observations)


class Clock(BaseCallback):
    """When each update has ended: at the start of the next rollout, and at the end of training."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[float] = []

    def _on_rollout_start(self) -> None:
        self.ends.append(time.perf_counter())

    def _on_step(self) -> bool:
        return True


def train(cfg: PeerCfg) -> dict:
    """Trains for the warm-up and the measured rollouts."""
    makers = [partial(make_gym, i, **cfg.environment) for i in range(cfg.num_envs)]
    envs = SubprocVecEnv(makers, start_method="forkserver")
    model = RecurrentPPO(
        "MultiInputLstmPolicy",
        envs,
        learning_rate=cfg.learning_rate,
        n_steps=cfg.num_steps,
        batch_size=cfg.rollout_steps // cfg.num_minibatches,
        n_epochs=cfg.num_epochs,
        seed=cfg.seed,
        device=cfg.device,
        policy_kwargs={
            "features_extractor_class": Features,
            "features_extractor_kwargs": {"preset": cfg.policy},
            "ortho_init": False,  # the embedding has its own, and torch's wants no channels_last
            "normalize_images": False,  # depth is in [0, 1] already
            "net_arch": {"pi": [], "vf": []},
            "lstm_hidden_size": cfg.lstm_hidden,
            "n_lstm_layers": cfg.lstm_layers,
            "shared_lstm": True,
            "enable_critic_lstm": False,
        },
    )
    clock = Clock()
    try:
        model.learn((cfg.warmup_rollouts + cfg.num_rollouts) * cfg.rollout_steps, callback=clock)
        clock.ends.append(time.perf_counter())
    finally:
        envs.close()
    return {
        "update_ends_s": clock.ends,
        "num_parameters": count_parameters(model.policy),
        "versions": {
            name: metadata.version(name)
            for name in ("sb3-contrib", "stable-baselines3", "torch", "gymnasium", "numpy")
        },
    }


def main() -> None:
    cfg, answer = read_settings()
    torch.manual_seed(cfg.seed)
    answer.write_text(json.dumps(train(cfg)))


if __name__ == "__main__":
    main()
