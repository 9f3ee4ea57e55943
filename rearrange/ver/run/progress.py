"""Progress of a training, on stderr.

On a terminal it is tqdm's bar; elsewhere (a log file, a cluster's scheduler) a plain line every
half minute, without control characters. Output stops once nobody can read it: closing the terminal
does not end a training.
"""

import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TextIO

PHASES = ("env", "infer", "learn", "wait")
PLAIN_INTERVAL_S = 30.0


class Progress:
    """Shows steps, steps a second, time left, return, success and phases, where known.

    Args:
        label: what every line begins with.
    """

    def __init__(
        self,
        total_steps: int,
        start_step: int = 0,
        is_quiet: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        label: str = "",
    ) -> None:
        self._begin = f"{label}: " if label else ""
        # None is Python's word for a closed stderr
        self._stream: TextIO | None = sys.stderr if stream is None else stream
        self._total_steps, self._clock = total_steps, clock
        self._is_quiet = is_quiet or self._stream is None
        self._shown: tuple[int, float] = (start_step, clock())  # step and time of the last line
        self._due = clock()  # time of the next plain line; the first is printed at once
        self._last: tuple[int, Mapping[str, float | None]] | None = None  # not shown yet
        self._bar = None
        if self._stream is not None and not self._is_quiet and self._stream.isatty():
            from tqdm import tqdm

            self._bar = tqdm(
                desc=label or None,
                total=total_steps,
                initial=start_step,
                unit=" steps",
                unit_scale=True,
                dynamic_ncols=True,
                file=self._stream,
            )

    def show(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """Moves on to `step`."""
        if self._is_quiet:
            return
        with self._until_nobody_listens():
            if self._bar is not None:
                self._bar.set_postfix_str(describe(metrics), refresh=False)
                self._bar.update(step - self._bar.n)
                return
            self._last = (step, metrics)
            if self._clock() >= self._due:
                self._print_line()

    def close(self) -> None:
        """Shows the final state; may be called twice."""
        with self._until_nobody_listens():
            if self._bar is not None:
                self._is_quiet = True
                self._bar.close()
            elif not self._is_quiet and self._last is not None:
                self._print_line()
        self._bar = None

    @contextmanager
    def _until_nobody_listens(self) -> Generator[None]:
        try:
            yield
        except OSError:
            self._is_quiet = True

    def _print_line(self) -> None:
        assert self._last is not None
        now, (step, metrics) = self._clock(), self._last
        shown_step, shown_time = self._shown
        rate = (step - shown_step) / (now - shown_time) if now > shown_time else 0.0
        left = self._total_steps - step
        share = step / max(1, self._total_steps)
        parts = [f"{self._begin}step {step} of {self._total_steps} ({share:.1%})"]
        if rate > 0.0:
            parts.append(f"{rate:.0f} steps/s")
            if left > 0:
                parts.append(f"{duration(left / rate)} left")
        print(", ".join(filter(None, (*parts, describe(metrics)))), file=self._stream, flush=True)
        self._shown, self._due, self._last = (step, now), now + PLAIN_INTERVAL_S, None


def describe(metrics: Mapping[str, float | None]) -> str:
    """Return, success and phases of an update in a few words."""
    parts: list[str] = []
    if metrics.get("episode/return") is not None:
        parts.append(f"return {metrics['episode/return']:.4g}")
    if metrics.get("episode/success") is not None:
        parts.append(f"success {metrics['episode/success']:.0%}")
    if metrics.get("validation/success") is not None:
        parts.append(f"validation {metrics['validation/success']:.0%}")
    shares = [(name, metrics.get(f"phase/{name}")) for name in PHASES]
    if any(share is not None for _, share in shares):
        parts.append(" ".join(f"{name} {share:.0%}" for name, share in shares if share is not None))
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """12:34 or 1:02:03."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
