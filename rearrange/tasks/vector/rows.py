"""Each home's rows of the arrays of all."""

from __future__ import annotations

import numpy as np

Row = dict[str, np.ndarray]
"""Sensor -> a home's numbers."""


def rows_of(arrays: dict[str, np.ndarray], num_homes: int) -> list[Row]:
    """Views of arrays [N, ...], for each home."""
    return [{name: array[i] for name, array in arrays.items()} for i in range(num_homes)]


def copy_row(source: Row, target: Row) -> None:
    for name, row in target.items():
        row[:] = source[name]
