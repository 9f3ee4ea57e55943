"""Replaying demonstrations: the same actions in the same episode, compared bit for bit.

    stored episode --> reset --> stored action --> step --> ... what comes --?--> what is stored

Compared is everything that is stored: observations, pictures, rewards, ends, and the digest of the
world's whole state at every step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rearrange.errors import UserError
from rearrange.eval.demonstrations.demonstration import DEPTH, Demonstration
from rearrange.eval.demonstrations.formats import EPISODES, FORMATS, check_packages, read_summary
from rearrange.eval.demonstrations.recorder import RecordingEnv
from rearrange.system.checked_json import Node
from rearrange.tasks.episodes.files import read_episodes
from rearrange.tasks.env_options import recorded_environment
from rearrange.tasks.registry import make_env
from rearrange.tasks.rules.episode import EpisodeSpec


class ReplayedEpisode(NamedTuple):
    """An episode that was played back."""

    number: int
    """Its place in the data set."""
    steps: int
    difference: str | None
    """Where what came first differs from what is stored; None: nowhere."""


def replay(folder: Path, on_step: Callable[[], object] = lambda: None) -> Iterator[ReplayedEpisode]:
    """Every episode of a data set in turn.

    Raises UserError for a folder that is no finished data set, or damaged.
    """
    name = read_summary(folder)["format"]
    check_packages(name)
    episodes = read_episodes(folder / EPISODES)
    stored, env, init_kwargs = FORMATS[name].read(folder), None, None
    for number, episode in enumerate(episodes):
        demonstration = _next(stored, folder, number)
        where = f"episode {number} of {folder} is damaged: "
        environment = Node(demonstration.facts, where)["environment"].value
        options = recorded_environment(episode.task, environment, where)
        if env is None or options != init_kwargs:
            init_kwargs = options
            env = RecordingEnv(make_env(**init_kwargs))
        again = carry_out(env, episode, demonstration, on_step)
        yield ReplayedEpisode(number, len(again), first_difference(demonstration, again))


def carry_out(
    env: RecordingEnv,
    episode: EpisodeSpec,
    demonstration: Demonstration,
    on_step: Callable[[], object] = lambda: None,
) -> Demonstration:
    """What comes of the stored actions, until they or the episode end."""
    env.reset(options={"episode": episode})
    actions = zip(demonstration.actions, demonstration.motor_leads.tolist(), strict=True)
    for action, lead in actions:
        env.world.sim.motor_lead = lead or None
        _, _, terminated, truncated, _ = env.step(action)
        on_step()
        if terminated or truncated:
            break
    return env.demonstration(demonstration.facts)


def first_difference(stored: Demonstration, again: Demonstration) -> str | None:
    """In words; None if all that is stored came again, bit for bit."""
    if len(stored) != len(again):
        return f"it ends after {len(again)} steps, stored are {len(stored)}"
    found: list[tuple[int, str]] = []
    for name, steps, before, now in _pairs(stored, again):
        rows = min(len(before), len(now))  # the last observation is not in every format
        before, now = before[:rows], now[:rows].astype(before.dtype)
        if before.shape != now.shape:
            return f"{name} has another size"
        is_other = (before != now).reshape(rows, -1).any(axis=1)
        if is_other.any():
            found.append((int(np.argmax(is_other)) + steps, name))
    if not found:
        return None
    steps, name = min(found, key=lambda one: one[0])  # the first named of several
    return f"{name} differs after {steps} steps"


def _pairs(
    stored: Demonstration, again: Demonstration
) -> Iterator[tuple[str, int, np.ndarray, np.ndarray]]:
    """What is compared: its name, the steps before its first row, both arrays."""
    yield "the world", 0, stored.worlds, again.worlds
    for name, values in stored.observations.items():
        yield name, 0, values, again.observations.get(name, values[:0])
    if stored.depth is not None and again.depth is not None:
        yield DEPTH, 0, stored.depth, again.depth
    for name in ("rewards", "terminated", "truncated", "success"):
        yield name, 1, getattr(stored, name), getattr(again, name)


def _next(stored: Iterator[Demonstration], folder: Path, number: int) -> Demonstration:
    try:
        return next(stored)
    except (OSError, ValueError, KeyError, StopIteration) as error:
        raise UserError(f"episode {number} of {folder} is damaged or missing: {error}") from error
