"""RolloutStorage: the steps of one rollout, in the order of their decisions.

    row of step t in environment e:
      at inference   observation, prev_action, is_first, state, action, log_prob, value
      at the answer  reward, terminated, truncated               -> the row is complete
      after that     next_value: the value estimate of the next observation

A rollout has exactly S complete rows, more of them from quick environments. Up to E more are still
open when it ends; `carry` moves them to the next one. Free rows keep their old steps until they are
reused. A rollout that was stopped early is filled with the newest old steps; a storage that
`keeps_previous` reuses those of the oldest policy first. Dropped steps have overwritten such a row,
so a rollout that is stopped before they were collected again has fewer than S steps.

S steps, E environments, A action dims, K floats of memory.
"""

from __future__ import annotations

import numpy as np
import torch

from rearrange.ver.ranks.preemption import newest_first
from rearrange.ver.rollout.actor import Decision
from rearrange.ver.rollout.rows import ARRAYS, RolloutRows
from rearrange.ver.rollout.types import PolicyInputs
from rearrange.ver.workers.spaces import ActionSpec, ObservationSpec

_ANSWERED = (
    "reward", "terminated", "truncated", "next_value", "advantage", "returns", "is_weight",
)  # fmt: skip


class RolloutStorage(RolloutRows):
    """Storage for S complete and E open steps.

    Attributes:
        The columns of RolloutRows, [S + E, ...].
        num_complete: complete rows so far.
    """

    def __init__(
        self,
        num_steps: int,  # S
        num_envs: int,
        observation_spec: ObservationSpec,
        action_spec: ActionSpec,
        state_size: int,
        device: torch.device,
        keeps_previous: bool = False,
    ) -> None:
        size = num_steps + num_envs
        action = torch.float32 if action_spec.kind == "box" else torch.int64
        shapes = {
            f"observation/{name}": (
                spec.shape,
                torch.uint8 if spec.dtype == np.uint8 else torch.float32,
            )
            for name, spec in observation_spec.items()
        } | {
            "prev_action": ((action_spec.size,), action),
            "action": ((action_spec.size,), action),
            "is_first": ((), torch.bool),
            "state": ((state_size,), torch.float32),
            "log_prob": ((), torch.float32),
            "value": ((), torch.float32),
        }
        values = {
            name: torch.zeros(size, *shape, dtype=dtype, device=device)
            for name, (shape, dtype) in shapes.items()
        }
        values |= {name: torch.zeros(size, dtype=dtype) for name, dtype in ARRAYS.items()}
        super().__init__(values, device)
        self.num_steps, self._keeps_previous = num_steps, keeps_previous
        self.num_complete = 0
        self._is_previous = np.zeros(size, bool)  # complete in the last rollout, and still there
        self._decided = np.zeros(size, np.int64)  # when the row was allocated
        self._num_decided = 0
        self._free = list(range(size - 1, -1, -1))  # a stack: rows are allocated in order

    def allocate(self, count: int) -> np.ndarray:
        """Allocates free rows, [count]."""
        rows = np.array([self._free.pop() for _ in range(count)], np.int64)
        self._is_previous[rows] = False
        self._decided[rows] = self._num_decided + np.arange(count)
        self._num_decided += count
        return rows

    def decide(
        self, inputs: PolicyInputs, decided: Decision, envs: np.ndarray, episodes: np.ndarray,
        steps: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        """Opens a row for each step that was decided; the rows, [E].

        Args:
            envs, episodes, steps: ids of each step, [E].
        """
        rows, step = self.allocate(len(envs)), decided.step
        index = self._index(rows)
        for name, array in self.observation.items():
            array[index] = inputs.observation[name]
        self.prev_action[index], self.is_first[index] = inputs.prev_action, inputs.is_first
        self.action[index], self.state[index] = step.action, inputs.state
        self.log_prob[index] = step.log_prob.float()
        self.value[index] = step.value.float()
        self.env_id[rows], self.episode_id[rows], self.step_id[rows] = envs, episodes, steps
        self.policy_version[rows] = decided.policy_version
        self.weights_step[rows] = decided.weights_step
        for name in _ANSWERED:  # the row's earlier step must not go into a checkpoint
            getattr(self, name)[rows] = 0
        return rows

    def _index(self, rows: np.ndarray) -> slice | torch.Tensor:
        """Rows that follow each other are written as one block, in a quarter of the time."""
        count, first = len(rows), int(rows[0]) if len(rows) else 0
        if count and bool((rows == np.arange(first, first + count)).all()):
            return slice(first, first + count)
        return torch.from_numpy(rows).to(self.device)

    def complete(
        self,
        rows: np.ndarray | int,
        reward: np.ndarray | float,
        terminated: np.ndarray | bool,
        truncated: np.ndarray | bool,
    ) -> None:
        """Stores environments' answers to the steps that were decided in some rows, [n], or one."""
        self.reward[rows], self.terminated[rows] = reward, terminated
        self.truncated[rows] = truncated
        self.next_value[rows] = 0.0
        self.is_complete[rows] = True
        self.num_complete += int(np.size(rows))

    def drop(self, rows: np.ndarray) -> None:
        """Frees rows; their share of the rollout is collected again."""
        self.num_complete -= int(self.is_complete[rows].sum())
        self.is_complete[rows] = False
        self._free += rows[::-1].tolist()

    def complete_rows(self) -> np.ndarray:
        """Indices of the complete rows, [S]."""
        return np.flatnonzero(self.is_complete)

    def carry(self, rows: np.ndarray, target: RolloutStorage) -> np.ndarray:
        """Moves open rows into `target`, emptied first, maybe this storage; returns their new rows.

        Args:
            rows: of open steps, [<= E].
        """
        if target is self and self._keeps_previous:
            self._begin_among_previous(rows)
            return rows
        kept = self.read(rows)
        target.clear()
        decided = self._decided[rows]
        target._num_decided = max(self._num_decided, target._num_decided)
        new = target.allocate(len(rows))
        target.write(new, kept)
        target._decided[new] = decided
        return new

    def clear(self) -> None:
        self.is_complete[:] = False
        self.is_stale[:] = False
        self.num_complete = 0
        self._free = list(range(len(self.reward) - 1, -1, -1))

    def _begin_among_previous(self, kept: np.ndarray) -> None:
        """A new rollout with the open rows `kept`; complete ones are reused last, oldest first."""
        self._is_previous = self.is_complete.copy()
        is_empty = ~self._is_previous
        is_empty[kept] = False
        self.clear()
        rows = np.flatnonzero(self._is_previous)
        rows = newest_first(rows, self.policy_version, self._decided)
        self._free = [*rows.tolist(), *np.flatnonzero(is_empty)[::-1].tolist()]

    def fill(self, previous: RolloutStorage) -> int:
        """Fills a rollout that was stopped early up to S rows, marked `is_stale`; returns how many.

        Fewer than are missing if the last rollout has no more.

        Args:
            previous: the last rollout's storage, maybe this one: its newest steps are taken, with
                the advantages and returns they had.
        """
        missing = self.num_steps - self.num_complete
        candidates = np.flatnonzero(self._is_previous if previous is self else previous.is_complete)
        rows = newest_first(candidates, previous.policy_version, previous._decided)[:missing]
        if previous is not self:
            kept, decided = previous.read(rows), previous._decided[rows]
            rows = self.allocate(len(rows))
            self.write(rows, kept)
            self._decided[rows] = decided
        self.is_complete[rows] = self.is_stale[rows] = True
        self.num_complete += len(rows)
        return len(rows)
