"""An observation for the page: vectors as numbers, pictures as grey bytes.

What is shown is what the policy gets, with the environment's delay of one control step.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

MOST_NUMBERS = 16  # of a vector that is shown as numbers; longer ones are a strip of greys
DIGITS = 3


def describe(observation: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """{"vectors": {name: numbers}, "pictures": {name: {width, height, low, high, grey}}}.

    `grey` has a byte a pixel, row by row, in base64: 0 is `low`, 255 is `high`.
    """
    vectors, pictures = {}, {}
    for name, values in observation.items():
        if values.size <= MOST_NUMBERS:
            vectors[name] = [round(float(value), DIGITS) for value in values.ravel()]
        else:
            pictures[name] = _picture(values)
    return {"vectors": vectors, "pictures": pictures}


def _picture(values: np.ndarray) -> dict[str, Any]:
    """Of [H, W] or [H, W, 1], or a strip of [n]; depth is in [0, 1], other ranges are stretched."""
    flat = values[:, :, 0] if values.ndim == 3 else np.atleast_2d(values)
    low, high = float(flat.min()), float(flat.max())
    if low >= 0.0 and high <= 1.0:
        low, high = 0.0, 1.0
    grey = np.rint((flat - low) * (255.0 / max(high - low, 1e-9))).astype(np.uint8)
    height, width = grey.shape
    return {
        "width": width,
        "height": height,
        "low": round(low, DIGITS),
        "high": round(high, DIGITS),
        "grey": base64.b64encode(grey.tobytes()).decode(),
    }
