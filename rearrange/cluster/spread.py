"""Schemes that start other processes: the same words run again, as each of the ranks."""

from __future__ import annotations

import os
import sys

from rearrange.cluster.scheme import SchemeCfg
from rearrange.errors import UserError
from rearrange.system.stop_signals import StopSignals


def run_spread(words: list[str], scheme: SchemeCfg) -> int:
    """Runs `rearrange` with these words as `scheme.world_size` ranks; the exit code of them all.

    Args:
        words: they must make a restarted process go on.

    Raises UserError if there is no Ray, or for a mistake that only a rank could find.
    """
    if scheme.name == "ranks":
        from rearrange.cluster.local_ranks import run_local_ranks

        return run_local_ranks(words, scheme)
    return _run_on_ray(words, scheme)


def _run_on_ray(words: list[str], scheme: SchemeCfg) -> int:
    from rearrange.cluster.ray_session import connected

    stop = StopSignals()
    with connected(scheme.address, scheme.world_size * scheme.num_cpus), stop.listening():
        from rearrange.cluster.rank_group import MISTAKE, RankGroup, look_until_over

        group = RankGroup("the training", words, scheme, os.getcwd(), _show)
        look_until_over([group], stop)
    if group.exit_code == MISTAKE:
        raise UserError(group.reason)
    if group.exit_code == 1:
        print("error:", group.reason, file=sys.stderr)
    assert group.exit_code is not None  # it is over
    return group.exit_code


def _show(out: str, err: str) -> None:
    """Rank 0's words, but for the line that tells a mistake: the command says it itself."""
    print(out, end="", flush=True)
    lines = [line for line in err.splitlines(True) if not line.startswith("error: ")]
    print("".join(lines), end="", file=sys.stderr, flush=True)
