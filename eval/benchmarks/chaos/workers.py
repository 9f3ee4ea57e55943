"""Environment workers that die, stop, hang or raise, and the server that forks them."""

from __future__ import annotations

import os
import signal
import time

from rearrange.eval.benchmarks.chaos.harness import (
    FAULTY,
    FOUND_LIMIT_S,
    NUM_ENVS,
    ROLLOUT,
    Check,
    Finding,
    Harness,
    ended,
    last_update_saved,
    left,
    logged,
    no_traceback,
    nothing_left_behind,
    recovered,
    wait_for_all_workers,
)


def workers_signalled(harness: Harness, signum: int, count: int) -> Finding:
    name = signal.Signals(signum).name
    whom = {1: "one worker", NUM_ENVS: "all workers at once"}[count]
    finding = harness.begins(
        f"{name} to {whom} mid-rollout",
        f"replaced within {FOUND_LIMIT_S:.1f} s, restarts={count} in the metrics; every "
        "environment gives data again; training goes on",
    )
    with harness.train() as training:
        wait_for_all_workers(training)
        workers = training.workers()
        time.sleep(harness.rng.uniform(0.0, 0.3))
        for pid in workers[:count]:
            os.kill(pid, signum)
        finding.checks += recovered(training, workers, count)
        finding.checks += left(training, signal.SIGINT, 130, False)
    return finding


def server_killed(harness: Harness) -> Finding:
    finding = harness.begins(
        "SIGKILL to the server that workers are forked from",
        f"its workers go with it; all are replaced: restarts={NUM_ENVS}; training goes on",
    )
    with harness.train() as training:
        training.wait_for_step(2 * ROLLOUT)
        workers = training.workers()
        os.kill(training.server(), signal.SIGKILL)
        finding.checks += recovered(training, workers, NUM_ENVS)
        finding.checks += left(training, signal.SIGINT, 130, False)
    return finding


def budget_spent(harness: Harness) -> Finding:
    finding = harness.begins(
        "SIGKILL to a worker, again and again, with workers.max_restarts=2",
        "exit code 1 and a message after the third; the last update saved; nobody left",
    )
    with harness.train("workers.max_restarts=2", "workers.restart_refill_s=1e6") as training:
        training.wait_for_step(2 * ROLLOUT)
        for _ in range(2):
            workers = training.workers()
            os.kill(workers[-1], signal.SIGKILL)
            training.wait_for_new_workers(workers, 1)
        os.kill(training.workers()[-1], signal.SIGKILL)
        finding.checks += [ended(training, 1), logged(training, "budget of 2 restarts is spent")]
        finding.checks += [last_update_saved(training), *nothing_left_behind(training)]
        summary = training.summary() or {}
        restarts = summary.get("restarts")
        finding.checks.append(Check(f"summary: restarts {restarts}", restarts == 2))
    return finding


def worker_breaks(harness: Harness, fault: str) -> Finding:
    how = {"raise": "raises", "exit": "ends its process", "hang": "hangs"}[fault]
    finding = harness.begins(
        f"one environment {how} in a step",
        "its worker is replaced, restarts=1 in the metrics; its share comes back",
    )
    trigger = harness.folder / "break"
    overrides = (FAULTY, f"env_kwargs.fault={fault}", f"env_kwargs.trigger={trigger}")
    with harness.train(*overrides, "env_kwargs.step_s=0.002") as training:
        wait_for_all_workers(training)
        workers = training.workers()
        trigger.touch()
        finding.checks += recovered(training, workers, 1)
        if fault == "raise":
            finding.checks.append(logged(training, "broken on purpose"))
        finding.checks += left(training, signal.SIGINT, 130, False)
    return finding


def environment_refuses(harness: Harness) -> Finding:
    finding = harness.begins(
        "one environment raises UserError: a mistake in its settings",
        "exit code 2 and its line; no restarts; the last update saved",
    )
    with harness.train(FAULTY, "env_kwargs.fault=mistake") as training:
        finding.checks += [ended(training, 2), logged(training, "does not like its settings")]
        finding.checks.append(last_update_saved(training))
        finding.checks += [*nothing_left_behind(training), Check(*no_traceback(training))]
    return finding
