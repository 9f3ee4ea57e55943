"""Pool: what a collector asks of the environments, wherever they are stepped."""

from __future__ import annotations

from typing import Protocol

from rearrange.ver.workers.pool import Fault
from rearrange.ver.workers.shared_memory import StepSlots


class Pool(Protocol):
    """Steps the environments: WorkerPool, SerialPool, BatchedPool or GroupedPool."""

    num_envs: int
    slots: StepSlots
    keeps_until_receive: bool  # the slots are not written to between `send` and `receive`

    @property
    def restarts(self) -> int: ...  # workers that were replaced

    @property
    def round_size(self) -> int: ...  # in step: environments that are asked next, all at once

    def start(self) -> None: ...

    def send(self, envs: list[int]) -> None: ...  # steps them with the actions in the slots

    def receive(self, timeout_s: float) -> list[int]: ...  # environments with something new

    def take_faults(self) -> list[Fault]: ...  # workers that were replaced since the last call

    def close(self) -> None: ...
