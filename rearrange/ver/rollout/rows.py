"""RolloutRows: steps as columns, whatever their source.

    observation/NAME, prev_action, is_first, state, action, log_prob, value   torch, on the device
    env_id, episode_id, step_id, ..., reward, advantage, ..., is_stale        numpy

Tensors the learner needs in bulk live on its device, bookkeeping in numpy. N rows, B of a
minibatch, Q sequences.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rearrange.ver.rollout.types import Minibatch

TENSORS = ("prev_action", "is_first", "state", "action", "log_prob", "value")
ARRAYS: dict[str, torch.dtype] = {
    **dict.fromkeys(("env_id", "episode_id", "step_id"), torch.int64),
    # updates, and optimiser steps, behind the weights that decided a step
    **dict.fromkeys(("policy_version", "weights_step"), torch.int64),
    **dict.fromkeys(("reward", "next_value", "advantage", "returns", "is_weight"), torch.float32),
    **dict.fromkeys(("terminated", "truncated", "is_complete", "is_stale"), torch.bool),
}
_OBSERVATION = "observation/"


class RolloutRows:
    """Steps in rows.

    Args:
        values: all columns, [N, ...] each, as `read` returns them; CPU columns are not copied.

    Attributes:
        observation: {name: [N, ...]}.
        The names in `TENSORS` and `ARRAYS`: [N, ...].

    Raises ValueError for columns that are missing or of different lengths.
    """

    prev_action: Tensor
    is_first: Tensor
    state: Tensor
    action: Tensor
    log_prob: Tensor
    value: Tensor
    env_id: np.ndarray
    episode_id: np.ndarray
    step_id: np.ndarray
    policy_version: np.ndarray
    weights_step: np.ndarray
    reward: np.ndarray
    next_value: np.ndarray
    advantage: np.ndarray
    returns: np.ndarray
    is_weight: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    is_complete: np.ndarray
    is_stale: np.ndarray

    def __init__(self, values: dict[str, Tensor], device: torch.device) -> None:
        self.device = device
        own = [name for name in values if not name.startswith(_OBSERVATION)]
        if set(own) != {*TENSORS, *ARRAYS} or len(own) == len(values):
            raise ValueError(f"these are not the columns of a rollout: {sorted(values)}")
        if len({len(column) for column in values.values()}) != 1:
            raise ValueError("the columns of a rollout must be equally long")
        self.observation = {
            name.removeprefix(_OBSERVATION): column.to(device)
            for name, column in values.items()
            if name.startswith(_OBSERVATION)
        }
        for name in TENSORS:
            setattr(self, name, values[name].to(device))
        for name in ARRAYS:
            setattr(self, name, values[name].cpu().numpy())

    def __len__(self) -> int:
        return len(self.reward)

    def on(self, device: torch.device) -> RolloutRows:
        """The same rows there: themselves, if they are."""
        return self if device == self.device else RolloutRows(self.columns(), device)

    def columns(self) -> dict[str, Tensor]:
        """All that is stored, as it lies there, {name: [rows, ...]}."""
        found = {f"{_OBSERVATION}{name}": array for name, array in self.observation.items()}
        found.update({name: getattr(self, name) for name in TENSORS})
        found.update({name: torch.from_numpy(getattr(self, name)) for name in ARRAYS})
        return found

    def read(self, rows: np.ndarray) -> dict[str, Tensor]:
        """All that is stored in the rows, copied, {name: [rows, ...]}."""
        index = torch.from_numpy(rows).to(self.device)
        found = {f"{_OBSERVATION}{name}": array[index] for name, array in self.observation.items()}
        found.update({name: getattr(self, name)[index] for name in TENSORS})
        found.update({name: torch.from_numpy(getattr(self, name)[rows]) for name in ARRAYS})
        return found

    def write(self, rows: np.ndarray, values: dict[str, Tensor]) -> None:
        """The counterpart of `read`."""
        index = torch.from_numpy(rows).to(self.device)
        for name, array in self.observation.items():
            array[index] = values[f"{_OBSERVATION}{name}"].to(self.device)
        for name in TENSORS:
            getattr(self, name)[index] = values[name].to(self.device)
        for name in ARRAYS:
            getattr(self, name)[rows] = values[name].cpu().numpy()

    def minibatch(
        self, rows: np.ndarray, batch_sizes: np.ndarray, first_rows: np.ndarray
    ) -> Minibatch:
        """A minibatch of rows [B] in packed layout; see `packing.minibatch_rows`."""
        index = torch.from_numpy(rows).to(self.device)

        def bulk(array: np.ndarray) -> Tensor:
            return torch.from_numpy(array[rows]).to(self.device)

        return Minibatch(
            observation={name: array[index] for name, array in self.observation.items()},
            prev_action=self.prev_action[index],
            is_first=self.is_first[index],
            action=self.action[index],
            log_prob=self.log_prob[index],
            value=self.value[index],
            advantage=bulk(self.advantage),
            returns=bulk(self.returns),
            is_weight=bulk(self.is_weight),
            is_stale=bulk(self.is_stale),
            start_state=self.state[torch.from_numpy(first_rows).to(self.device)],
            batch_sizes=torch.from_numpy(batch_sizes),
        )
