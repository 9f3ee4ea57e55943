"""What is done to a training, and what must come of it: one function a fault.

Each gets a `Lab` and returns a `Finding`. A check is a pair (what was seen, whether that is right).
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rearrange.eval.chaos_disk import SmallDisk
from rearrange.eval.chaos_run import DidNotHappen, Training
from rearrange.ver.stop_signals import EXIT_CODES

NUM_ENVS, NUM_STEPS = 4, 32
ROLLOUT = NUM_ENVS * NUM_STEPS
ENDLESS = 10**8  # environment steps
STEP_TIMEOUT_S = 1.5
FOUND_LIMIT_S = STEP_TIMEOUT_S + 5.0  # with the start of the new worker, on a busy machine
LEAVE_LIMIT_S = 30.0
FAULTY = "env=rearrange.ver.faulty:Faulty-v0"
CARTPOLE = "env=CartPole-v1"


class Check(NamedTuple):
    seen: str
    is_right: bool


@dataclass
class Finding:
    done: str
    expected: str
    checks: list[Check] = field(default_factory=list)

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
class Lab:
    folder: Path
    rng: np.random.Generator
    is_quick: bool
    finding: Finding = field(default_factory=lambda: Finding("", ""))
    """The one under way, for when it does not get to its end."""

    def begins(self, done: str, expected: str) -> Finding:
        self.finding = Finding(done, expected)
        return self.finding

    def train(self, *words: str, run_dir: Path | None = None) -> Training:
        """Starts a small training, by default without an end; later words win."""
        common = (
            CARTPOLE, "policy=mlp", "device=cpu", f"num_envs={NUM_ENVS}", f"num_steps={NUM_STEPS}",
            f"total_steps={ENDLESS}", f"workers.step_timeout_s={STEP_TIMEOUT_S}",
        )  # fmt: skip
        last = {word.split("=", 1)[0]: word for word in (*common, *words)}
        return Training(self.folder, ["train", *last.values()], run_dir=run_dir)


# --- leaving ------------------------------------------------------------------------------------


def asked_to_stop(lab: Lab, signum: int, to_group: bool) -> Finding:
    name, code = signal.Signals(signum).name, EXIT_CODES[signum]
    whom = "the whole process group" if to_group else "the main process"
    finding = lab.begins(
        f"{name} to {whom} at a random moment",
        f"exit code {code} within {LEAVE_LIMIT_S:.0f} s; the last update saved; nobody left",
    )
    with lab.train() as training:
        training.wait_for_step(2 * ROLLOUT)
        time.sleep(lab.rng.uniform(0.0, 0.5))
        finding.checks += left(training, signum, code, to_group)
        finding.checks += [saved_all(training), Check(*no_traceback(training))]
    return finding


def asked_twice(lab: Lab) -> Finding:
    finding = lab.begins(
        "Ctrl-C in an update that would take hours; a second one 1.5 s later",
        "the first waits for the update's grace, the second leaves at once with 130; nobody left",
    )
    with lab.train("ppo.num_epochs=1000000", "checkpoint_interval_s=0") as training:
        wait_for_first_update(training, lab)
        training.send(signal.SIGINT)
        time.sleep(1.5)
        finding.checks += [Check("still there after 1.5 s", training.process.poll() is None)]
        finding.checks += left(training, signal.SIGINT, 130, False, limit_s=5.0)
    return finding


def stopped_in_long_update(lab: Lab) -> Finding:
    finding = lab.begins(
        "SIGTERM in an update that would take hours",
        f"the update is cut short: 143 within {LEAVE_LIMIT_S:.0f} s, and a checkpoint",
    )
    with lab.train("ppo.num_epochs=1000000") as training:
        wait_for_first_update(training, lab)
        finding.checks += left(training, signal.SIGTERM, 143, False)
        steps = training.checkpoint_steps()
        finding.checks.append(Check(f"checkpoints at steps {steps}", steps == [ROLLOUT]))
    return finding


def wait_for_first_update(training: Training, lab: Lab) -> None:
    """Until the environments have been silent for a while: the training learns."""
    training.wait_for(lambda _: (training.run_dir / "metrics.jsonl").exists(), "log")
    end = time.monotonic() + 60.0
    while time.monotonic() < end:
        with contextlib.suppress(DidNotHappen):
            if len(training.workers()) == NUM_ENVS:
                break
        time.sleep(0.05)
    time.sleep(4.0)


# --- workers ------------------------------------------------------------------------------------


def workers_signalled(lab: Lab, signum: int, count: int) -> Finding:
    name = signal.Signals(signum).name
    whom = {1: "one worker", NUM_ENVS: "all workers at once"}[count]
    finding = lab.begins(
        f"{name} to {whom} mid-rollout",
        f"replaced within {FOUND_LIMIT_S:.1f} s, restarts={count} in the metrics; every "
        "environment gives data again; training goes on",
    )
    with lab.train() as training:
        training.wait_for_step(2 * ROLLOUT)
        workers = training.workers()
        time.sleep(lab.rng.uniform(0.0, 0.3))
        for pid in workers[:count]:
            os.kill(pid, signum)
        finding.checks += recovered(training, workers, count)
        finding.checks += left(training, signal.SIGINT, 130, False)
    return finding


def server_killed(lab: Lab) -> Finding:
    finding = lab.begins(
        "SIGKILL to the server that workers are forked from",
        f"its workers go with it; all are replaced: restarts={NUM_ENVS}; training goes on",
    )
    with lab.train() as training:
        training.wait_for_step(2 * ROLLOUT)
        workers = training.workers()
        os.kill(training.server(), signal.SIGKILL)
        finding.checks += recovered(training, workers, NUM_ENVS)
        finding.checks += left(training, signal.SIGINT, 130, False)
    return finding


def budget_spent(lab: Lab) -> Finding:
    finding = lab.begins(
        "SIGKILL to a worker, again and again, with workers.max_restarts=2",
        "exit code 1 and a message after the third; the last update saved; nobody left",
    )
    with lab.train("workers.max_restarts=2") as training:
        training.wait_for_step(2 * ROLLOUT)
        for _ in range(2):
            workers = training.workers()
            os.kill(workers[-1], signal.SIGKILL)
            training.wait_for_new_workers(workers, 1)
        os.kill(training.workers()[-1], signal.SIGKILL)
        finding.checks += [ended(training, 1), said(training, "budget of 2 restarts is spent")]
        finding.checks += [saved_all(training), *nobody_left(training)]
        summary = training.summary() or {}
        restarts = summary.get("restarts")
        finding.checks.append(Check(f"summary: restarts {restarts}", restarts == 2))
    return finding


def worker_breaks(lab: Lab, fault: str) -> Finding:
    how = {"raise": "raises", "exit": "ends its process", "hang": "hangs"}[fault]
    finding = lab.begins(
        f"one environment {how} in a step",
        "its worker is replaced, restarts=1 in the metrics; its share comes back",
    )
    trigger = lab.folder / "break"
    words = (FAULTY, f"env_kwargs.fault={fault}", f"env_kwargs.trigger={trigger}")
    with lab.train(*words, "env_kwargs.step_s=0.002") as training:
        training.wait_for_step(ROLLOUT)
        workers = training.workers()
        trigger.touch()
        finding.checks += recovered(training, workers, 1)
        if fault == "raise":
            finding.checks.append(said(training, "broken on purpose"))
        finding.checks += left(training, signal.SIGINT, 130, False)
    return finding


def environment_refuses(lab: Lab) -> Finding:
    finding = lab.begins(
        "one environment raises UserError: a mistake in its settings",
        "exit code 2 and its line; no restarts",
    )
    with lab.train(FAULTY, "env_kwargs.fault=mistake") as training:
        finding.checks += [ended(training, 2), said(training, "does not like its settings")]
        finding.checks += [*nobody_left(training), Check(*no_traceback(training))]
    return finding


# --- the main process ---------------------------------------------------------------------------


def main_killed(lab: Lab) -> Finding:
    finding = lab.begins(
        "SIGKILL to the main process, with one worker stopped; then resume=auto",
        "no process and no shared memory left; goes on from the newest checkpoint",
    )
    with lab.train("checkpoint_interval_s=0") as training:
        training.wait_for_step(4 * ROLLOUT)
        os.kill(training.workers()[0], signal.SIGSTOP)
        training.send(signal.SIGKILL)
        training.wait()
        finding.checks += nobody_left(training)
        newest = training.checkpoint_steps()[-1]
    finding.checks += resumed(lab, newest)
    return finding


def killed_while_saving(lab: Lab) -> Finding:
    times = 2 if lab.is_quick else 8
    finding = lab.begins(
        f"SIGKILL to the main process in the middle of writing a checkpoint, {times} times; "
        "resume=auto after each",
        "every time it goes on from the newest whole checkpoint; metrics without gap or doublet",
    )
    starts, num_halves, words = [], 0, ("checkpoint_interval_s=0", "resume=auto")
    newest = 0
    for _ in range(times):
        with lab.train(*words) as training:
            training.wait_for_step(newest + 3 * ROLLOUT)
            folder = training.run_dir / "checkpoints"
            time.sleep(lab.rng.uniform(0.0, 0.3))
            end = time.monotonic() + 10.0
            while time.monotonic() < end and not list(folder.glob(".*unfinished*")):
                pass  # no sleep: the file is there for milliseconds
            training.send(signal.SIGKILL)
            training.wait()
            num_halves += bool(list(folder.glob(".*unfinished*")))
            newest = training.checkpoint_steps()[-1]
            starts.append(newest)
            finding.checks += [check for check in nobody_left(training) if not check.is_right]
    finding.checks.append(Check(f"{num_halves} times a half-written file was left", num_halves > 0))
    finding.checks.append(Check(f"whole checkpoints at steps {starts}", True))
    finding.checks += resumed(lab, newest)
    halves = list((lab.folder / "run" / "checkpoints").glob(".*unfinished*"))
    finding.checks.append(Check(f"{len(halves)} half-written files at the end", not halves))
    return finding


def newest_damaged(lab: Lab, how: str) -> Finding:
    finding = lab.begins(
        f"the newest checkpoint {how}; then resume=auto",
        "it is named and skipped; goes on from the one before",
    )
    with lab.train("checkpoint_interval_s=0", f"total_steps={6 * ROLLOUT}") as training:
        finding.checks.append(ended(training, 0))
        steps = training.checkpoint_steps()
    path = next((training.run_dir / "checkpoints").glob(f"{steps[-1]:012d}-*.safetensors"))
    content = bytearray(path.read_bytes())
    if how == "is cut off":
        content = content[: len(content) * 2 // 3]
    else:
        content[int(lab.rng.integers(len(content)))] ^= 1 << int(lab.rng.integers(8))
    path.write_bytes(content)
    finding.checks += resumed(lab, steps[-2], warning=path.name)
    return finding


# --- the disk -----------------------------------------------------------------------------------


def disk_full(lab: Lab, is_freed: bool) -> Finding:
    with SmallDisk(lab.folder / "disk") as disk:
        finding = lab.begins(
            f"the disk is full ({disk.kind})" + (", and free again" if is_freed else " for good"),
            "a warning, and training goes on; checkpoints again once there is space"
            if is_freed
            else "a warning, and training goes on; when asked to stop it says why it cannot save, "
            "code 2; the earlier checkpoint stays and is resumed from",
        )
        run_dir = disk.folder / "run"
        with lab.train("checkpoint_interval_s=0", run_dir=run_dir) as training:
            training.wait_for_step(3 * ROLLOUT)
            disk.fill(training.pid)
            wait_for_words(training, "no checkpoint at step")
            before = training.checkpoint_steps()
            time.sleep(1.0)
            finding.checks += [
                said(training, "No space left" if disk.is_mounted else "File too large"),
                Check("training goes on", training.process.poll() is None),
            ]
            if is_freed:
                disk.free()
                end = time.monotonic() + 20.0
                while training.checkpoint_steps() == before and time.monotonic() < end:
                    time.sleep(0.05)
                after = training.checkpoint_steps()
                finding.checks.append(Check(f"newest checkpoint at {after[-1]}", after != before))
                finding.checks += left(training, signal.SIGINT, 130, False)
            else:
                training.send(signal.SIGINT)
                finding.checks += [ended(training, 2), *nobody_left(training)]
                finding.checks.append(Check(training.last_line(), "error:" in training.last_line()))
                disk.free()
                finding.checks += resumed(lab, before[-1], run_dir=run_dir)
    return finding


def folder_read_only(lab: Lab) -> Finding:
    finding = lab.begins(
        "run_dir lies on a read-only disk", "exit code 2 and one line, no traceback"
    )
    with SmallDisk(lab.folder / "disk") as disk:
        if not disk.make_read_only():
            finding.checks.append(Check("not tried: this user can write everywhere", True))
            return finding
        with lab.train(run_dir=disk.folder / "run") as training:
            finding.checks += [ended(training, 2), Check(*no_traceback(training))]
            finding.checks += [Check(training.last_line(), "error:" in training.last_line())]
    return finding


# --- numbers ------------------------------------------------------------------------------------


def not_finite(lab: Lab, fault: str, reaction: str) -> Finding:
    what = fault.replace("_", " ").replace("nan", "NaN")
    where = f"environment 1, episode {4 if fault != 'nan_reset' else 5}, step "
    where += "0" if fault == "nan_reset" else "10"
    stop = reaction == "stop"
    finding = lab.begins(
        f"{what} in environment 1, once; on_nonfinite={reaction}",
        f"exit code 1 naming {where}; saved"
        if stop
        else "its sequence dropped and counted; training ends as planned",
    )
    words = (FAULTY, f"env_kwargs.fault={fault}", "env_kwargs.at_step=90")
    with lab.train(*words, f"on_nonfinite={reaction}", f"total_steps={12 * ROLLOUT}") as training:
        finding.checks.append(ended(training, 1 if stop else 0))
        if stop:
            finding.checks += [said(training, where), saved_all(training)]
        else:
            counted = total(training, "faults/nonfinite")
            dropped = total(training, "faults/dropped_steps")
            finding.checks.append(Check(f"counted {counted:.0f}", counted == 1))
            finding.checks.append(Check(f"{dropped:.0f} steps dropped", 0 <= dropped <= 20))
            finding.checks += learned_all(training)
        finding.checks += [*nobody_left(training), Check(*no_traceback(training))]
    return finding


def loss_not_finite(lab: Lab, how: str, reaction: str) -> Finding:
    stop = reaction == "stop"
    finding = lab.begins(
        f"{how}, once, so that the loss is not finite; on_nonfinite={reaction}",
        "exit code 1 naming environment, episode and step; saved"
        if stop
        else "the minibatch is skipped and counted; training ends as planned",
    )
    total_steps = 4096
    if how == "a NaN value from the policy":
        words = [f"total_steps={total_steps}", f"on_nonfinite={reaction}"]
        training = Training(lab.folder, words, module="rearrange.eval.faulty_policy")
    else:
        training = lab.train(
            FAULTY, "env_kwargs.fault=huge_reward", "normalize_rewards=false",
            f"total_steps={total_steps}", f"on_nonfinite={reaction}",
        )  # fmt: skip
    with training:
        finding.checks.append(ended(training, 1 if stop else 0))
        if stop:
            finding.checks += [
                said(training, "worst step being environment "),
                saved_all(training),
            ]
        else:
            lines = training.metrics()
            skipped = lines[-1]["ppo/skipped_minibatches"] if lines else 0
            finding.checks.append(Check(f"{skipped:.0f} minibatches skipped", skipped >= 1))
            steps = lines[-1]["step"] if lines else 0
            finding.checks.append(Check(f"ended at step {steps}", steps >= total_steps))
        finding.checks += [*nobody_left(training), Check(*no_traceback(training))]
    return finding


# --- what is looked at --------------------------------------------------------------------------


def left(
    training: Training, signum: int, code: int, to_group: bool, limit_s: float = LEAVE_LIMIT_S
) -> list[Check]:
    """Asks it to leave; exit code, time and leftovers."""
    begin = time.monotonic()
    training.send(signum, to_group)
    got = training.wait()
    took = time.monotonic() - begin
    checks = [Check(f"exit code {got} after {took:.1f} s", got == code and took <= limit_s)]
    return checks + nobody_left(training)


def ended(training: Training, code: int) -> Check:
    got = training.wait(120.0)
    text = f"exit code {got}" + ("" if got == code else f" ({training.last_line()})")
    return Check(text, got == code)


def nobody_left(training: Training) -> list[Check]:
    orphans, files = training.orphans(), training.shared_memory_left()
    return [
        Check(f"{len(orphans)} orphans", not orphans),
        Check(f"{len(files)} files of shared memory", not files),
    ]


def recovered(training: Training, old: list[int], count: int) -> list[Check]:
    """Waits until broken workers are replaced and all environments give data again."""
    took = training.wait_for_new_workers(old, count)
    training.wait_for(lambda lines: lines[-1]["faults/restarts"] >= count, "restart counted")
    step = training.metrics()[-1]["step"]

    def full(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [line for line in lines if line["step"] > step and line["ver/share_min"] > 0.1]

    # A later rollout may be uneven again: on a busy machine workers do not get equal time.
    training.wait_for(lambda lines: bool(full(lines)), "full share")
    lines = training.metrics()
    counted, share = lines[-1]["faults/restarts"], full(lines)[0]["ver/share_min"]
    return [
        Check(f"replaced after {took:.1f} s", took < FOUND_LIMIT_S),
        Check(f"restarts {counted:.0f}", counted == count),
        Check(f"smallest share {share:.2f} of 1/{NUM_ENVS}", share > 0.1),
    ]


def said(training: Training, words: str) -> Check:
    lines = [line for line in training.output().splitlines() if words in line]
    line = " ".join(lines[-1].split()) if lines else f"nobody said '{words}'"
    return Check(f'"{line[:160]}"' if lines else line, bool(lines))


def wait_for_words(training: Training, words: str) -> None:
    training.wait_for(lambda _: words in training.output(), f"'{words}'")


def no_traceback(training: Training) -> tuple[str, bool]:
    is_there = "Traceback" in training.output()
    return ("a traceback" if is_there else "no traceback"), not is_there


def saved_all(training: Training) -> Check:
    """The newest checkpoint is that of the last update."""
    steps, lines = training.checkpoint_steps(), training.metrics()
    last = lines[-1]["step"] if lines else 0
    return Check(f"saved at step {steps[-1:]} of {last}", steps[-1:] == [last])


def learned_all(training: Training) -> list[Check]:
    """All updates are there, one after another."""
    steps = [line["step"] for line in training.metrics()]
    is_whole = steps == list(range(ROLLOUT, steps[-1] + 1, ROLLOUT)) if steps else False
    return [Check(f"{len(steps)} updates without a gap", is_whole)]


def total(training: Training, name: str) -> float:
    return sum(line[name] or 0.0 for line in training.metrics())


def resumed(lab: Lab, step: int, warning: str = "", run_dir: Path | None = None) -> list[Check]:
    """Goes on in the same folder for three updates; it must begin behind `step`."""
    words = ("resume=auto", f"total_steps={step + 3 * ROLLOUT}")
    with lab.train(*words, run_dir=run_dir) as training:
        checks = [ended(training, 0)]
        summary: dict[str, Any] = training.summary() or {}
        reached = summary.get("total_steps")
        checks.append(Check(f"from step {step} to {reached}", reached == step + 3 * ROLLOUT))
        checks += learned_all(training)
        if warning:
            checks.append(said(training, warning))
    return checks


FAULTS: list[tuple[str, Callable[[Lab], Finding], bool]] = [
    # name, what to do, also when it has to be quick
    ("Ctrl-C", lambda lab: asked_to_stop(lab, signal.SIGINT, True), True),
    ("SIGTERM", lambda lab: asked_to_stop(lab, signal.SIGTERM, False), False),
    ("SIGTERM to all", lambda lab: asked_to_stop(lab, signal.SIGTERM, True), True),
    ("SIGUSR1 to all", lambda lab: asked_to_stop(lab, signal.SIGUSR1, True), False),
    ("second Ctrl-C", asked_twice, True),
    ("SIGTERM, long update", stopped_in_long_update, False),
    ("worker killed", lambda lab: workers_signalled(lab, signal.SIGKILL, 1), True),
    ("all workers killed", lambda lab: workers_signalled(lab, signal.SIGKILL, NUM_ENVS), True),
    ("budget spent", budget_spent, True),
    ("worker stopped", lambda lab: workers_signalled(lab, signal.SIGSTOP, 1), True),
    ("server killed", server_killed, False),
    ("worker raises", lambda lab: worker_breaks(lab, "raise"), True),
    ("worker exits", lambda lab: worker_breaks(lab, "exit"), False),
    ("worker hangs", lambda lab: worker_breaks(lab, "hang"), False),
    ("user's mistake", environment_refuses, False),
    ("main killed", main_killed, True),
    ("main killed, saving", killed_while_saving, True),
    ("checkpoint cut off", lambda lab: newest_damaged(lab, "is cut off"), True),
    ("checkpoint bit flip", lambda lab: newest_damaged(lab, "has one bit flipped"), False),
    ("disk full, then free", lambda lab: disk_full(lab, True), False),
    ("disk full", lambda lab: disk_full(lab, False), True),
    ("disk read-only", folder_read_only, True),
    ("NaN observation", lambda lab: not_finite(lab, "nan_observation", "stop"), True),
    ("NaN observation", lambda lab: not_finite(lab, "nan_observation", "drop"), True),
    ("NaN reward", lambda lab: not_finite(lab, "nan_reward", "stop"), False),
    ("NaN reward", lambda lab: not_finite(lab, "nan_reward", "drop"), True),
    ("NaN at reset", lambda lab: not_finite(lab, "nan_reset", "stop"), False),
    ("NaN at reset", lambda lab: not_finite(lab, "nan_reset", "drop"), False),
    ("NaN in the loss", lambda lab: loss_not_finite(lab, _NAN_VALUE, "stop"), True),
    ("NaN in the loss", lambda lab: loss_not_finite(lab, _NAN_VALUE, "drop"), False),
    ("infinite loss", lambda lab: loss_not_finite(lab, "a reward of 1e30", "stop"), False),
    ("infinite loss", lambda lab: loss_not_finite(lab, "a reward of 1e30", "drop"), False),
]
_NAN_VALUE = "a NaN value from the policy"
