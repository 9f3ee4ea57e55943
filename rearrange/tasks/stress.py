"""Stress test of the simulation: `python -m rearrange.tasks.stress --steps 100000`

Every task is driven in turn by agents that no sane policy resembles; what goes wrong is counted
and printed as JSON. Exit code 1 if anything did. With `--split val`, Tidy House is driven in each
of the split's homes instead.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rearrange.sim.homes.layout import HAB, SPLITS, layout_ids
from rearrange.tasks.actions import ACTION_SIZE, GRIP, STOP
from rearrange.tasks.episodes.generate import first_home, generate_episode
from rearrange.tasks.limit_monitor import LimitMonitor
from rearrange.tasks.registry import make_env
from rearrange.tasks.rules.names import TASKS

_STOP_CHANCE = 0.002  # else most episodes would be over at once
_HOLD_STEPS = 20  # control steps for which the extreme agent keeps its mind


def random_action(rng: np.random.Generator, action: np.ndarray) -> np.ndarray:
    """Every slot anew on every step."""
    return rng.uniform(-1.0, 1.0, ACTION_SIZE)


def extreme_action(rng: np.random.Generator, action: np.ndarray) -> np.ndarray:
    """Every slot at an end of its range; some change their mind now and then."""
    flip = rng.random(ACTION_SIZE) < 1.0 / _HOLD_STEPS
    action = np.where(action == 0.0, 1.0, action)
    return np.where(flip, -np.sign(action), np.sign(action))


def ramming_action(rng: np.random.Generator, action: np.ndarray) -> np.ndarray:
    """Full speed ahead, the hand stretched into whatever comes, suction on."""
    action = extreme_action(rng, action)
    action[8] = 1.0
    action[GRIP] = 1.0 if rng.random() < 0.99 else -1.0
    return action


AGENTS: dict[str, Callable[[np.random.Generator, np.ndarray], np.ndarray]] = {
    "random": random_action,
    "extreme": extreme_action,
    "ramming": ramming_action,
}


def stress(
    num_steps: int, seed: int = 0, camera_size: int = 64, homes: str = HAB
) -> dict[str, Any]:
    """Steps shared out evenly between all tasks and agents; what was counted."""
    start = resident_mb()
    counts = {"steps": 0, "episodes": 0, "nan": 0, "mujoco_warnings": 0, "out_of_space": 0}
    exceptions: list[str] = []
    share = max(1, num_steps // (len(TASKS) * len(AGENTS)))
    begin, warm = time.perf_counter(), 0.0
    for number, task in enumerate(TASKS):
        env = make_env(task, "train", seed, camera_size=camera_size, homes=homes)
        for agent in AGENTS:
            try:
                _drive(env, agent, share, np.random.default_rng([seed, number]), counts)
            except RuntimeError as error:
                exceptions.append(f"{task} {agent}: {error}")
        env.close()
        if number == 0:
            warm = resident_mb()  # the kernels are loaded now
    return counts | {
        "exceptions": exceptions,
        "resident_mb": {"start": start, "after_first_task": warm, "end": resident_mb()},
        "wall_time_s": round(time.perf_counter() - begin, 1),
        "tasks": list(TASKS),
        "agents": list(AGENTS),
        "seed": seed,
    }


def stress_homes(num_steps: int, split: str, seed: int = 0, homes: str = HAB) -> dict[str, Any]:
    """Tidy House in every home of a split, the steps shared out between homes and agents.

    Beside what `stress` counts: what `LimitMonitor` sees.
    """
    counts = {"steps": 0, "episodes": 0, "nan": 0, "mujoco_warnings": 0, "out_of_space": 0}
    episodes = _one_episode_a_home(split, seed, homes)
    share = max(1, num_steps // (len(episodes) * len(AGENTS)))
    env = make_env("tidy_house", split, seed, depth=False, homes=homes)
    exceptions: list[str] = []
    with LimitMonitor(env.sim) as watch:
        for home, episode in enumerate(episodes):
            for number, agent in enumerate(AGENTS):
                rng = np.random.default_rng([seed, home, number])
                start = {"options": {"episode": episode}}
                try:
                    _drive(env, agent, share, rng, counts, start, watch)
                except RuntimeError as error:
                    exceptions.append(f"{episode.scene.layout_id} {agent}: {error}")
    env.close()
    seen = {"homes": len(episodes), "split": split, "seed": seed}
    return counts | watch.summary() | {"exceptions": exceptions} | seen


def _one_episode_a_home(split: str, seed: int, homes: str) -> list:
    found: dict[str, Any] = {}
    index, wanted = 0, len(layout_ids(split, homes))
    while len(found) < wanted:
        if first_home("tidy_house", split, seed, index, homes) not in found:
            episode = generate_episode("tidy_house", split, seed, index, homes=homes)
            found.setdefault(episode.scene.layout_id, episode)
        index += 1
    return list(found.values())


def _drive(
    env,
    agent: str,
    num_steps: int,
    rng: np.random.Generator,
    counts: dict[str, int],
    start: dict[str, Any] | None = None,
    watch: LimitMonitor | None = None,
) -> None:
    start = start or {}
    env.reset(**start)
    action = np.zeros(ACTION_SIZE)
    for _ in range(num_steps):
        action = AGENTS[agent](rng, action)
        action[STOP] = 1.0 if rng.random() < _STOP_CHANCE else -1.0
        try:
            observation, reward, terminated, truncated, _ = env.step(action)
        finally:
            counts["steps"] += 1
            counts["mujoco_warnings"] += int(env.sim.data.warning.number.sum())
            counts["nan"] += not (env.sim.check_finite())
        if watch is not None:
            watch.after_step()
        counts["nan"] += not np.isfinite(reward)
        counts["out_of_space"] += not env.observation_space.contains(observation)
        if terminated or truncated:
            counts["episodes"] += 1
            env.reset(**start)


def resident_mb() -> int:
    """Resident memory of this process, MB; 0 where the system does not say."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    line = next(x for x in status.read_text().splitlines() if x.startswith("VmRSS:"))
    return int(line.split()[1]) // 1024


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m rearrange.tasks.stress", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--steps", type=int, default=100_000, help="in all, control steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--homes", default=HAB, help="hab, procedural or the file of a home")
    parser.add_argument("--split", choices=SPLITS, help="Tidy House in each home of this split")
    args = parser.parse_args()
    if args.split:
        results = stress_homes(args.steps, args.split, args.seed, args.homes)
    else:
        results = stress(args.steps, args.seed, homes=args.homes)
    print(json.dumps(results, indent=2))
    bad = ("nan", "mujoco_warnings", "out_of_space", "exceptions", "outside")
    return int(any(results.get(name) for name in bad))


if __name__ == "__main__":
    sys.exit(main())
