"""A film of any environment that paints itself: `render()` in the mode rgb_array."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rearrange.errors import UserError, described
from rearrange.eval.film.video import VideoWriter


@contextmanager
def film_env(env: Any, path: Path, fps: int) -> Iterator[Callable[[], None]]:
    """Films an episode inside a `with` block; gives `add()`, for after the reset and every step.

    Raises UserError if the file cannot be written, or there are no pictures.
    """
    with ExitStack() as stack:
        writers: list[VideoWriter] = []

        def add() -> None:
            frame = _even(_picture(env))
            if not writers:  # the first picture tells the size
                height, width, _ = frame.shape
                writers.append(stack.enter_context(VideoWriter(path, width, height, fps)))
            writers[0].add(frame)

        yield add


def _picture(env: Any) -> np.ndarray:
    try:
        frame = env.render()
    except Exception as error:  # whatever is not installed, or fails, in somebody's environment
        why = described(error)
        raise UserError(f"the environment cannot paint itself: {why}") from error
    if not isinstance(frame, np.ndarray) or frame.ndim != 3 or frame.shape[2] != 3:
        raise UserError("the environment must give pictures [H, W, 3] in render_mode=rgb_array")
    if frame.dtype != np.uint8:
        raise UserError(f"the environment must give pictures of bytes, got {frame.dtype}")
    return frame


def _even(frame: np.ndarray) -> np.ndarray:
    """With an even height and width, which videos have, by repeating the last row or column."""
    height, width, _ = frame.shape
    return np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
