"""TensorBoard: the numbers of metrics.jsonl, the settings, and videos.

    tensorboard/   SCALARS   every metric
                   HPARAMS   settings, nested ones with a dot
                   IMAGES    films of validation episodes, as GIFs that the page plays

A failure to write here does not end a training: the numbers are in metrics.jsonl.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = ("episode/return", "episode/success", "validation/return", "validation/success")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Film:
    """A GIF."""

    name: str
    content: bytes
    width: int
    height: int


class TensorBoard:
    """Writes into a folder, until the disk refuses.

    Args:
        purge_step: entries of an earlier process from this step on are hidden; None: none are.
    """

    def __init__(self, folder: Path, purge_step: int | None) -> None:
        self._writer: Any = _writer_read_last(folder, purge_step)
        _let_writers_fail_in_silence()

    def show_numbers(self, values: Mapping[str, float | None], step: int) -> None:
        """Writes those that are not None."""

        def write(writer: Any) -> None:
            for name, value in values.items():
                if value is not None:
                    writer.add_scalar(name, value, step)

        self._until_refused(write)

    def show_settings(self, settings: Mapping[str, Any]) -> None:
        """Writes them as hyper-parameters."""
        from torch.utils.tensorboard.summary import hparams

        def write(writer: Any) -> None:
            numbers = dict.fromkeys(RESULTS, 0.0)
            for summary in hparams(flat(settings), numbers):
                writer.file_writer.add_summary(summary)

        if settings:
            self._until_refused(write)

    def show_film(self, film: Film, step: int) -> None:
        """Adds it to the metrics of its step."""
        from tensorboard.compat.proto import summary_pb2

        messages: Any = summary_pb2  # its classes are created on import
        image = messages.Summary.Image(
            height=film.height, width=film.width, colorspace=3, encoded_image_string=film.content
        )
        summary = messages.Summary(value=[messages.Summary.Value(tag=film.name, image=image)])
        self._until_refused(lambda writer: writer.file_writer.add_summary(summary, step))

    def close(self) -> None:
        """May be called twice."""
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()
            self._writer = None

    def _until_refused(self, write: Callable[[Any], None]) -> None:
        if self._writer is None:
            return
        try:
            write(self._writer)
        except OSError as error:
            logger.warning("no more TensorBoard files: %s", error)
            self._writer = None


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str | float | bool]:
    """Nested settings under dotted names; lists and None as text."""
    found: dict[str, str | float | bool] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{name}.")
        else:
            is_plain = isinstance(value, str | int | float)
            found[prefix + name] = value if is_plain else str(value).lower()
    return found


def _writer_read_last(folder: Path, purge_step: int | None) -> Any:
    """A writer of a new file that TensorBoard reads after those that are there.

    It reads them in the order of their names: second, host, process, how many files the process has
    begun. So of two that a process begins in one second the 10th comes before the 9th, and would
    hide nothing of it.
    """
    from torch.utils.tensorboard import SummaryWriter  # here: the import is slow

    before = _event_files(folder)
    writer = SummaryWriter(str(folder), purge_step=purge_step)
    new = _event_files(folder) - before
    if not new or not before or max(new) > max(before):
        return writer
    with suppress(OSError):  # a full disk: the next writer says so, as it would have at first
        writer.close()
        for name in new:
            (folder / name).unlink()
    time.sleep(1.0 - time.time() % 1.0)
    return SummaryWriter(str(folder), purge_step=purge_step)


def _event_files(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("events.out.tfevents.*")}


def _let_writers_fail_in_silence() -> None:
    """Silences the traceback of TensorBoard's thread (full disk): the next write raises it."""
    before = threading.excepthook
    if getattr(before, "is_ours", False):
        return

    def hook(failure: threading.ExceptHookArgs) -> None:
        is_theirs = type(failure.thread).__module__.startswith("tensorboard.")
        if not (is_theirs and issubclass(failure.exc_type, OSError)):
            before(failure)

    setattr(hook, "is_ours", True)  # noqa: B010 - functions have no such attribute in stubs
    threading.excepthook = hook
