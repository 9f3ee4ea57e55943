"""Signals as stop requests, which the training checks at safe points.

SIGINT   Ctrl-C                                            exit code 130
SIGTERM  kill, a scheduler that takes the machine away     143
SIGHUP   the terminal was closed; not under nohup           129
SIGUSR1  a scheduler's notice: save, and be started again   75
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType

EXIT_CODES: dict[int, int] = {
    # 128 + number, as shells have it
    signal.SIGINT: 130,
    signal.SIGTERM: 143,
    signal.SIGHUP: 129,
    # EX_TEMPFAIL of sysexits.h, "try again later"; 138 would also be that of a process which the
    # signal killed before it could save.
    signal.SIGUSR1: 75,
}
"""Exit codes of a command that a signal stopped, once its work is saved."""
TO_ALL = frozenset({signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP})
"""Signals that a scheduler or a terminal also sends to our children, which must survive them."""
_NOTICES = (signal.SIGUSR1, signal.SIGHUP)
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
        """Stops what still runs besides the training, which itself has finished."""
        self._is_over = True

    def is_set(self) -> bool:
        return self._signum is not None or self._is_over

    def is_set_for(self, seconds: float) -> bool:
        """Whether the request is older than that."""
        return self._signum is not None and time.monotonic() - self._time > seconds

    @property
    def signum(self) -> int | None:
        """The signal that asked for the stop; None if none did."""
        return self._signum

    @property
    def name(self) -> str | None:
        """Its name, such as SIGINT; None if no stop was asked for."""
        return signal.Signals(self._signum).name if self._signum else None

    @property
    def exit_code(self) -> int:
        """The exit code of that signal; 0 if no stop was asked for."""
        return EXIT_CODES.get(self._signum, 1) if self._signum else 0

    @contextmanager
    def listening(self) -> Generator[None]:
        """A first signal asks for a stop, a second one raises KeyboardInterrupt.

        Does nothing outside the main thread.

        A scheduler's notice may arrive twice, directly and through torchrun, and so may a closed
        terminal's, from the system and the shell: these only ever ask. So does a SIGTERM after a
        scheduler's notice: it sees that other ranks have left.
        """

        def handle(signum: int, frame: object) -> None:
            is_same_end = signum == signal.SIGTERM and self._signum == signal.SIGUSR1
            if signum not in _NOTICES and not is_same_end and self.is_set_for(_SAME_SIGNAL_S):
                raise KeyboardInterrupt
            self.request(signum)

        with _handled_by(handle):
            yield

    @contextmanager
    def ignored(self) -> Generator[None]:
        """Ignores these signals, for the last steps of cleaning up."""
        with _handled_by(signal.SIG_IGN):
            yield


@contextmanager
def signals_blocked() -> Generator[None]:
    """Blocks signals for processes started within the block: one sent to all reaches this one only.

    Otherwise they would end before our work is saved. They exit when this process does.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, TO_ALL)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _handled_by(
    handler: Callable[[int, FrameType | None], object] | signal.Handlers,
) -> Generator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        signum: signal.signal(signum, handler) for signum in EXIT_CODES if not is_shielded(signum)
    }
    try:
        yield
    finally:
        for signum, old in before.items():
            with suppress(TypeError):  # a handler that was not set from Python
                signal.signal(signum, old)


def is_shielded(signum: int) -> bool:
    """Whether the caller wants the command to outlive this signal: nohup."""
    return signum == signal.SIGHUP and signal.getsignal(signum) == signal.SIG_IGN
