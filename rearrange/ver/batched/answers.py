"""What a vector environment answers, environment by environment."""

from __future__ import annotations

from typing import Any

import numpy as np

from rearrange.errors import UserError


def per_environment(name: str, values: Any, num_envs: int) -> np.ndarray:
    """Numbers or flags of N environments, [N]. Raises UserError for anything else."""
    array = np.asarray(values)
    if array.shape != (num_envs,) or array.dtype.kind not in "biuf":
        raise UserError(
            f"{name} of a vector environment must be [{num_envs}] numbers or flags, got "
            f"{list(array.shape)} of type {array.dtype}"
        )
    return array


def fits(observations: Any, arrays: dict[str, np.ndarray]) -> bool:
    """Whether a batch of observations is arrays as these."""
    return (
        isinstance(observations, dict)
        and observations.keys() == arrays.keys()
        and all(
            isinstance(got, np.ndarray)
            and (got.dtype, got.shape) == (array.dtype, array.shape)
            and got.flags.c_contiguous
            for got, array in ((observations[name], array) for name, array in arrays.items())
        )
    )


def info_of(infos: dict[str, Any], path: str, e: int) -> float:
    """A number of environment e in a batch of infos, NaN if it is not there.

    "is_success" also answers for "success".
    """
    *parts, last = path.split("/")
    place: Any = infos
    for part in parts:
        place = place.get(part) if isinstance(place, dict) else None
    has = place.get(f"_{last}") if isinstance(place, dict) else None
    if not isinstance(place, dict) or last not in place or (has is not None and not has[e]):
        return info_of(infos, "is_success", e) if path == "success" else np.nan
    try:
        return float(place[last][e])
    except (TypeError, ValueError, IndexError):  # one number for all, for example
        return np.nan
