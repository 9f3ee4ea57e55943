"""Mode batched against serial rollouts, an uninterrupted run, and the timetable by hand."""

import threading
import time
from functools import partial

import gymnasium
import numpy as np
import pytest
import torch
from batched_pools import CHAIN, Choosing, batched_pool
from fake_env import MakeFake, seed_of
from fake_env import make_pool as make_other_pool
from fake_run import E, Run, S, same
from taught_env import Taught
from test_trainer import CART_POLE, assert_same_state, metrics, trainer

from rearrange.errors import UserError
from rearrange.skills.network.policy_cfg import PolicyCfg
from rearrange.tasks.gym_factory import make_gym, make_gym_vec
from rearrange.ver.batched import groups as groups_module
from rearrange.ver.batched.single_envs import SingleEnvs
from rearrange.ver.batched.start_cfg import BatchedCfg, StaggeredStartCfg
from rearrange.ver.rollout.report import NonFinite, Stopped
from rearrange.ver.run.checkpoint import load_newest
from rearrange.ver.run.snapshot import restore_exactly, take_snapshot
from rearrange.ver.update.ppo import PPOCfg
from tests.waits import wait_until


def staggered_chains(**kwargs):
    return batched_pool(
        partial(make_gym, env_id="rearrange/SkillChain-v0", kwargs=CHAIN), "staggered", 20,
        partial(make_gym_vec, env_id="rearrange/SkillChain-v0", kwargs=CHAIN), **kwargs,
    )  # fmt: skip


@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize(
    "start_mode, how",
    [
        ("off", {}),
        ("clock", {}),
        ("staggered", {"horizon": 9, "how": "cut", "has_gates": False}),
        ("staggered", {"horizon": 9, "how": "cut", "has_gates": False, "num_groups": 4}),
    ],
    ids=["off", "clock", "staggered", "four groups"],
)
def test_rollouts_equal_those_of_serial_nover(start_mode, how, groups):
    """Bit for bit: also episodes, values of what was truncated, and first episodes cut short."""
    serial = Run(make_other_pool("serial", E, None, start_mode, **how), "nover")
    batched = Run(batched_pool(None, start_mode, groups=groups, **how), "batched")
    assert same(serial.collect(6).rollouts, batched.collect(6).rollouts)
    for one, other in zip(serial.reports, batched.reports, strict=True):
        assert [vars(end) | {"infos": 0} for end in one.episodes] == [
            vars(end) | {"infos": 0} for end in other.episodes
        ]
        infos = [[end.infos for end in report.episodes] for report in (one, other)]
        np.testing.assert_array_equal(*infos)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_what_is_not_finite_is_named_or_dropped(groups):
    poison = tuple((1, seed_of(1, n), 2) for n in range(0, 9, 2))
    with pytest.raises(NonFinite, match="^environment 1, episode .*: reward nan"):
        Run(batched_pool(MakeFake(poison=poison), groups=groups), "batched").collect(9)
    run = Run(
        batched_pool(MakeFake(poison=poison), groups=groups), "batched", on_nonfinite="drop"
    ).collect(9)
    assert sum(report.num_nonfinite for report in run.reports) > 0
    for rows in run.rollouts:
        assert len(rows["reward"]) == S and np.isfinite(rows["reward"]).all()


