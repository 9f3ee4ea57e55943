"""Every step is learned from once, or counted as lost: trainings that break in all ways, at random.

    train (3 ranks of 2 environments, ver; two workers die) --> stopped by a signal
    train (1 rank of 4, nover) --> killed        train (2 ranks of 2, htsrl) --> reaches its steps

A schedule is a run's life: trainings of any mode and size, one after the other from the newest
checkpoint, in which workers die and hang, numbers are not finite, ranks are slow, stopped by the
others, asked to stop or killed. Trainer, storages, collector, synchronisation and checkpoints are
the real ones; environments, clock and ranks are those of `fake_faults` and `fake_ranks`. The model
is what the environments wrote down, and the rules of the modes.

24 schedules in the suite, always the same ones. For more:

    REARRANGE_SCHEDULES=5000 python -m pytest tests/ver/test_account.py -s [--hypothesis-seed=N]
"""

import os
import shutil
import tempfile
import threading
from collections import Counter, defaultdict
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from fake_env import LENGTHS
from fake_faults import BREAKING, ENDING, BreakableSerialPool, Event
from fake_ranks import TickingTime, World
from fake_trainings import (
    SEED,
    TIME,
    AccountCollector,
    SilentRunLog,
    Training,
    live,
    seed_of,
)
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from rearrange.ver import rank_sync, records, trainer
from rearrange.ver.ranks import preemption
from rearrange.ver.ranks.distributed import RanksLost
from rearrange.ver.ranks.preemption import PreemptionCfg
from rearrange.ver.rollout import collector
from rearrange.ver.rollout.collector import CollectorCfg
from rearrange.ver.rollout.report import NonFinite
from rearrange.ver.run.checkpoint import load_newest
from rearrange.ver.trainer_cfg import MODES, TrainerCfg
from rearrange.ver.update.ppo import PPOCfg
from rearrange.ver.workers.pool import PoolCfg, TooManyRestarts

STAGED = tuple(mode for mode in MODES if mode != "batched")  # it has a pool of its own
IN_SUITE = 24
NUM_SCHEDULES = int(os.environ.get("REARRANGE_SCHEDULES", IN_SUITE))
TOTALS = Counter()  # over all schedules, to be seen with -s


def check_end(training):
    """A training ends as what happened in it says."""
    happened, cfg = training.diary.happened, training.cfg
    causes = {
        NonFinite: {"nan", "nan_reset"}, TooManyRestarts: {"die", "hang"}, RanksLost: {"kill"}
    }  # fmt: skip
    for error in training.errors:
        if type(error) not in causes or not causes[type(error)] & happened:
            raise error
    if not training.errors and not happened & {"stop", "kill"}:
        assert training.trainers[0].steps >= cfg.total_steps


def check_update(training, rank, number):
    """What a rank learned from is what its mode promises."""
    cfg, update = training.cfg, training.updates[number][rank]
    report, full = update.report, cfg.steps_per_rollout
    rule = "off" if training.world.size == 1 else cfg.preemption.rule_for(cfg.mode)
    fills = rule != "off" and cfg.preemption.fills(cfg.mode)
    before = [ranks[rank] for n, ranks in training.updates.items() if n < number]
    earlier = {step for one in before for step in one.fresh}
    stale, shares = set(update.stale), Counter(env for env, _, _ in update.fresh)
    assert report.num_steps == len(update.fresh) and report.num_dropped_steps >= 0
    assert stale <= earlier and len(stale) == len(update.stale)
    assert not stale or fills
    assert update.ends == len(report.episodes)
    if not MODES[cfg.mode].is_variable:
        assert max(shares.values()) <= cfg.num_steps
    if rule == "off" or not before:
        assert len(update.fresh) == full
    assert cfg.ppo.num_minibatches <= len(update.fresh) <= full - len(stale)
    if fills and not any(one.report.num_dropped_steps for one in [*before, update]):
        assert len(update.fresh) + len(stale) == full
    TOTALS.update(
        learned=len(update.fresh), stale=len(stale), dropped=report.num_dropped_steps,
        stopped_rollouts=len(update.fresh) < full,
    )  # fmt: skip


