"""A pool's memory of failures: the restart budget, and seeds that cannot be started.

A restart costs one of the budget, and one comes back after a while: an environment that dies once
an hour may go on for weeks, one that dies in every step ends the training in seconds.

An episode whose reset fails would fail again after every restart, and after every resume: its seed
is left out after two failures. The counts go into checkpoints.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from rearrange.ver.workers.shared_memory import StepSlots

FAILURES_OF_A_SEED = 2  # one may be chance: a machine without memory, a kill from outside

log = logging.getLogger(__name__)


class RestartBudget:
    """At most `size` restarts at once; one comes back every `refill_s` seconds."""

    def __init__(
        self, size: int, refill_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.size, self.refill_s = size, refill_s
        self._clock, self._left, self._at = clock, float(size), clock()

    def take(self) -> bool:
        """Takes one; false if none is left."""
        now = self._clock()
        self._left = min(self.size, self._left + (now - self._at) / self.refill_s)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class FailedResets:
    """Counts, by seed, of the resets that did not come to their end.

    Args:
        counts: of the processes that trained this run earlier.
    """

    def __init__(self, counts: Mapping[int, int]) -> None:
        self.counts = dict(counts)

    def note(self, slots: StepSlots, envs: list[int]) -> None:
        """Counts what these environments were starting when they broke."""
        for e in envs:
            seed = int(slots.resetting[e]) - 1
            slots.resetting[e] = 0
            if seed < 0:
                continue
            self.counts[seed] = self.counts.get(seed, 0) + 1
            if is_left_out(self.counts, seed):
                log.warning(
                    "environment %d failed %d times to reset with seed %d: that episode is left "
                    "out from now on", e, self.counts[seed], seed,
                )  # fmt: skip


def is_left_out(counts: Mapping[int, int], seed: int) -> bool:
    """Whether no episode begins with this seed any more."""
    return counts.get(seed, 0) >= FAILURES_OF_A_SEED
