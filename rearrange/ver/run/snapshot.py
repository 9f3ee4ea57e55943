"""The part of a checkpoint about environments and steps under way.

Pools in this process, serial or batched, are saved exactly: an episode is its seed and actions, so
it can be replayed up to that point; the last answers, policy memories, open steps and random states
are saved with it. Worker processes are not stopped in the middle of a step for this: in a resumed
run they begin new episodes, with the next numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import numpy as np
import torch
from torch import Tensor

from rearrange.ver.ranks.distributed import Ranks
from rearrange.ver.rollout.collector import Collector
from rearrange.ver.rollout.pool import Pool
from rearrange.ver.rollout.storage import RolloutStorage
from rearrange.ver.run.checkpoint import below_prefix
from rearrange.ver.run.training_state import (
    numpy_random_state,
    restore_numpy_random_state,
    restore_torch_random_states,
    torch_random_states,
)
from rearrange.ver.workers.environment_worker import WorkerCfg
from rearrange.ver.workers.shared_memory import StepSlots

LAYOUT = 4
"""Layout of an exact snapshot; one of another layout is not restored exactly."""
POOL_PREFIXES = ("actions/", "pool/")  # of the arrays of a pool's state
_COLLECTOR_ARRAYS = ("prev_action", "is_first", "episode_id", "step_id", "open_row")


@dataclass
class Snapshot:
    """Tensors and JSON values, as `save_checkpoint` takes them."""

    tensors: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    values: dict[str, Any] = field(default_factory=dict[str, Any])


class PoolHere(Pool, Protocol):
    """A pool in this process: SerialPool, BatchedPool or GroupedPool."""

    cfg: WorkerCfg

    @property
    def announced(self) -> list[int]:
        """What `receive` will give."""
        ...

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What `restore` needs beside the slots: JSON values, and arrays by name."""
        ...

    def restore(self, values: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Starts in the states that were saved."""
        ...


def take_snapshot(
    collector: Collector, storage: RolloutStorage, rng: np.random.Generator
) -> Snapshot:
    """The state between two rollouts; `storage` still holds the steps under way."""
    slots = collector.pool.slots
    snapshot = Snapshot(
        {
            f"random/{name}": state.clone()
            for name, state in torch_random_states(collector.device).items()
        },
        {
            "random": numpy_random_state(rng),
            "episode_numbers": slots.episode_number.tolist(),
            "is_exact": False,
        },
    )
    pool = collector.pool
    note_failed_resets(snapshot, pool)
    if hasattr(pool, "state"):  # a pool in this process, which is idle meanwhile
        pool = cast("PoolHere", pool)
        state, arrays = pool.state()
        snapshot.values |= state
        snapshot.values["is_exact"] = True
        snapshot.values["seed"] = pool.cfg.seed
        snapshot.values["pending"] = list(collector.pending)
        snapshot.values["arrived"] = [*collector.arrived, *pool.announced]
        snapshot.values["layout"] = LAYOUT
        tensors = snapshot.tensors
        for name in _COLLECTOR_ARRAYS:
            tensors[f"collector/{name}"] = torch.from_numpy(getattr(collector, name).copy())
        tensors["collector/state"] = collector.state.clone()
        for name, array in _slot_arrays(slots).items():
            tensors[f"collector/slots/{name}"] = torch.from_numpy(array.copy())
        open_rows = collector.open_row[collector.open_row >= 0]
        for name, value in storage.read(open_rows).items():
            tensors[f"open/{name}"] = value
        for name, array in arrays.items():
            tensors[name] = torch.from_numpy(array)
    return snapshot


def of_all_ranks(snapshot: Snapshot, ranks: Ranks) -> Snapshot:
    """The snapshot with the episode numbers of all ranks; no longer exact."""
    if ranks.is_alone:
        return snapshot
    keys = ("episode_numbers", "failed_resets")
    parts = ranks.gather([snapshot.values[key] for key in keys])
    values = {
        "random": snapshot.values["random"],
        "episode_numbers": [number for numbers, _ in parts for number in numbers],
        "failed_resets": _most([counts for _, counts in parts]),
        "is_exact": False,
    }
    states = {n: state for n, state in snapshot.tensors.items() if n.startswith("random/")}
    return Snapshot(states, values)


def note_failed_resets(snapshot: Snapshot, pool: Any) -> None:
    """Copies a pool's counts of failed resets, by seed, into a snapshot that may be older.

    Other kinds of pools, in which nothing breaks, have none.
    """
    counts: dict[int, int] = pool.failed_resets() if hasattr(pool, "failed_resets") else {}
    known: dict[str, int] = snapshot.values.get("failed_resets", {})
    own = {str(seed): count for seed, count in counts.items()}
    snapshot.values["failed_resets"] = _most([known, own])


def _most(counts: list[dict[str, int]]) -> dict[str, int]:
    """The largest count of each seed: ranks know of each other's episodes as they were once."""
    seeds = [seed for one in counts for seed in one]
    return {seed: max(one.get(seed, 0) for one in counts) for seed in seeds}


def failed_resets(snapshot: Snapshot | None) -> dict[int, int]:
    """The counts from `note_failed_resets`, of all ranks."""
    counts: dict[str, int] = {} if snapshot is None else snapshot.values.get("failed_resets", {})
    return {int(seed): int(count) for seed, count in counts.items()}


def next_episodes(snapshot: Snapshot, num_envs: int, ranks: Ranks, is_exact: bool) -> np.ndarray:
    """Numbers of the first episodes of a rank's environments after a snapshot, [num_envs].

    If it is restored exactly, these are the unfinished episodes. If the number of environments has
    changed, they take numbers beyond all that were used.
    """
    saved = np.array(snapshot.values["episode_numbers"], np.int64)
    if len(saved) != num_envs * ranks.world_size:
        return np.full(num_envs, saved.max() + 1)
    first = ranks.rank * num_envs
    return saved[first : first + num_envs] + (not is_exact)


def restore_random(snapshot: Snapshot, rng: np.random.Generator, device: torch.device) -> None:
    """Restores the random states; the last step before training resumes."""
    restore_torch_random_states(below_prefix("random", snapshot.tensors), device)
    restore_numpy_random_state(snapshot.values["random"], rng)


def restore_exactly(snapshot: Snapshot, collector: Collector, storage: RolloutStorage) -> None:
    """Restores an exact snapshot; call before the pool's environments are started."""
    pool = cast("PoolHere", collector.pool)
    tensors, values = snapshot.tensors, snapshot.values
    arrays = {
        name: tensor.numpy() for name, tensor in tensors.items() if name.startswith(POOL_PREFIXES)
    }
    pool.restore(values, arrays)
    for name in _COLLECTOR_ARRAYS:
        getattr(collector, name)[:] = tensors[f"collector/{name}"].numpy()
    collector.state[:] = tensors["collector/state"]
    for name, array in _slot_arrays(pool.slots).items():
        saved = tensors[f"collector/slots/{name}"].numpy()
        if saved.shape == array.shape:  # the recorded infos may have changed
            array[:] = saved
    collector.pending.extend(values["pending"])
    collector.arrived.extend(values["arrived"])
    open_envs = np.flatnonzero(collector.open_row >= 0)
    if len(open_envs):
        rows = storage.allocate(len(open_envs))
        kept = {name[5:]: value for name, value in tensors.items() if name.startswith("open/")}
        storage.write(rows, kept)
        collector.open_row[open_envs] = rows


def _slot_arrays(slots: StepSlots) -> dict[str, np.ndarray]:
    """The environments' last answers and actions, by the names of the layout."""
    found: dict[str, np.ndarray] = {}
    for name in slots.layout.arrays().keys() - {
        "step_seconds"
    }:  # measured times: never reproducible
        group, _, key = name.partition("/")
        found[name] = getattr(slots, group)[key] if key else getattr(slots, name)
    return found
