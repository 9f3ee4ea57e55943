"""Numbers that are not finite."""

from __future__ import annotations

from rearrange.eval.benchmarks.chaos.harness import (
    FAULTY,
    ROLLOUT,
    Check,
    Finding,
    Harness,
    ended,
    last_update_saved,
    logged,
    no_traceback,
    no_update_missing,
    nothing_left_behind,
    total,
)
from rearrange.eval.benchmarks.chaos.run import Training


def not_finite(harness: Harness, fault: str, reaction: str) -> Finding:
    what = fault.replace("_", " ").replace("nan", "NaN")
    where = f"environment 1, episode {4 if fault != 'nan_reset' else 5}, step "
    where += "0" if fault == "nan_reset" else "10"
    stop = reaction == "stop"
    finding = harness.begins(
        f"{what} in environment 1, once; on_nonfinite={reaction}",
        f"exit code 1 naming {where}; saved"
        if stop
        else "its sequence dropped and counted; training ends as planned",
    )
    words = (FAULTY, f"env_kwargs.fault={fault}", "env_kwargs.at_step=90")
    with harness.train(
        *words, f"on_nonfinite={reaction}", f"total_steps={12 * ROLLOUT}"
    ) as training:
        finding.checks.append(ended(training, 1 if stop else 0))
        if stop:
            finding.checks += [logged(training, where), last_update_saved(training)]
        else:
            counted = total(training, "faults/nonfinite")
            dropped = total(training, "faults/dropped_steps")
            finding.checks.append(Check(f"counted {counted:.0f}", counted == 1))
            finding.checks.append(Check(f"{dropped:.0f} steps dropped", 0 <= dropped <= 20))
            finding.checks += no_update_missing(training)
        finding.checks += [*nothing_left_behind(training), Check(*no_traceback(training))]
    return finding


def loss_not_finite(harness: Harness, how: str, reaction: str) -> Finding:
    stop = reaction == "stop"
    finding = harness.begins(
        f"{how}, once, so that the loss is not finite; on_nonfinite={reaction}",
        "exit code 1 naming environment, episode and step; saved"
        if stop
        else "the minibatch is skipped and counted; training ends as planned",
    )
    total_steps = 4096
    if how == "a NaN value from the policy":
        words = [f"total_steps={total_steps}", f"on_nonfinite={reaction}"]
        training = Training(
            harness.folder, words, module="rearrange.eval.benchmarks.chaos.faulty_policy"
        )
    else:
        training = harness.train(
            FAULTY, "env_kwargs.fault=huge_reward", "normalize_rewards=false",
            f"total_steps={total_steps}", f"on_nonfinite={reaction}",
        )  # fmt: skip
    with training:
        finding.checks.append(ended(training, 1 if stop else 0))
        if stop:
            finding.checks += [
                logged(training, "worst step being environment "),
                last_update_saved(training),
            ]
        else:
            lines = training.metrics()
            skipped = lines[-1]["ppo/skipped_minibatches"] if lines else 0
            finding.checks.append(Check(f"{skipped:.0f} minibatches skipped", skipped >= 1))
            steps = lines[-1]["step"] if lines else 0
            finding.checks.append(Check(f"ended at step {steps}", steps >= total_steps))
        finding.checks += [*nothing_left_behind(training), Check(*no_traceback(training))]
    return finding
