"""Each fault once, in trainings of a second: it ends as said, and what was learned is saved.

`rearrange chaos` does the same and more to trainings that are processes of their own.
"""

import functools
import os
import signal
import threading
import time

import numpy as np
import pytest
import torch

from rearrange.eval.benchmarks.chaos import harness as chaos_lab
from rearrange.eval.benchmarks.chaos.disk import SmallDisk
from rearrange.eval.benchmarks.chaos.faulty_policy import build
from rearrange.eval.benchmarks.chaos.harness import Harness
from rearrange.eval.benchmarks.chaos.run import processes
from rearrange.skills.network.policy import SkillPolicy, build_policy
from rearrange.skills.network.policy_cfg import PRESETS
from rearrange.system import stop_signals
from rearrange.system.stop_signals import EXIT_CODES, StopSignals
from rearrange.ver.rollout.collector import CollectorCfg
from rearrange.ver.rollout.report import NonFinite
from rearrange.ver.run.checkpoint import load_newest
from rearrange.ver.run.metrics import read_metrics
from rearrange.ver.trainer import Trainer
from rearrange.ver.trainer_cfg import TrainerCfg
from rearrange.ver.update.ppo import PPOCfg
from rearrange.ver.workers.pool import PoolCfg, TooManyRestarts
from rearrange.workloads.faulty import FaultyEnv
from tests.waits import wait_until

ROLLOUT = 4 * 16
ENDLESS = 10**7


@pytest.fixture(autouse=True)
def late_signals_are_harmless():
    """Outside of a training; also where the shell has made this process ignore Ctrl-C."""
    known = tuple(EXIT_CODES)
    before = [signal.signal(signum, lambda *_: None) for signum in known]
    yield
    for signum, handler in zip(known, before, strict=True):
        signal.signal(signum, handler)


def trainer(run_dir, build=None, fault="none", at_step=60, step_s=0.0, **settings):
    cfg = {"num_envs": 4, "num_steps": 16, "device": "cpu", "total_steps": ENDLESS}
    cfg["workers"] = PoolCfg(step_timeout_s=3.0, max_restarts=settings.pop("max_restarts", 8))
    make_env = functools.partial(FaultyEnv, fault=fault, at_step=at_step, step_s=step_s)
    build = build or (lambda o, a: build_policy(o, a, PRESETS["mlp"]))
    return Trainer(make_env, build, TrainerCfg(**cfg | settings), run_dir, is_quiet=True)


def workers():
    """Process ids of this process's own environment workers: only these may be harmed."""
    living = processes()
    servers = [
        pid
        for pid, (parent, _, command) in living.items()
        if parent == os.getpid() and "multiprocessing.forkserver" in command
    ]
    return sorted(pid for pid, (parent, *_) in living.items() if parent in servers)


def metrics(run_dir):
    path = run_dir / "metrics.jsonl"
    return read_metrics(path) if path.exists() else []


class Helper(threading.Thread):
    """Does things to the training while this thread runs it; a signal at the end."""

    def __init__(self, run_dir, *actions, last=signal.SIGINT):
        super().__init__(daemon=True)
        self.run_dir, self.actions, self.last, self.failure = run_dir, actions, last, None
        self.start()

    def run(self):
        try:
            for action in self.actions:
                action(self)
        except AssertionError as error:
            self.failure = error
        os.kill(os.getpid(), self.last)

    def wait_for(self, condition, limit_s=60.0):
        wait_until(
            lambda: any(map(condition, metrics(self.run_dir)[-1:])),
            limit_s=limit_s, explain=lambda: metrics(self.run_dir)[-1:],
        )  # fmt: skip

    def check(self):
        self.join(20.0)
        assert self.failure is None and not self.is_alive(), self.failure


def at_step(step):
    return lambda helper: helper.wait_for(lambda line: line["step"] >= step)


def kill(count, signum=signal.SIGKILL):
    def do(_):
        for pid in workers()[:count]:
            os.kill(pid, signum)

    return do


def all_give_data(restarts):
    """So many restarts are counted, and after that each environment takes part again."""

    def wait(helper):
        helper.wait_for(lambda line: line["faults/restarts"] >= restarts)
        step = metrics(helper.run_dir)[-1]["step"]
        helper.wait_for(lambda line: line["step"] > step and line["ver/share_min"] > 0.1)
        assert metrics(helper.run_dir)[-1]["faults/restarts"] == restarts

    return wait


def assert_saved(run_dir):
    """The newest checkpoint is that of the last update, and no worker is left."""
    assert load_newest(run_dir / "checkpoints").step == metrics(run_dir)[-1]["step"]
    assert workers() == []


