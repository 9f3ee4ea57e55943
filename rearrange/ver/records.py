"""RunRecords: what a training writes into its folder, and resumes from.

    metrics.jsonl, tensorboard/     a line an update, of all ranks
    checkpoints/                    the last boundary between rollouts, see `run/run_state.py`
    summary.json                    at the end, normal or not

Only rank 0 writes. A write error does not end a running training.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from rearrange.system.folder_lock import FolderLockLost
from rearrange.system.machine import versions
from rearrange.ver.ranks.distributed import Ranks, RanksLost
from rearrange.ver.rollout.pool import Pool
from rearrange.ver.rollout.report import CollectReport
from rearrange.ver.rollout.rollout_metrics import rollout_metrics
from rearrange.ver.rollout.types import Policy
from rearrange.ver.run.checkpoint import Checkpoint, best_checkpoint
from rearrange.ver.run.episode_window import EpisodeWindow
from rearrange.ver.run.metrics import (
    CHECKPOINTS_FOLDER,
    RunLog,
    SilentLog,
    merge_ranks,
    write_summary,
)
from rearrange.ver.run.run_state import (
    RunState,
    check_names,
    load_for_ranks,
    restore_run,
    save_run,
)
from rearrange.ver.run.snapshot import LAYOUT, Snapshot, note_failed_resets
from rearrange.ver.run.validation import Measure
from rearrange.ver.trainer_cfg import TrainerCfg, stagger_values
from rearrange.ver.update.algorithm import Algorithm

log = logging.getLogger(__name__)


class RunRecords:
    """Counts steps and updates, and writes metrics and checkpoints.

    Args:
        identity: JSON-able values that a checkpoint must share to be resumed from.
        ranks: the processes that train together.
        is_validating: `validate` ranks the checkpoints, not the training episodes.

    Attributes:
        steps, updates: environment steps of all ranks, and updates, so far.
        episodes: the newest finished ones.
        resumed: the boundary that the training resumes from; None: a new training.
        inexact: why environments begin new episodes on resuming; None: they go on exactly.
        boundary: the last one between two rollouts; what `save` writes.
        pool: counts restarts of workers.

    Raises ValueError for an algorithm whose parts have wrong names, UserError for a checkpoint that
    does not fit.
    """

    boundary: Snapshot
    pool: Pool

    def __init__(
        self,
        cfg: TrainerCfg,
        run_dir: Path,
        env_name: str,
        identity: dict[str, Any],
        ranks: Ranks,
        policy: Policy,
        algorithm: Algorithm,
        is_validating: bool = False,
    ) -> None:
        check_names(algorithm)
        self._cfg, self._run_dir, self._env_name, self._identity = cfg, run_dir, env_name, identity
        self._ranks, self._policy, self._algorithm = ranks, policy, algorithm
        self.steps = self.updates = 0
        num_leaders = cfg.num_envs // cfg.sapg.num_blocks  # environments of the leader
        self.episodes = EpisodeWindow(num_envs=num_leaders * ranks.world_size)
        # of the processes that trained this run earlier, and of the other ranks
        self._restarts_before = self._restarts_elsewhere = 0
        self._num_milestones = 0
        self._is_validating = is_validating
        self._validated: tuple[int, tuple[str, float] | None] = (-1, None)
        self._saved = (-1, -1)  # steps, and the optimiser's, of the newest checkpoint
        self._log: RunLog | SilentLog = SilentLog()
        self.resumed: Snapshot | None = None
        self.inexact: str | None = None
        if cfg.resume == "auto":
            checkpoint = load_for_ranks(self._checkpoints, ranks)
            if checkpoint is not None:
                self._restore(checkpoint)

    def opened(self, is_quiet: bool, label: str) -> AbstractContextManager[object]:
        """The log of metrics; enter it before `log_update`."""
        if self._ranks.is_first:
            settings = asdict(self._cfg) | self._identity
            total, logger = self._cfg.total_steps, self._cfg.logger
            self._log = RunLog(self._run_dir, total, is_quiet, self.steps, settings, label, logger)
        return self._log

    def log_update(
        self, learned: dict[str, float], report: CollectReport, wall_s: float, learn_s: float
    ) -> None:
        """Writes a line of metrics of all ranks; every rank calls it after each update."""
        cfg, interleaving = self._cfg, self._cfg.interleaving
        own = learned | rollout_metrics(
            report, cfg.num_envs, wall_s, learn_s, interleaving == "alternating"
        )
        own["faults/restarts"] = self.pool.restarts
        first_env = self._ranks.rank * (cfg.num_envs // cfg.sapg.num_blocks)
        episodes = [
            [end.total_return, end.length, end.infos.tolist(), first_env + place, end.is_whole]
            for end in report.episodes
            if (place := cfg.sapg.place_among_leaders(end.env)) is not None
        ]
        of_ranks = self._ranks.gather({"metrics": own, "episodes": episodes})
        for total, length, values, env, is_whole in (
            end for rank in of_ranks for end in rank["episodes"]
        ):
            infos = dict(zip(self._cfg.info_keys, values, strict=True))
            success = infos.pop("success", float("nan"))
            known = None if np.isnan(success) else success
            self.episodes.add(total, length, known, infos, env=env, is_whole=is_whole)
        merged = merge_ranks([rank["metrics"] for rank in of_ranks])
        self._restarts_elsewhere = int(merged["faults/restarts"] or 0) - self.pool.restarts
        merged |= {
            "faults/restarts": self.restarts,
            "episode/finished": self.episodes.num_finished,
            "episode/averaged": len(self.episodes),
        }
        metrics = self.episodes.metrics() | merged
        try:
            self._log.update(metrics, self.steps)
        except OSError as error:
            log.warning("the metrics of step %d could not be written: %s", self.steps, error)

    def validate(self, measure: Measure) -> None:
        """Saves the policy and measures it; the result becomes the checkpoint's score.

        Logs nothing if nothing could be measured.
        """
        if not self._ranks.is_first or self._validated[0] == self.steps:
            return
        self.save(is_last=False)
        found = measure(self._checkpoints / f"{self.steps:012d}.json", self.steps)
        if found is None:
            return
        self._validated = (self.steps, (found.score, found.metrics[found.score]))
        try:
            self._log.update(found.metrics, self.steps)
        except OSError as error:
            log.warning("the validation of step %d could not be written: %s", self.steps, error)
        if found.film is not None:
            self._log.show_film(found.film, self.steps)
        self.save(is_last=False)

    def save(self, is_last: bool) -> None:
        """Writes a checkpoint of the last boundary between rollouts.

        Only on rank 0. A write error ends the training only at its end.
        """
        if not self._ranks.is_first:
            return
        state = RunState(
            self.steps, self.updates, self._cfg.mode, self.restarts, self.episodes,
            self.boundary,
        )  # fmt: skip
        note_failed_resets(self.boundary, self.pool)
        try:
            save_run(
                self._checkpoints, state, self._policy, self._algorithm, self._identity,
                self._cfg.keep_checkpoints, self._milestones(self.steps) > self._num_milestones,
                self._score(),
            )  # fmt: skip
            self._num_milestones = self._milestones(self.steps)
            self._saved = (self.steps, self._algorithm.num_applied)
        except OSError as error:
            if is_last:
                raise
            log.warning("no checkpoint at step %d: %s", self.steps, error)

    def save_last(self) -> None:
        """Writes a training's last checkpoint. Other ranks wait for it: once one has left, a
        scheduler may end all within seconds."""
        self.save(is_last=True)
        with suppress(RanksLost):
            self._ranks.gather(None)

    def rescue(self, error: BaseException) -> None:
        """Saves before an error ends the training, and must not replace it by another.

        Within an update the weights are not those of the boundary any more: if that is saved, with
        its score, it stays.
        """
        steps, num_applied = self._saved
        is_saved = steps == self.steps and num_applied != self._algorithm.num_applied
        if is_taken(error) or is_saved:
            return
        try:
            self.save(is_last=False)
        except Exception as second:
            log.warning("no checkpoint at step %d: %s", self.steps, first_line(second))

    def summary(self, stopped_by: str | None, device: str, **others: Any) -> dict[str, Any]:
        """Writes and returns the summary."""
        return write_summary(
            self._run_dir if self._ranks.is_first else None,
            env=self._env_name,
            mode=self._cfg.mode,
            total_steps=self.steps,
            wall_time_s=self._log.wall_time_s,
            episodes=self.episodes,
            restarts=self.restarts,
            versions=versions(),
            stopped_by=stopped_by,
            seed=self._cfg.seed,
            serial=self._cfg.serial,
            num_envs=self._cfg.num_envs,
            world_size=self._ranks.world_size,
            sampling="asynchronous" if self._cfg.interleaving == "free" else "synchronous",
            gradients="central" if self._ranks.is_alone else "decentralised",
            device=device,
            best=self._best(),
            **others,
        )

    @property
    def restarts(self) -> int:
        """Workers that were replaced: of all ranks, and of the run's earlier processes."""
        return self._restarts_before + self._restarts_elsewhere + self.pool.restarts

    @property
    def _checkpoints(self) -> Path:
        return self._run_dir / CHECKPOINTS_FOLDER

    # --- private -------------------------------------------------------------------------------

    def _restore(self, checkpoint: Checkpoint) -> None:
        state = restore_run(
            checkpoint, self._policy, self._algorithm, self._identity, self.episodes
        )
        self.steps, self.updates = state.steps, state.updates
        self._restarts_before, self.resumed = state.restarts, state.snapshot
        self._num_milestones = self._milestones(self.steps)
        self._saved = (self.steps, self._algorithm.num_applied)
        if checkpoint.score is not None and checkpoint.score[0].startswith("validation/"):
            self._validated = (self.steps, checkpoint.score)
        self.inexact = self._reason_to_begin_anew(state.snapshot.values)

    def _reason_to_begin_anew(self, values: dict[str, Any]) -> str | None:
        """Why environments cannot go on exactly from a boundary; None: they can."""
        cfg = self._cfg
        num_groups = cfg.batched.num_groups if cfg.mode == "batched" else 0
        saved_groups = values.get("batched", {}).get("num_groups", 0)
        if not (values["is_exact"] and self._ranks.is_alone and values.get("layout") == LAYOUT):
            return "they were not saved exactly"
        if len(values["episode_numbers"]) != cfg.num_envs:
            return f"there were {len(values['episode_numbers'])} of them"
        if values.get("seed") != cfg.seed:  # saved actions are for the episodes of their seed
            return f"their seed was {values.get('seed')}"
        if saved_groups != num_groups:
            return f"their groups in mode batched were {saved_groups}"
        if values.get("stagger") != stagger_values(cfg):  # they end when their timetable says
            return "their resets were not staggered like this"
        return None

    def _score(self) -> tuple[str, float] | None:
        """Score of a checkpoint made now; with a validation, only its result counts."""
        if not self._is_validating:
            return self.episodes.score()
        step, score = self._validated
        return score if step == self.steps else None

    def _milestones(self, step: int) -> int:
        """Number of milestones up to a step."""
        return step * self._cfg.keep_milestones // self._cfg.total_steps

    def _best(self) -> dict[str, Any] | None:
        """The best checkpoint: its file, metric and value."""
        best = None
        if self._ranks.is_first:
            with suppress(OSError):  # a deleted folder must not hide the original error
                best = best_checkpoint(self._checkpoints)
        return best and {"checkpoint": str(best[0]), "metric": best[1], "value": best[2]}


def is_taken(error: BaseException) -> bool:
    """Whether another process has taken the run's folder: then we must not write."""
    return isinstance(error, FolderLockLost) and error.is_taken


def first_line(error: BaseException) -> str:
    """The message of an error, on one line."""
    return (str(error).splitlines() or [type(error).__name__])[0]
