"""BatchedPool: the N environments of one vector environment, which step together.

    pool.send(those that do not wait)    slots.action is set
    pool.receive()                       one step of all --> the slots --> ids of changed ones

An episode depends on its seed alone, as with workers: episode n of environment e is the same in
every mode. `EpisodeTracker` decides when a finished environment is reset: at once or, with reset
gates, later. Its end is announced only then, together with the next episode, and the row of its
last step stays open until then.

N environments, A action dims.
"""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv

from rearrange.errors import UserError, one_line
from rearrange.ver.batched.answers import fits, info_of, per_environment
from rearrange.ver.batched.halves import close_envs, has_halves
from rearrange.ver.batched.single_envs import SingleEnvs
from rearrange.ver.batched.tensors import TensorConversion
from rearrange.ver.rollout.staggered import EpisodeTracker
from rearrange.ver.workers import shared_memory as sm
from rearrange.ver.workers.environment_worker import (
    RESETS,
    WorkerCfg,
    episode_seed,
    is_given_again,
)
from rearrange.ver.workers.pool import Fault
from rearrange.ver.workers.restarts import is_left_out
from rearrange.ver.workers.shared_memory import SlotLayout, StepSlots
from rearrange.ver.workers.spaces import write_observations

ACTIONS = "pool/actions"
"""In a pool's state: the newest actions, as many as the longest episode has, [T, N, A]."""


class Part(NamedTuple):
    """Environments of a pool, all of them or some."""

    envs: range
    of: int
    """N, of the whole pool."""

    @property
    def is_all(self) -> bool:
        return len(self.envs) == self.of