@pytest.mark.parametrize("signum", EXIT_CODES)
def test_a_signal_saves_and_leaves(tmp_path, signum):
    before = signal.getsignal(signum)
    helper = Helper(tmp_path, at_step(ROLLOUT), last=signum)
    begin = time.monotonic()
    summary = trainer(tmp_path).run()
    assert summary["stopped_by"] == signal.Signals(signum).name
    assert time.monotonic() - begin < 60.0 and signal.getsignal(signum) == before
    helper.check()
    assert_saved(tmp_path)


def test_a_second_ctrl_c_does_not_wait_for_the_update(tmp_path, monkeypatch):
    monkeypatch.setattr(stop_signals, "_SAME_SIGNAL_S", -1.0)  # none is too soon to be another
    is_learning, is_heard, request = threading.Event(), threading.Event(), StopSignals.request

    def heard(stop, signum):
        request(stop, signum)
        is_heard.set()

    monkeypatch.setattr(StopSignals, "request", heard)

    class Policy(SkillPolicy):
        def evaluate(self, minibatch):
            is_learning.set()
            return super().evaluate(minibatch)

    def send(_):
        assert is_learning.wait(60.0)
        os.kill(os.getpid(), signal.SIGINT)
        assert is_heard.wait(60.0)  # then comes the helper's

    helper = Helper(tmp_path, send)
    with pytest.raises(KeyboardInterrupt):  # out of an update that would take hours
        build = lambda o, a: Policy(o, a, PRESETS["mlp"])  # noqa: E731
        trainer(tmp_path, build, ppo=PPOCfg(num_epochs=10**6)).run()
    helper.check()
    assert workers() == []


@pytest.mark.parametrize("mode", ["ver", "nover", "ddppo", "htsrl", "async"])
def test_a_killed_worker_is_replaced_in_every_mode(tmp_path, mode):
    helper = Helper(tmp_path, at_step(2 * ROLLOUT), kill(1), all_give_data(1))
    summary = trainer(tmp_path, mode=mode).run()
    helper.check()
    assert summary["restarts"] == 1
    assert_saved(tmp_path)


def test_all_workers_killed_while_several_threads_infer(tmp_path):
    helper = Helper(tmp_path, at_step(2 * ROLLOUT), kill(4), all_give_data(4))
    collector = CollectorCfg(num_inference_workers=2)
    summary = trainer(tmp_path, collector=collector).run()
    helper.check()
    assert summary["restarts"] == 4
    assert_saved(tmp_path)


def test_a_stopped_worker_is_found_and_replaced(tmp_path):
    stop = kill(1, signal.SIGSTOP)
    helper = Helper(tmp_path, at_step(2 * ROLLOUT), stop, all_give_data(1))
    assert trainer(tmp_path, step_s=0.001).run()["restarts"] == 1
    helper.check()
    assert_saved(tmp_path)


def test_the_unfinished_sequence_of_a_broken_worker_is_dropped(tmp_path):
    # step 70 of environment 1: ten steps into its fourth episode; learned from are whole rollouts
    helper = Helper(tmp_path, all_give_data(1), at_step(7 * ROLLOUT))
    trainer(tmp_path, fault="raise", at_step=70, mode="nover").run()
    helper.check()
    lines = metrics(tmp_path)
    # with 16 steps a rollout, 64 steps were learned from before; 5 more were complete
    assert [line["faults/dropped_steps"] for line in lines[:7]] == [0, 0, 0, 0, 5, 0, 0]
    assert_saved(tmp_path)


def test_a_spent_budget_of_restarts_ends_the_training_with_its_work_saved(tmp_path):
    with pytest.raises(
        TooManyRestarts, match="^[^\n]* environment 1 raised ArithmeticError: [^\n]*$"
    ):
        trainer(tmp_path, fault="raise", at_step=20, max_restarts=2).run()
    assert_saved(tmp_path)


def test_a_fault_on_demand_happens_once_whoever_follows(tmp_path):
    trigger = tmp_path / "now"

    def rewards(index):
        env = FaultyEnv(index, "nan_reward", trigger=str(trigger))
        env.reset(seed=0)
        return [env.step(0)[1] for _ in range(3)]

    assert np.isfinite(rewards(1)).all()
    trigger.touch()
    assert np.isfinite(rewards(0)).all() and trigger.exists()  # it is not environment 0 that breaks
    assert np.isnan(rewards(1)).tolist() == [True, False, False]
    assert np.isfinite(rewards(1)).all()


