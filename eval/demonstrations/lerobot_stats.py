"""Statistics in LeRobot's format: min, max, mean, std, count and quantiles.

Vectors by entry, pictures of depth by their one channel, in m. Normalisation in training goes by
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rearrange.eval.demonstrations.demonstration import DEPTH_RANGE, MOST_CODE

QUANTILES = (0.01, 0.10, 0.50, 0.90, 0.99)
Stats = dict[str, np.ndarray]


def vector_stats(values: np.ndarray) -> Stats:
    """Of [T, n], or [T] as n = 1: arrays [n]; `count` [1]."""
    values = np.asarray(values, np.float64).reshape(len(values), -1)
    quantiles = np.quantile(values, QUANTILES, axis=0)
    return {
        "min": values.min(0),
        "max": values.max(0),
        "mean": values.mean(0),
        "std": values.std(0),
        "count": np.array([len(values)]),
        **dict(zip(map(_name, QUANTILES), quantiles, strict=True)),
    }


def depth_stats(codes: np.ndarray) -> Stats:
    """Of codes [T, H, W]: arrays [1, 1, 1], in m; `count` [1] counts pictures. Exact."""
    counts = np.bincount(codes.ravel(), minlength=MOST_CODE + 1)
    metres = np.arange(MOST_CODE + 1) * (DEPTH_RANGE / MOST_CODE)
    share = counts / counts.sum()
    mean = share @ metres
    there = np.flatnonzero(counts)
    up_to = np.cumsum(share)
    found = {
        "min": metres[there[0]],
        "max": metres[there[-1]],
        "mean": mean,
        "std": np.sqrt(share @ (metres - mean) ** 2),
        **{_name(q): metres[np.searchsorted(up_to, q)] for q in QUANTILES},
    }
    stats = {name: np.full((1, 1, 1), value) for name, value in found.items()}
    return stats | {"count": np.array([len(codes)])}


def grey_stats(codes: np.ndarray) -> Stats:
    """Of the same as pictures of three equal channels in [0, 1]: arrays [3, 1, 1]."""
    stats = depth_stats(codes)
    return {
        name: value if name == "count" else np.repeat(value / DEPTH_RANGE, 3, axis=0)
        for name, value in stats.items()
    }


def joined_stats(parts: Sequence[Stats]) -> Stats:
    """Of several episodes together. Exact, but for the quantiles: means of the episodes'."""
    counts = np.array([int(part["count"][0]) for part in parts])
    share = counts / counts.sum()

    def mean(values: list[np.ndarray]) -> np.ndarray:
        return np.tensordot(share, np.stack(values), axes=1)

    middle = mean([part["mean"] for part in parts])
    spread = mean([part["std"] ** 2 + (part["mean"] - middle) ** 2 for part in parts])
    return {
        "min": np.min([part["min"] for part in parts], axis=0),
        "max": np.max([part["max"] for part in parts], axis=0),
        "mean": middle,
        "std": np.sqrt(spread),
        "count": np.array([counts.sum()]),
        **{_name(q): mean([part[_name(q)] for part in parts]) for q in QUANTILES},
    }


def listed(stats: dict[str, Stats]) -> dict[str, dict[str, Any]]:
    """As JSON has them."""
    return {key: {name: v.tolist() for name, v in one.items()} for key, one in stats.items()}


def _name(quantile: float) -> str:
    return f"q{round(100 * quantile):02d}"
