"""Trainings that are killed, and the files they leave: damaged, on a full or read-only disk."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from rearrange.eval.benchmarks.chaos.disk import SmallDisk
from rearrange.eval.benchmarks.chaos.harness import (
    ROLLOUT,
    Check,
    Finding,
    Harness,
    ended,
    left,
    logged,
    no_traceback,
    nothing_left_behind,
    resumed,
    wait_for_output,
)
from rearrange.eval.benchmarks.chaos.run import START_LIMIT_S, ConditionNotMet, Training


def main_killed(harness: Harness) -> Finding:
    finding = harness.begins(
        "SIGKILL to the main process, with one worker stopped; then resume=auto",
        "no process and no shared memory left; goes on from the newest checkpoint",
    )
    with harness.train("checkpoint_interval_s=0") as training:
        training.wait_for_step(4 * ROLLOUT)
        os.kill(training.workers()[0], signal.SIGSTOP)
        training.send(signal.SIGKILL)
        training.wait()
        finding.checks += nothing_left_behind(training)
        newest = training.checkpoint_steps()[-1]
    finding.checks += resumed(harness, newest)
    return finding


def killed_while_saving(harness: Harness) -> Finding:
    times = 2 if harness.is_quick else 8
    finding = harness.begins(
        f"SIGKILL to the main process in the middle of writing a checkpoint, {times} times; "
        "resume=auto after each",
        "every time it goes on from the newest whole checkpoint; metrics without gap or doublet",
    )
    starts: list[int] = []
    newest, num_halves, overrides = 0, 0, ("checkpoint_interval_s=0", "resume=auto")
    for _ in range(times):
        with harness.train(*overrides) as training:
            training.wait_for_step(newest + 3 * ROLLOUT)
            time.sleep(harness.rng.uniform(0.0, 0.3))
            folder = training.run_dir / "checkpoints"
            stop_while_saving(training, folder)
            training.send(signal.SIGKILL)
            training.wait()
            num_halves += bool(list(folder.glob(".*unfinished*")))
            newest = training.checkpoint_steps()[-1]
            starts.append(newest)
            finding.checks += [
                check for check in nothing_left_behind(training) if not check.is_right
            ]
    finding.checks.append(Check(f"{num_halves} times a half-written file was left", num_halves > 0))
    finding.checks.append(Check(f"whole checkpoints at steps {starts}", True))
    finding.checks += resumed(harness, newest)
    halves = list((harness.folder / "run" / "checkpoints").glob(".*unfinished*"))
    finding.checks.append(Check(f"{len(halves)} half-written files at the end", not halves))
    return finding


def stop_while_saving(training: Training, folder: Path) -> None:
    """Freezes it repeatedly, until it is caught in the middle of writing a checkpoint."""
    end = time.monotonic() + START_LIMIT_S
    while time.monotonic() < end:
        training.stop()
        if list(folder.glob(".*unfinished*")):
            return
        training.send(signal.SIGCONT)
        time.sleep(0.003)
    raise ConditionNotMet("it was never seen writing a checkpoint")


def newest_damaged(harness: Harness, how: str) -> Finding:
    finding = harness.begins(
        f"the newest checkpoint {how}; then resume=auto",
        "it is named and skipped; goes on from the one before",
    )
    with harness.train("checkpoint_interval_s=0", f"total_steps={6 * ROLLOUT}") as training:
        finding.checks.append(ended(training, 0))
        steps = training.checkpoint_steps()
    path = next((training.run_dir / "checkpoints").glob(f"{steps[-1]:012d}-*.safetensors"))
    content = bytearray(path.read_bytes())
    if how == "is cut off":
        content = content[: len(content) * 2 // 3]
    else:
        content[int(harness.rng.integers(len(content)))] ^= 1 << int(harness.rng.integers(8))
    path.write_bytes(content)
    finding.checks += resumed(harness, steps[-2], warning=path.name)
    return finding


def disk_full(harness: Harness, is_freed: bool) -> Finding:
    with SmallDisk(harness.folder / "disk") as disk:
        finding = harness.begins(
            f"the disk is full ({disk.kind})" + (", and free again" if is_freed else " for good"),
            "a warning, and training goes on; checkpoints again once there is space"
            if is_freed
            else "a warning, and training goes on; when asked to stop it says why it cannot save, "
            "code 2; the earlier checkpoint stays and is resumed from",
        )
        run_dir = disk.folder / "run"
        with harness.train("checkpoint_interval_s=0", run_dir=run_dir) as training:
            training.wait_for_step(3 * ROLLOUT)
            disk.fill(training.pid)
            wait_for_output(training, "no checkpoint at step")
            before = training.checkpoint_steps()
            time.sleep(1.0)
            finding.checks += [
                logged(training, "No space left" if disk.is_mounted else "File too large"),
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
                finding.checks += [ended(training, 2), *nothing_left_behind(training)]
                finding.checks.append(Check(training.last_line(), "error:" in training.last_line()))
                disk.free()
                finding.checks += resumed(harness, before[-1], run_dir=run_dir)
    return finding


def folder_read_only(harness: Harness) -> Finding:
    finding = harness.begins(
        "run_dir lies on a read-only disk", "exit code 2 and one line, no traceback"
    )
    with SmallDisk(harness.folder / "disk") as disk:
        if not disk.make_read_only():
            finding.checks.append(Check("not tried: this user can write everywhere", True))
            return finding
        with harness.train(run_dir=disk.folder / "run") as training:
            finding.checks += [ended(training, 2), Check(*no_traceback(training))]
            finding.checks += [Check(training.last_line(), "error:" in training.last_line())]
    return finding
