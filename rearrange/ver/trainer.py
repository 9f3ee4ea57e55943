"""Trainer: start-up, the loop of collecting and learning, checkpoints, shutdown.

    environment workers (E)          collector                        learner
    step the env
    write StepSlots[e]   -- e -->    gather ids, run the policy
    read the action      <-- e --    write StepSlots[e].action
    step again                       append to RolloutStorage
                                     S steps reached ------------->   advantages, minibatches,
                                     weights  <------------------     loss, optimiser step

One process collects and learns in turn; how the two take turns, and which steps a rollout is made
of, is what the modes differ in (VER paper, sections 2 and 5, appendix E):

    mode     rollout                        turns
    ver      S steps from whoever is quick  collect, then learn
    nover    T steps from each environment  collect, then learn
    ddppo    T steps each, all in step      collect, then learn
    htsrl    T steps each                   learn while the next rollout is collected
    async    S steps from whoever is quick  collecting never waits; weights change under way
"""

from __future__ import annotations

import copy
import importlib.metadata
import logging
import os
import platform
import signal
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from rearrange.errors import UserError
from rearrange.ver import turns
from rearrange.ver.checkpoint import (
    Checkpoint,
    below_prefix,
    check_matches,
    load_newest,
    save_checkpoint,
    shapes_of,
    with_prefix,
)
from rearrange.ver.collector import Collector, CollectorCfg, CollectReport, NonFinite, Stopped
from rearrange.ver.entropy import EntropyCfg
from rearrange.ver.environment_worker import MakeEnv, WorkerCfg
from rearrange.ver.learner import Learner, LearnerCfg
from rearrange.ver.metrics import EpisodeWindow, RunLog, write_summary
from rearrange.ver.pool import PoolCfg, SerialPool, TooManyRestarts, WorkerPool
from rearrange.ver.ppo import PPOCfg
from rearrange.ver.returns import ReturnsCfg
from rearrange.ver.rollout_storage import RolloutStorage
from rearrange.ver.schedules import SCHEDULES
from rearrange.ver.shared_memory import SlotLayout
from rearrange.ver.snapshot import Snapshot, restore_random, restore_serial, take_snapshot
from rearrange.ver.spaces import ActionSpec, ObservationSpec, action_spec, observation_spec
from rearrange.ver.training_state import flatten_optimizer, restore_optimizer
from rearrange.ver.types import Policy

log = logging.getLogger(__name__)
BuildPolicy = Callable[[ObservationSpec, ActionSpec], Policy]
_LEARNING_GRACE_S = 15.0  # an update that was interrupted may go on for so long
_SAME_SIGNAL_S = 1.0  # a terminal and a program that passes signals on both send one Ctrl-C


class Mode(NamedTuple):
    is_variable: bool
    is_in_step: bool
    turns: str


MODES = {
    "ver": Mode(True, False, "in turn"),
    "nover": Mode(False, False, "in turn"),
    "ddppo": Mode(False, True, "in turn"),
    "htsrl": Mode(False, False, "overlapped"),
    "async": Mode(True, False, "free"),
}


