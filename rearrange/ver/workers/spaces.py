"""Spaces of Gymnasium or the old gym, as named arrays.

Observations are dicts of arrays: a Dict space keeps its keys, any other space becomes the one key
`observation`. Discrete parts are one-hot. Actions are always [A]; the policy chooses Box actions in
units where [-1, 1] is the whole range. What a space is, its class's name tells: environment workers
import this where there is neither library, and no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from rearrange.errors import UserError
from rearrange.system.checked_json import quoted


@dataclass(frozen=True)
class ArraySpec:
    shape: tuple[int, ...]
    dtype: np.dtype


ObservationSpec = dict[str, ArraySpec]
Space = Any  # gymnasium.Space or gym.Space
_KINDS = frozenset({"Box", "Dict", "Discrete", "MultiBinary", "MultiDiscrete"})


def kind_of(space: Space) -> str:
    """Box, Dict, Discrete, MultiBinary or MultiDiscrete; of another space the name of its class."""
    return _kind_of_class(type(space))


@lru_cache(maxsize=None)  # noqa: UP033 - asked for at every step
def _kind_of_class(cls: type) -> str:
    return next((base.__name__ for base in cls.__mro__ if base.__name__ in _KINDS), cls.__name__)


def _start(space: Space) -> Any:
    """The smallest choice of a Discrete or MultiDiscrete space: gym's began at 0 for long."""
    return getattr(space, "start", 0)


