"""Progress of an evaluation, on stderr: a bar on a terminal, occasional lines elsewhere.

Control steps count too, those of running episodes as well: a long task's first episode may take
minutes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress

from tqdm import tqdm

from rearrange.ver.run.progress import duration

SAY_EVERY_S = 30.0  # where there is no terminal
BAR = "{desc}: {n_fmt} of {total_fmt} episodes |{bar}| {elapsed}{postfix}"


class Progress:
    """A context. On a terminal all of it is one line, which is written anew.

    Args:
        total: episodes.
        done: how many of them are there already.
        done_steps: control steps that these took, from which the time left is known at once.
        is_quiet: neither bar nor lines.
        clock: s.
    """

    def __init__(
        self,
        title: str,
        total: int,
        done: int,
        done_steps: int = 0,
        is_quiet: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._title, self._total, self._is_quiet, self._clock = title, total, is_quiet, clock
        self._done, self._done_steps = done, done_steps
        self._steps = self._underway = 0  # of episodes that ended since the start, that run now
        self._progress_text, self._has_begun = "", False
        self._begun = self._said_at = clock()
        self._bar = tqdm(
            total=total, initial=done, desc=title, bar_format=BAR, file=sys.stderr,
            disable=is_quiet or None, dynamic_ncols=True,
        )  # fmt: skip
        self._has_bar = not self._bar.disable

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._bar.close()
        if kind is None:
            self._say(self.line())

    def underway(self, steps: int) -> None:
        """So many control steps have been done of the episodes that run now, all together.

        Workers also tell that they have started; an episode may still turn out not to fit.
        """
        if not (steps or self._has_begun):
            return
        self._begin()
        has_ended = steps < self._underway  # an episode, whose steps `step` counts next
        self._underway = steps
        if not has_ended:
            self._show()

    def step(self, progress_text: str, steps: int) -> None:
        """One more episode is done, of so many control steps; `progress_text` is of all so far."""
        self._begin()
        self._done, self._progress_text = self._done + 1, progress_text
        self._steps += steps
        self._bar.update()
        self._show()

    def _begin(self) -> None:
        """Said once something runs, so that an error before that stands alone."""
        if not self._has_begun:
            self._has_begun, said_at = True, self._said_at
            self._say(f"{self._title}: {self._total - self._done} episodes to run")
            self._said_at = said_at

    def line(self) -> str:
        """How far it is."""
        return f"{self._done} of {self._total} episodes, {self._numbers()}"

    def _numbers(self) -> str:
        steps, passed_s = self._steps + self._underway, self._clock() - self._begun
        rate = steps / passed_s if passed_s > 0.0 else 0.0
        parts = [f"{steps:,} steps", f"{rate:.0f} steps/s"]
        if rate > 0.0 and 0 < self._done < self._total:
            mean = (self._done_steps + self._steps) / self._done
            left = max(0.0, (self._total - self._done) * mean - self._underway)
            parts.append(f"{duration(left / rate)} left")
        return ", ".join(filter(None, (*parts, self._progress_text)))

    def _show(self) -> None:
        if self._has_bar:
            self._bar.set_postfix_str(self._numbers())
        elif self._clock() - self._said_at >= SAY_EVERY_S:
            self._say(self.line())

    def _say(self, text: str) -> None:
        """A line where there is no bar."""
        if self._is_quiet or self._has_bar:
            return
        self._said_at = self._clock()
        with suppress(OSError):  # nobody listens: no reason to end
            print(text, file=sys.stderr, flush=True)
