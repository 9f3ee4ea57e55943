"""Collector: queries the policy as environments become ready, and stores every step.

    receive ids --> complete their open rows --> pending --> policy.act on all that wait --> send

The modes of the trainer differ in which environments contribute to a rollout:

    variable          S steps, more from quick environments (VER); open steps go to the next rollout
    fixed             exactly T steps from each environment (NoVER, HTS-RL)
    fixed, in step    all environments wait for the slowest at each step (DD-PPO)
    variable, in step the same, S steps from all environments that the pool asks (batched)

VER paper, sections 2.1 and 2.2.   E environments, K floats of memory, A action dims.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch

from rearrange.ver.rollout.actor import Actor
from rearrange.ver.rollout.batching import Batching
from rearrange.ver.rollout.pool import Pool
from rearrange.ver.rollout.report import CollectReport, EpisodeEnd, NonFinite, Stopped
from rearrange.ver.rollout.storage import RolloutStorage
from rearrange.ver.rollout.types import PolicyInputs
from rearrange.ver.workers import shared_memory as sm

log = logging.getLogger(__name__)
_POLL_S = 0.1  # longest time between checks of the stop flag
_END_POLL_S = 0.01  # the same if a rollout may end at a given time


@dataclass(kw_only=True)
class CollectorCfg:
    num_inference_workers: int = 1
    """Threads that run the policy while collecting."""
    min_batch: int = 0
    """Requests to wait for, at most half the mean time to an answer; 0: two thirds of the
    environments per inference worker, at most as long as one forward pass, which waiting saves."""
    max_batch: int = 0
    """Largest batch of requests; 0: 1.5 times the environments' share of one inference worker."""

    def __post_init__(self) -> None:
        if self.num_inference_workers < 1:
            got = self.num_inference_workers
            raise ValueError(f"num_inference_workers must be at least 1, got {got}")
        if self.min_batch < 0:
            raise ValueError(f"min_batch must not be negative, got {self.min_batch}")
        if self.max_batch < 0 or 0 < self.max_batch < self.min_batch:
            low = self.min_batch
            raise ValueError(f"max_batch must be 0 or at least {low}, got {self.max_batch}")


Store = Callable[[RolloutStorage, np.ndarray, np.ndarray, np.ndarray, np.ndarray], None]
"""Storage, rows, reward, terminated, truncated, [n] each: `Algorithm.store_all`."""