@pytest.mark.parametrize("fault", ["nan_observation", "nan_reward"])
@pytest.mark.parametrize("serial", [True, False])
def test_stop_names_the_place_of_a_number_that_is_not_finite(tmp_path, fault, serial):
    # Later than a rollout is long: environment 1 may on a busy machine fill the first one alone.
    assert ROLLOUT < 75
    with pytest.raises(NonFinite, match=r"environment 1, episode 3, step 15: (obs|reward nan)"):
        trainer(tmp_path, fault=fault, at_step=75, serial=serial).run()
    assert_saved(tmp_path)


@pytest.mark.parametrize("fault", ["nan_observation", "nan_reward", "nan_reset"])
def test_drop_counts_it_and_goes_on(tmp_path, fault):
    settings = {"on_nonfinite": "drop", "serial": True, "mode": "nover"}
    total = 8 * ROLLOUT
    summary = trainer(tmp_path, fault=fault, at_step=55, total_steps=total, **settings).run()
    assert summary["total_steps"] == total and summary["restarts"] == 0
    lines = metrics(tmp_path)
    assert sum(line["faults/nonfinite"] for line in lines) == 1
    # Steps 49 to 54 of the rollout under way; "at reset" means after step 60, where 59 is dropped.
    dropped = 6 if fault != "nan_reset" else 11
    assert sum(line["faults/dropped_steps"] for line in lines) == dropped


def test_a_loss_that_is_not_finite_stops_or_is_skipped(tmp_path):
    with pytest.raises(NonFinite, match="loss nan.*environment [0-3], episode [0-9]+, step"):
        trainer(tmp_path / "stop", build, serial=True).run()
    assert_saved(tmp_path / "stop")
    weights = load_newest(tmp_path / "stop" / "checkpoints").tensors
    assert all(
        torch.isfinite(tensor).all() for tensor in weights.values() if tensor.is_floating_point()
    )
    settings = {"on_nonfinite": "drop", "total_steps": 4 * ROLLOUT}
    trainer(tmp_path / "drop", build, serial=True, **settings).run()
    assert [line["ppo/skipped_minibatches"] for line in metrics(tmp_path / "drop")] == [0, 1, 1, 1]
    assert load_newest(tmp_path / "drop" / "checkpoints").manifest["skipped_minibatches"] == 1


def test_a_full_disk_is_survived_until_the_end(tmp_path, caplog):
    with SmallDisk(tmp_path / "disk") as disk:
        run_dir = disk.folder / "run"
        fill = lambda _: disk.fill(os.getpid())  # noqa: E731

        wait = lambda _: wait_until(lambda: "no checkpoint at step" in caplog.text)  # noqa: E731
        helper = Helper(run_dir, at_step(3 * ROLLOUT), fill, wait)
        try:
            with pytest.raises(OSError, match="No space left|File too large"):
                trainer(run_dir, checkpoint_interval_s=0.0).run()
        finally:
            helper.join(10.0)
            disk.free()
        helper.check()
        assert "no checkpoint at step" in caplog.text
        kept = load_newest(run_dir / "checkpoints").step
        assert kept >= 2 * ROLLOUT
        again = trainer(run_dir, resume="auto", total_steps=kept + ROLLOUT).run()
        assert again["total_steps"] == kept + ROLLOUT
    assert workers() == []


def test_a_truncated_newest_checkpoint_is_skipped(tmp_path, caplog):
    trainer(tmp_path, serial=True, total_steps=4 * ROLLOUT, checkpoint_interval_s=0.0).run()
    newest = max((tmp_path / "checkpoints").glob("*.safetensors"))
    os.truncate(newest, newest.stat().st_size // 2)
    again = trainer(tmp_path, serial=True, total_steps=5 * ROLLOUT, resume="auto")
    assert again.steps == 3 * ROLLOUT and newest.name in caplog.text
    assert again.run()["total_steps"] == 5 * ROLLOUT
    assert [line["step"] for line in metrics(tmp_path)] == [n * ROLLOUT for n in range(1, 6)]


def test_a_killed_training_leaves_nobody_and_a_checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a")  # the paths of sockets in it may have 107 bytes
    with Harness(folder, np.random.default_rng(0), is_quick=True).train(
        "checkpoint_interval_s=0"
    ) as training:
        training.wait_for_step(2 * chaos_lab.ROLLOUT)  # the first one's checkpoint is there
        os.kill(training.workers()[0], signal.SIGSTOP)
        training.send(signal.SIGKILL)
        training.wait()
        assert training.orphans() == [] and training.shared_memory_left() == []
        assert load_newest(training.run_dir / "checkpoints").step == training.checkpoint_steps()[-1]