@pytest.mark.parametrize("env_id", ["CartPole-v1", "rearrange/Pick-v0"])
def test_trainings_equal_those_of_serial_nover(tmp_path, env_id):
    """The home's vector environment makes one home as `make_gym` does."""
    settings = {"make_env": CART_POLE}
    if env_id != "CartPole-v1":
        kwargs = {"depth": False, "camera_size": 32}
        one = partial(make_gym, env_id=env_id, num_envs=1, kwargs=kwargs)
        settings = {"make_env": one, "num_envs": 1, "num_steps": 8}
        settings["make_envs"] = partial(make_gym_vec, env_id=env_id, kwargs=kwargs, threads=1)
    weights = []
    for mode, more in (("nover", {"serial": True}), ("batched", {})):
        training = trainer(tmp_path / mode, 3, mode=mode, **settings, **more)
        training.run()
        weights.append(training.policy.state_dict())
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"start_mode": "advance"},
        {"start_mode": "staggered", "start_horizon": 24},
        {"make_env": Taught},
        {"start_mode": "staggered", "start_horizon": 24, "batched": BatchedCfg(num_groups=3)},
        {"make_env": Taught, "batched": BatchedCfg(num_groups=2)},
        {"make_env": Taught, "start_mode": "staggered", "start_horizon": 24},
    ],
    ids=[
        "off",
        "advance",
        "staggered",
        "ageing",
        "staggered in groups",
        "ageing in groups",
        "ageing and waiting",
    ],
)
def test_a_batched_training_resumes_to_the_last_bit(tmp_path, settings):
    make = partial(trainer, updates=6, mode="batched", **settings)
    make(tmp_path / "whole").run()
    assert make(tmp_path / "parts", after=3).run()["stopped_by"] == "SIGINT"
    torch.manual_seed(999)  # what another process would have
    make(tmp_path / "parts", resume="auto").run()
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "parts")
    assert_same_state(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.parametrize("groups", [1, 2])
def test_chains_that_wait_are_restored_too(groups):
    run = Run(staggered_chains(groups=groups), "batched", Choosing()).collect(3)
    for pool in [run.pool] if groups == 1 else run.pool.pools:
        pool.envs.unwrapped.elapsed[0] = 19  # these end at once, and wait
    run.collect(1)
    state = run.policy.generator.get_state()
    snapshot = take_snapshot(run.collector, run.storage, np.random.default_rng(0))
    again = Run(staggered_chains(started=False, groups=groups), "batched", Choosing())
    restore_exactly(snapshot, again.collector, again.storage)
    again.policy.generator.set_state(state)
    assert same(run.collect(2).rollouts[-2:], again.collect(2).rollouts)


def test_ages_of_environments_that_wait_are_restored(tmp_path):
    settings = {
        "mode": "batched", "make_env": Taught, "num_steps": 4, "start_mode": "staggered",
        "start_horizon": 24, "stagger": StaggeredStartCfg(num_groups=2),
    }  # fmt: skip
    trainer(tmp_path / "whole", 9, **settings).run()
    for after in (4, 7):
        trainer(tmp_path / f"{after}", 9, after=after, **settings).run()
        trainer(tmp_path / f"{after}", 9, resume="auto", **settings).run()
        assert_same_state(tmp_path / "whole", tmp_path / f"{after}")


def test_with_other_groups_new_episodes_begin_and_a_stop_at_once_keeps_the_old_ones(
    tmp_path, caplog
):
    def run(num_groups, **others):
        batched = BatchedCfg(num_groups=num_groups)
        return trainer(tmp_path, 6, mode="batched", batched=batched, **others)

    run(2, after=3).run()
    again = run(1, resume="auto")
    again.request_stop()
    again.run()
    assert "begin new episodes, unlike in one run: their groups in mode batched were 2" in (
        caplog.text
    )
    caplog.clear()
    run(2, resume="auto").run()
    assert "begin new episodes" not in caplog.text


def test_a_training_that_goes_on_staggered_is_staggered(tmp_path, caplog):
    chain = partial(make_gym, env_id="rearrange/SkillChain-v0", kwargs={"horizon": 20})
    settings = {"make_env": chain, "mode": "batched", "num_envs": 4, "num_steps": 5}
    trainer(tmp_path, 4, **settings).run()
    staggered = {"start_mode": "staggered", "start_horizon": 20, "resume": "auto"}
    trainer(tmp_path, 12, **settings, **staggered).run()
    assert "their resets were not staggered like this" in caplog.text
    steps = load_newest(tmp_path / "checkpoints").tensors["collector/step_id"]  # of episodes
    caplog.clear()
    trainer(tmp_path, 16, **settings, **staggered).run()
    assert sorted(steps.tolist()) == [0, 5, 10, 15] and "begin new episodes" not in caplog.text


@pytest.mark.parametrize("start_mode", ["advance", "staggered"])
def test_the_random_steps_of_the_start_are_those_of_one_group(start_mode):
    starts = [
        batched_pool(MakeFake(lengths=(99,) * 5), start_mode, 20, groups=groups)
        for groups in (1, 2, 3)
    ]
    seen = [pool.slots.observation["observation"] for pool in starts]
    assert (seen[0] == seen[1]).all() and (seen[0] == seen[2]).all() and seen[0][:, 3].any()


class Meeting(SingleEnvs):
    """Two groups whose steps go on only when both are under way; later, one group's break."""

    def __init__(self, barrier, num_envs):
        super().__init__(MakeFake(), num_envs)
        self.barrier, self.threads, self.breaks = barrier, set(), False

    def step(self, actions):
        self.threads.add(threading.get_ident())
        if self.breaks:
            raise ZeroDivisionError("in the second group")
        self.barrier.wait(20.0)
        return super().step(actions)


def test_groups_step_at_once_each_in_its_own_thread_and_answer_in_turn():
    barrier, before, answers = threading.Barrier(2), threading.active_count(), []
    pool = batched_pool(make_envs=partial(Meeting, barrier), groups=2)
    receive = pool.receive
    pool.receive = lambda timeout_s: answers.append(receive(timeout_s)) or answers[-1]
    run = Run(pool, "batched").collect(2)
    assert set(run.policy.batches) == {2}
    given = [answer for answer in answers if answer]
    assert given == [[0, 1, 2, 3]] + [[0, 1], [2, 3]] * ((len(given) - 1) // 2) and len(given) > 9
    one, other = (group.envs for group in pool.pools)
    assert len(one.threads) == len(other.threads) == 1 and one.threads != other.threads
    assert threading.get_ident() not in one.threads | other.threads
    assert receive(0.0) == []  # between rollouts no step is under way
    other.breaks = True
    barrier.abort()
    one.barrier = threading.Barrier(1)
    with pytest.raises(ZeroDivisionError, match="in the second group"):
        run.collect(1)
    run.close()
    run.close()
    assert threading.active_count() == before


class Stuck(SingleEnvs):
    """Its third step ends only when it is let go."""

    def __init__(self, letting_go, num_envs):
        super().__init__(MakeFake(), num_envs)
        self.letting_go, self.count, self.is_closed = letting_go, 0, False

    def step(self, actions):
        self.count += 1
        if self.count == 3:
            self.letting_go.wait(30.0)
        return super().step(actions)

    def close(self, **kwargs):
        self.is_closed = True
        super().close(**kwargs)


def test_a_group_that_hangs_is_left_alone(monkeypatch, caplog):
    monkeypatch.setattr(groups_module, "CLOSE_S", 0.2)
    letting_go, made = threading.Event(), []

    def make(num_envs):
        made.append(Stuck(letting_go, num_envs) if made else SingleEnvs(MakeFake(), num_envs))
        return made[-1]

    begin = time.monotonic()
    pool = batched_pool(make_envs=make, groups=2)
    run = Run(pool, "batched", should_stop=lambda: time.monotonic() > begin + 0.5)
    with pytest.raises(Stopped):
        run.collect(3)
    run.close()
    assert time.monotonic() - begin < 10.0 and not made[1].is_closed
    assert "1 groups of environments hang" in caplog.text
    letting_go.set()
    wait_until(lambda: made[1].is_closed)


def test_all_groups_are_closed_though_one_fails_to():
    closed, before = [], threading.active_count()

    class Failing(SingleEnvs):
        def close(self, **kwargs):
            closed.append(self)
            if len(closed) == 1:
                raise OSError("cannot be closed")
            super().close(**kwargs)

    pool = batched_pool(make_envs=partial(Failing, MakeFake()), groups=3)
    with pytest.raises(OSError, match="cannot be closed"):
        pool.close()
    assert len(closed) == 3 and threading.active_count() == before


def test_who_waits_for_a_gate_is_not_learned_from():
    """H = 20 and T = 8: three groups, 8 steps apart; gates at 0, 4 and 12 of every 20 steps."""
    pool = staggered_chains()
    tracker, chain = pool.tracker, pool.envs.unwrapped
    assert tracker.time == 0 and chain.elapsed.tolist() == tracker.timetable.offsets.tolist()
    assert sorted(set(chain.elapsed.tolist())) == [0, 8, 16]
    assert sorted(pool.receive(0.0)) == list(range(E))
    chain.elapsed[0] = 19
    everyone = list(range(E))
    pool.send(everyone)
    assert 0 not in pool.receive(0.0) and pool.round_size == E - 1
    for _ in range(2):  # t = 2, 3
        pool.send(everyone[1:])
        assert pool.receive(0.0) == everyone[1:]
    reward = pool.slots.reward[0]
    pool.send(everyone[1:])
    assert pool.receive(0.0) == everyone  # t = 4, a gate: the end is told with the new episode
    assert pool.slots.terminated[0] and pool.slots.reward[0] == reward != 0.0
    assert chain.elapsed[0] == 0 and pool.round_size == E


def test_first_episodes_that_are_no_whole_ones_are_told_apart():
    for how in ("advance", "cut"):
        run = Run(staggered_chains(how=how), "batched", Choosing()).collect(6)
        ends = [end for report in run.reports for end in report.episodes]
        offsets = run.pool.tracker.timetable.offsets
        first = {end.env: end.is_whole for end in reversed(ends)}
        assert [first[e] for e in range(E)] == (offsets == 0).tolist()
        assert all(end.is_whole for end in ends[E:]) and len(ends) > E


def test_cart_pole_gets_better(tmp_path):
    ppo = PPOCfg(num_epochs=6, num_minibatches=2, learning_rate=5e-3, normalize_advantages=True)
    policy = PolicyCfg(vector_size=0, prev_action_size=0, hidden_sizes=[32], lstm_layers=0)
    training = trainer(
        tmp_path, 24, mode="batched", num_envs=8, num_steps=32, ppo=ppo, policy=policy,
        schedule="constant",
    )  # fmt: skip
    training.run()
    lengths = [line["episode/length"] for line in metrics(tmp_path)]
    assert lengths[0] < 30.0 and lengths[-1] > 35.0  # of the newest 100 episodes


class OneSeed(gymnasium.vector.VectorWrapper):
    """Resets as Gymnasium's documentation shows."""

    def reset(self, *, seed=None, options=None):
        gymnasium.vector.VectorEnv.reset(self, seed=seed)
        return self.env.reset(options=options)


def test_an_environment_that_takes_one_seed_alone_is_refused():
    one = partial(make_gym, env_id="rearrange/SkillChain-v0")
    make_envs = partial(make_gym_vec, env_id="rearrange/SkillChain-v0")
    with pytest.raises(UserError, match="must take a list of 4 seeds, one for each"):
        Run(
            batched_pool(one, make_envs=lambda n: OneSeed(make_envs(n))), "batched", Choosing()
        ).collect(1)


def test_an_environment_that_resets_itself_is_refused():
    with pytest.raises(UserError, match="needs autoreset_mode='Disabled', got"):
        batched_pool(
            partial(make_gym, env_id="rearrange/SkillChain-v0"),
            make_envs=lambda n: gymnasium.make_vec("rearrange/SkillChain-v0", num_envs=n),
        )


def test_homes_get_a_thread_for_each_core_but_not_more_than_help():
    assert BatchedCfg().threads_of(2) == 2 and BatchedCfg(num_groups=2).threads_of(2) == 2
    assert BatchedCfg().threads_of(64) == 8 and BatchedCfg(num_groups=2).threads_of(64) == 4
    assert BatchedCfg(num_groups=8).threads_of(64) == 2
    assert BatchedCfg(num_threads=16, num_groups=2).threads_of(64) == 16