class Collector:
    """Fills rollout storages. Keeps per-environment state between rollouts.

    Args:
        pool: steps the environments.
        actor: decides; its weights may change at any time.
        is_variable, is_lockstep: see the table above.
        on_nonfinite: "stop" raises NonFinite; "drop" discards the unfinished sequence.
        should_stop: checked while waiting; if true, Stopped is raised.
        should_end: called with the complete steps and seconds so far; true ends the rollout early.
        store: writes the answers into the storage.
    """

    def __init__(
        self,
        pool: Pool,
        actor: Actor,
        cfg: CollectorCfg,
        device: torch.device,
        *,
        is_variable: bool,
        is_lockstep: bool,
        on_nonfinite: str = "stop",
        should_stop: Callable[[], bool] = lambda: False,
        should_end: Callable[[int, float], bool] | None = None,
        store: Store = RolloutStorage.complete,
    ) -> None:
        self.pool, self.actor, self.device, self._store = pool, actor, device, store
        self._is_variable, self._is_lockstep = is_variable, is_lockstep
        self._is_sent_first = pool.keeps_until_receive
        self._on_nonfinite, self._should_stop = on_nonfinite, should_stop
        self._should_end = should_end or _never
        self._poll_s = _POLL_S if should_end is None else _END_POLL_S
        num_envs, action = pool.num_envs, pool.slots.layout.action
        self._num_threads = 1 if is_lockstep else cfg.num_inference_workers
        self._batching = Batching(cfg.min_batch, cfg.max_batch, num_envs / self._num_threads)
        self._threads: ThreadPoolExecutor | None = None
        if self._num_threads > 1:
            self._threads = ThreadPoolExecutor(self._num_threads, "inference", _one_torch_thread)
        self._lock = threading.Lock()

        self._everyone: np.ndarray = np.arange(num_envs)
        self.state = torch.zeros(num_envs, actor.state_size, device=device)  # [E, K] memory
        self.prev_action = np.zeros((num_envs, action.size), action.dtype)
        self.is_first = np.ones(num_envs, bool)
        self.episode_id = np.zeros(num_envs, np.int64)
        self.step_id = np.zeros(num_envs, np.int64)  # in the episode
        self.open_row = np.full(num_envs, -1, np.int64)  # the step under way
        self.arrived: deque[int] = deque()  # answers that are not in a rollout yet
        self.pending: deque[int] = deque()  # environments that wait for an action
        self._rounds: deque[int] = deque()  # in step: how many were asked at once, not answered
        self._held: list[int] = []  # fixed: environments that have given their share
        self._last_row = np.full(num_envs, -1, np.int64)  # complete, its next_value is not known
        self._sent_at = np.full(num_envs, time.perf_counter())  # when it was given its action
        self._num_taken = np.zeros(num_envs, np.int64)  # steps in this rollout, dropped ones too
        self._begin = 0.0  # of this rollout

    def collect(self, storage: RolloutStorage) -> CollectReport:
        """Collects until the storage holds S complete steps; they are then ready to learn from.

        There are fewer if `should_end` said so.
        """
        self._begin = begin = time.perf_counter()
        self._num_taken[:] = 0
        num_envs = self.pool.num_envs
        report = CollectReport(
            steps_per_env=np.zeros(num_envs, np.int64), step_s=np.full(num_envs, np.inf)
        )
        jobs: set[Future[None]] = set()
        with torch.inference_mode():
            while storage.num_complete < storage.num_steps:
                if self._should_stop():
                    self._finish(jobs)
                    raise Stopped
                if self._should_end(storage.num_complete, time.perf_counter() - begin):
                    break
                self._receive(storage, report, jobs)
                self._complete(storage, report)
                if not self._is_variable:
                    self._hold(storage, report)
                while storage.num_complete < storage.num_steps and self._can_infer(storage, jobs):
                    self._infer(storage, report, jobs)
            self._finish(jobs)
            while self._rounds and self._is_variable:  # those that waited have filled the rollout
                if self._should_stop():
                    raise Stopped
                self._receive(storage, report, jobs)
            self.pending.extend(self._held)
            self._held.clear()
            self._bootstrap(storage)
        report.num_steps = report.num_steps_all = storage.num_complete
        report.wall_s = time.perf_counter() - begin
        report.step_s = np.minimum(
            report.step_s, report.wall_s
        )  # environments without an answer take longer
        return report

    def carry(self, source: RolloutStorage, target: RolloutStorage) -> None:
        """Moves the open steps into the next rollout's storage."""
        envs = np.flatnonzero(self.open_row >= 0)
        self.open_row[envs] = source.carry(self.open_row[envs], target)
        self._last_row[:] = -1

    def close(self) -> None:
        """Ends the inference threads. Harmless when called again."""
        if self._threads is not None:
            self._threads.shutdown()

    # --- one turn of the loop ------------------------------------------------------------------

    def _receive(
        self, storage: RolloutStorage, report: CollectReport, jobs: set[Future[None]]
    ) -> None:
        """Handles announced environments; waits only if there is nothing else to do."""
        patience_s = self._patience(storage, jobs)
        begin = time.perf_counter()
        answers = self.pool.receive(patience_s)
        if answers and self._rounds:
            self._rounds.popleft()
        self.arrived.extend(answers)
        if patience_s > 0.0 and not jobs:
            report.waiting_s += time.perf_counter() - begin
        for fault in self.pool.take_faults():
            self._finish(jobs)
            for e in fault.envs:
                self._forget(e, storage, report)
        for job in [job for job in jobs if job.done()]:
            jobs.remove(job)
            job.result()  # raises what the thread raised

    def _patience(self, storage: RolloutStorage, jobs: set[Future[None]]) -> float:
        """How long to wait for answers (s)."""
        if self.arrived or self._can_infer(storage, jobs):
            return 0.0
        if jobs:
            return 0.0005  # a thread may become free; polling is cheap beside a forward pass
        if self.pending and not self._is_lockstep:
            return min(self._poll_s, self._batching.left_s(time.perf_counter()))
        return self._poll_s

    def _can_infer(self, storage: RolloutStorage, jobs: set[Future[None]]) -> bool:
        """True if enough requests wait, or have waited for long enough, and a thread is free.

        In step, no more are asked than the rollout still needs.
        """
        if not self.pending or len(jobs) >= self._num_threads:
            return False
        if self._is_lockstep:
            is_round = len(self.pending) >= self._round_size
            return is_round and storage.num_complete + sum(self._rounds) < storage.num_steps
        num_others = self.pool.num_envs - len(self.pending) - len(self._held)
        return self._batching.is_due(len(self.pending), num_others, time.perf_counter())

    @property
    def _round_size(self) -> int:
        """In step: how many the policy decides for next, all at once."""
        return self.pool.round_size - len(self._held)

    def _complete(self, storage: RolloutStorage, report: CollectReport) -> None:
        """Adds answers to the rollout, up to S steps; the rest stay pending."""
        slots = self.pool.slots
        begins: list[int] = []
        truncated: list[int] = []
        now = time.perf_counter()
        elapsed = now - self._begin
        if self.arrived and not self.pending:
            self._batching.begin_waiting(now)
        while self.arrived and storage.num_complete < storage.num_steps:
            num_taken = min(len(self.arrived), storage.num_steps - storage.num_complete)
            envs = np.array([self.arrived.popleft() for _ in range(num_taken)])
            self.pending.extend(envs.tolist())
            report.environment_s += float(slots.step_seconds[envs].sum())
            is_broken = slots.fault[envs] == sm.FAULT_NONFINITE
            for e in envs[is_broken].tolist():
                self._note_nonfinite(e, storage, report)
            is_begun = is_broken | (slots.is_start[envs] != 0)
            begins += envs[is_begun].tolist()
            envs = envs[~is_begun]
            rows, ends = self.open_row[envs], (slots.terminated[envs], slots.truncated[envs])
            self._store(storage, rows, slots.reward[envs], *ends)
            report.steps_per_env[envs] += 1
            self._num_taken[envs] += 1
            report.step_s[envs] = elapsed / self._num_taken[envs]
            self._batching.answer_s.add_all((now - self._sent_at[envs]).tolist())
            self.open_row[envs], self._last_row[envs] = -1, rows
            for e in envs[(ends[0] != 0) | (ends[1] != 0)].tolist():
                infos = slots.infos[e].copy()
                total, length = float(slots.episode_return[e]), int(slots.episode_length[e])
                is_whole = bool(slots.is_whole[e])
                report.episodes.append(EpisodeEnd(e, total, length, infos, is_whole))
                begins.append(e)
            truncated += envs[ends[1] != 0].tolist()
        if truncated:
            rows = self._last_row[truncated]
            storage.next_value[rows] = self._values(np.array(truncated), slots.final)
        if begins:
            self._begin_episodes(np.array(begins))

    def _note_nonfinite(self, e: int, storage: RolloutStorage, report: CollectReport) -> None:
        report.num_nonfinite += 1
        what = self.pool.slots.get_message(e)
        if self._on_nonfinite == "stop":
            raise NonFinite(what)
        if report.num_nonfinite > storage.num_steps:
            raise NonFinite(f"no finite numbers arrive any more, most recently not from {what}")
        log.warning("%s; the unfinished sequence is dropped", what)
        self._drop_sequence(e, storage, report)

    def _infer(
        self, storage: RolloutStorage, report: CollectReport, jobs: set[Future[None]]
    ) -> None:
        most = self._round_size if self._is_lockstep else self._batching.most
        batch = [self.pending.popleft() for _ in range(min(len(self.pending), most))]
        self._batching.begin_waiting(time.perf_counter())
        if self._threads is None:
            self._serve(storage, report, batch)
        else:
            jobs.add(self._threads.submit(self._serve, storage, report, batch))

    def _serve(self, storage: RolloutStorage, report: CollectReport, batch: list[int]) -> None:
        """Actions for a batch of environments; their new steps into the storage."""
        begin = time.perf_counter()
        envs = np.array(batch)
        with torch.inference_mode():
            inputs = self._inputs(envs, self.pool.slots.observation)
            decided = self.actor.act(inputs)
            step = decided.step
            action, value = step.action.cpu().numpy(), step.value.float().cpu().numpy()
            if not (np.isfinite(value).all() and np.isfinite(action).all()):
                raise NonFinite(self._name_bad_answer(envs, action, value))
            with self._lock:
                self.pool.slots.action[envs] = action
                self._sent_at[envs] = time.perf_counter()
                if self._is_sent_first:
                    self.pool.send(batch)  # the time of the environments, not the policy's
                    begin += time.perf_counter() - self._sent_at[batch[0]]
                ids = envs, self.episode_id[envs], self.step_id[envs]
                rows = storage.decide(inputs, decided, *ids)
                last = self._last_row[envs]
                storage.next_value[last[last >= 0]] = value[last >= 0]
                self._last_row[envs], self.open_row[envs] = -1, rows
                self.state[torch.from_numpy(envs).to(self.device)] = step.state.float()
                self.prev_action[envs], self.is_first[envs] = action, False
                self.step_id[envs] += 1
                if self._is_lockstep:
                    self._rounds.append(len(batch))
                if not self._is_sent_first:
                    self.pool.send(batch)
                report.num_batches += 1
                report.num_requests += len(batch)
                elapsed = time.perf_counter() - begin
                self._batching.policy_s.add(elapsed)
                report.inference_s += elapsed
                report.inference_env_s += len(batch) * elapsed

    def _name_bad_answer(self, envs: np.ndarray, action: np.ndarray, value: np.ndarray) -> str:
        is_bad = ~(np.isfinite(action).all(axis=1) & np.isfinite(value))
        e = envs[int(is_bad.argmax())]
        place = f"environment {e}, episode {self.episode_id[e]}, step {self.step_id[e]}"
        return f"{place}: the policy answered with a number that is not finite"

    def _bootstrap(self, storage: RolloutStorage) -> None:
        """Values of the observations that follow each environment's last step."""
        envs = np.flatnonzero((self._last_row >= 0) & (self.open_row < 0) & ~self.is_first)
        if len(envs):
            rows = self._last_row[envs]
            storage.next_value[rows] = self._values(envs, self.pool.slots.observation)

    # --- environments --------------------------------------------------------------------------

    def _inputs(self, envs: np.ndarray, arrays: dict[str, np.ndarray]) -> PolicyInputs:
        """The policy's input for some environments.

        In step those of neighbours are not copied: nobody writes into them before they are sent.
        """
        neighbours = slice(envs[0], envs[0] + len(envs))
        is_slice = self._is_lockstep and np.array_equal(envs, self._everyone[neighbours])
        rows = neighbours if is_slice else envs
        observation = {
            name: torch.from_numpy(array[rows]).to(self.device) for name, array in arrays.items()
        }
        prev_action = torch.from_numpy(self.prev_action[rows]).to(self.device)
        is_first = torch.from_numpy(self.is_first[rows]).to(self.device)
        state = self.state[rows if is_slice else torch.from_numpy(envs).to(self.device)]
        return PolicyInputs(observation, prev_action, is_first, state)

    def _values(self, envs: np.ndarray, arrays: dict[str, np.ndarray]) -> np.ndarray:
        return self.actor.value(self._inputs(envs, arrays)).float().cpu().numpy()

    def _begin_episodes(self, envs: np.ndarray) -> None:
        self.state[torch.from_numpy(envs).to(self.device)] = 0.0
        self.prev_action[envs] = 0
        self.is_first[envs] = True
        self.episode_id[envs] = self.pool.slots.episode_number[envs]
        self.step_id[envs] = 0
        self._last_row[envs] = -1

    def _hold(self, storage: RolloutStorage, report: CollectReport) -> None:
        """Environments that have contributed T steps wait for the next rollout."""
        quota = storage.num_steps // self.pool.num_envs
        done = [e for e in self.pending if report.steps_per_env[e] >= quota]
        self._held += done
        self.pending = deque(e for e in self.pending if e not in done)

    def _drop_sequence(self, e: int, storage: RolloutStorage, report: CollectReport) -> None:
        """Discards the steps of an environment's unfinished episode."""
        is_its = (storage.env_id == e) & (storage.episode_id == self.episode_id[e])
        complete = np.flatnonzero(is_its & storage.is_complete)
        report.num_dropped_steps += len(complete)
        report.steps_per_env[e] -= len(complete)
        rows = complete if self.open_row[e] < 0 else np.append(complete, self.open_row[e])
        storage.drop(rows)
        self.open_row[e] = self._last_row[e] = -1

    def _forget(self, e: int, storage: RolloutStorage, report: CollectReport) -> None:
        """An environment's worker was replaced: it will announce a new episode."""
        self._drop_sequence(e, storage, report)
        for queue in (self.pending, self.arrived, self._held):
            while e in queue:
                queue.remove(e)

    def _finish(self, jobs: set[Future[None]]) -> None:
        for job in jobs:
            job.result()
        jobs.clear()


def _never(num_steps: int, seconds: float) -> bool:
    return False


def _one_torch_thread() -> None:
    torch.set_num_threads(1)
