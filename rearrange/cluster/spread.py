"""Schemes with several processes: the same command runs again as each of the ranks."""

from __future__ import annotations

import os
import sys

from rearrange.cluster.scheme import MISTAKE, SchemeCfg
from rearrange.errors import UserError
from rearrange.system.stop_signals import StopSignals


def run_spread(arguments: list[str], scheme: SchemeCfg) -> int:
    """Runs `rearrange` with these arguments as `scheme.world_size` ranks; their exit code.

    Args:
        arguments: a restarted process must resume with them.

    Raises UserError if there is no Ray, or for a mistake that only a rank could find.
    """
    if scheme.name == "ranks":
        from rearrange.cluster.local_ranks import run_local_ranks

        return run_local_ranks(arguments, scheme)
    return _run_on_ray(arguments, scheme)


def _run_on_ray(arguments: list[str], scheme: SchemeCfg) -> int:
    from rearrange.cluster.ray_session import connected

    stop = StopSignals()
    with connected(scheme.address, scheme.world_size * scheme.num_cpus), stop.listening():
        from rearrange.cluster.rank_group import RankGroup, look_until_over

        group = RankGroup("the training", arguments, scheme, os.getcwd(), _show)
        look_until_over([group], stop)
    if group.exit_code == MISTAKE:
        raise UserError(group.reason)
    if group.exit_code == 1:
        print("error:", group.reason, file=sys.stderr)
    assert group.exit_code is not None  # it is over
    return group.exit_code


def _show(out: str, err: str) -> None:
    """Prints rank 0's output without the line about a mistake, which the command prints itself."""
    print(out, end="", flush=True)
    lines = [line for line in err.splitlines(True) if not line.startswith("error: ")]
    print("".join(lines), end="", file=sys.stderr, flush=True)
