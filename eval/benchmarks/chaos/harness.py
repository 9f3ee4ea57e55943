"""Tools to break trainings: a `Harness` starts them, a `Finding` records the result.

A check is a pair (observation, whether it is right).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rearrange.eval.benchmarks.chaos.run import Training

NUM_ENVS, NUM_STEPS = 4, 32
ROLLOUT = NUM_ENVS * NUM_STEPS
ENDLESS = 10**8  # environment steps
STEP_TIMEOUT_S = 4.0  # on a busy machine a healthy worker may not be scheduled for a second
FOUND_LIMIT_S = STEP_TIMEOUT_S + 15.0  # including the start of a new worker on a busy machine
LEAVE_LIMIT_S = 30.0
FAULTY = "env=rearrange.workloads.faulty:Faulty-v0"
CARTPOLE = "env=CartPole-v1"


class Check(NamedTuple):
    seen: str
    is_right: bool


@dataclass
class Finding:
    done: str
    expected: str
    checks: list[Check] = field(default_factory=list[Check])

    @property
    def is_right(self) -> bool:
        return bool(self.checks) and all(check.is_right for check in self.checks)

    @property
    def happened(self) -> str:
        return "; ".join(
            check.seen if check.is_right else f"NOT AS IT SHOULD: {check.seen}"
            for check in self.checks
        )


@dataclass
class Harness:
    folder: Path
    rng: np.random.Generator
    is_quick: bool
    finding: Finding = field(default_factory=lambda: Finding("", ""))
    """The current one, in case it does not finish."""

    def begins(self, done: str, expected: str) -> Finding:
        self.finding = Finding(done, expected)
        return self.finding

    def train(self, *words: str, run_dir: Path | None = None, is_heard: bool = True) -> Training:
        """Starts a small training, by default without an end; later overrides win."""
        common = (
            CARTPOLE, "policy=mlp", "device=cpu", f"num_envs={NUM_ENVS}", f"num_steps={NUM_STEPS}",
            f"total_steps={ENDLESS}", f"workers.step_timeout_s={STEP_TIMEOUT_S}",
        )  # fmt: skip
        last = {word.split("=", 1)[0]: word for word in (*common, *words)}
        return Training(self.folder, ["train", *last.values()], run_dir=run_dir, is_heard=is_heard)


def left(
    training: Training, signum: int, code: int, to_group: bool, limit_s: float = LEAVE_LIMIT_S
) -> list[Check]:
    """Stops it; checks exit code, time and leftovers."""
    begin = time.monotonic()
    training.send(signum, to_group)
    got = training.wait()
    took = time.monotonic() - begin
    checks = [Check(f"exit code {got} after {took:.1f} s", got == code and took <= limit_s)]
    return checks + nothing_left_behind(training)


def ended(training: Training, code: int) -> Check:
    got = training.wait(120.0)
    text = f"exit code {got}" + ("" if got == code else f" ({training.last_line()})")
    return Check(text, got == code)


def nothing_left_behind(training: Training) -> list[Check]:
    orphans, files = training.orphans(), training.shared_memory_left()
    folders = training.temporary_left()
    return [
        Check(f"{len(orphans)} orphans", not orphans),
        Check(f"{len(files)} files of shared memory", not files),
        Check(f"{len(folders)} temporary folders", not folders),
    ]


def wait_for_all_workers(training: Training) -> None:
    """Waits until every environment delivers data: on a busy machine one may start much later."""

    def is_so(lines: list[dict[str, Any]]) -> bool:
        last = lines[-1] if lines else {"step": 0}
        return last["step"] >= 2 * ROLLOUT and last["ver/share_min"] > 0.0

    training.wait_for(is_so, "data from all environments")


def recovered(training: Training, old: list[int], count: int) -> list[Check]:
    """Waits until broken workers are replaced and all environments deliver data again."""
    took = training.wait_for_new_workers(old, count)
    training.wait_for(lambda lines: lines[-1]["faults/restarts"] >= count, "restart counted")
    step = training.metrics()[-1]["step"]

    def full(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [line for line in lines if line["step"] > step and line["ver/share_min"] > 0.1]

    # Later rollouts may be uneven again: on a busy machine workers do not get equal time.
    training.wait_for(lambda lines: bool(full(lines)), "full share")
    lines = training.metrics()
    counted, share = lines[-1]["faults/restarts"], full(lines)[0]["ver/share_min"]
    return [
        Check(f"replaced after {took:.1f} s", took < FOUND_LIMIT_S),
        Check(f"restarts {counted:.0f}", counted == count),
        Check(f"smallest share {share:.2f} of 1/{NUM_ENVS}", share > 0.1),
    ]


def logged(training: Training, words: str) -> Check:
    lines = [line for line in training.output().splitlines() if words in line]
    line = " ".join(lines[-1].split()) if lines else f"nobody said '{words}'"
    return Check(f'"{line[:160]}"' if lines else line, bool(lines))


def wait_for_output(training: Training, words: str) -> None:
    training.wait_for(lambda _: words in training.output(), f"'{words}'")


def no_traceback(training: Training) -> tuple[str, bool]:
    is_there = "Traceback" in training.output()
    return ("a traceback" if is_there else "no traceback"), not is_there


def last_update_saved(training: Training) -> Check:
    """The newest checkpoint is that of the last update."""
    steps, lines = training.checkpoint_steps(), training.metrics()
    last = lines[-1]["step"] if lines else 0
    return Check(f"saved at step {steps[-1:]} of {last}", steps[-1:] == [last])


def no_update_missing(training: Training) -> list[Check]:
    """Checks that metrics contain all updates in order."""
    steps = [line["step"] for line in training.metrics()]
    is_whole = steps == list(range(ROLLOUT, steps[-1] + 1, ROLLOUT)) if steps else False
    return [Check(f"{len(steps)} updates without a gap", is_whole)]


def total(training: Training, name: str) -> float:
    return sum(line[name] or 0.0 for line in training.metrics())


def resumed(
    harness: Harness, step: int, warning: str = "", run_dir: Path | None = None
) -> list[Check]:
    """Resumes in the same folder for three updates; it must start after `step`."""
    words = ("resume=auto", f"total_steps={step + 3 * ROLLOUT}")
    with harness.train(*words, run_dir=run_dir) as training:
        checks = [ended(training, 0)]
        summary: dict[str, Any] = training.summary() or {}
        reached = summary.get("total_steps")
        checks.append(Check(f"from step {step} to {reached}", reached == step + 3 * ROLLOUT))
        checks += no_update_missing(training)
        if warning:
            checks.append(logged(training, warning))
    return checks
