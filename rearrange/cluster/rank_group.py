"""RankGroup: the ranks of one training on a Ray cluster, restarted after a loss.

    waiting   Ray has no resources yet for all hosts, or they are starting
    running   every host runs its rank
    over      with an exit code

    waiting --> running --> over    all succeeded, or failed by the caller's mistake, or were
    stopped
       ^           |
       +-----------+                a rank or its machine was lost: all restart, `resume=auto`

Ray allocates resources, starts hosts and notices when a machine is gone. Its own trainer (Ray
Train) is not used: it would call us in a thread of its worker, where signals do not arrive, in a
process group that it creates, and it requires pandas and pyarrow.

`look` sends requests and collects the answers that have arrived; it never blocks. One thread thus
serves many groups.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, RayError, RayTaskError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from rearrange.cluster.rank_host import RankHost, Report, Spot, variables_of
from rearrange.cluster.scheme import MISTAKE, SchemeCfg
from rearrange.system.stop_signals import EXIT_CODES, StopSignals

LOOK_EVERY_S = 0.5
STOP_S = 90.0  # an update may run for 15 s after a signal, then the checkpoint is written
WAIT_S = 30.0  # waiting time for resources before a message is logged

log = logging.getLogger(__name__)


class RankGroup:
    """One training.

    Args:
        name: in messages.
        arguments: what follows `rearrange`; a restarted process must resume with them.
        folder: where relative paths in them begin; on all machines.
        show: receives what rank 0 writes to stdout and stderr.

    Attributes:
        state: waiting, running or over.
        exit_code: once it is over.
        restarts: how often all ranks were restarted.
        reason: of the last restart, or of the failure.
        nodes: addresses of the machines that run its ranks.
    """

    def __init__(
        self,
        name: str,
        arguments: list[str],
        scheme: SchemeCfg,
        folder: str,
        show: Callable[[str, str], None] = lambda out, err: None,
    ) -> None:
        self.name, self.state, self.reason = name, "waiting", ""
        self.exit_code: int | None = None
        self.restarts, self.nodes = 0, []
        self._arguments, self._scheme, self._folder, self._show = arguments, scheme, folder, show
        self._stop_signal: int | None = None
        self._stop_end = float("inf")
        self._hosts: list[Any] = []
        self._answers: list[Any] = []
        self._next: Callable[[list[Any]], None] = self._start
        self._request()

    @property
    def is_over(self) -> bool:
        return self.state == "over"

    def look(self) -> None:
        """Makes the next transition of the diagram above, if it is due."""
        if self.is_over:
            return
        if time.monotonic() > self._stop_end:
            assert self._stop_signal is not None  # all hosts are started together
            self._end(EXIT_CODES[self._stop_signal], "it did not end in time and was killed")
            return
        ready, rest = ray.wait(self._answers, num_returns=len(self._answers), timeout=0)
        try:
            values: list[Any] = ray.get(ready) if ready else []
        except RayTaskError as error:  # the host's own exception: no such folder
            self._end(MISTAKE, str(error.cause))
            return
        except RayError as error:
            if isinstance(error, ActorUnavailableError) and self._next == self._take:
                self._ask()  # it may recover; otherwise Ray reports it soon
            else:
                what = str(error).splitlines()[0]
                self._lose(f"a rank's host was lost ({type(error).__name__}: {what})")
            return
        if not rest:
            self._next(values)
        elif self.state == "waiting" and time.monotonic() > self._say_at:
            self._say_at = float("inf")
            log.warning("%s waits for room in the cluster: %s", self.name, self._wanted())

    def stop(self, signum: int) -> None:
        """Tells all ranks to save and exit; the first signal counts."""
        if self.is_over or self._stop_signal is not None:
            return
        self._stop_signal, self._stop_end = signum, time.monotonic() + STOP_S
        if self.state == "waiting":
            self._end(EXIT_CODES[signum])
            return
        for host in self._hosts:
            host.send.remote(signum)

    def close(self) -> None:
        """Kills whatever still runs; may be called twice."""
        hosts, self._hosts, self._answers = self._hosts, [], []
        for host in hosts:
            ray.kill(host)
        if self._placement is not None:
            remove_placement_group(self._placement)
            self._placement = None

    # --- the steps -----------------------------------------------------------------------------

    def _request(self) -> None:
        scheme = self._scheme
        self.state, self.nodes, self._say_at = "waiting", [], time.monotonic() + WAIT_S
        bundle = {"CPU": scheme.num_cpus} | ({"GPU": scheme.num_gpus} if scheme.num_gpus else {})
        self._placement = placement_group([bundle] * scheme.world_size, strategy="PACK")
        self._hosts = [
            ray.remote(RankHost)
            .options(
                num_cpus=scheme.num_cpus, num_gpus=scheme.num_gpus, max_restarts=0,
                scheduling_strategy=PlacementGroupSchedulingStrategy(self._placement, rank),
            )
            .remote()
            for rank in range(scheme.world_size)
        ]  # fmt: skip
        self._answers = [host.find_spot.remote() for host in self._hosts]
        self._next = self._start

    def _start(self, spots: list[Spot]) -> None:
        self.nodes = sorted({spot.address for spot in spots})
        self._answers = [
            host.start.remote(self._arguments, variables, self._folder)
            for host, variables in zip(self._hosts, variables_of(spots), strict=True)
        ]
        self._next = self._started
        self.state = "running"

    def _started(self, _: list[None]) -> None:
        self._tails = [""] * len(self._hosts)
        self._ask()

    def _ask(self) -> None:
        self._answers = [host.look.remote() for host in self._hosts]
        self._next = self._take

    def _take(self, reports: list[Report]) -> None:
        self._show(reports[0].out, reports[0].err)
        self._tails = [
            (tail + report.err)[-2000:] for tail, report in zip(self._tails, reports, strict=True)
        ]
        codes = [report.code for report in reports]
        bad = {rank: code for rank, code in enumerate(codes) if code not in (None, 0)}
        signals = [signum for signum, code in EXIT_CODES.items() if code in bad.values()]
        if self._stop_signal is None and signals:
            # Somebody signalled a rank directly: it saved, and the others follow.
            self._stop_signal, self._stop_end = signals[0], time.monotonic() + STOP_S
        if self._stop_signal is None and bad:
            self._fail(bad)
        elif None in codes:
            self._ask()
        else:
            self._end(0 if self._stop_signal is None or not bad else EXIT_CODES[self._stop_signal])

    def _fail(self, codes: dict[int, int]) -> None:
        """Some ranks failed. Those that found a mistake of the caller would find it again."""
        rank = next((rank for rank, code in codes.items() if code != MISTAKE), min(codes))
        said = ([""] + self._tails[rank].strip().splitlines())[-1].removeprefix("error: ")
        if codes[rank] == MISTAKE:
            self._end(MISTAKE, said)
        else:
            self._lose(f"rank {rank} ended with exit code {codes[rank]} ({said})")

    def _lose(self, reason: str) -> None:
        self.close()
        if self._stop_signal is not None:
            self._end(EXIT_CODES[self._stop_signal], reason)
        elif self.restarts == self._scheme.max_restarts:
            self._end(1, f"{reason}; the budget of {self.restarts} restarts is spent")
        else:
            self.restarts += 1
            self.reason = reason
            log.warning(
                "%s: %s; starting all ranks again from the newest checkpoint (%d of %d)",
                self.name, reason, self.restarts, self._scheme.max_restarts,
            )  # fmt: skip
            self._request()

    def _end(self, code: int, reason: str = "") -> None:
        self.close()
        self.state, self.exit_code, self.nodes = "over", code, []
        self.reason = reason or self.reason

    def _wanted(self) -> str:
        scheme = self._scheme
        has = ray.cluster_resources()
        return (
            f"{scheme.world_size} x {scheme.num_cpus:g} CPU and {scheme.num_gpus:g} GPU; it has "
            f"{has.get('CPU', 0):g} and {has.get('GPU', 0):g} in all"
        )


def look_until_over(
    groups: list[RankGroup], stop: StopSignals, show: Callable[[], None] = lambda: None
) -> None:
    """Serves groups until all are over, calling `show` in between; signals are forwarded to them.

    If it is interrupted by anything else, all their processes are killed.
    """
    try:
        while not all(group.is_over for group in groups):
            for group in groups:
                if stop.signum is not None:
                    group.stop(stop.signum)
                group.look()
            show()
            time.sleep(LOOK_EVERY_S)
    finally:
        for group in groups:
            group.close()
