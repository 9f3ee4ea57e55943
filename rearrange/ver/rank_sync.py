"""Synchronisation of the ranks after each rollout.

    collect --> sync: did all collect? how long did steps take? --> learn --> collect ...
                does any stop? when will the next rollout be stopped?

Between two synchronisations a rank sees only counters of the others, in the store: whether one
wants to stop, and how many have finished. For a single process all this costs nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from rearrange.errors import UserError
from rearrange.system.stop_signals import StopSignals
from rearrange.ver.ranks.distributed import Ranks
from rearrange.ver.ranks.preemption import Choice, Forecast, RankTimes
from rearrange.ver.rollout.report import CollectReport, NonFinite, Stopped
from rearrange.ver.rollout.storage import RolloutStorage
from rearrange.ver.trainer_cfg import MODES, TrainerCfg
from rearrange.ver.workers.pool import TooManyRestarts

_FAILURES: dict[str, type[Exception]] = {
    error.__name__: error for error in (NonFinite, TooManyRestarts, UserError, Stopped)
}
_LOOK_EVERY_S = 0.05  # between reads of the store, which take some 0.1 ms on one machine


class RankSync:
    """Called with the function that collects a rollout; has the collector's hooks.

    Args:
        stop: receives the signals of other ranks.

    Attributes:
        learn_s: set it to the duration of the last update (s).
    """

    def __init__(self, ranks: Ranks, cfg: TrainerCfg, stop: StopSignals) -> None:
        self.ranks, self.learn_s = ranks, 0.0
        self._cfg, self._stop = cfg, stop
        self._rule = "off" if ranks.is_alone else cfg.preemption.rule_for(cfg.mode)
        mode = MODES[cfg.mode]
        is_overlapped = cfg.overlap or mode.interleaving != "alternating"
        self._forecast = Forecast(cfg.steps_per_rollout, mode.is_variable, is_overlapped)
        self._num_synced = 0
        self._choice: Choice | None = None  # for the rollout that is collected now
        self._metrics: dict[str, float] = {}
        self._next_look, self._is_stop_announced, self._num_finished = 0.0, False, 0
        # An earlier training of these ranks has counted too; none proceeds before all have read it.
        self._num_before = ranks.num_finished()
        ranks.any(False)

    def __call__(
        self,
        collect: Callable[[], CollectReport],
        storage: RolloutStorage,
        previous: RolloutStorage,
    ) -> CollectReport:
        """Collects and synchronises; a rollout that was stopped early is filled.

        Raises the error of any rank: Stopped, NonFinite, TooManyRestarts, UserError; or RanksLost.
        """
        report: CollectReport | None = None
        error: Exception | None = None
        try:
            report = collect()
            self.ranks.announce_finished()
        except tuple(_FAILURES.values()) as failure:
            error = failure
            self.ranks.announce_stop()
        if not self.ranks.is_alone:
            self._compare(report, error)
        elif error is not None:
            raise error
        assert report is not None  # otherwise an error was raised above
        if self.may_fill and report.num_steps < storage.num_steps:
            storage.fill(previous)
        return report

    @property
    def may_fill(self) -> bool:
        """Whether a rollout may be stopped early and filled from the one before."""
        return self._rule != "off" and self._cfg.preemption.fills(self._cfg.mode)

    # --- hooks of the collector ----------------------------------------------------------------

    def should_stop(self) -> bool:
        """Whether this rank or another was asked to stop."""
        if self.ranks.is_alone or self._stop.is_set():
            return self._stop.is_set()
        if time.monotonic() >= self._next_look:
            self._is_stop_announced = self.ranks.is_stop_announced()
            self._num_finished = self.ranks.num_finished()
            self._next_look = time.monotonic() + _LOOK_EVERY_S
        return self._is_stop_announced

    @property
    def should_end(self) -> Callable[[int, float], bool] | None:
        """Whether to end a rollout, given its steps and seconds so far."""
        return {"off": None, "optimal": self._is_late, "fraction": self._are_others_done}[
            self._rule
        ]

    def _is_late(self, num_steps: int, seconds: float) -> bool:
        choice = self._choice
        return choice is not None and seconds >= choice.deadline_s and num_steps >= self._fewest

    def _are_others_done(self, num_steps: int, seconds: float) -> bool:
        cfg, world_size = self._cfg.preemption, self.ranks.world_size
        least = max(self._fewest, cfg.min_share * self._cfg.steps_per_rollout)
        if self._num_synced == 0 or num_steps < least:
            return False
        done = self._num_finished - self._num_before - self._num_synced * world_size
        return done >= cfg.fraction * world_size - 1e-9

    @property
    def _fewest(self) -> int:
        """Fewest steps that can be learned from."""
        return self._cfg.ppo.num_minibatches

    # --- synchronisation -----------------------------------------------------------------------

    def agree_on_stop(self) -> bool:
        """True if any rank was asked to stop; then all are.

        A signal during the agreement counts at the next one: otherwise its rank would leave alone.
        """
        signums = [signum for signum in self.ranks.gather(self._stop.signum) if signum is not None]
        for signum in signums:
            self._stop.request(signum)
        return bool(signums)

    def metrics(self) -> dict[str, float]:
        """Metrics of the last synchronised rollout."""
        return self._metrics

    def _compare(self, report: CollectReport | None, error: Exception | None) -> None:
        failures = self.ranks.gather(
            None if error is None else [type(error).__name__, str(error), self._stop.signum]
        )
        found = [(rank, *failure) for rank, failure in enumerate(failures) if failure]
        for _, _, _, signum in found:
            if signum is not None:
                self._stop.request(signum)
        # Ranks with Stopped alone were stopped because of the others.
        found.sort(key=lambda failure: failure[1] == Stopped.__name__)
        for rank, name, message, _ in found:
            raise _FAILURES[name](f"rank {rank}: {message}") from error
        assert report is not None
        own = RankTimes(report.num_steps, report.wall_s, self.learn_s, report.step_s.tolist())
        times = [RankTimes(*found) for found in self.ranks.gather(own)]
        report.num_steps_all = sum(rank.num_steps for rank in times)
        self._num_synced += 1
        self._metrics = self._compared(times)
        if self._rule == "optimal":
            self._forecast.add(times)
            self._choice = self._forecast.choose()

    def _compared(self, times: list[RankTimes]) -> dict[str, float]:
        """The choice for the rollout, and its outcome."""
        full = self._cfg.steps_per_rollout
        real_s = max(rank.wall_s for rank in times)
        metrics = {
            "ver/preempt_share": sum(rank.num_steps < full for rank in times) / len(times),
            "ver/preempt_real_steps": sum(rank.num_steps for rank in times),
            "ver/preempt_real_s": real_s,
        }
        if self._choice is not None:
            metrics["ver/preempt_steps"] = self._choice.num_steps
            metrics["ver/preempt_predicted_s"] = self._choice.seconds
            metrics["ver/preempt_margin_s"] = self._choice.margin_s
            metrics["ver/preempt_error_s"] = real_s - self._choice.seconds
        return {name: float(value) for name, value in metrics.items() if math.isfinite(value)}
