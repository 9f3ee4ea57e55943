"""A training's surroundings: its folder, its terminal, another training, an odd environment."""

from __future__ import annotations

import os
import shutil
import signal
import time

from rearrange.eval.benchmarks.chaos.harness import (
    FAULTY,
    NUM_ENVS,
    ROLLOUT,
    Check,
    Finding,
    Harness,
    ended,
    left,
    logged,
    no_update_missing,
    nothing_left_behind,
    recovered,
)


def second_training(harness: Harness) -> Finding:
    finding = harness.begins(
        "a second training is started in the folder of one that runs",
        "the second ends with 2 and names the first, which goes on undisturbed",
    )
    with harness.train() as training:
        training.wait_for_step(ROLLOUT)
        with harness.train("resume=auto") as second:
            finding.checks += [
                ended(second, 2),
                logged(second, f"in use by process {training.pid}"),
            ]
        training.wait_for_step(training.metrics()[-1]["step"] + ROLLOUT)
        finding.checks += no_update_missing(training)
        finding.checks += left(training, signal.SIGINT, 130, False)
    return finding


def folder_deleted(harness: Harness) -> Finding:
    finding = harness.begins(
        "the run's folder is deleted under a running training",
        "exit code 1 and one line; its last state is saved in a new folder",
    )
    with harness.train() as training:
        training.wait_for_step(2 * ROLLOUT)
        shutil.rmtree(training.run_dir)
        finding.checks += [ended(training, 1), logged(training, "was deleted or moved away")]
        steps = training.checkpoint_steps()
        finding.checks.append(Check(f"checkpoints at steps {steps}", len(steps) == 1))
        finding.checks += nothing_left_behind(training)
    return finding


def output_closed(harness: Harness) -> Finding:
    num_updates = 8
    finding = harness.begins(
        "the reader of stdout and stderr leaves as the training starts",
        f"it ends as planned, code 0, with all {num_updates} lines of metrics and a checkpoint",
    )
    with harness.train(f"total_steps={num_updates * ROLLOUT}", is_heard=False) as training:
        finding.checks.append(ended(training, 0))
        finding.checks += no_update_missing(training)
        steps = training.checkpoint_steps()[-1:]
        finding.checks.append(Check(f"saved at {steps}", steps == [num_updates * ROLLOUT]))
    return finding


def worker_and_server_killed(harness: Harness) -> Finding:
    """One pair of kills, as `chaos pairs=200` tries many times."""
    finding = harness.begins(
        "SIGKILL to a worker and, some milliseconds later, to the server that forks its successor",
        f"all workers are replaced: restarts={NUM_ENVS}; training goes on",
    )
    with harness.train() as training:
        training.wait_for_step(2 * ROLLOUT)
        workers, server = training.workers(), training.server()
        os.kill(workers[0], signal.SIGKILL)
        time.sleep(harness.rng.uniform(0.0, 0.004))
        os.kill(server, signal.SIGKILL)
        finding.checks += recovered(training, workers, NUM_ENVS)
        finding.checks += left(training, signal.SIGINT, 130, False)
    return finding


def first_step_fails(harness: Harness, fault: str) -> Finding:
    how = {"value_error": "raises ValueError", "sys_exit": "calls sys.exit(0)"}[fault]
    finding = harness.begins(
        f"an environment {how} in its first step",
        "exit code 1, the place in its code and a line; it is no mistake of the caller's",
    )
    overrides = (FAULTY, f"env_kwargs.fault={fault}", "env_kwargs.broken_index=0")
    with harness.train(*overrides, "env_kwargs.at_step=1") as training:
        finding.checks += [
            ended(training, 1),
            logged(training, "error: the environment's first step"),
        ]
        finding.checks += [logged(training, "faulty.py"), *nothing_left_behind(training)]
    return finding


def seed_that_breaks(harness: Harness) -> Finding:
    every = 7
    finding = harness.begins(
        f"one environment ends its process in each reset whose seed divides by {every}",
        "after two failures such a seed is left out; training ends as planned",
    )
    overrides = (FAULTY, "env_kwargs.fault=bad_seed", f"env_kwargs.at_step={every}")
    with harness.train(*overrides, f"total_steps={12 * ROLLOUT}") as training:
        finding.checks += [ended(training, 0), logged(training, "is left out from now on")]
        finding.checks += [*no_update_missing(training), *nothing_left_behind(training)]
        restarts = (training.summary() or {}).get("restarts", 0)
        num_left_out = training.output().count("is left out from now on")
        # One more may just have failed when the training ended.
        is_right = 0 <= restarts - 2 * num_left_out <= 1
        text = f"{num_left_out} seeds left out, {restarts} restarts"
        finding.checks.append(Check(text, is_right))
    return finding