@dataclass(frozen=True)
class ActionSpec:
    """What an action is made of."""

    kind: str  # "box" or "discrete"
    size: int  # A
    num_choices: tuple[int, ...]  # discrete: choices of each of the A numbers; box: empty
    low: np.ndarray  # [A] float64, box only; may be infinite
    high: np.ndarray
    start: tuple[int, ...] = ()  # discrete: the smallest choice, as the space has it
    shape: tuple[int, ...] = ()  # of the space
    env_dtype: np.dtype = np.dtype(np.float32)  # of the space

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(np.float32 if self.kind == "box" else np.int64)

    def to_env(self, action: np.ndarray) -> np.ndarray | int:
        """An action [A] of the policy as the environment wants it."""
        if self.kind == "discrete" and not self.shape:
            return int(self.to_envs(action[None])[0])
        return self.to_envs(action[None]).reshape(self.shape)

    def to_envs(self, action: np.ndarray) -> np.ndarray:
        """Actions [N, A] of the policy as N environments want them, [N, ...]."""
        shape = (len(action), *self.shape)
        if self.kind == "discrete":
            choices = (action + np.asarray(self.start, np.int64)).astype(self.env_dtype)
            return choices.reshape(shape)
        # In float64: the bounds of a float64 space are no float32 numbers.
        action = action.astype(np.float64)
        is_bounded, low, width = self._range
        scaled = low + 0.5 * (action.clip(-1.0, 1.0) + 1.0) * width
        result = np.where(is_bounded, scaled, action).clip(self.low, self.high)
        if self.env_dtype.kind in "iu":
            result = np.rint(result)
        return result.astype(self.env_dtype).reshape(shape)

    @cached_property
    def _range(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Whether both bounds are finite, the lower one and the way to the upper, [A] each.

        Computed once: every worker needs them at every step.
        """
        is_bounded = np.isfinite(self.low) & np.isfinite(self.high)
        low = np.where(is_bounded, self.low, -1.0)
        return is_bounded, low, np.where(is_bounded, self.high, 1.0) - low


def observation_spec(space: Space) -> ObservationSpec:
    """Names, shapes and types of the arrays that `write_observation` fills.

    Raises UserError for a space that is not made of Box, Discrete, MultiDiscrete and MultiBinary.
    """
    if kind_of(space) == "Dict":
        specs: ObservationSpec = {}
        for name, part in space.spaces.items():
            if kind_of(part) == "Dict":
                nested = observation_spec(part)
                specs.update({f"{name}/{key}": spec for key, spec in nested.items()})
            else:
                specs[name] = _array_spec(part)
        if not specs:
            raise UserError("the observation space must not be empty, got an empty Dict")
        return specs
    return {"observation": _array_spec(space)}


def _array_spec(space: Space) -> ArraySpec:
    kind = kind_of(space)
    if kind == "Box":
        is_image = space.dtype == np.uint8 and len(space.shape) == 3
        return ArraySpec(space.shape or (1,), np.dtype(np.uint8 if is_image else np.float32))
    if kind == "Discrete":
        return ArraySpec((int(space.n),), np.dtype(np.float32))
    if kind == "MultiDiscrete":
        return ArraySpec((int(space.nvec.sum()),), np.dtype(np.float32))
    if kind == "MultiBinary":
        return ArraySpec((int(np.prod(space.shape)),), np.dtype(np.float32))
    raise UserError(
        "observations must be made of Box, Discrete, MultiDiscrete, MultiBinary or Dict spaces, "
        f"got {kind}; wrap the environment so that it gives one of these"
    )


def write_observation(
    space: Space, observation, arrays: dict[str, np.ndarray], row: int, prefix: str = ""
) -> None:
    """Writes an observation into row `row` of the arrays, {name: [E, ...]}.

    Nothing is stretched, cut or turned into another kind of number on the way.
    Raises UserError, naming the key, for what is no observation of the space.
    """
    if kind_of(space) != "Dict":
        _write(space, observation, arrays["observation"], row, "observation")
        return
    if not isinstance(observation, Mapping):
        raise UserError(f"{prefix or 'observation'} must be a dict, got {quoted(observation)}")
    for name, part in space.spaces.items():
        if name not in observation:
            raise UserError(f"observation '{prefix}{name}' is missing")
        if kind_of(part) == "Dict":
            nested = {key: arrays[f"{name}/{key}"] for key in observation_spec(part)}
            write_observation(part, observation[name], nested, row, f"{prefix}{name}/")
        else:
            _write(part, observation[name], arrays[name], row, f"{prefix}{name}")


def _write(space: Space, value, array: np.ndarray, row: int, key: str) -> None:
    try:
        value = np.asarray(value)
    except ValueError as error:  # lists of different lengths
        raise UserError(f"observation '{key}' must be an array, got {quoted(value)}") from error
    kind = kind_of(space)
    is_box = kind == "Box"
    if value.dtype.kind not in ("biuf" if is_box else "biu"):
        numbers = "real" if is_box else "whole"
        raise UserError(f"observation '{key}' must be {numbers} numbers, got type {value.dtype}")
    shape = space.shape or ()
    if value.shape != shape and not value.shape + shape == (1,):  # () and (1,) are as good
        raise UserError(f"observation '{key}' must have the shape {shape}, got {value.shape}")
    if is_box:
        _check_bytes(value, array.dtype, key)
        array[row] = value
        return
    array[row] = 0.0
    if kind == "MultiBinary":
        _check_choices(value, 0, 2, key)
        array[row] = value.ravel()
    elif kind == "Discrete":
        start = int(_start(space))
        _check_choices(value, start, space.n, key)
        array[row, int(value.item()) - start] = 1.0
    elif kind == "MultiDiscrete":
        start = _start(space)
        _check_choices(value, start, space.nvec, key)
        nvec = space.nvec.ravel()
        offsets = np.concatenate([[0], np.cumsum(nvec)[:-1]])
        array[row, offsets + (value - start).ravel()] = 1.0


def write_observations(
    space: Space, observations, arrays: dict[str, np.ndarray], rows: np.ndarray, prefix: str = ""
) -> None:
    """The same for N environments at once, from Gymnasium's batch of their observations.

    Args:
        space: that of one environment.
        observations: each part [N, ...].
        rows: whose are written, [N] bool.

    Raises UserError, naming the key, for what is no batch of the space.
    """
    if kind_of(space) != "Dict":
        _write_rows(space, observations, arrays["observation"], rows, prefix or "observation")
        return
    if not isinstance(observations, Mapping):
        raise UserError(f"{prefix or 'observations'} must be a dict, got {quoted(observations)}")
    for name, part in space.spaces.items():
        if name not in observations:
            raise UserError(f"observation '{prefix}{name}' is missing")
        if kind_of(part) == "Dict":
            nested = {key: arrays[f"{name}/{key}"] for key in observation_spec(part)}
            write_observations(part, observations[name], nested, rows, f"{prefix}{name}/")
        else:
            _write_rows(part, observations[name], arrays[name], rows, f"{prefix}{name}")


def _write_rows(space: Space, values, array: np.ndarray, rows: np.ndarray, key: str) -> None:
    values, shape, kind = np.asarray(values), (len(rows), *(space.shape or ())), kind_of(space)
    if values.shape != shape or values.dtype.kind not in ("biuf" if kind == "Box" else "biu"):
        got = f"type {values.dtype} and shape {values.shape}"
        raise UserError(f"observations '{key}' must be numbers of the shape {shape}, got {got}")
    if kind == "Box":
        _check_bytes(values, array.dtype, key)
        if rows.all():  # a plain copy takes a quarter of the time
            array[:] = values.reshape(array.shape)
        else:
            array[rows] = values[rows].reshape(rows.sum(), *array.shape[1:])
        return
    values = values[rows]
    if kind == "MultiBinary":
        _check_choices(values, 0, 2, key)
        array[rows] = values.reshape(len(values), -1)
        return
    counts = np.atleast_1d(space.n if kind == "Discrete" else space.nvec).ravel()
    _check_choices(values, _start(space), space.n if kind == "Discrete" else space.nvec, key)
    choices = (values - _start(space)).reshape(len(values), len(counts))
    array[rows] = 0.0
    places = choices + np.concatenate([[0], np.cumsum(counts)[:-1]])
    array[np.flatnonzero(rows)[:, None], places] = 1.0


def _check_bytes(value: np.ndarray, dtype: np.dtype, key: str) -> None:
    """Pictures of bytes: 300 would become 44, and 0.5 black."""
    if dtype != np.uint8 or value.dtype == np.uint8:
        return
    if value.dtype.kind not in "iu" or value.min() < 0 or value.max() > 255:
        raise UserError(f"observation '{key}' must be bytes, got type {value.dtype}")


def _check_choices(value: np.ndarray, start, count, key: str) -> None:
    if not ((value >= start) & (value < start + count)).all():
        got = str(value.tolist())[:60]
        raise UserError(f"observation '{key}' must be one of the space's choices, got {got}")


def action_spec(space: Space) -> ActionSpec:
    """Raises UserError for a space that is not Box, Discrete or MultiDiscrete."""
    none, kind = np.zeros(0), kind_of(space)
    if kind == "Discrete":
        start, dtype = (int(_start(space)),), np.dtype(space.dtype)
        return ActionSpec("discrete", 1, (int(space.n),), none, none, start, (), dtype)
    if kind == "MultiDiscrete":
        choices = tuple(int(n) for n in space.nvec.ravel())
        starts = np.broadcast_to(_start(space), space.shape).ravel()
        start, size, shape = tuple(int(s) for s in starts), len(choices), space.shape
        return ActionSpec(
            "discrete", size, choices, none, none, start, shape, np.dtype(space.dtype)
        )
    if kind == "Box" and np.prod(space.shape) > 0:
        low, high = (b.astype(np.float64).ravel() for b in (space.low, space.high))
        dtype = np.dtype(space.dtype)
        return ActionSpec("box", int(low.size), (), low, high, (), space.shape, dtype)
    raise UserError(
        f"actions must be a Box, Discrete or MultiDiscrete space, got {kind}; "
        "wrap the environment so that it takes one of these"
    )
