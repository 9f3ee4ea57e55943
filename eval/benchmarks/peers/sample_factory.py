"""Sample Factory's APPO on a task of the home.

    python -m rearrange.eval.benchmarks.peers.sample_factory SETTINGS.json ANSWER.json

Its workers step several environments each, in two halves that take turns: that is how it is meant
to be run, one worker for each core.
"""

# The peers are installed in an environment of their own.
# pyright: reportMissingImports=false

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from sample_factory.algo.runners.runner import AlgoObserver, Runner
from sample_factory.algo.utils.context import global_model_factory
from sample_factory.algo.utils.misc import ExperimentStatus
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.model.encoder import Encoder
from sample_factory.train import make_runner
from torch import Tensor

from rearrange.eval.benchmarks.peers.network import PeerFeatures, count_parameters
from rearrange.eval.benchmarks.peers.peer_cfg import PeerCfg, read_settings
from rearrange.tasks.gym_factory import make_gym

ENV = "home"


class HomeEncoder(Encoder):
    """Our embedding as Sample Factory wants it."""

    def __init__(self, cfg: Any, obs_space: Any) -> None:
        super().__init__(cfg)
        self.features = PeerFeatures(obs_space, PeerCfg(**json.loads(cfg.peer_settings)).policy)

    def forward(self, obs_dict: dict[str, Tensor]) -> Tensor:
        return self.features(obs_dict)

    def get_out_size(self) -> int:
        return self.features.size


def make_encoder(cfg: Any, obs_space: Any) -> Encoder:
    return HomeEncoder(cfg, obs_space)


def make_home(full_env_name: str, cfg: Any, env_config: Any, render_mode: str | None = None):
    """Environment `env_id`; Sample Factory asks for one more without it, to see the spaces."""
    index = env_config.env_id if env_config is not None and "env_id" in env_config else 0
    return make_gym(index, **PeerCfg(**json.loads(cfg.peer_settings)).environment)


class Clock(AlgoObserver):
    """When each update has ended."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_start(self, runner: Runner) -> None:
        self.ends.append(time.perf_counter())

    def on_training_step(self, runner: Runner, training_iteration_since_resume: int) -> None:
        self.ends.append(time.perf_counter())


def command_line(cfg: PeerCfg, folder: Path) -> list[str]:
    """Sample Factory's settings, with a worker for each core where that divides evenly."""
    cores = len(os.sched_getaffinity(0))
    num_workers = max(n for n in range(1, cores + 1) if cfg.num_envs % n == 0)
    envs_per_worker = cfg.num_envs // num_workers
    device = "gpu" if cfg.device.startswith("cuda") else "cpu"
    total = (cfg.warmup_rollouts + cfg.num_rollouts) * cfg.rollout_steps
    # The embedding has its own initialisation, and torch's orthogonal one wants no channels_last.
    settings = {
        "algo": "APPO", "env": ENV, "experiment": "peer", "train_dir": folder, "device": device,
        "seed": cfg.seed, "num_workers": num_workers, "num_envs_per_worker": envs_per_worker,
        "worker_num_splits": 2 if envs_per_worker % 2 == 0 else 1,
        "rollout": cfg.num_steps, "recurrence": cfg.num_steps,
        "batch_size": cfg.rollout_steps // cfg.num_minibatches,
        "num_batches_per_epoch": cfg.num_minibatches, "num_epochs": cfg.num_epochs,
        "learning_rate": cfg.learning_rate, "ppo_clip_ratio": 0.2, "max_grad_norm": 0.5,
        "use_rnn": True, "rnn_type": "lstm", "rnn_size": cfg.lstm_hidden,
        "rnn_num_layers": cfg.lstm_layers, "normalize_input": False, "normalize_returns": False,
        "policy_initialization": "torch_default", "adaptive_stddev": False,
        "train_for_env_steps": total - 1, "save_every_sec": 100_000,
        "set_workers_cpu_affinity": False, "with_wandb": False, "log_to_file": False,
        "decorrelate_experience_max_seconds": 0, "restart_behavior": "overwrite",
    }  # fmt: skip
    return [f"--{name}={value}" for name, value in settings.items()]


def train(cfg: PeerCfg, folder: Path) -> dict:
    """Trains for the warm-up and the measured rollouts."""
    register_env(ENV, make_home)
    global_model_factory().register_encoder_factory(make_encoder)
    arguments = command_line(cfg, folder)
    parser, _ = parse_sf_args(arguments)
    parser.add_argument("--peer_settings", default=json.dumps(asdict(cfg)))  # for its workers
    settings, runner = make_runner(parse_full_cfg(parser, arguments))
    clock = Clock()
    runner.register_observer(clock)
    status = runner.init()
    if status == ExperimentStatus.SUCCESS:
        status = runner.run()
    if status != ExperimentStatus.SUCCESS:
        raise RuntimeError(f"Sample Factory ended with status {status}")
    return {
        "update_ends_s": clock.ends,
        "num_parameters": _count(settings, runner),
        "versions": {
            name: metadata.version(name)
            for name in ("sample-factory", "torch", "gymnasium", "numpy")
        },
    }


def _count(settings: Any, runner: Runner) -> int:
    from sample_factory.model.actor_critic import create_actor_critic

    info = runner.env_info
    return count_parameters(create_actor_critic(settings, info.obs_space, info.action_space))


def main() -> None:
    cfg, answer = read_settings()
    if np.lib.NumpyVersion(np.__version__) >= "2.4.0":
        # Its workers die of a conversion that numpy 2.4 refuses, and its main process waits on.
        raise RuntimeError(f"Sample Factory needs numpy<2.4, got {np.__version__}")
    answer.write_text(json.dumps(train(cfg, answer.parent)))


if __name__ == "__main__":
    main()
