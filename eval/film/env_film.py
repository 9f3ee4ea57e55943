"""A video of any environment that renders itself with render_mode=rgb_array."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from rearrange.errors import UserError, described
from rearrange.eval.film.video import VideoWriter
from rearrange.system.outputs import prepare_folder


class RecordVideo(gymnasium.Wrapper):
    """Films episodes: as `gymnasium.wrappers.RecordVideo`, with the ffmpeg that is installed here.

    Gymnasium's needs MoviePy, whose newest release (2.2.1) holds Pillow below 12. This one writes
    each picture as it comes, so that a long film needs no more memory than a short one.

    Args:
        env: in render_mode=rgb_array.
        video_folder: gets NAME_PREFIX-episode-N.mp4, or -step-N of a step that began one.
        episode_trigger: whether to film episode N, counted from 0; None, and without a
            step_trigger: the first, those with a cubic number, and from 1000 on every thousandth.
        step_trigger: whether a film begins with step N, counted from 0 over all episodes.
        video_length: steps; 0: up to the episode's end.
        fps: pictures a second; None: what the environment says, else 30.
        disable_logger, gc_trigger: as Gymnasium's, and without a use: nothing is logged, and
            frames are not kept.

    Raises UserError for an environment that gives no pictures, or a file that cannot be written.
    """

    def __init__(
        self,
        env: gymnasium.Env,
        video_folder: str | Path,
        episode_trigger: Callable[[int], bool] | None = None,
        step_trigger: Callable[[int], bool] | None = None,
        video_length: int = 0,
        name_prefix: str = "rl-video",
        fps: int | None = None,
        disable_logger: bool = True,
        gc_trigger: Callable[[int], bool] | None = None,
    ) -> None:
        super().__init__(env)
        if env.render_mode != "rgb_array":
            got = f"got {env.render_mode!r}"
            raise UserError(f"RecordVideo needs an environment with render_mode='rgb_array', {got}")
        if episode_trigger is None and step_trigger is None:
            episode_trigger = _usual
        self._begins = (episode_trigger or _never, step_trigger or _never)
        self._folder, self._prefix, self._length = Path(video_folder), name_prefix, video_length
        self._fps = fps or env.metadata.get("render_fps") or 30
        self._film = ExitStack()
        self._add: Callable[[], None] | None = None
        self._episode = self._step = -1
        self._num_frames = 0  # of the film that is being made

    def reset(self, **how: Any) -> tuple[Any, dict[str, Any]]:
        """As the environment's; ends a film that goes up to the episode's end."""
        result = self.env.reset(**how)
        self._episode += 1
        if not self._length:
            self._finish()
        if self._begins[0](self._episode):
            self._start(f"episode-{self._episode}")
        self._frame()
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """As the environment's."""
        result = self.env.step(action)
        self._step += 1
        if self._begins[1](self._step):
            self._start(f"step-{self._step}")
        self._frame()
        return result

    def close(self) -> None:
        """Finishes the film that is being made. Harmless when called again."""
        self._finish()
        super().close()

    def _start(self, name: str) -> None:
        self._finish()
        prepare_folder(self._folder)
        path = self._folder / f"{self._prefix}-{name}.mp4"
        self._num_frames = 0
        self._add = self._film.enter_context(film_env(self.env, path, self._fps))

    def _frame(self) -> None:
        if self._add is None:
            return
        self._add()
        self._num_frames += 1
        if self._length and self._num_frames > self._length:
            self._finish()

    def _finish(self) -> None:
        self._add = None
        self._film.close()


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
            (writer,) = writers
            if frame.shape != writer.shape:
                raise UserError(
                    f"all images of a film must have one size, got {_sized(writer.shape)} at first "
                    f"and {_sized(frame.shape)} now"
                )
            writer.add(frame)

        yield add


def _sized(shape: tuple[int, ...]) -> str:
    return f"{shape[1]} x {shape[0]}"


def _usual(number: int) -> bool:
    """0, 1, 8, 27, ... and 1000, 2000, ..., as Gymnasium's."""
    return round(number ** (1 / 3)) ** 3 == number if number < 1000 else number % 1000 == 0


def _never(number: int) -> bool:
    return False


def _picture(env: Any) -> np.ndarray:
    try:
        frame = env.render()
    except Exception as error:  # whatever is not installed, or fails, in somebody's environment
        why = described(error)
        raise UserError(f"the environment cannot render itself: {why}") from error
    if not isinstance(frame, np.ndarray) or frame.ndim != 3 or frame.shape[2] != 3:
        raise UserError("the environment must return images [H, W, 3] in render_mode=rgb_array")
    if frame.dtype != np.uint8:
        raise UserError(f"the environment must return images of bytes, got {frame.dtype}")
    return frame


def _even(frame: np.ndarray) -> np.ndarray:
    """With an even height and width, which videos have, by repeating the last row or column."""
    height, width, _ = frame.shape
    return np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