class BatchedPool:
    """The environments, with the interface of `SerialPool`.

    If the vector environment has a method `expect`, it is called with the next seeds of those that
    were reset, {environment: seed}: it may draw their episodes ahead.

    Args:
        envs: an ended one does not move until `options["reset_mask"]`.
        episode_numbers: of the next episodes, [N].
        tracker: decides when episodes begin and end.
        part: its environments, of those of a larger pool; None: they are all.
        slots: their rows of the larger pool's; None: its own.

    Raises UserError for a vector environment with autoreset.
    """

    restarts = 0
    keeps_until_receive = True

    def __init__(
        self,
        envs: VectorEnv,
        layout: SlotLayout,
        cfg: WorkerCfg,
        episode_numbers: np.ndarray,
        tracker: EpisodeTracker,
        slots: StepSlots | None = None,
        part: Part | None = None,
    ) -> None:
        self.num_envs, self.cfg, self.tracker = layout.num_envs, cfg, tracker
        self.part = part or Part(range(layout.num_envs), layout.num_envs)
        self.slots = slots or StepSlots.allocate(layout)
        self._own = dict(self.slots.observation)
        self.envs = envs
        mode = self.envs.metadata.get("autoreset_mode")
        if mode != AutoresetMode.DISABLED:
            self.envs.close()
            raise UserError(f"mode=batched needs autoreset_mode='Disabled', got {mode}")
        if isinstance(self.envs, SingleEnvs):
            self.envs.ages = np.full(self.num_envs, cfg.age)
        self.number = episode_numbers.astype(np.int64) - 1
        self.seed_number = self.number.copy()
        self.total_return = np.zeros(self.num_envs)
        self._is_failed = np.zeros(self.num_envs, bool)  # to be repeated, by chance
        # [N, A] of the newest steps, as many as the longest episode has.
        self._actions: list[np.ndarray] = []
        self._is_asked, self._is_begun, self._ready = False, False, []
        self._can_begin = self.part.is_all and has_halves(self.envs)
        self._begun_s = 0.0  # how long it took to begin the step under way
        self._tensors = TensorConversion()

    def start(self) -> None:
        """Begins all episodes, and takes the random steps of the start mode."""
        slots, spec = self.slots, self.slots.layout.action
        self._begin(np.ones(self.num_envs, bool))
        self.tracker.restart()
        envs, of = self.part
        rng = np.random.default_rng([self.cfg.seed, self.cfg.first_env - envs.start, 2])
        while self.tracker.time < 0:
            if spec.kind == "discrete":
                actions = rng.integers(spec.num_choices, size=(of, spec.size))
            else:
                actions = rng.uniform(-1.0, 1.0, (of, spec.size))
            self._step(actions[envs.start : envs.stop].astype(spec.dtype))
        slots.is_start[:] = 1
        slots.terminated[:] = slots.truncated[:] = 0
        slots.reward[:] = slots.step_seconds[:] = 0.0
        self._ready = np.flatnonzero(~self.tracker.is_over).tolist()

    @property
    def round_size(self) -> int:
        """Environments that do not wait for a reset, and are stepped."""
        return self.num_envs - int(self.tracker.is_over.sum())

    @property
    def announced(self) -> list[int]:
        """What `receive` will give."""
        return list(self._ready)

    def send(self, envs: list[int]) -> None:
        """Steps all that do not wait: begins, if the environments can do so, or in `receive`."""
        assert len(envs) == self.round_size, "not all are sent at once"
        self._is_asked = True
        if self._can_begin:
            self._begin_step(self.slots.action)

    def receive(self, timeout_s: float) -> list[int]:
        """Takes the requested step; further ones while all wait."""
        while self._is_asked or (not self._ready and self.round_size == 0):
            self._is_asked = False
            self._step(self.slots.action.copy())
            self._ready = np.flatnonzero(~self.tracker.is_over).tolist()
        ready, self._ready = self._ready, []
        return ready

    def take_faults(self) -> list[Fault]:
        return []

    def failed_resets(self) -> dict[int, int]:
        """Those of earlier processes: here it is unknown whose reset failed."""
        return dict(self.cfg.failed_resets)

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What `restore` needs beside the slots: JSON values, and arrays by name."""
        actions = np.zeros((0, *self.slots.action.shape), self.slots.action.dtype)
        arrays = {ACTIONS: np.stack(self._actions) if self._actions else actions}
        arrays |= {f"pool/{name}": array.copy() for name, array in self._arrays().items()}
        if isinstance(self.envs, SingleEnvs):
            arrays["pool/ages"] = self.envs.ages
        return {"batched": {"num_groups": 1, "times": [self.tracker.time]}}, arrays

    def restore(self, values: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Replays all episodes, the shorter ones starting later; none is announced."""
        for name, array in self._arrays().items():
            array[:] = arrays[f"pool/{name}"]
        (self.tracker.time,) = values["batched"]["times"]
        elapsed = np.where(self.tracker.is_over, 0, self.tracker.episode_steps)
        self._actions = list(arrays[ACTIONS])
        del self._actions[: len(self._actions) - int(elapsed.max())]
        ages = arrays.get("pool/ages", np.zeros(self.num_envs, np.int64)) - elapsed
        self._reset_at(np.ones(self.num_envs, bool), ages)
        for t, actions in enumerate(self._actions):
            self._step_envs(actions)
            self._reset_at(elapsed == len(self._actions) - t - 1, ages)
        if isinstance(self.envs, SingleEnvs):
            self.envs.freeze(self.tracker.is_over)

    def close(self) -> None:
        """Closes the environments; a step under way is not waited for long."""
        is_begun, self._is_begun = self._is_begun, False
        close_envs(self.envs, is_begun)

    # --- a step --------------------------------------------------------------------------------

    def _step(self, actions: np.ndarray) -> None:
        """Steps all with actions [N, A]; writes the results into the slots."""
        begin = time.perf_counter()
        slots, tracker = self.slots, self.tracker
        observations, rewards, *ends, infos = self._step_envs(actions)
        counted = tracker.count(*ends)
        moved, ended = ~counted.is_waiting, counted.terminated | counted.truncated
        self.total_return[moved] += rewards[moved]
        slots.is_start[moved], slots.fault[moved] = 0, sm.FAULT_NONE
        slots.reward[moved] = rewards[moved]
        slots.terminated[moved] = counted.terminated[moved]
        slots.truncated[moved] = counted.truncated[moved]
        self._write(observations, moved)
        for name, array in slots.final.items():
            array[ended] = slots.observation[name][ended]
        broken = self._nonfinite(moved, rewards)
        for e in np.flatnonzero(ended).tolist():
            self._note_end(e, infos, bool(counted.is_whole[e]))
        due = tracker.due() | broken
        if due.any():
            self._begin(due)
        tracker.began(due)
        self._actions.append(actions)
        del self._actions[
            : len(self._actions) - int(tracker.episode_steps.max(where=~tracker.is_over, initial=0))
        ]
        seconds, self._begun_s = time.perf_counter() - begin + self._begun_s, 0.0
        slots.step_seconds[moved] = seconds / max(1, moved.sum())

    def _step_envs(self, actions: np.ndarray) -> tuple[Any, ...]:
        """What `VectorEnv.step` returns, as arrays."""
        with torch.inference_mode(False), torch.no_grad():  # as in a thread of its own
            if self._is_begun:
                self._is_begun = False
                observations, rewards, *ends, infos = self.envs.step_wait()  # pyrefly: ignore[missing-attribute]
            else:
                observations, rewards, *ends, infos = self.envs.step(self._given(actions))
            observations, rewards, ends = self._tensors.taken((observations, rewards, tuple(ends)))
        rewards = per_environment("rewards", rewards, self.num_envs).astype(np.float64)
        terminated, truncated = (
            per_environment(name, flags, self.num_envs).astype(bool)
            for name, flags in zip(("terminated", "truncated"), ends, strict=True)
        )
        return observations, rewards, terminated, truncated, infos

    def _begin_step(self, actions: np.ndarray) -> None:
        begin = time.perf_counter()
        with torch.inference_mode(False), torch.no_grad():
            self.envs.step_async(self._given(actions))  # pyrefly: ignore[missing-attribute]
        self._is_begun, self._begun_s = True, time.perf_counter() - begin

    def _given(self, actions: np.ndarray) -> Any:
        return self._tensors.given(self.slots.layout.action.to_envs(actions))

    def _note_end(self, e: int, infos: dict[str, Any], is_whole: bool) -> None:
        slots = self.slots
        slots.episode_return[e] = self.total_return[e]
        slots.episode_length[e] = self.tracker.episode_steps[e]
        slots.infos[e] = [info_of(infos, key, e) for key in self.cfg.info_keys]
        slots.is_whole[e] = is_whole
        self._is_failed[e] = is_whole and info_of(infos, "success", e) == 0.0

    def _nonfinite(self, rows: np.ndarray, rewards: np.ndarray | None = None) -> np.ndarray:
        """Environments with a number that is not finite, [N] bool; their slots name it."""
        found = np.zeros(self.num_envs, bool)
        # Of the environments themselves: a wrapper may change what they return.
        finite = getattr(type(self.envs), "finite_observations", ())
        values = {name: a for name, a in self.slots.observation.items() if name not in finite}
        values |= {} if rewards is None else {"": rewards}
        with np.errstate(all="ignore"):  # a sum is found in a fraction of the time of all numbers
            flat = {n: a.reshape(-1) for n, a in values.items() if a.dtype.kind == "f"}
            suspect = [n for n, a in flat.items() if not math.isfinite(float(a.dot(a)))]
        for name in suspect:
            array = values[name]
            is_finite = np.isfinite(array).reshape(self.num_envs, -1).all(axis=1)
            for e in np.flatnonzero(rows & ~found & ~is_finite).tolist():
                what = f"observation '{name}' with a value that is not finite"
                what = what if name else f"reward {array[e]}"
                step = self.tracker.episode_steps[e]
                place = (
                    f"environment {self.cfg.first_env + e}, episode {self.number[e]}, step {step}"
                )
                self.slots.set_message(e, f"{place}: {what}")
                found[e] = True
        slots = self.slots
        slots.is_start[found], slots.fault[found] = 1, sm.FAULT_NONFINITE
        slots.terminated[found] = slots.truncated[found] = 0
        slots.reward[found] = 0.0
        return found

    # --- episodes ------------------------------------------------------------------------------

    def _begin(self, due: np.ndarray) -> None:
        """The next episodes of some, [N] bool, and their first observations."""
        for _ in range(RESETS):
            for e in np.flatnonzero(due).tolist():
                self.seed_number[e] = self._next_number(e)
            self._is_failed[due], self.total_return[due] = False, 0.0
            self._write(self._reset(due), due)
            self.slots.episode_number[due] = self.number[due]
            due = self._nonfinite(due)
            if not due.any():
                return
        what = self.slots.get_message(int(due.argmax()))
        raise RuntimeError(f"{what}; {RESETS} resets in a row did not help")

    def _next_number(self, e: int) -> int:
        """Counts an episode; returns the number of the one whose seed it has.

        Skips seeds whose reset failed in an earlier process.
        """
        cfg, env = self.cfg, self.cfg.first_env + e
        failed = self._is_failed[e] and is_given_again(cfg, env, int(self.number[e]))
        self.number[e] += 1
        if failed:
            return int(self.seed_number[e])
        while is_left_out(cfg.failed_resets, self._seed(e, int(self.number[e]))):
            self.number[e] += 1
        return int(self.number[e])

    def _reset(self, due: np.ndarray) -> Any:
        """Begins episodes with these seeds; returns the observations of all."""
        places = np.flatnonzero(due).tolist()
        seeds: list[int | None] = [None] * self.num_envs
        for e in places:
            seeds[e] = self._seed(e, int(self.seed_number[e]))
        with torch.inference_mode(False), torch.no_grad():
            # The first reset, of all, shows whether masks have to be tensors.
            options = None if due.all() else {"reset_mask": self._tensors.given(due.copy())}
            try:
                observations, _ = self.envs.reset(seed=seeds, options=options)  # pyrefly: ignore[bad-argument-type]
            except gymnasium.error.Error as error:
                if options is None:  # what Gymnasium's own `reset` says to a list
                    raise UserError(
                        f"reset of the vector environment must take a list of {self.num_envs} "
                        f"seeds, one for each environment: {one_line(error)}"
                    ) from error
                raise
            self._tensors.notice(observations)
        if hasattr(self.envs, "expect"):
            self.envs.expect({e: self._seed(e, int(self.number[e]) + 1) for e in places})
        return self._tensors.taken(observations)

    def _reset_at(self, due: np.ndarray, ages: np.ndarray) -> None:
        """Begins episodes in environments of these ages, [N], by which an episode may go."""
        if isinstance(self.envs, SingleEnvs):
            self.envs.ages = np.where(due, ages, self.envs.ages)
        if due.any():
            self._reset(due)

    def _seed(self, e: int, number: int) -> int:
        return episode_seed(self.cfg.seed, self.cfg.first_env + e, number)

    def _write(self, observations: Any, rows: np.ndarray) -> None:
        """Observations of some environments into the slots.

        Of all homes, their arrays become the slots': nobody writes into these before the next step
        or reset.
        """
        shown = self.slots.observation
        is_kept = getattr(self.envs.unwrapped, "keeps_observations", False)
        if is_kept and self.part.is_all and rows.all() and fits(observations, self._own):
            shown.update(observations)
            return
        for name, array in self._own.items():
            if shown[name] is not array:
                array[:] = shown[name]
        shown.update(self._own)
        write_observations(self.envs.single_observation_space, observations, shown, rows)

    def _arrays(self) -> dict[str, np.ndarray]:
        """State of each environment, [N] each."""
        tracker = self.tracker
        return {
            "number": self.number,
            "seed_number": self.seed_number,
            "total_return": self.total_return,
            "is_failed": self._is_failed,
            "life": tracker.episode_steps,
            "limit": tracker.limit,
            "is_over": tracker.is_over,
            "is_whole": tracker.is_whole,
        }
