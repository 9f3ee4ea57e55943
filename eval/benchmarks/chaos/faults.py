"""The list of faults: name, function, and whether it is among the quick ones.

Each function gets a `Harness`, causes a fault, checks the outcome and returns a `Finding`.
"""

from __future__ import annotations

import signal
from collections.abc import Callable

from rearrange.eval.benchmarks.chaos.harness import NUM_ENVS, Finding, Harness
from rearrange.eval.benchmarks.chaos.leaving import (
    asked_to_stop,
    asked_twice,
    stopped_in_long_update,
)
from rearrange.eval.benchmarks.chaos.numbers import loss_not_finite, not_finite
from rearrange.eval.benchmarks.chaos.saving import (
    disk_full,
    folder_read_only,
    killed_while_saving,
    main_killed,
    newest_damaged,
)
from rearrange.eval.benchmarks.chaos.surroundings import (
    first_step_fails,
    folder_deleted,
    output_closed,
    second_training,
    seed_that_breaks,
    worker_and_server_killed,
)  # fmt: skip
from rearrange.eval.benchmarks.chaos.workers import (
    budget_spent,
    environment_refuses,
    server_killed,
    worker_breaks,
    workers_signalled,
)

_NAN_VALUE = "a NaN value from the policy"

FAULTS: list[tuple[str, Callable[[Harness], Finding], bool]] = [
    # name, function, run with quick=true
    ("Ctrl-C", lambda harness: asked_to_stop(harness, signal.SIGINT, True), True),
    ("SIGTERM", lambda harness: asked_to_stop(harness, signal.SIGTERM, False), False),
    ("SIGTERM to all", lambda harness: asked_to_stop(harness, signal.SIGTERM, True), True),
    ("SIGUSR1 to all", lambda harness: asked_to_stop(harness, signal.SIGUSR1, True), False),
    ("SIGHUP to all", lambda harness: asked_to_stop(harness, signal.SIGHUP, True), False),
    ("second Ctrl-C", asked_twice, True),
    ("SIGTERM, long update", stopped_in_long_update, False),
    ("worker killed", lambda harness: workers_signalled(harness, signal.SIGKILL, 1), True),
    (
        "all workers killed",
        lambda harness: workers_signalled(harness, signal.SIGKILL, NUM_ENVS),
        True,
    ),
    ("budget spent", budget_spent, True),
    ("worker stopped", lambda harness: workers_signalled(harness, signal.SIGSTOP, 1), True),
    ("server killed", server_killed, False),
    ("worker and server", worker_and_server_killed, True),
    ("seed that breaks", seed_that_breaks, False),
    ("worker raises", lambda harness: worker_breaks(harness, "raise"), True),
    ("worker exits", lambda harness: worker_breaks(harness, "exit"), False),
    ("worker hangs", lambda harness: worker_breaks(harness, "hang"), False),
    ("user's mistake", environment_refuses, False),
    ("ValueError in step 1", lambda harness: first_step_fails(harness, "value_error"), False),
    ("sys.exit in step 1", lambda harness: first_step_fails(harness, "sys_exit"), False),
    ("second training", second_training, True),
    ("folder deleted", folder_deleted, True),
    ("nobody listens", output_closed, False),
    ("main killed", main_killed, True),
    ("main killed, saving", killed_while_saving, True),
    ("checkpoint cut off", lambda harness: newest_damaged(harness, "is cut off"), True),
    ("checkpoint bit flip", lambda harness: newest_damaged(harness, "has one bit flipped"), False),
    ("disk full, then free", lambda harness: disk_full(harness, True), False),
    ("disk full", lambda harness: disk_full(harness, False), True),
    ("disk read-only", folder_read_only, True),
    ("NaN observation", lambda harness: not_finite(harness, "nan_observation", "stop"), True),
    ("NaN observation", lambda harness: not_finite(harness, "nan_observation", "drop"), True),
    ("NaN reward", lambda harness: not_finite(harness, "nan_reward", "stop"), False),
    ("NaN reward", lambda harness: not_finite(harness, "nan_reward", "drop"), True),
    ("NaN at reset", lambda harness: not_finite(harness, "nan_reset", "stop"), False),
    ("NaN at reset", lambda harness: not_finite(harness, "nan_reset", "drop"), False),
    ("NaN in the loss", lambda harness: loss_not_finite(harness, _NAN_VALUE, "stop"), True),
    ("NaN in the loss", lambda harness: loss_not_finite(harness, _NAN_VALUE, "drop"), False),
    ("infinite loss", lambda harness: loss_not_finite(harness, "a reward of 1e30", "stop"), False),
    ("infinite loss", lambda harness: loss_not_finite(harness, "a reward of 1e30", "drop"), False),
]
