"""Ranks: processes that jointly learn one policy, started by torchrun.

    rank 0                    rank 1
    its own environments      its own environments       collecting: only counters in a store
    ------------ gather: what was collected, who has to stop ------------
    gradients ------------------ average -------------- gradients       at each minibatch
    the same weights          the same weights
    writes all files          writes nothing

torchrun's variables are read here and nowhere else, and every collective is here. One process takes
the same path without a process group. What travels is numbers and JSON; nothing is unpickled.

Wijmans et al. 2020 (DD-PPO), section 3. Collectives are called by the main thread alone, the store
by any.   R: ranks.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch import distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from rearrange.errors import UserError
from rearrange.system.machine import pick_device

_STOP, _FINISHED = "stop", "finished"  # counters in the store


class RanksLost(RuntimeError):
    """Another rank is gone, or did not answer in time."""


@dataclass(frozen=True)
class RankInfo:
    """Which of the processes this one is."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    """On this machine."""
    local_world_size: int = 1


class Ranks:
    """All ranks as one of them sees them.

    Args:
        store: shared by all; None for a process that is alone. The default process group has to be
            there beside it, see `join`.

    All methods but `announce_stop` and those that follow it must be called by every rank, in the
    same order. They raise RanksLost.
    """

    def __init__(
        self, rank_info: RankInfo, store: Store | None = None, timeout_s: float = 600.0
    ) -> None:
        self.rank_info, self._store, self._timeout_s = rank_info, store, timeout_s
        self.rank, self.world_size = rank_info.rank, rank_info.world_size

    @property
    def is_first(self) -> bool:
        """True for the rank that writes files."""
        return self.rank == 0

    @property
    def is_alone(self) -> bool:
        return self._store is None

    def average_gradients(
        self, parameters: Sequence[Tensor], scalars: Sequence[Tensor], weight: float = 1.0
    ) -> None:
        """Means over the ranks, in place and in one message.

        With the number of steps that each rank's are a mean of as weights these are the means over
        all steps, however they are spread over the ranks. A gradient that is missing on some ranks
        counts as zero there; one that is missing on all stays missing, as it would in one process.

        Args:
            parameters: float32, on one device, the same on all ranks.
            scalars: one-element tensors without gradient, averaged with them.
            weight: how much this rank counts; only the ratio to the others' matters.
        """
        if self.is_alone:
            return
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        is_there = [float(p.grad is not None) for p in parameters]
        parts = [part.flatten() for part in [*grads, *scalars]]
        bucket = torch.cat([*parts, torch.tensor([*is_there, 1.0], device=parts[0].device)])
        bucket *= weight
        with self._clear_errors():
            dist.all_reduce(bucket)
        bucket /= bucket[-1].clone()
        sizes = [part.numel() for part in parts]
        *means, counts, _ = bucket.split([*sizes, len(parameters), 1])
        for parameter, grad, mean, count in zip(
            parameters, grads, means, counts.tolist(), strict=False
        ):
            if count > 0.0:
                parameter.grad = grad.copy_(mean.view_as(grad))
        for scalar, mean in zip(scalars, means[len(grads) :], strict=True):
            scalar.copy_(mean.view_as(scalar))

    def gather_rows(self, rows: Tensor) -> list[Tensor]:
        """The ranks' tensors [n, ...], in their order; n may differ between them."""
        if self.is_alone:
            return [rows]
        rows = rows.contiguous()
        sizes = [torch.zeros(1, dtype=torch.int64, device=rows.device) for _ in range(len(self))]
        with self._clear_errors():
            dist.all_gather(sizes, torch.tensor([len(rows)], device=rows.device))
            counts = [int(size) for size in sizes]
            padded = rows.new_zeros(max(counts), *rows.shape[1:])
            padded[: len(rows)] = rows
            found = [torch.empty_like(padded) for _ in counts]
            if len(padded):
                dist.all_gather(found, padded)
        return [part[:count] for part, count in zip(found, counts, strict=True)]

    def gather(self, value: Any) -> list[Any]:
        """The ranks' JSON-able values, in their order."""
        if self.is_alone:
            return [value]
        content = _as_bytes(json.dumps(value).encode())
        return [json.loads(bytes(part.numpy())) for part in self.gather_rows(content)]

    def any(self, is_true: bool) -> bool:
        """True if it is on any rank."""
        if self.is_alone:
            return is_true
        count = torch.tensor([int(is_true)])
        with self._clear_errors():
            dist.all_reduce(count)
        return bool(count)

    def on_first(self, work: Callable[[], Any]) -> Any:
        """What `work` gives on rank 0, the only one to call it, JSON-able; also its UserError."""
        if self.is_alone:
            return work()
        value = error = None
        if self.is_first:
            try:
                value = work()
            except UserError as mistake:
                error = str(mistake)
        value, error = self.gather([value, error])[0]
        if error is not None:
            raise UserError(error)
        return value

    def share(self, content: bytes | None) -> bytes:
        """The bytes that rank 0 has, which alone gives some."""
        if content is not None and self.is_alone:
            return content
        size = torch.tensor([len(content or b"")])
        with self._clear_errors():
            dist.broadcast(size, src=0)
            shared = torch.empty(int(size)).byte() if content is None else _as_bytes(content)
            if int(size):
                dist.broadcast(shared, src=0)
        return bytes(shared.numpy()) if content is None else content

    @torch.no_grad()
    def copy_from_first(self, tensors: Mapping[str, Tensor]) -> None:
        """Rank 0's numbers into the tensors of all, and a look whether they came whole."""
        if self.is_alone:
            return
        with self._clear_errors():
            for tensor in tensors.values():
                dist.broadcast(tensor, src=0)
        sums = self.gather(checksum(tensors))
        for rank, found in enumerate(sums):
            if found != sums[0]:
                raise RuntimeError(f"the weights of rank {rank} differ from those of rank 0")

    def check_same(self, what: str, value: Mapping[str, Any]) -> None:
        """Raises UserError, naming the first difference, unless all ranks have equal values."""
        for rank, other in enumerate(values := self.gather(dict(value))):
            for name in values[0]:
                if other.get(name) != values[0][name]:
                    raise UserError(
                        f"all ranks need the same {what}: {name} is {values[0][name]!r} on rank 0 "
                        f"and {other.get(name)!r} on rank {rank}"
                    )

    def seed(self, seed: int, *others: int) -> int:
        """Another one for each rank, rank 0 keeping its own unless there are `others`."""
        if self.is_first and not others:
            return seed
        return int(np.random.SeedSequence([seed, self.rank, *others]).generate_state(1)[0])

    def __len__(self) -> int:
        return self.world_size

    # --- at any time, from any thread ----------------------------------------------------------

    def announce_stop(self) -> None:
        """Tells the others to end their collecting soon."""
        self._count(_STOP, 1)

    def is_stop_announced(self) -> bool:
        return self._count(_STOP, 0) > 0

    def announce_finished(self) -> None:
        """Tells that this rank has ended a rollout."""
        self._count(_FINISHED, 1)

    def num_finished(self) -> int:
        """Rollouts that were ended, of all ranks together and since the start."""
        return self._count(_FINISHED, 0)

    def _count(self, name: str, more: int) -> int:
        if self._store is None:
            return 0
        with self._clear_errors():
            return self._store.add(name, more)

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # torch's own errors are its children
            reason = " ".join(str(error).split())[:200]
            raise RanksLost(
                f"rank {self.rank} lost the others: one of them ended or was silent for "
                f"{self._timeout_s:g} s ({reason})"
            ) from error