def check_lost(training, numbers):
    """Where a training came to its end, what it reports as dropped is what is missing."""
    cfg, announced = training.cfg, training.diary.announced
    is_alternating = (
        MODES[cfg.mode].interleaving == "alternating" and not cfg.overlap
    )  # none is collected ahead
    if training.errors or training.diary.happened & {"stop", "kill"} or not is_alternating:
        return
    if training.is_exact:  # steps that were announced before
        return
    updates = [update for number in numbers for update in training.updates[number].values()]
    learned = Counter((env, seed_of(env, ep)) for one in updates for env, ep, _ in one.fresh)
    lost = sum(announced.get(key, 0) - learned[key] for key in training.diary.faulty)
    dropped = sum(one.report.num_dropped_steps for one in updates)
    # An answer may have come, and not have been taken into a rollout, when the worker died.
    assert dropped <= lost <= dropped + len(training.diary.faulty)


BREAKS = st.builds(
    Event, st.sampled_from(BREAKING), rank=st.integers(0, 2), env=st.integers(0, 3),
    after=st.integers(0, 50),
)  # fmt: skip
ENDS = st.builds(Event, st.sampled_from(ENDING), st.integers(0, 2), st.just(0), st.integers(0, 80))


class Schedules(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        shared = Path("/dev/shm")  # where writing costs nothing
        self.folder = tempfile.mkdtemp(dir=shared if shared.is_dir() else None)
        self.num_steps = 0
        self.updates, self.chains = [], []  # saved ones: {rank: Update}; which belong together
        self.faulty = set()
        patches = {
            (collector, "time"): TIME, (rank_sync, "time"): TIME, (trainer, "time"): TickingTime(),
            (trainer, "Collector"): AccountCollector, (records, "RunLog"): SilentRunLog,
            (trainer, "SerialPool"): BreakableSerialPool,
            # a choice from the second rollout on: trainings are short
            (preemption, "_WARM_UP"): 0, (preemption, "_LEAST_JUDGED"): 1,
        }  # fmt: skip
        self.patches = [mock.patch.object(*place, new) for place, new in patches.items()]
        for patch in self.patches:
            patch.start()

    def teardown(self):
        for patch in reversed(self.patches):
            patch.stop()
        shutil.rmtree(self.folder)
        TOTALS["schedules"] += 1

    @rule(
        mode=st.sampled_from(STAGED), size=st.integers(1, 3), num_envs=st.integers(1, 4),
        num_steps=st.integers(2, 6), num_rollouts=st.integers(1, 6), parts=st.integers(1, 2),
        style=st.sampled_from(("serial", "workers", "overlap")), per_worker=st.integers(1, 2),
        preemption=st.tuples(
            st.sampled_from(("auto", "off", "fraction", "optimal")),
            st.sampled_from((None, True, False)),
        ),
        on_nonfinite=st.sampled_from(("drop", "stop")), max_restarts=st.sampled_from((1, 100)),
        interval=st.sampled_from((0.0, 1e9)), speed=st.integers(0, 1000),
        min_batch=st.integers(0, 3), events=st.lists(BREAKS, max_size=8),
        end=st.one_of(st.none(), st.none(), ENDS),
    )  # fmt: skip
    def train(self, mode, size, num_envs, num_steps, num_rollouts, parts, style, **others):
        """Goes on from the newest checkpoint; all kinds of things happen."""
        interleaving = MODES[mode].interleaving
        size = 1 if mode == "async" else size
        num_steps += (num_envs * num_steps) % parts
        rule, fill = others["preemption"]
        cfg = TrainerCfg(
            mode=mode, total_steps=self.num_steps + num_rollouts * size * num_envs * num_steps,
            num_envs=num_envs, num_steps=num_steps, seed=SEED, device="cpu",
            serial=style == "serial" and interleaving == "alternating",
            overlap=style == "overlap" and interleaving != "free",
            collector=CollectorCfg(min_batch=others["min_batch"]),
            workers=PoolCfg(
                envs_per_worker=others["per_worker"], max_restarts=others["max_restarts"]
            ),
            ppo=PPOCfg(num_epochs=2, num_minibatches=parts),
            preemption=PreemptionCfg(rule=rule, fill=fill, fraction=0.5),
            on_nonfinite=others["on_nonfinite"], checkpoint_interval_s=others["interval"],
            resume="auto",
        )  # fmt: skip
        events = others["events"] + ([others["end"]] if others["end"] else [])
        training = Training(cfg, World(size), events)
        speeds = np.random.default_rng(others["speed"])
        # a rank's environments are alike, or one of them is slow; so are ranks
        step_s = 0.02 * speeds.choice([1.0, 1.0, 5.0], (size, 1))
        step_s = step_s * speeds.choice([0.7, 1.0, 1.1, 4.0], (size, num_envs))
        threads = [
            threading.Thread(target=live, args=(training, rank, step_s[rank], self.folder))
            for rank in range(size)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        check_end(training)
        self.account(training)

    def account(self, training):
        """All that was learned and saved so far, over all trainings of the run."""
        found = load_newest(Path(self.folder) / "checkpoints")
        num_updates = found.manifest["updates"] if found else 0
        numbers = range(len(self.updates), num_updates)
        assert num_updates >= len(self.updates)
        self.faulty |= training.diary.faulty
        if numbers and not (training.is_exact and self.chains):
            self.chains.append([])
        for number in numbers:
            ranks = training.updates[number]
            assert sorted(ranks) == list(range(training.world.size))
            fresh = [step for update in ranks.values() for step in update.fresh]
            for rank, update in ranks.items():
                check_update(training, rank, number)
                assert update.report.num_steps_all == len(fresh)
            self.updates.append(ranks)
            self.chains[-1] += fresh
        check_lost(training, numbers)
        everything = Counter(step for chain in self.chains for step in chain)
        self.num_steps = found.step if found else 0
        assert everything.total() == len(everything) == self.num_steps
        for chain in self.chains:
            self.check_chain(chain)
        num_ends = sum(update.ends for ranks in self.updates for update in ranks.values())
        if found:
            assert found.manifest["episodes"]["num_finished"] == num_ends
        TOTALS.update(training.diary.happened, trainings=1, episodes=num_ends)

    def check_chain(self, chain):
        """Episodes of trainings that went on exactly: none has a gap, and none is missing."""
        counts = defaultdict(list)
        for env, episode, step in chain:
            counts[env, episode].append(step)
        newest, oldest = {}, {}
        for (env, episode), steps in counts.items():
            assert sorted(steps) == list(range(len(steps)))
            newest[env] = max(newest.get(env, 0), episode)
            oldest[env] = min(oldest.get(env, episode), episode)
        for env in newest:
            for episode in range(oldest[env], newest[env]):
                seed = seed_of(env, episode)
                is_whole = len(counts[env, episode]) == LENGTHS[seed % len(LENGTHS)]
                assert is_whole or (env, seed) in self.faulty


def test_every_step_is_learned_from_once_or_counted_as_lost(caplog):
    caplog.set_level("ERROR")
    TOTALS.clear()
    run_state_machine_as_test(
        Schedules,
        settings=settings(
            max_examples=NUM_SCHEDULES, stateful_step_count=5, deadline=None, database=None,
            derandomize=NUM_SCHEDULES == IN_SUITE, suppress_health_check=list(HealthCheck),
        ),
    )  # fmt: skip
    print("\n" + ", ".join(f"{name} {count}" for name, count in sorted(TOTALS.items())))
    assert TOTALS["schedules"] >= NUM_SCHEDULES and TOTALS["stale"] and TOTALS["dropped"]


@pytest.mark.parametrize("after", [41, 44, 47])
def test_deaths_late_in_a_rollout_that_is_stopped_leave_less_to_fill_it_with(after):
    schedule = Schedules()
    try:
        schedule.train(
            mode="ver", size=2, num_envs=2, num_steps=8, num_rollouts=6, parts=1, style="workers",
            per_worker=1, preemption=("optimal", None), on_nonfinite="drop", max_restarts=100,
            interval=1e9, speed=0, min_batch=0, end=None,
            events=[Event("die", rank, 0, after) for rank in (0, 1)],
        )  # fmt: skip
        learned = [update for ranks in schedule.updates for update in ranks.values()]
        assert any(update.stale for update in learned)
        assert sum(update.report.num_dropped_steps for update in learned) > 0
    finally:
        schedule.teardown()
