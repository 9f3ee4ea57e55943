"""SB3's PPO with its own defaults.

    python -m rearrange.eval.benchmarks.peers.sb3_classic ENV STEPS SEED DIR

MlpPolicy, one environment within a Monitor, on the CPU: n_steps 2048, minibatches of 64, 10 epochs,
learning rate 3e-4 (Stable-Baselines3 2.9). The folder then reads like one of our own runs.
"""

# The peers are installed in an environment of their own.
# pyright: reportMissingImports=false

from __future__ import annotations

import json
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import TextIO

import gymnasium
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor

from rearrange.system.files import write_whole_file
from rearrange.ver.run.episode_window import EpisodeWindow
from rearrange.ver.run.metrics import METRICS_FILE, write_summary

MODE = "sb3"


class Curve(BaseCallback):
    """Every finished episode into the window, and a line of metrics for each rollout."""

    def __init__(self, episodes: EpisodeWindow, file: TextIO) -> None:
        super().__init__()
        self.episodes, self._file, self._begin = episodes, file, time.monotonic()

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:  # from the Monitor, unscaled
                self.episodes.add(float(info["episode"]["r"]), int(info["episode"]["l"]))
        return True

    def _on_rollout_end(self) -> None:
        passed_s = round(time.monotonic() - self._begin, 3)
        line = {"step": self.num_timesteps, "time_s": passed_s} | self.episodes.metrics()
        self._file.write(json.dumps(line, allow_nan=False) + "\n")
        self._file.flush()


def train(env_id: str, total_steps: int, seed: int, run_dir: Path) -> None:
    """Trains and leaves config.yaml (JSON is YAML), metrics.jsonl and summary.json."""
    run_dir.mkdir(parents=True, exist_ok=True)
    settings = {"env": env_id, "mode": MODE, "policy": "MlpPolicy"}
    write_whole_file(run_dir / "config.yaml", json.dumps(settings).encode())
    episodes = EpisodeWindow()
    begin = time.monotonic()
    with (run_dir / METRICS_FILE).open("w") as file:
        model = PPO("MlpPolicy", Monitor(gymnasium.make(env_id)), seed=seed, device="cpu")
        model.learn(total_steps, callback=Curve(episodes, file))
    packages = ("stable-baselines3", "torch", "gymnasium", "mujoco", "numpy")
    write_summary(
        run_dir,
        env=env_id,
        mode=MODE,
        total_steps=model.num_timesteps,
        wall_time_s=time.monotonic() - begin,
        episodes=episodes,
        restarts=0,
        versions={name: metadata.version(name) for name in packages},
        seed=seed,
        stopped_by=None,
    )


def main() -> None:
    env_id, total_steps, seed, run_dir = sys.argv[1:]
    torch.set_num_threads(1)  # small layers are done before a second thread has woken up
    train(env_id, int(total_steps), int(seed), Path(run_dir))


if __name__ == "__main__":
    main()
