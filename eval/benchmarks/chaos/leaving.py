"""Trainings that are asked to stop."""

from __future__ import annotations

import contextlib
import signal
import time

from rearrange.eval.benchmarks.chaos.harness import (
    LEAVE_LIMIT_S,
    NUM_ENVS,
    NUM_STEPS,
    ROLLOUT,
    Check,
    Finding,
    Harness,
    last_update_saved,
    left,
    no_traceback,
)
from rearrange.eval.benchmarks.chaos.run import (
    START_LIMIT_S,
    ConditionNotMet,
    Training,
    num_waits,
    state_of,
)
from rearrange.system.stop_signals import EXIT_CODES

_AT_ONCE_S = 12.0  # on a busy machine; waiting for an update may take 13.5 s more
_QUIET_S = 3.0  # longer than any environment rests during collecting


def asked_to_stop(harness: Harness, signum: int, to_group: bool) -> Finding:
    name, code = signal.Signals(signum).name, EXIT_CODES[signum]
    whom = "the whole process group" if to_group else "the main process"
    finding = harness.begins(
        f"{name} to {whom} at a random moment",
        f"exit code {code} within {LEAVE_LIMIT_S:.0f} s; the last update saved; nobody left",
    )
    with harness.train() as training:
        training.wait_for_step(2 * ROLLOUT)
        time.sleep(harness.rng.uniform(0.0, 0.5))
        finding.checks += left(training, signum, code, to_group)
        finding.checks += [last_update_saved(training), Check(*no_traceback(training))]
    return finding


def asked_twice(harness: Harness) -> Finding:
    finding = harness.begins(
        "Ctrl-C in an update that would take hours; a second one 1.5 s later",
        "the first waits for the update's grace, the second leaves at once with 130; nobody left",
    )
    with harness.train("ppo.num_epochs=1000000", "checkpoint_interval_s=0") as training:
        wait_for_first_update(training)
        training.send(signal.SIGINT)
        time.sleep(1.5)
        finding.checks += [Check("still there after 1.5 s", training.process.poll() is None)]
        finding.checks += left(training, signal.SIGINT, 130, False, limit_s=_AT_ONCE_S)
    return finding


def stopped_in_long_update(harness: Harness) -> Finding:
    finding = harness.begins(
        "SIGTERM in an update that would take hours",
        f"the update is cut short: 143 within {LEAVE_LIMIT_S:.0f} s, and a checkpoint",
    )
    with harness.train("ppo.num_epochs=1000000") as training:
        wait_for_first_update(training)
        finding.checks += left(training, signal.SIGTERM, 143, False)
        steps = training.checkpoint_steps()
        finding.checks.append(Check(f"checkpoints at steps {steps}", steps == [ROLLOUT]))
    return finding


def wait_for_first_update(training: Training) -> None:
    """Waits until the training learns: workers have delivered steps, and all sleep for a while.

    On a busy machine a runnable worker is not asleep, and its waits keep counting.
    """
    training.wait_for(lambda _: sum(_waits(training)) >= NUM_STEPS // 4, "first steps")
    end = time.monotonic() + START_LIMIT_S
    waits, quiet_since = _waits(training), time.monotonic()
    while time.monotonic() < quiet_since + _QUIET_S:
        now = _waits(training)
        if not now or now != waits:
            waits, quiet_since = now, time.monotonic()
        if time.monotonic() > end:
            raise ConditionNotMet("no update within time")
        time.sleep(0.01)


def _waits(training: Training) -> list[int]:
    """How often each worker has waited, if all exist and wait now; else nothing."""
    with contextlib.suppress(ConditionNotMet):
        workers = training.workers()
        if len(workers) == NUM_ENVS and all(state_of(pid) == "S" for pid in workers):
            return [num_waits(pid) for pid in workers]
    return []
