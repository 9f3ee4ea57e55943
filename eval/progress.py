"""How far an evaluation is: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import sys
import time
from contextlib import suppress

from tqdm import tqdm

SAY_EVERY_S = 20.0  # where there is no terminal


class Progress:
    """A context. The bar goes to stderr, lines to stdout: a piped stderr is for errors alone.

    Args:
        total: episodes.
        done: how many of them are there already.
        is_quiet: neither.
    """

    def __init__(self, title: str, total: int, done: int, is_quiet: bool = False) -> None:
        self._total, self._done, self._said_at = total, done, time.monotonic()
        self._is_quiet = is_quiet
        self._bar = tqdm(
            total=total, initial=done, desc=title, unit="episode", file=sys.stderr,
            disable=is_quiet or None,
        )  # fmt: skip

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def step(self, figure: str) -> None:
        """One more episode is done; `figure` is of all so far."""
        self._done += 1
        self._bar.set_postfix_str(figure, refresh=False)
        self._bar.update()
        now = time.monotonic()
        if not self._is_quiet and self._bar.disable and now - self._said_at >= SAY_EVERY_S:
            self._said_at = now
            with suppress(OSError):  # nobody listens: no reason to end
                print(f"{self._done} of {self._total} episodes, {figure}", flush=True)
