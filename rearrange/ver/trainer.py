"""Trainer: start-up, the collect-and-learn loop, checkpoints, shutdown.

    environment workers (E)          collector                        learner
    step the env
    write StepSlots[e]   -- e -->    gather ids, run the policy
    read the action      <-- e --    write StepSlots[e].action
    step again                       append to RolloutStorage
                                     S steps reached ------------->   advantages, minibatches,
                                     weights  <------------------     loss, optimiser step

One process collects and learns. The modes differ in how the two alternate, and in which steps a
rollout contains: see `trainer_cfg.py`. Several such processes may learn one policy together: see
`distributed.py`.
"""

from __future__ import annotations

import logging
import math
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rearrange.system.machine import num_cores, pick_device
from rearrange.system.stop_signals import StopSignals
from rearrange.ver.batched.groups import MakeEnvs, make_batch, make_pool
from rearrange.ver.batched.start_cfg import staggered_worker_cfg, trackers_of
from rearrange.ver.rank_sync import RankSync
from rearrange.ver.ranks.distributed import ALONE, Ranks
from rearrange.ver.records import RunRecords, first_line, is_taken
from rearrange.ver.rollout import interleaving
from rearrange.ver.rollout.actor import Actor
from rearrange.ver.rollout.collector import Collector
from rearrange.ver.rollout.pool import Pool
from rearrange.ver.rollout.report import Stopped
from rearrange.ver.rollout.storage import RolloutStorage
from rearrange.ver.rollout.types import Policy
from rearrange.ver.run.snapshot import (
    Snapshot,
    failed_resets,
    next_episodes,
    of_all_ranks,
    restore_exactly,
    restore_random,
    take_snapshot,
)
from rearrange.ver.run.validation import Validation
from rearrange.ver.sapg.blocks import with_block, write_blocks
from rearrange.ver.sapg.sapg_learner import SAPG
from rearrange.ver.trainer_cfg import ALONE_MODES, MODES, TrainerCfg, stagger_values
from rearrange.ver.update.algorithm import Algorithm, LearnerCfg, UpdateContext
from rearrange.ver.update.schedules import SCHEDULES
from rearrange.ver.workers.environment_worker import STAGGERED, MakeEnv, WorkerCfg
from rearrange.ver.workers.first_step import try_environment
from rearrange.ver.workers.pool import SerialPool, WorkerPool
from rearrange.ver.workers.shared_memory import SlotLayout
from rearrange.ver.workers.spaces import ActionSpec, ObservationSpec

log = logging.getLogger(__name__)
BuildPolicy = Callable[[ObservationSpec, ActionSpec], Policy]
MakeAlgorithm = Callable[..., Algorithm]
_LEARNING_GRACE_S = 15.0  # longest time that an interrupted update may still take


