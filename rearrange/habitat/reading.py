"""RearrangeDataset-v0 episode files of others, checked, in our axes.

Only what says where things are and what is asked is read; fields beside it are left alone. What our
own export wrote is recognised by its `info.rearrange` and read back exactly. Fields: hab-spec 2.6.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rearrange.errors import UserError
from rearrange.habitat.axes import Vector, from_habitat
from rearrange.habitat.episodes import OURS, exported_episode
from rearrange.system.checked_json import Node, quoted
from rearrange.tasks.episodes.files import MAX_BYTES, MAX_EPISODES
from rearrange.tasks.episodes.schema import object_handles
from rearrange.tasks.episodes.text import packed_episodes
from rearrange.tasks.rules.episode import EpisodeSpec

_END = ".object_config.json"
_MOST_OBJECTS = 500
_TURN_TOLERANCE = 1e-3  # theirs are of single precision
_MOST_LENGTH = 300  # of a name


@dataclass(frozen=True)
class TheirObject:
    """A loose object: its kind, where its origin is, m, and "furniture handle|receptacle"."""

    kind: str
    pos: Vector
    place: str | None


@dataclass(frozen=True)
class TheirTarget:
    """What is to be moved: an object by its number, its entity name, where its goal is.

    `start` and `end` are furniture's instance handle and link number, None without one.
    """

    object: int
    name: str
    goal: Vector
    start: tuple[str, int | None] | None
    end: tuple[str, int | None] | None


@dataclass(frozen=True)
class TheirEpisode:
    """An episode as its file has it."""

    number: int
    """In the file, from 0: its id in habitat-lab."""
    scene: str
    """The apartment's name."""
    objects: tuple[TheirObject, ...]
    targets: tuple[TheirTarget, ...]
    joints: dict[tuple[str, str], float]
    """(handle, link number as text) -> opening, m or rad."""
    markers: tuple[str, ...]
    ours: EpisodeSpec | None
    """What it was exported from; None: it comes from elsewhere."""


def read_habitat_episodes(path: Path) -> Iterator[TheirEpisode]:
    """The episodes of a file, one after the other.

    Raises UserError, one line with file, episode and field, for anything else.
    """
    for number, value in enumerate(packed_episodes(path, MAX_BYTES)):
        if number == MAX_EPISODES:
            raise UserError(f"{path} must hold at most {MAX_EPISODES} episodes, it holds more")
        yield their_episode(value, number, f"{path}: episode {number}: ")


def their_episode(value: Any, number: int, where: str) -> TheirEpisode:
    """An episode of a decoded JSON value. Raises UserError, beginning with `where`."""
    node = Node(value, where)
    if isinstance(value, dict) and isinstance(value.get(OURS), dict):
        raise UserError(
            f"{where}is one of ours already: evaluate, record and collect take its file as it is, "
            "episodes=FILE"
        )
    info = node["info"]
    ours = exported_episode(value, where) if OURS in dict(info.items()) else None
    places: dict[str, str] = {}
    if "name_to_receptacle" in value:  # files of 2022 have none
        found = node["name_to_receptacle"].items()
        places = {handle: place.text() for handle, place in found}
    pairs = [element.list(2, 2) for element in node["rigid_objs"].list(_MOST_OBJECTS)]
    kinds = [_kind(name) for name, _ in pairs]
    handles = object_handles(kinds)
    objects = [
        TheirObject(kind, _position(matrix), places.get(handle))
        for kind, handle, (_, matrix) in zip(kinds, handles, pairs, strict=True)
    ]
    joints = {
        (handle, link): state.number()
        for handle, states in node["ao_states"].items()
        for link, state in states.items()
    }
    markers = tuple(m["name"].text() for m in node["markers"].list(_MOST_OBJECTS))
    scene = node["scene_id"].text().rpartition("/")[2].partition(".")[0]
    targets = _targets(node, handles)
    return TheirEpisode(number, scene, tuple(objects), targets, joints, markers, ours)


def _kind(node: Node) -> str:
    name = node.text()
    if not name.endswith(_END) or len(name) > _MOST_LENGTH:
        node.fail(f"be NAME{_END}")
    return name.rpartition("/")[2].removesuffix(_END)


def _position(node: Node) -> Vector:
    rows = [row.numbers(4) for row in node.list(4, 4)]
    turn = np.array([row[:3] for row in rows[:3]])
    with np.errstate(over="ignore", invalid="ignore"):
        is_turn = bool(np.abs(turn @ turn.T - np.eye(3)).max() < _TURN_TOLERANCE)
    if not is_turn or rows[3] != (0.0, 0.0, 0.0, 1.0):
        node.fail("be a 4 x 4 matrix of a turn and a place", "other numbers")
    return from_habitat([row[3] for row in rows[:3]])


def _targets(node: Node, handles: list[str]) -> tuple[TheirTarget, ...]:
    labels = {handle: label.text() for handle, label in node["info"]["object_labels"].items()}
    starts, ends = (_receptacles(node, key) for key in ("target_receptacles", "goal_receptacles"))
    targets = []
    for i, (handle, matrix) in enumerate(node["targets"].items()):
        if handle not in handles:
            matrix.fail("belong to an object of rigid_objs", quoted(handle))
        targets.append(
            TheirTarget(
                handles.index(handle), labels.get(handle, handle), _position(matrix),
                starts[i] if i < len(starts) else None, ends[i] if i < len(ends) else None,
            )
        )  # fmt: skip
    return tuple(targets)


def _receptacles(node: Node, key: str) -> list[tuple[str, int | None] | None]:
    """[handle, link] of each; None for one that names no furniture. They may be left out."""
    found: list[tuple[str, int | None] | None] = []
    if key not in node.value:
        return found
    for element in node[key].list(_MOST_OBJECTS):
        handle, link = element.list(2, 2)
        number = None if link.value is None else link.integer(-1, 1000)
        found.append(None if handle.value is None else (handle.text(), number))
    return found
