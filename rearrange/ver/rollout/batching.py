"""The size of inference batches, and how long to wait for a larger one.

    too few requests wait --> wait for others, until it costs more than it saves --> a batch

A forward pass takes about as long whatever the batch size. Waiting in vain costs the waiting
environments time; a request that arrives in time saves a whole pass. With slow environment steps
the wait ends soon; with quick ones most environments are served at once.
"""

from __future__ import annotations

import math

_REMEMBERED = 100  # window of a running mean


class RunningMean:
    """Running mean of about the last hundred values; of all while there are fewer.

    Args:
        value: the mean before the first value.
    """

    def __init__(self, value: float) -> None:
        self.value, self._count = value, 0

    def add(self, value: float) -> None:
        self._count = min(self._count + 1, _REMEMBERED)
        self.value += (value - self.value) / self._count

    def add_all(self, values: list[float]) -> None:
        for value in values:
            self.add(value)


class Batching:
    """The rule for batches, with the times it needs (s).

    Args:
        least: requests to wait for; 0: two thirds of a worker's share, as long as waiting pays.
        most: largest batch; 0: 1.5 times a worker's share.
        share: environments per inference worker.

    Attributes:
        answer_s: from an action to its answer.
        policy_s: one forward pass.
    """

    def __init__(self, least: int, most: int, share: float) -> None:
        self._is_wait_chosen = least > 0
        self.most = most or math.ceil(1.5 * share)
        self.least = least or max(1, min(int(share / 1.5), self.most))
        self.answer_s, self.policy_s = RunningMean(0.01), RunningMean(0.002)
        self._give_up = 0.0  # when waiting ends

    @property
    def wait_s(self) -> float:
        """The longest time to wait for a larger batch."""
        half_s = 0.5 * self.answer_s.value
        return half_s if self._is_wait_chosen else min(half_s, self.policy_s.value)

    def begin_waiting(self, now: float) -> None:
        """Starts the wait, on the clock that `now` comes from."""
        self._give_up = now + self.wait_s

    def left_s(self, now: float) -> float:
        """Remaining wait (s)."""
        return max(0.0, self._give_up - now)

    def is_due(self, num_waiting: int, num_others: int, now: float) -> bool:
        """Whether to serve the waiting requests now.

        Args:
            num_others: environments that may still ask for an action.
        """
        return num_waiting >= min(self.least, num_waiting + num_others) or now >= self._give_up
