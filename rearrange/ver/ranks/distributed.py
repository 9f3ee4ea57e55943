"""Ranks: processes that jointly learn one policy, started by torchrun.

    rank 0                    rank 1
    its own environments      its own environments       collecting: only counters in a store
    ------------ gather: what was collected, whether to stop ------------
    gradients ------------------ average -------------- gradients       at each minibatch
    the same weights          the same weights
    writes all files          writes nothing

torchrun's variables are read here and nowhere else, and every collective is here. One process takes
the same path without a process group. Messages are numbers and JSON; nothing is unpickled.

Wijmans et al. 2020 (DD-PPO), section 3. Collectives are called by the main thread alone, the store
by any.   R: ranks.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
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
    """This process's place among all."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    """On this machine."""
    local_world_size: int = 1


class Ranks:
    """The group of ranks, as seen from one of them.

    Args:
        store: shared by all; None for a single process. The default process group must exist too,
            see `join`.

    All methods up to `announce_stop` must be called by every rank, in the same order, and may raise
    RanksLost.
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

        Weighted by the number of steps behind each rank's values, these are the means over all
        steps, however they are spread over the ranks. A gradient that is missing on some ranks
        counts as zero there; one that is missing on all stays missing, as in one process.

        Args:
            parameters: float32, on one device, the same on all ranks.
            scalars: one-element tensors without gradient, averaged with them.
            weight: of this rank; only ratios matter.
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
        *means, counts, _ = torch.split(bucket, [*sizes, len(parameters), 1])
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
        """The JSON-able result, or UserError, of `work`, called on rank 0 only."""
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
        """Rank 0's bytes; the others pass None."""
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
        """Copies rank 0's numbers into the tensors of all, and checks that they arrived intact."""
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
        """A different seed for each rank; rank 0 keeps its own unless there are `others`."""
        if self.is_first and not others:
            return seed
        return int(np.random.SeedSequence([seed, self.rank, *others]).generate_state(1)[0])

    def __len__(self) -> int:
        return self.world_size

    # --- at any time, from any thread ----------------------------------------------------------

    def announce_stop(self) -> None:
        """Makes the others end their collecting soon."""
        self._count(_STOP, 1)

    def is_stop_announced(self) -> bool:
        return self._count(_STOP, 0) > 0

    def announce_finished(self) -> None:
        """Counts a rollout that this rank has ended."""
        self._count(_FINISHED, 1)

    def num_finished(self) -> int:
        """Rollouts ended since the start, summed over all ranks."""
        return self._count(_FINISHED, 0)

    def _count(self, name: str, more: int) -> int:
        if self._store is None:
            return 0
        with self._clear_errors():
            return self._store.add(name, more)

    @contextmanager
    def _clear_errors(self) -> Generator[None]:
        try:
            yield
        except RuntimeError as error:  # base class of torch's own errors
            reason = " ".join(str(error).split())[:200]
            raise RanksLost(
                f"rank {self.rank} lost the others: one of them ended or was silent for "
                f"{self._timeout_s:g} s ({reason})"
            ) from error


ALONE = Ranks(RankInfo())


def read_rank_info(variables: Mapping[str, str]) -> RankInfo:
    """The rank that torchrun's variables give; a single process without them.

    Raises UserError for variables with invalid numbers.
    """
    if "RANK" not in variables or "WORLD_SIZE" not in variables:
        return RankInfo()
    values: list[int] = []
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
def joined(device: str, timeout_s: float) -> Generator[Ranks]:
    """The ranks of this torchrun, or this process alone.

    Args:
        device: the setting; gradients travel by NCCL between GPUs and by gloo between CPUs.
        timeout_s: longest wait for another rank.

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

    rank r: hello/r = a random word --> rank 0: answer/word = the name --> rank r: here/name
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
            if store.check([key]):  # also a stale word, of a rank that is gone
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
