"""The state of a training between two rollouts, saved to and restored from a checkpoint.

policy/...  optimizer/...  and so on                              weights and moments, under the
                                                                  algorithm's names
random/...  collector/...  open/...  actions/...  pool/...       see snapshot.py
memory/                                                           see rollout_memory.py
manifest: identity, counters, finished episodes, reward scaling, schedules' progress
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load, save

from rearrange.errors import UserError
from rearrange.ver.ranks.distributed import Ranks
from rearrange.ver.rollout.types import Policy
from rearrange.ver.run.checkpoint import (
    Checkpoint,
    below_prefix,
    load_newest,
    newest_manifests,
    save_checkpoint,
    with_prefix,
)
from rearrange.ver.run.checkpoint_match import check_matches, shapes_of
from rearrange.ver.run.episode_window import EpisodeWindow
from rearrange.ver.run.run_values import check_run_values
from rearrange.ver.run.snapshot import POOL_PREFIXES, Snapshot
from rearrange.ver.run.training_state import flatten_optimizer, restore_optimizer
from rearrange.ver.update.algorithm import Algorithm
from rearrange.ver.update.rollout_memory import prune_memory

_SNAPSHOT_PREFIXES = ("random/", "collector/", "open/", *POOL_PREFIXES)
_TAKEN = {  # reserved: not for parts of an algorithm
    "policy", "random", "collector", "open", "actions", "identity", "mode", "updates", "restarts",
    "episodes", "snapshot", "memory", "optimizer_steps",
}  # fmt: skip
log = logging.getLogger(__name__)
MEMORY_FOLDER = "memory"  # in that of the checkpoints


def load_for_ranks(folder: Path, ranks: Ranks) -> Checkpoint | None:
    """The newest valid checkpoint that rank 0 finds, sent to all ranks; None if there is none.

    Other ranks need no access to the folder.
    """
    if ranks.is_alone:
        return load_newest(folder)
    found: list[Checkpoint | None] = [None]

    def find() -> dict[str, Any] | None:
        found[0] = load_newest(folder)
        if found[0] is None:
            return None
        return {"step": found[0].step, "manifest": found[0].manifest, "path": str(found[0].path)}

    facts = ranks.on_first(find)
    if facts is None:
        return None
    content = ranks.share(None if found[0] is None else save(found[0].tensors))
    return Checkpoint(facts["step"], load(content), facts["manifest"], Path(facts["path"]))


@dataclass
class RunState:
    """Everything but the weights."""

    steps: int
    updates: int
    mode: str
    restarts: int
    episodes: EpisodeWindow
    snapshot: Snapshot


def check_names(algorithm: Algorithm) -> None:
    """Raises ValueError for an algorithm whose parts have reserved or duplicate names."""
    names = [*algorithm.optimizers(), *algorithm.modules(), *algorithm.values()]
    wrong = [name for name in names if name in _TAKEN or "/" in name or names.count(name) > 1]
    if wrong:
        raise ValueError(
            f"optimizers, modules and values of an algorithm need unique names other than "
            f"{', '.join(sorted(_TAKEN))}; got {wrong[0]!r}"
        )


def save_run(
    folder: Path,
    state: RunState,
    policy: Policy,
    algorithm: Algorithm,
    identity: dict[str, Any],
    keep: int,
    is_milestone: bool,
    score: tuple[str, float] | None,
) -> None:
    """Writes a checkpoint. Raises OSError if it cannot be written; earlier ones stay."""
    tensors = with_prefix("policy", policy.state_dict()) | state.snapshot.tensors
    values: dict[str, Any] = {
        "identity": identity,
        "mode": state.mode,
        "updates": state.updates,
        "restarts": state.restarts,
        "episodes": state.episodes.state(),
        "snapshot": state.snapshot.values,
    }
    values |= algorithm.values() | {"optimizer_steps": algorithm.num_applied}
    for name, optimizer in algorithm.optimizers().items():
        moments, values[name] = flatten_optimizer(optimizer)
        tensors |= with_prefix(name, moments)
    for name, module in algorithm.modules().items():
        tensors |= with_prefix(name, module.state_dict())
    if algorithm.memory is not None:
        values["memory"] = algorithm.memory.save(folder / MEMORY_FOLDER)
    save_checkpoint(
        folder, state.steps, tensors, values, keep, is_milestone=is_milestone, score=score
    )
    if "memory" in values:
        named = [contents.get("memory") for contents in newest_manifests(folder, keep)]
        # Its own too: damaged checkpoints of later steps may be the newest ones.
        prune_memory(folder / MEMORY_FOLDER, [values["memory"], *named])


def restore_run(
    checkpoint: Checkpoint,
    policy: Policy,
    algorithm: Algorithm,
    identity: dict[str, Any],
    episodes: EpisodeWindow,
) -> RunState:
    """Restores weights, moments and `episodes`, and returns the rest.

    Raises UserError for a checkpoint of something else, naming the first difference.
    """
    tensors, values = checkpoint.tensors, checkpoint.manifest
    own = with_prefix("policy", policy.state_dict())
    check_matches(checkpoint, {"identity": identity, "tensors": shapes_of(own)})
    check_run_values(values, f"checkpoint {checkpoint.path} does not fit: ", algorithm.optimizers())
    try:
        policy.load_state_dict(below_prefix("policy", tensors))
        for name, optimizer in algorithm.optimizers().items():
            restore_optimizer(optimizer, below_prefix(name, tensors), values[name])
        for name, module in algorithm.modules().items():
            module.load_state_dict(below_prefix(name, tensors))
        algorithm.restore_values(values)
        algorithm.num_applied = values.get("optimizer_steps", 0)
        if algorithm.memory is not None and algorithm.ranks.is_first:
            folder = checkpoint.path.parent / MEMORY_FOLDER
            algorithm.memory.load(folder, values.get("memory", []))
            if not algorithm.ranks.is_alone:
                log.warning("what the other ranks remember of earlier rollouts is lost")
        episodes.restore(values["episodes"])
        kept = {n: tensor for n, tensor in tensors.items() if n.startswith(_SNAPSHOT_PREFIXES)}
        snapshot = Snapshot(kept, values["snapshot"])
        return RunState(
            checkpoint.step, values["updates"], values["mode"], values["restarts"], episodes,
            snapshot,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        reason = (str(error).splitlines() or ["?"])[0]
        raise UserError(f"checkpoint {checkpoint.path} does not fit: {reason}") from error