ALONE = Ranks(RankInfo())


def read_rank_info(variables: Mapping[str, str]) -> RankInfo:
    """What torchrun says in its variables; alone if it says nothing.

    Raises UserError for variables that are no sensible numbers.
    """
    if "RANK" not in variables or "WORLD_SIZE" not in variables:
        return RankInfo()
    values = []
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        text = variables.get(name, "0" if "RANK" in name else "1")
        if not (text.isdecimal() and len(text) < 7):
            raise UserError(
                f"the variable {name} must be a number below a million, as torchrun sets it; "
                f"got {text}"
            )
        values.append(int(text))
    rank_info = RankInfo(*values)
    if not (
        rank_info.rank < rank_info.world_size and rank_info.local_rank < rank_info.local_world_size
    ):
        raise UserError(f"torchrun's variables do not fit together: {rank_info}")
    return rank_info


@contextmanager
def joined(device: str, timeout_s: float) -> Iterator[Ranks]:
    """The ranks of this torchrun, or this process alone.

    Args:
        device: the setting; gradients travel by NCCL between GPUs and by gloo between CPUs.
        timeout_s: so long a rank is waited for.

    Raises UserError if the others cannot be reached.
    """
    rank_info = read_rank_info(os.environ)
    if rank_info.world_size == 1:
        yield ALONE
        return
    is_cuda = pick_device(device, rank_info.local_rank, rank_info.local_world_size).type == "cuda"
    timeout = timedelta(seconds=timeout_s)
    try:
        store, *_ = next(
            rendezvous("env://", rank_info.rank, rank_info.world_size, timeout=timeout)
        )
        store = PrefixStore(_agree_on_name(store, rank_info, timeout_s), store)
        if is_cuda:
            torch.cuda.set_device(rank_info.local_rank)
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if is_cuda else "gloo",
            store=PrefixStore("group", store), rank=rank_info.rank,
            world_size=rank_info.world_size, timeout=timeout,
        )  # fmt: skip
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"rank {rank_info.rank} cannot reach the others: {reason}") from error
    try:
        yield Ranks(rank_info, store, timeout_s)
    finally:
        with suppress(RuntimeError):
            dist.destroy_process_group()


def _agree_on_name(store: Store, rank_info: RankInfo, timeout_s: float) -> str:
    """A new name for this group: after a restart torchrun's store remembers the one before.

    rank r: hello/r = a word of its own --> rank 0: answer/word = the name --> rank r: here/name
    """
    word = uuid.uuid4().hex
    if rank_info.rank > 0:
        store.set(f"rearrange/hello/{rank_info.rank}", word)
        name = store.get(f"rearrange/answer/{word}").decode()  # waits for it
        store.add(f"rearrange/here/{name}", 1)
        return name
    end = time.monotonic() + timeout_s
    while store.add(f"rearrange/here/{word}", 0) < rank_info.world_size - 1:
        for key in (f"rearrange/hello/{rank}" for rank in range(1, rank_info.world_size)):
            if store.check([key]):  # also an old word, whose rank is gone
                store.set(f"rearrange/answer/{store.get(key).decode()}", word)
        if time.monotonic() > end:
            raise RuntimeError(
                f"not all {rank_info.world_size} ranks arrived within {timeout_s:g} s"
            )
        time.sleep(0.02)
    return word


def checksum(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of names and numbers."""
    digest = hashlib.sha256()
    for name, tensor in tensors.items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _as_bytes(content: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(bytearray(content), np.uint8))
