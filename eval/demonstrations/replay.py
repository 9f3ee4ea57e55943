"""Replaying demonstrations: the same actions in the same episode, compared bit for bit.

    stored episode --> reset --> stored action --> step --> ... what comes --?--> what is stored

Compared is everything that is stored: observations, pictures, rewards, ends, and the digest of the
world's whole state at every step.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rearrange.errors import UserError, described
from rearrange.eval.demonstrations.demonstration import DEPTH, Demonstration, check_count
from rearrange.eval.demonstrations.formats import (
    EPISODES,
    FORMATS,
    SUMMARY,
    check_packages,
    read_summary,
)
from rearrange.eval.demonstrations.recorder import RecordingEnv
from rearrange.system.checked_json import Node, quoted
from rearrange.tasks.env_options import recorded_environment
from rearrange.tasks.episodes.files import read_episodes
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

    Raises UserError for a folder that is no finished data set, or damaged: in the end, if counts
    are not those of what was there.
    """
    summary = read_summary(folder)
    name = summary["format"]
    check_packages(name)
    episodes = read_episodes(folder / EPISODES)
    if len(episodes) != summary["num_episodes"]:
        told = f"{SUMMARY} says {summary['num_episodes']} episodes, {EPISODES} has {len(episodes)}"
        raise UserError(f"{folder} is damaged: {told}")
    stored, env, options, steps = FORMATS[name].read(folder), None, None, 0
    for number, episode in enumerate(episodes):
        with _told_of(f"episode {number} of {folder}"):
            demonstration = _next(stored)
            wanted = environment_of(demonstration, episode)
        if env is None or wanted != options:
            env, options = RecordingEnv(make_env(**wanted)), wanted
        with _told_of(f"episode {number} of {folder}"):
            _check_spaces(demonstration, env)
        again = carry_out(env, episode, demonstration, on_step)
        steps += len(demonstration)
        yield ReplayedEpisode(number, len(again), first_difference(demonstration, again))
    with _told_of(str(folder)):
        if next(stored, None) is not None:
            raise ValueError(f"it has an episode more than {EPISODES}")
        check_count(f"num_steps of {SUMMARY}", summary["num_steps"], steps)


def environment_of(demonstration: Demonstration, episode: EpisodeSpec) -> dict[str, Any]:
    """The arguments of the environment that it was made with.

    Raises UserError for facts that are not those of the episode, or of no environment.
    """
    facts = Node(demonstration.facts, "")
    expected = {
        "task": episode.task,
        "split": episode.split,
        "seed": episode.seed,
        "index": episode.index,
        "scene": episode.scene.layout_id,
        "success": bool(demonstration.success[-1]),
    }
    for name, value in expected.items():
        facts[name].equal(value)
    return recorded_environment(episode.task, facts["environment"].value, "")


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
    if missing := [name for name in _seen(again) if name not in _seen(stored)]:
        return f"{missing[0]} is not stored"
    found: list[tuple[int, str]] = []
    for name, steps, before, now in _pairs(stored, again):
        least = len(now) - (steps == 0)  # the last observation is not in every format
        now = now[: max(len(before), least)]
        if before.shape != now.shape:
            return f"{name} has another size"
        if name != "rewards" and not np.can_cast(now.dtype, before.dtype):
            return f"{name} is {before.dtype}, it came as {now.dtype}"
        is_other = (before != now.astype(before.dtype)).reshape(len(now), -1).any(axis=1)
        if is_other.any():
            found.append((int(np.argmax(is_other)) + steps, name))
    if not found:
        return None
    steps, name = min(found, key=lambda one: one[0])  # the first named of several
    return f"{name} differs after {steps} steps"


def _seen(one: Demonstration) -> dict[str, np.ndarray]:
    """All observations, pictures too."""
    return one.observations | ({} if one.depth is None else {DEPTH: one.depth})


def _pairs(
    stored: Demonstration, again: Demonstration
) -> Iterator[tuple[str, int, np.ndarray, np.ndarray]]:
    """What is compared: its name, the steps before its first row, both arrays."""
    yield "the world", 0, stored.worlds, again.worlds
    now = _seen(again)
    for name, values in _seen(stored).items():
        yield name, 0, values, now[name]
    for name in ("rewards", "terminated", "truncated", "success"):
        yield name, 1, getattr(stored, name), getattr(again, name)


def _check_spaces(one: Demonstration, env: RecordingEnv) -> None:
    """Raises ValueError for actions that the environment cannot take, and sensors it lacks."""
    shape, sensors = env.action_space.shape, env.world.observation_space.spaces
    if one.actions.shape[1:] != shape:
        raise ValueError(f"an action must have shape {shape}, got {one.actions.shape[1:]}")
    if unknown := _seen(one).keys() - sensors.keys():
        raise ValueError(f"observations must be {', '.join(sensors)}, got {quoted(min(unknown))}")


def _next(stored: Iterator[Demonstration]) -> Demonstration:
    found = next(stored, None)
    if found is None:
        raise ValueError("the data end before it")
    return found


@contextmanager
def _told_of(what: str) -> Generator[None]:
    """Errors of reading are a line that says what is damaged."""
    try:
        yield
    except Exception as error:  # h5py, pyarrow and PyAV may raise anything
        reason = str(error) if isinstance(error, OSError | ValueError) else described(error)
        raise UserError(f"{what} is damaged: {reason}") from error
