"""Waiting for the other end of a pipe: awake for a moment, then asleep.

A process that sleeps has to be woken, and so has the processor it was on. On a virtual machine that
takes 40 us, twice a step: more than a step of a small environment. Nothing newer than Python 3.9.
"""

from __future__ import annotations

import os
import select
import time

# Who stays awake uses up its turn. Where others want the processor it is better to sleep: who is
# woken comes first. A turn is some ms; what the system does in between takes less than this.
_TURN_OF_OTHERS_S = 500e-6
_TURNS_ASLEEP = 20.0  # so many times what it lost: what others take is at most 5% of its time


class Waiting:
    """Waits for file descriptors.

    Args:
        poll: knows the file descriptors and events.
        awake_s: asks again and again for so long before it sleeps, as long as nothing else wants
            the processor.
    """

    def __init__(self, poll: select.poll, awake_s: float) -> None:
        self._poll, self._awake_s = poll, awake_s
        self._asleep_until = 0.0

    def wait(self, timeout_s: float | None, is_worth_it: bool = True) -> list[tuple[int, int]]:
        """File descriptors and their events, none once the time is over.

        Args:
            timeout_s: None: for ever.
            is_worth_it: to stay awake, since something will come soon.
        """
        if is_worth_it and (events := self.stay_awake(timeout_s)):
            return events
        return self._poll.poll(None if timeout_s is None else max(0.0, timeout_s) * 1000.0)

    def stay_awake(self, timeout_s: float | None = None) -> list[tuple[int, int]]:
        """The same without falling asleep: none as well once it is time to."""
        last = time.perf_counter()
        if self._awake_s <= 0.0 or last < self._asleep_until:
            return []
        until = last + (self._awake_s if timeout_s is None else min(self._awake_s, timeout_s))
        while not (events := self._poll.poll(0)) and last < until:
            os.sched_yield()
            now = time.perf_counter()
            if now - last > _TURN_OF_OTHERS_S:
                self._asleep_until = now + _TURNS_ASLEEP * (now - last)
                break
            last = now
        return events
