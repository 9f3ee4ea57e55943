"""StepSlots: one row per environment, in memory that all processes share.

    array              rows      written by          read by       free again
    observation/*      E         environment worker  collector     when an action is sent
    final/*            E         environment worker  collector     "  (only after a truncation)
    reward, ended ...  E         environment worker  collector     "
    action             E         collector           environment   when its result is announced

Ids travel through pipes, arrays never do. The memory has no name in the file system, so that it
goes away with its last process, however that ends.
"""

from __future__ import annotations

import multiprocessing
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from rearrange.ver.workers.spaces import ActionSpec, ObservationSpec

MESSAGE_BYTES = 4000
_ALIGN = 64  # bytes; no two arrays share a cache line


@dataclass(frozen=True)
class SlotLayout:
    """Names, shapes and types of the slots' arrays; travels to the workers."""

    num_envs: int
    observation: ObservationSpec
    action: ActionSpec
    num_infos: int

    def arrays(self) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        fields: dict[str, tuple[tuple[int, ...], np.dtype]] = {}
        for prefix in ("observation", "final"):
            for name, spec in self.observation.items():
                fields[f"{prefix}/{name}"] = (spec.shape, spec.dtype)
        fields["action"] = ((self.action.size,), self.action.dtype)
        f8, i8, u1 = np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.uint8)
        fields["reward"] = ((), f8)
        fields["terminated"] = fields["truncated"] = ((), u1)
        fields["is_start"] = ((), u1)  # the observation answers no action: start, or after a fault
        fields["fault"] = ((), u1)  # FAULT_... below
        fields["resetting"] = ((), i8)  # seed + 1 of the reset under way; 0: none
        fields["message"] = ((MESSAGE_BYTES,), u1)  # what the fault was, UTF-8, zero-padded
        fields["episode_number"] = ((), i8)  # of the observation: 0, 1, ... in this environment
        fields["episode_return"] = fields["step_seconds"] = ((), f8)  # return: of the ended episode
        fields["episode_length"] = ((), i8)
        fields["is_whole"] = ((), u1)  # the ended episode; not a first one that was cut short
        fields["infos"] = ((self.num_infos,), f8)  # of the ended episode's last step; NaN: none
        return fields


FAULT_NONE, FAULT_NONFINITE, FAULT_EXCEPTION, FAULT_USER = 0, 1, 2, 3


class StepSlots:
    """numpy views of the shared memory.

    Attributes:
        observation, final: {name: [E, ...]}.
        The other arrays of `SlotLayout.arrays`, each [E, ...].
    """

    action: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    is_start: np.ndarray
    fault: np.ndarray
    resetting: np.ndarray
    message: np.ndarray
    episode_number: np.ndarray
    episode_return: np.ndarray
    step_seconds: np.ndarray
    episode_length: np.ndarray
    is_whole: np.ndarray
    infos: np.ndarray

    def __init__(self, layout: SlotLayout, memory) -> None:
        self.layout, self.memory = layout, memory
        self.observation: dict[str, np.ndarray] = {}
        self.final: dict[str, np.ndarray] = {}
        offset = 0
        for name, (shape, dtype) in layout.arrays().items():
            full = (layout.num_envs, *shape)
            count = int(np.prod(full))
            array = np.frombuffer(memory, dtype, count, offset).reshape(full)
            group, _, key = name.partition("/")
            if key:
                getattr(self, group)[key] = array
            else:
                setattr(self, name, array)
            offset += _padded(count * dtype.itemsize)

    def part(self, envs: range) -> StepSlots:
        """Views of the rows of some environments."""
        part, rows = copy(self), slice(envs.start, envs.stop)
        part.layout = replace(self.layout, num_envs=len(envs))
        for name in self.layout.arrays():
            if "/" not in name:
                setattr(part, name, getattr(self, name)[rows])
        part.observation = {name: array[rows] for name, array in self.observation.items()}
        part.final = {name: array[rows] for name, array in self.final.items()}
        return part

    @classmethod
    def allocate(cls, layout: SlotLayout, context=None) -> StepSlots:
        """New slots, filled with zeros."""
        context = context or multiprocessing.get_context("spawn")
        return cls(layout, context.RawArray("b", cls.size(layout)))

    @staticmethod
    def size(layout: SlotLayout) -> int:
        """Bytes of memory that slots need."""
        return sum(
            _padded(layout.num_envs * int(np.prod(shape)) * dtype.itemsize)
            for shape, dtype in layout.arrays().values()
        )

    def set_message(self, env: int, text: str) -> None:
        data = text.encode(errors="replace")[-MESSAGE_BYTES:]  # a traceback's end says most
        self.message[env] = 0
        self.message[env, : len(data)] = np.frombuffer(data, np.uint8)

    def get_message(self, env: int) -> str:
        return self.message[env].tobytes().rstrip(b"\0").decode(errors="replace")


def _padded(size: int) -> int:
    return -(-max(size, 1) // _ALIGN) * _ALIGN