class Trainer:
    """Trains a policy in an environment.

    Args:
        make_env: environment of an index, counted over all ranks; picklable, importable without
            torch.
        build_policy: spaces -> a torch Module with the Policy protocol.
        run_dir: where checkpoints, metrics.jsonl, tensorboard/ and summary.json go.
        env_name: for the summary.
        identity: JSON-able values that a checkpoint must share to be resumed from, such as the
            environment's id and the policy's settings.
        preload: modules that environment workers need, imported once for all of them.
        make_algorithm: called with the arguments of `Algorithm`; None: `SAPG`, which is PPO unless
            `cfg.sapg` has several blocks.
        pool_factory: called with WorkerPool's arguments; modes serial and batched have their own
            pools.
        make_envs: for mode batched: num_envs -> a vector environment with autoreset disabled,
            called for each group; None, or if it returns None: Gymnasium's SyncVectorEnv of
            make_env.
        ranks: the processes that train together; each builds and runs a Trainer. Rank 0 writes.
        is_quiet: no progress line.
        check_folder: called before anything is written into run_dir; raises FolderLockLost.
        validation: measures the policy periodically, and at the end.
        label: prefix of the progress line.

    Raises ValueError and UserError for settings that do not fit, before any worker starts, and
    EnvironmentFailure for an environment that cannot take a step.
    """

    def __init__(
        self,
        make_env: MakeEnv,
        build_policy: BuildPolicy,
        cfg: TrainerCfg,
        run_dir: Path,
        *,
        env_name: str = "",
        identity: dict[str, Any] | None = None,
        preload: tuple[str, ...] = (),
        make_algorithm: MakeAlgorithm | None = None,
        pool_factory: Callable[..., Pool] = WorkerPool,
        make_envs: MakeEnvs | None = None,
        ranks: Ranks = ALONE,
        is_quiet: bool = False,
        check_folder: Callable[[], None] = lambda: None,
        validation: Validation | None = None,
        label: str = "",
    ) -> None:
        self.cfg, self.run_dir, identity = cfg, Path(run_dir), identity or {}
        self._make_env, self._preload, self._is_quiet = make_env, preload, is_quiet
        self.ranks, self._pool_factory = ranks, pool_factory
        self._make_envs = make_envs
        self._check_folder, self._validation, self._label = check_folder, validation, label
        if not ranks.is_alone and cfg.mode in ALONE_MODES:
            raise ValueError(f"mode {cfg.mode} runs in one process, got {ranks.world_size} ranks")
        ranks.check_same("settings", asdict(cfg) | identity)
        rank_info = ranks.rank_info
        self.device = pick_device(cfg.device, rank_info.local_rank, rank_info.local_world_size)
        seen, action = try_environment(make_env, cfg.seed)
        spec = with_block(seen, cfg.sapg.num_blocks), action
        torch.manual_seed(cfg.seed)
        self._rng = np.random.default_rng(ranks.seed(cfg.seed))
        self._layout = SlotLayout(cfg.num_envs, *spec, len(cfg.info_keys))
        self.policy = build_policy(seen, action).to(self.device)
        mode = MODES[cfg.mode]
        learner_cfg = LearnerCfg(
            ppo=cfg.ppo,
            returns=cfg.returns,
            entropy=cfg.entropy,
            max_importance_weight=cfg.max_importance_weight,
            reward_scale=cfg.reward_scale,
            normalize_rewards=cfg.normalize_rewards,
            uses_vtrace=mode.interleaving == "free" and cfg.async_correction == "vtrace",
            on_nonfinite=cfg.on_nonfinite,
        )
        make_algorithm = make_algorithm or partial(SAPG, sapg=cfg.sapg)
        self.algorithm = make_algorithm(
            self.policy, learner_cfg, cfg.num_envs, self.device, self._rng, ranks=ranks
        )
        self._stop = StopSignals()
        self.records = RunRecords(
            cfg, self.run_dir, env_name, identity, ranks, self.policy, self.algorithm,
            is_validating=validation is not None,
        )  # fmt: skip
        ranks.copy_from_first(self.policy.state_dict())

    def run(self) -> dict[str, Any]:
        """Trains until total_steps; returns the summary, `stopped_by` None or the signal's name.

        Saves before raising anything, unless another process has taken the folder.

        Raises:
            NonFinite: a number that is not finite, with its place.
            TooManyRestarts: workers kept dying.
            RanksLost: another rank is gone or silent; rank 0 saves its work.
            FolderLockLost: run_dir was deleted or taken by another process.
            UserError: a mistake that only an environment worker could find.
        """
        threads_before = torch.get_num_threads()
        with self._stop.listening(), self.records.opened(self._is_quiet, self._label):
            pool = self.records.pool = self._make_pool()
            write_blocks(pool.slots, self.cfg.sapg.num_blocks)
            try:
                self._train(pool)
            except (Exception, SystemExit) as error:
                if not is_taken(error):
                    with suppress(OSError):  # a full disk must not hide the original error
                        self._summary(error=first_line(error))
                raise
            finally:
                with self._stop.ignored():
                    pool.close()
                torch.set_num_threads(threads_before)
            return self._summary()

    @property
    def steps(self) -> int:
        """Environment steps so far, of all ranks."""
        return self.records.steps

    @property
    def updates(self) -> int:
        """Updates of the policy so far."""
        return self.records.updates

    def request_stop(self, signum: int = signal.SIGINT) -> None:
        """Makes `run` save and return soon, like a signal."""
        self._stop.request(signum)

    # --- the loop ------------------------------------------------------------------------------

    def _train(self, pool: Pool) -> None:
        cfg, mode, records = self.cfg, MODES[self.cfg.mode], self.records
        uses_copy = cfg.overlap or mode.interleaving != "alternating"
        actor = Actor(self.policy, self.algorithm.act, is_copy=uses_copy)
        collector_cfg = cfg.collector
        if self._is_here:  # there is nothing to wait for, and results must not depend on a clock
            collector_cfg = replace(collector_cfg, num_inference_workers=1, min_batch=1)
        sync = RankSync(self.ranks, cfg, self._stop)
        collector = Collector(
            pool, actor, collector_cfg, self.device,
            is_variable=mode.is_variable, is_lockstep=mode.is_lockstep,
            on_nonfinite=cfg.on_nonfinite, should_stop=sync.should_stop,
            should_end=sync.should_end, store=self.algorithm.store_all,
        )  # fmt: skip
        storages = [
            RolloutStorage(
                cfg.steps_per_rollout, cfg.num_envs, self._layout.observation,
                self._layout.action, actor.state_size, self.device, sync.may_fill,
            )
            for _ in range(cfg.num_storages)
        ]  # fmt: skip

        def refresh() -> None:
            """Updates the acting policy to the current weights."""
            actor.refresh(self.updates, self.algorithm.num_applied)

        after_step = refresh if self.cfg.interleaving == "free" else lambda: None
        refresh()
        records.boundary = self._start(pool, collector, storages[0])
        saved_at = time.monotonic()
        validate_at = self._next_validation()
        begin = time.perf_counter()
        rollouts = self._rollouts(collector, storages, refresh, sync)
        try:
            while self.steps < cfg.total_steps:
                torch.set_num_threads(1)
                try:
                    storage, report = next(rollouts)
                except Stopped:
                    break
                self._check_folder()
                learn_begin = time.perf_counter()
                torch.set_num_threads(self._learning_threads)
                lags = self.updates - storage.policy_version[storage.complete_rows()]
                metrics = self._learn(storage, after_step)
                learn_s = sync.learn_s = time.perf_counter() - learn_begin
                records.steps += report.num_steps_all
                records.updates += 1
                if self.cfg.interleaving != "overlapped":  # there it happens as a rollout begins
                    refresh()
                now = time.perf_counter()
                metrics |= {
                    "ver/policy_lag": float(lags.mean()), "ver/policy_lag_max": float(lags.max())
                }  # fmt: skip
                metrics |= sync.metrics()
                records.log_update(metrics, report, now - begin, learn_s)
                begin = now
                records.boundary = self._snapshot(collector, storage)
                is_due = time.monotonic() - saved_at >= cfg.checkpoint_interval_s
                if is_due and self.steps < cfg.total_steps:
                    records.save(is_last=False)
                    saved_at = time.monotonic()
                if validate_at <= self.steps < cfg.total_steps:
                    self._validate()
                    validate_at, begin = self._next_validation(), time.perf_counter()
                if sync.agree_on_stop():
                    break
            self._check_folder()
        except (Exception, SystemExit) as error:  # an environment in this process may call sys.exit
            records.rescue(error)
            raise
        else:
            records.save_last()
            if self.steps >= cfg.total_steps:
                self._validate()
        finally:
            self._stop.end()  # a collecting thread reads it
            rollouts.close()
            collector.close()

    def _next_validation(self) -> float:
        return math.inf if self._validation is None else self._validation.next_step(self.steps)

    def _validate(self) -> None:
        """Other ranks and the environments wait."""
        if (validation := self._validation) is not None and not self._stop.is_set():
            self.records.validate(
                lambda checkpoint, step: validation.measure(checkpoint, step, self._stop.is_set)
            )

    def _rollouts(
        self,
        collector: Collector,
        storages: list[RolloutStorage],
        refresh: Callable[[], None],
        sync: RankSync,
    ) -> interleaving.Rollouts:
        if self.cfg.interleaving == "alternating":
            return interleaving.alternating(collector, storages[0], sync)
        if self.cfg.interleaving == "overlapped":
            return interleaving.overlapped(collector, storages, refresh, sync)
        return interleaving.free_running(collector, storages)

    def _learn(self, storage: RolloutStorage, after_step: Callable[[], None]) -> dict[str, float]:
        factor = SCHEDULES[self.cfg.schedule](self.steps / self.cfg.total_steps)

        def should_cut() -> bool:
            return self.ranks.any(self._stop.is_set_for(_LEARNING_GRACE_S))

        context = UpdateContext(
            lr_factor=factor, num_updates=self.updates, should_cut=should_cut, after_step=after_step
        )
        return self.algorithm.learn(storage, context)

    @property
    def _learning_threads(self) -> int:
        if self.cfg.num_threads:
            return self.cfg.num_threads
        if not any(len(spec.shape) == 3 for spec in self._layout.observation.values()):
            return 1  # small layers finish before a second thread has woken up
        # Overlapped collecting has its own thread.
        return max(1, self._cores - (self.cfg.interleaving != "alternating"))

    @property
    def _cores(self) -> int:
        """Of this machine, for this rank."""
        return max(1, num_cores() // self.ranks.rank_info.local_world_size)

    @property
    def _is_here(self) -> bool:
        """Whether the environments are in this process, so results do not depend on timing."""
        return self.cfg.serial or self.cfg.mode == "batched"

    # --- environments --------------------------------------------------------------------------

    def _make_pool(self) -> Pool:
        cfg = self.cfg
        numbers = np.full(cfg.num_envs, cfg.first_episode, np.int64)
        if self.records.resumed is not None:
            is_exact = self._is_here and self.records.inexact is None
            numbers = next_episodes(self.records.resumed, cfg.num_envs, self.ranks, is_exact)
        worker_cfg = WorkerCfg(
            cfg.seed, tuple(cfg.info_keys), cfg.start_mode, cfg.start_horizon or cfg.num_steps,
            self.ranks.rank * cfg.num_envs, cfg.repeat_failed, failed_resets(self.records.resumed),
            self.steps // (cfg.num_envs * self.ranks.world_size),
        )  # fmt: skip
        worker_cfg = staggered_worker_cfg(worker_cfg, cfg.stagger, cfg.num_envs, cfg.num_steps)
        # All begin new episodes if they cannot be resumed, so staggered ones are spread again.
        is_fresh = self.records.resumed is None or cfg.start_mode == STAGGERED
        if cfg.mode == "batched":
            trackers = trackers_of(
                worker_cfg, cfg.stagger, cfg.num_envs, cfg.num_steps, is_fresh,
                cfg.batched.num_groups,
            )  # fmt: skip
            make_envs = partial(make_batch, self._make_envs, self._make_env)
            return make_pool(make_envs, self._layout, worker_cfg, numbers, trackers)
        if cfg.serial:
            return SerialPool(self._make_env, self._layout, worker_cfg, numbers, is_fresh)
        workers = cfg.workers.sized(cfg.num_envs, self._cores)
        return self._pool_factory(
            self._make_env, self._layout, worker_cfg, numbers, is_fresh, workers, self._preload
        )

    def _start(self, pool: Pool, collector: Collector, storage: RolloutStorage) -> Snapshot:
        """Starts or restores the environments; the snapshot of the beginning."""
        resumed = self.records.resumed
        if resumed is not None and self._is_here and self.records.inexact is None:
            restore_exactly(resumed, collector, storage)
        else:
            pool.start()
            if resumed is not None and self.ranks.is_first:
                why = self.records.inexact or "they are in other processes"
                log.warning("environments begin new episodes, unlike in one run: %s", why)
        if resumed is not None:
            restore_random(resumed, self._rng, self.device)
            if not self.ranks.is_first:  # the checkpoint has the random states of rank 0
                self._seed_rank(self.steps)
            return resumed
        self._seed_rank()  # other draws since the policy was built
        return self._snapshot(collector, storage)

    def _seed_rank(self, *others: int) -> None:
        seed = self.ranks.seed(self.cfg.seed, *others)
        torch.manual_seed(seed)
        if others:
            self._rng = self.algorithm.rng = np.random.default_rng(seed)

    def _snapshot(self, collector: Collector, storage: RolloutStorage) -> Snapshot:
        snapshot = of_all_ranks(take_snapshot(collector, storage, self._rng), self.ranks)
        snapshot.values["stagger"] = stagger_values(self.cfg)
        return snapshot

    def _summary(self, **others: Any) -> dict[str, Any]:
        return self.records.summary(self._stop.name, str(self.device), **others)
