"""Frames -> an mp4 file that every browser plays, with the ffmpeg that imageio provides."""

import errno
import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import imageio_ffmpeg
import numpy as np

from rearrange.errors import UserError, one_line
from rearrange.system.outputs import atomic_path


def find_ffmpeg() -> str:
    """The ffmpeg that makes films. Raises UserError if there is none."""
    try:
        found = imageio_ffmpeg.get_ffmpeg_exe()
    except RuntimeError as error:
        raise _no_ffmpeg(one_line(error)) from error
    if shutil.which(found) is None:
        raise _no_ffmpeg(f"there is no program {found}")
    return found


def _no_ffmpeg(why: object) -> UserError:
    return UserError(f"films need ffmpeg, which cannot be started: {why}; see `rearrange doctor`")


class VideoWriter:
    """Writes frames [H, W, 3] uint8 while the `with` block runs; the file appears at its good end.

    Args:
        width, height: of every frame, even numbers.
        fps: frames a second.

    Raises:
        UserError: if the file cannot be written; no half of it is left.
    """

    def __init__(self, path: Path, width: int, height: int, fps: int) -> None:
        self._path, self.shape = path, (height, width, 3)
        arguments = [
            "-f",
            "rawvideo",
            "-pix_fmt",
            "rgb24",
            "-s",
            f"{width}x{height}",
            "-r",
            str(fps),
        ]
        arguments += ["-i", "-", "-an", "-c:v", "libx264", "-preset", "veryfast", "-crf", "24"]
        # yuv420p for browsers; faststart lets them begin before all of it is there.
        arguments += ["-pix_fmt", "yuv420p", "-movflags", "+faststart", "-threads", "1"]
        self._arguments = arguments

    def __enter__(self) -> "VideoWriter":
        ffmpeg = [find_ffmpeg(), "-y", "-loglevel", "error", *self._arguments]
        self._files = atomic_path(self._path)
        self._temporary = self._files.__enter__()
        self._messages = tempfile.TemporaryFile()  # noqa: SIM115 (closed in __exit__)
        try:
            self._process = subprocess.Popen(
                [*ffmpeg, str(self._temporary.absolute())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._messages,
                start_new_session=True,  # Ctrl-C goes to us, and we end it
            )
        except OSError as error:
            self._messages.close()
            missing = _no_ffmpeg(error.strerror)
            self._files.__exit__(type(missing), missing, None)
            raise missing from error
        return self

    def add(self, frame: np.ndarray) -> None:
        """Appends a frame."""
        if frame.shape != self.shape or frame.dtype != np.uint8:
            raise ValueError(f"frames must be {self.shape} uint8, got {frame.shape} {frame.dtype}")
        assert self._process.stdin is not None  # a pipe, see `__enter__`
        try:
            self._process.stdin.write(np.ascontiguousarray(frame).data)
        except OSError as error:
            raise self._why() from error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is not None:
                self._process.kill()
            assert self._process.stdin is not None
            with suppress(OSError):
                self._process.stdin.close()
            code = self._process.wait()
            if kind is None and code != 0:
                error = self._why()
                kind = type(error)
                raise error
        finally:
            self._messages.close()
            self._files.__exit__(kind, error, trace)

    def _why(self) -> Exception:
        """What ffmpeg said, as an exception."""
        self._process.wait()
        self._messages.seek(0)
        text = self._messages.read().decode(errors="replace")
        if "No space left" in text:
            return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        lines = text.strip().splitlines() or [f"exit code {self._process.returncode}"]
        return UserError(f"cannot write {self._path}: ffmpeg says {lines[-1]}")
