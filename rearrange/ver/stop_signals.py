"""Ctrl-C and SIGTERM as a wish to stop, which the training looks at where it can stop well."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SAME_SIGNAL_S = 1.0  # a terminal and a shell may both deliver one Ctrl-C


class StopSignals:
    """Whether a stop was asked for, and since when."""

    def __init__(self) -> None:
        self._signum: int | None = None
        self._time = 0.0
        self._is_over = False

    def request(self, signum: int = signal.SIGINT) -> None:
        """Asks for a stop; the first one counts."""
        if self._signum is None:
            self._signum, self._time = signum, time.monotonic()

    def end(self) -> None:
        """Stops what still runs beside the training, which itself is through."""
        self._is_over = True

    def is_set(self) -> bool:
        return self._signum is not None or self._is_over

    def is_set_for(self, seconds: float) -> bool:
        """Whether the wish is older than that."""
        return self._signum is not None and time.monotonic() - self._time > seconds

    @property
    def signum(self) -> int | None:
        """The signal that asked; None if nobody did."""
        return self._signum

    @property
    def name(self) -> str | None:
        """SIGINT or SIGTERM; None if nobody asked."""
        return signal.Signals(self._signum).name if self._signum else None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Signals only ask; a second one does not wait. Does nothing outside the main thread."""

        def handle(signum: int, frame: object) -> None:
            if self.is_set_for(_SAME_SIGNAL_S):
                raise KeyboardInterrupt
            self.request(signum)

        with _handled_by(handle):
            yield

    @contextmanager
    def ignored(self) -> Iterator[None]:
        """For the last steps of cleaning up."""
        with _handled_by(signal.SIG_IGN):
            yield


@contextmanager
def _handled_by(handler) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {signum: signal.signal(signum, handler) for signum in SIGNALS}
    try:
        yield
    finally:
        for signum, old in before.items():
            with suppress(TypeError):  # a handler that was not set from Python
                signal.signal(signum, old)