@dataclass(kw_only=True)
class TrainerCfg:
    mode: str = "ver"
    """ver, nover, ddppo, htsrl or async."""
    serial: bool = False
    """All in one process: for tests and debugging; resumes bit-identically."""
    total_steps: int = 1_000_000
    """Environment steps to learn from."""
    num_envs: int = 16
    """Environments, each stepped by a worker process (N)."""
    num_steps: int = 128
    """Steps of a rollout for each environment, on average (T)."""
    seed: int = 0
    """Of the weights, the actions, the minibatches and, with their indices, the environments."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    num_threads: int = 0
    """torch's threads while learning; 0: one without images, else one for each free core."""
    overlap: bool = False
    """Collect the next rollout while learning from this one, with a policy one rollout old."""
    collector: CollectorCfg = field(default_factory=CollectorCfg)
    workers: PoolCfg = field(default_factory=PoolCfg)
    start_mode: str = "off"
    """How starts are spread over time: off, clock or advance."""
    start_horizon: int = 0
    """Steps over which they are spread; 0: num_steps."""
    ppo: PPOCfg = field(default_factory=PPOCfg)
    returns: ReturnsCfg = field(default_factory=ReturnsCfg)
    entropy: EntropyCfg = field(default_factory=EntropyCfg)
    schedule: str = "cosine"
    """Of the learning rate: cosine, linear or constant."""
    max_importance_weight: float = 1.0
    """Truncation of the weights against uneven sampling."""
    async_correction: str = "clip"
    """For data that lags behind in mode async: clip (PPO's ratio) or vtrace."""
    reward_scale: float = 1.0
    """Rewards are multiplied with it before learning; reported returns are not."""
    normalize_rewards: bool = False
    """Divide rewards by the running spread of the discounted return."""
    on_nonfinite: str = "stop"
    """stop or drop: what to do with numbers that are not finite, from environments or losses."""
    checkpoint_interval_s: float = 300.0
    """Between checkpoints (s); one more is written at the end."""
    keep_checkpoints: int = 3
    """How many of the newest checkpoints stay."""
    resume: str = "no"
    """no, or auto: go on from the newest valid checkpoint in run_dir, if there is one."""
    info_keys: list[str] = field(default_factory=lambda: ["success"])
    """Numbers of an episode's last info to average, `a/b` for nested ones."""

    def __post_init__(self) -> None:
        known = {
            "mode": tuple(MODES), "start_mode": ("off", "clock", "advance"),
            "schedule": tuple(SCHEDULES), "async_correction": ("clip", "vtrace"),
            "on_nonfinite": ("stop", "drop"), "resume": ("no", "auto"),
        }  # fmt: skip
        for name, choices in known.items():
            if getattr(self, name) not in choices:
                got = getattr(self, name)
                raise ValueError(f"{name} must be one of {', '.join(choices)}; got '{got}'")
        for name in ("total_steps", "num_envs", "num_steps", "keep_checkpoints"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("seed", "num_threads", "start_horizon", "checkpoint_interval_s"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        for name in ("max_importance_weight", "reward_scale"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        if self.num_envs >= 65536:
            raise ValueError(f"num_envs must be below 65536, got {self.num_envs}")
        steps, parts = self.num_envs * self.num_steps, self.ppo.num_minibatches
        if steps % parts:
            raise ValueError(
                f"num_envs x num_steps ({self.num_envs} x {self.num_steps} = {steps}) must be "
                f"divisible by ppo.num_minibatches ({parts})"
            )
        if self.serial and (self.overlap or MODES[self.mode].turns != "in turn"):
            raise ValueError(
                f"serial=true runs ver, nover and ddppo without overlap; got mode {self.mode}, "
                f"overlap {str(self.overlap).lower()}"
            )
        if self.overlap and MODES[self.mode].turns == "free":
            raise ValueError("overlap=true means nothing in mode async, which always overlaps")

    @property
    def steps_per_rollout(self) -> int:
        """S."""
        return self.num_envs * self.num_steps


class Trainer:
    """Trains a policy in an environment.

    Args:
        make_env: environment of an index; picklable, importable without torch.
        build_policy: a torch Module with the Policy protocol, for given spaces.
        run_dir: where checkpoints, metrics.jsonl, tensorboard/ and summary.json go.
        env_name: for the summary.
        identity: JSON-able values that a checkpoint must share to be resumed from, such as the
            environment's id and the policy's settings.
        preload: modules that environment workers need, imported once for all of them.
        learner_factory: instead of Learner, for measurements.
        is_quiet: no progress line.

    Raises ValueError and UserError for settings that do not fit, before any worker starts.
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
        learner_factory: Callable[..., Any] | None = None,
        is_quiet: bool = False,
    ) -> None:
        self.cfg, self.run_dir, self.env_name = cfg, Path(run_dir), env_name
        self._make_env, self._preload, self._is_quiet = make_env, preload, is_quiet
        self._identity = identity or {}
        self.device = pick_device(cfg.device)
        spec = try_environment(make_env, cfg.seed)
        torch.manual_seed(cfg.seed)
        self._rng = np.random.default_rng(cfg.seed)
        self._layout = SlotLayout(cfg.num_envs, *spec, len(cfg.info_keys))
        self.policy = build_policy(*spec).to(self.device)
        mode = MODES[cfg.mode]
        learner_cfg = LearnerCfg(
            ppo=cfg.ppo,
            returns=cfg.returns,
            entropy=cfg.entropy,
            max_importance_weight=cfg.max_importance_weight if mode.is_variable else 1e9,
            reward_scale=cfg.reward_scale,
            normalize_rewards=cfg.normalize_rewards,
            uses_vtrace=mode.turns == "free" and cfg.async_correction == "vtrace",
            on_nonfinite=cfg.on_nonfinite,
        )
        factory = learner_factory or Learner
        self.learner = factory(self.policy, learner_cfg, cfg.num_envs, self.device, self._rng)
        self.steps = self.updates = 0
        self.episodes = EpisodeWindow()
        self._restarts_before = 0  # of the processes that trained this run earlier
        self._stop_signal: int | None = None
        self._stop_time = 0.0
        self._resumed: Snapshot | None = None
        if cfg.resume == "auto":
            checkpoint = load_newest(self._checkpoints)
            if checkpoint is not None:
                self._restore(checkpoint)

    def run(self) -> dict[str, Any]:
        """Trains until total_steps; the summary, with `stopped_by` None or the signal's name.

        Raises:
            NonFinite: a number that is not finite, with its place; the work is saved.
            TooManyRestarts: workers kept dying; the work is saved.
            UserError: a mistake that only an environment worker could find.
        """
        cfg = self.cfg
        threads_before = torch.get_num_threads()
        with self._signals(), RunLog(
            self.run_dir, cfg.total_steps, self._is_quiet, self.steps
        ) as run_log:  # fmt: skip
            self._run_log = run_log
            pool = self._make_pool()
            try:
                self._train(pool)
            except (NonFinite, TooManyRestarts) as error:
                reason = str(error).splitlines()[0]
                with suppress(OSError):  # a full disk must not hide what happened
                    self._write_summary(run_log.wall_time_s, pool.restarts, error=reason)
                raise
            finally:
                with self._signals_ignored():
                    pool.close()
                torch.set_num_threads(threads_before)
            return self._write_summary(run_log.wall_time_s, pool.restarts)

    def request_stop(self, signum: int = signal.SIGINT) -> None:
        """Makes `run` save and return soon; what the signal handlers call."""
        if self._stop_signal is None:
            self._stop_signal, self._stop_time = signum, time.monotonic()

    # --- the loop ------------------------------------------------------------------------------

    def _train(self, pool) -> None:
        cfg, mode = self.cfg, MODES[self.cfg.mode]
        uses_copy = cfg.overlap or mode.turns != "in turn"
        behaviour = copy.deepcopy(self.policy) if uses_copy else self.policy
        lock = threading.Lock() if uses_copy else None
        collector = Collector(
            pool, behaviour, cfg.collector, self.device,
            is_variable=mode.is_variable, is_in_step=mode.is_in_step,
            on_nonfinite=cfg.on_nonfinite, should_stop=self._is_stopped, weights_lock=lock,
        )  # fmt: skip
        storages = [
            RolloutStorage(
                cfg.steps_per_rollout, cfg.num_envs, self._layout.observation,
                self._layout.action, behaviour.state_size, self.device,
            )
            for _ in range({"in turn": 1, "overlapped": 2, "free": 3}[self._turns])
        ]  # fmt: skip

        def publish() -> None:
            """The collecting policy gets the weights that are being learned."""
            with lock:
                behaviour.load_state_dict(self.policy.state_dict())
                collector.policy_version = self.updates

        after_step = publish if self._turns == "free" else lambda: None
        self._boundary = self._start(pool, collector, storages[0])
        saved_at = time.monotonic()
        begin = time.perf_counter()
        rollouts = self._rollouts(collector, storages, publish)
        try:
            while self.steps < cfg.total_steps:
                torch.set_num_threads(1)
                try:
                    storage, report = next(rollouts)
                except Stopped:
                    break
                learn_begin = time.perf_counter()
                torch.set_num_threads(self._learning_threads)
                lag = self.updates - float(storage.policy_version[storage.complete_rows()].mean())
                figures = self._learn(storage, after_step)
                learn_s = time.perf_counter() - learn_begin
                self.steps += cfg.steps_per_rollout
                self.updates += 1
                if not uses_copy:
                    collector.policy_version = self.updates
                now = time.perf_counter()
                figures["ver/policy_lag"] = lag
                self._log(figures, report, pool, now - begin, learn_s)
                begin = now
                self._boundary = take_snapshot(collector, storage, self._rng)
                is_due = time.monotonic() - saved_at >= cfg.checkpoint_interval_s
                if is_due and self.steps < cfg.total_steps:
                    self._save(pool, is_last=False)
                    saved_at = time.monotonic()
                if self._is_stopped():
                    break
            self._save(pool, is_last=True)
        except (NonFinite, TooManyRestarts):
            self._save(pool, is_last=False)  # a full disk must not hide what happened
            raise
        finally:
            self._stop_signal = self._stop_signal or 0  # a collecting thread looks at it
            rollouts.close()
            collector.close()
            self._stop_signal = self._stop_signal or None

    @property
    def _turns(self) -> str:
        return "overlapped" if self.cfg.overlap else MODES[self.cfg.mode].turns

    def _rollouts(self, collector, storages, publish) -> turns.Rollouts:
        if self._turns == "in turn":
            return turns.in_turn(collector, storages[0])
        if self._turns == "overlapped":
            return turns.overlapped(collector, storages, publish)
        return turns.free_running(collector, storages)

    def _learn(self, storage: RolloutStorage, after_step: Callable[[], None]) -> dict[str, float]:
        factor = SCHEDULES[self.cfg.schedule](self.steps / self.cfg.total_steps)

        def should_cut() -> bool:
            return self._is_stopped() and time.monotonic() - self._stop_time > _LEARNING_GRACE_S

        return self.learner.update(storage, factor, should_cut=should_cut, after_step=after_step)

    def _is_stopped(self) -> bool:
        return self._stop_signal is not None

    @property
    def _learning_threads(self) -> int:
        if self.cfg.num_threads:
            return self.cfg.num_threads
        if not any(len(spec.shape) == 3 for spec in self._layout.observation.values()):
            return 1  # small layers are done before a second thread has woken up
        # Collecting beside it has a thread of its own.
        return max(1, num_cores() - (self._turns != "in turn"))

    # --- environments --------------------------------------------------------------------------

    def _make_pool(self):
        cfg = self.cfg
        numbers = np.zeros(cfg.num_envs, np.int64)
        is_exact = False
        if self._resumed is not None:
            values = self._resumed.values
            is_exact = cfg.serial and values["is_exact"]
            count = min(cfg.num_envs, len(values["episode_numbers"]))
            numbers[:count] = np.array(values["episode_numbers"][:count]) + (not is_exact)
        worker_cfg = WorkerCfg(
            cfg.seed, tuple(cfg.info_keys), cfg.start_mode, cfg.start_horizon or cfg.num_steps
        )
        is_fresh = self._resumed is None
        if cfg.serial:
            return SerialPool(self._make_env, self._layout, worker_cfg, numbers, is_fresh)
        return WorkerPool(
            self._make_env, self._layout, worker_cfg, numbers, is_fresh, cfg.workers, self._preload
        )

    def _start(self, pool, collector: Collector, storage: RolloutStorage) -> Snapshot:
        """Starts or restores the environments; the snapshot of the beginning."""
        resumed = self._resumed
        if resumed is not None and self.cfg.serial and resumed.values["is_exact"]:
            restore_serial(resumed, collector, storage)
        else:
            pool.start()
            if resumed is not None:
                log.warning("the environments begin new episodes: not bit-identical to one run")
        collector.policy_version = self.updates
        if resumed is not None:
            restore_random(resumed, self._rng)
            return resumed
        return take_snapshot(collector, storage, self._rng)

    # --- what is written -----------------------------------------------------------------------

    @property
    def _checkpoints(self) -> Path:
        return self.run_dir / "checkpoints"

    def _log(
        self, figures: dict, report: CollectReport, pool, wall_s: float, learn_s: float
    ) -> None:
        for episode in report.episodes:
            infos = dict(zip(self.cfg.info_keys, episode.infos.tolist(), strict=True))
            success = infos.pop("success", float("nan"))
            self.episodes.add(
                episode.total_return, episode.length, None if np.isnan(success) else success, infos
            )
        # Where the environments' time goes: E environments, each for the whole of the wall time.
        total = self.cfg.num_envs * wall_s
        shares = {
            "env": report.environment_s / total,
            "infer": report.inference_env_s / total,
            "learn": learn_s / wall_s if self._turns == "in turn" else 0.0,
        }
        wait = max(0.0, 1.0 - sum(shares.values()))
        phases = {f"phase/{name}": share for name, share in (shares | {"wait": wait}).items()}
        speed = {
            "speed/sps": self.cfg.steps_per_rollout / wall_s,
            "speed/collect_s": report.wall_s,
            "speed/learn_s": learn_s,
            "speed/inference_s": report.inference_s,
            "speed/idle_s": report.waiting_s,
            "speed/batch_size": report.num_requests / max(1, report.num_batches),
        }
        share = report.steps_per_env / max(1, report.steps_per_env.sum())
        counts = {
            "ver/share_max": float(share.max()),
            "ver/share_min": float(share.min()),
            "faults/restarts": self._restarts_before + pool.restarts,
            "faults/nonfinite": report.num_nonfinite,
            "faults/dropped_steps": report.num_dropped_steps,
            "episode/finished": self.episodes.num_finished,
        }
        metrics = self.episodes.metrics() | figures | phases | speed | counts
        try:
            self._run_log.update(metrics, self.steps)
        except OSError as error:
            log.warning("the metrics of step %d could not be written: %s", self.steps, error)

    def _save(self, pool, is_last: bool) -> None:
        """Writes a checkpoint of the last boundary between rollouts.

        A disk that refuses it is survived while the training goes on, not at its end.
        """
        tensors = with_prefix("policy", self.policy.state_dict()) | self._boundary.tensors
        values: dict[str, Any] = {
            "identity": self._identity,
            "mode": self.cfg.mode,
            "updates": self.updates,
            "restarts": self._restarts_before + pool.restarts,
            "episodes": self.episodes.state(),
            "snapshot": self._boundary.values,
        }
        if isinstance(self.learner, Learner):
            learner = self.learner
            for name, optimizer in (
                ("optimizer", learner.optimizer), ("entropy_optimizer", learner.entropy_optimizer)
            ):  # fmt: skip
                state, values[name] = flatten_optimizer(optimizer)
                tensors |= with_prefix(name, state)
            tensors |= with_prefix("entropy", learner.entropy.state_dict())
            values["reward_scaler"] = learner.scaler.state()
        try:
            save_checkpoint(
                self._checkpoints, self.steps, tensors, values, self.cfg.keep_checkpoints
            )
        except OSError as error:
            if is_last:
                raise
            log.warning("no checkpoint at step %d: %s", self.steps, error)

    def _restore(self, checkpoint: Checkpoint) -> None:
        tensors, values = checkpoint.tensors, checkpoint.manifest
        own = with_prefix("policy", self.policy.state_dict())
        check_matches(checkpoint, {"identity": self._identity, "tensors": shapes_of(own)})
        try:
            self.policy.load_state_dict(below_prefix("policy", tensors))
            learner = self.learner
            if isinstance(learner, Learner):
                for name, optimizer in (
                    ("optimizer", learner.optimizer),
                    ("entropy_optimizer", learner.entropy_optimizer),
                ):
                    restore_optimizer(optimizer, below_prefix(name, tensors), values[name])
                learner.entropy.load_state_dict(below_prefix("entropy", tensors))
                if len(values["reward_scaler"]["returns"]) == self.cfg.num_envs:
                    learner.scaler.load(values["reward_scaler"])
            self.episodes.restore(values["episodes"])
            self.steps, self.updates = checkpoint.step, values["updates"]
            self._restarts_before = values["restarts"]
            prefixes = ("random/", "collector/", "open/", "actions/")
            kept = {name: value for name, value in tensors.items() if name.startswith(prefixes)}
            self._resumed = Snapshot(kept, values["snapshot"])
            if len(values["snapshot"]["episode_numbers"]) != self.cfg.num_envs:
                self._resumed.values["is_exact"] = False
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            reason = str(error).splitlines()[0]
            raise UserError(f"checkpoint {checkpoint.path} does not fit: {reason}") from error

    def _write_summary(self, wall_time_s: float, restarts: int, **others: Any) -> dict[str, Any]:
        stopped_by = signal.Signals(self._stop_signal).name if self._stop_signal else None
        return write_summary(
            self.run_dir,
            env=self.env_name,
            mode=self.cfg.mode,
            total_steps=self.steps,
            wall_time_s=wall_time_s,
            episodes=self.episodes,
            restarts=self._restarts_before + restarts,
            versions=versions(),
            stopped_by=stopped_by,
            seed=self.cfg.seed,
            serial=self.cfg.serial,
            num_envs=self.cfg.num_envs,
            device=str(self.device),
            **others,
        )

    # --- signals -------------------------------------------------------------------------------

    @contextmanager
    def _signals(self):
        """Ctrl-C and SIGTERM ask for a stop; a second one does not wait."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def handle(signum: int, frame) -> None:
            if self._stop_signal and time.monotonic() - self._stop_time > _SAME_SIGNAL_S:
                raise KeyboardInterrupt
            self.request_stop(signum)

        before = {s: signal.signal(s, handle) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for signum, handler in before.items():
                with suppress(TypeError):  # a handler that was not set from Python
                    signal.signal(signum, handler)

    @contextmanager
    def _signals_ignored(self):
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {s: signal.signal(s, signal.SIG_IGN) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)


def try_environment(make_env: MakeEnv, seed: int) -> tuple[ObservationSpec, ActionSpec]:
    """The spaces of an environment that has been started and stepped once.

    What is compiled on first use is then compiled, once and not by each worker.
    """
    env = make_env(0)
    try:
        spec = observation_spec(env.observation_space), action_spec(env.action_space)
        env.reset(seed=seed)
        env.step(env.action_space.sample())
    finally:
        env.close()
    return spec


def num_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def pick_device(name: str) -> torch.device:
    """The torch device of a name; UserError for one that is not there."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"device must be auto, cpu, cuda or cuda:N; got '{name}'") from error
    if device.type not in ("cpu", "cuda"):
        raise UserError(f"device must be auto, cpu, cuda or cuda:N; got '{name}'")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"device {name} is not there: torch sees no GPU; use device=cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(f"device {name} is not there: torch sees {torch.cuda.device_count()} GPUs")
    return device


def versions() -> dict[str, str]:
    """Of what a result depends on."""
    found = {"python": platform.python_version()}
    for package in ("rearrange", "torch", "numpy", "gymnasium", "mujoco"):
        with suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found
