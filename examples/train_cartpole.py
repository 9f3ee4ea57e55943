"""Trains a small policy with VER, evaluates it, and uses it.

python examples/train_cartpole.py [STEPS] [FOLDER]       such as: 50000 runs/cartpole
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import rearrange


def main(total_steps: int = 50_000, run_dir: str | None = None) -> float:
    """The mean return of ten episodes."""
    with tempfile.TemporaryDirectory() as folder:
        training = rearrange.train(
            env="CartPole-v1", total_steps=total_steps, num_envs=8, num_steps=64,
            scheme="serial", run_dir=run_dir or Path(folder) / "run",
        )  # fmt: skip
        print(f"{training.total_steps} steps in {training.summary['wall_time_s']:.0f} s")
        found = rearrange.evaluate(run=training.run_dir, num_episodes=10, num_workers=1)
        assert found.episode_return is not None  # CartPole tells nothing else
        mean, low, high = found.episode_return
        print(f"return {mean:.0f}, 95% interval {low:.0f} to {high:.0f}")

        policy = rearrange.load_skill(training.run_dir)
        env = policy.make_env()
        observation, _ = env.reset(seed=0)
        policy.reset()
        print(f"first action: {policy.act(observation)}")
        env.close()
    return mean


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(int(arguments[0]) if arguments else 50_000, arguments[1] if arguments[1:] else None)
