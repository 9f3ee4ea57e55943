"""Dict and Tuple action spaces as one vector, and the conversion back.

{"arm": Box(7), "grip": Discrete(2)}   ->  Box(8)              the last number is rounded
{"turn": Discrete(3), "use": Discrete(2)}  ->  MultiDiscrete(3, 2)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rearrange.errors import UserError
from rearrange.ver.workers.spaces import ActionSpec, Space, action_spec, kind_of


@dataclass(frozen=True)
class Box:
    """What `action_spec` reads of a space of this name."""

    low: np.ndarray
    high: np.ndarray
    dtype: np.dtype = np.dtype(np.float64)  # each part's own comes later

    @property
    def shape(self) -> tuple[int, ...]:
        return self.low.shape


@dataclass(frozen=True)
class MultiDiscrete:
    """The same of this."""

    nvec: np.ndarray
    start: np.ndarray
    dtype: np.dtype = np.dtype(np.int64)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.nvec.shape


def flat_actions(space: Space) -> tuple[Space, Callable[[Any], Any]]:
    """The space as one vector, and a function from such a vector to an action of the space.

    Spaces other than Dict and Tuple are returned unchanged. Raises UserError for parts that are not
    Box, Discrete, MultiDiscrete or MultiBinary.
    """
    if not _is_made_of_parts(space):
        return space, lambda action: action
    specs = [_leaf_spec(leaf) for leaf in _leaves(space)]
    if not specs:
        raise UserError("the action space must not be empty, got an empty Dict")
    if all(spec.kind == "discrete" for spec in specs):
        choices = np.concatenate([spec.num_choices for spec in specs]).astype(np.int64)
        start = np.concatenate([spec.start for spec in specs]).astype(np.int64)
        flat: Space = MultiDiscrete(choices, start)
    else:
        bounds = [_bounds(spec) for spec in specs]
        lows, highs = [low for low, _ in bounds], [high for _, high in bounds]
        flat = Box(np.concatenate(lows), np.concatenate(highs))
    return flat, lambda action: _rebuilt(space, np.asarray(action), [0])


def _is_made_of_parts(space: Space) -> bool:
    return kind_of(space) in ("Dict", "Tuple")


def _parts(space: Space) -> list[Space]:
    return list(space.spaces.values() if kind_of(space) == "Dict" else space.spaces)


def _leaves(space: Space) -> list[Space]:
    if not _is_made_of_parts(space):
        return [space]
    return [leaf for part in _parts(space) for leaf in _leaves(part)]


def _leaf_spec(leaf: Space) -> ActionSpec:
    if kind_of(leaf) == "MultiBinary":
        size = int(np.prod(leaf.shape))
        leaf = MultiDiscrete(np.full(size, 2), np.zeros(size, np.int64))
    return action_spec(leaf)


def _bounds(spec: ActionSpec) -> tuple[np.ndarray, np.ndarray]:
    if spec.kind == "box":
        return spec.low, spec.high
    low = np.asarray(spec.start, np.float64)
    return low, low + np.asarray(spec.num_choices) - 1.0


def _rebuilt(space: Space, flat: np.ndarray, at: list[int]) -> Any:
    """An action of the space from the numbers at `at[0]`, which then moves past them."""
    kind = kind_of(space)
    if kind == "Dict":
        return {name: _rebuilt(part, flat, at) for name, part in space.spaces.items()}
    if kind == "Tuple":
        return tuple(_rebuilt(part, flat, at) for part in space.spaces)
    size = 1 if kind == "Discrete" else int(np.prod(space.shape))
    numbers = flat[at[0] : at[0] + size]
    at[0] += size
    if kind == "Discrete":
        return int(np.rint(numbers[0]))
    if np.dtype(space.dtype).kind != "f":
        numbers = np.rint(numbers)
    return numbers.astype(space.dtype).reshape(space.shape)
