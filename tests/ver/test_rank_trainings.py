"""Trainings of two ranks: who writes, what is counted, how they stop, resume and are preempted."""

import os
import signal
import time
from functools import partial

import numpy as np
import pytest
from fake_env import FakeEnv, MakeFake
from forked_ranks import TIMEOUT_S, on_ranks

from rearrange.errors import UserError
from rearrange.skills.network.policy import build_policy
from rearrange.skills.network.policy_cfg import PolicyCfg
from rearrange.ver import rank_sync, records
from rearrange.ver.ranks.distributed import ALONE, RankInfo, Ranks, RanksLost, checksum
from rearrange.ver.ranks.preemption import Choice, Forecast, PreemptionCfg
from rearrange.ver.rollout.report import NonFinite
from rearrange.ver.run.checkpoint import load_newest
from rearrange.ver.run.metrics import read_metrics
from rearrange.ver.trainer import Trainer
from rearrange.ver.trainer_cfg import TrainerCfg
from rearrange.ver.update.ppo import PPOCfg
from rearrange.ver.workers.environment_worker import episode_seed
from tests.waits import wait_until

E, T = 2, 16
S = E * T
SMALL = PolicyCfg(
    vector_size=0, prev_action_size=4, hidden_sizes=[16], lstm_hidden=8, lstm_layers=1,
    normalize_observations=True,
)  # fmt: skip
OFF = PreemptionCfg(rule="off")
HTS_RL = {"mode": "htsrl", "serial": False, "preemption": PreemptionCfg(rule="optimal")}


def trainer(run_dir, ranks=ALONE, make_env=None, steps=4 * S, **settings):
    settings = {
        "num_envs": E, "num_steps": T, "device": "cpu", "serial": True, "seed": 3,
        "normalize_rewards": True, "preemption": OFF,
        "ppo": PPOCfg(num_epochs=2, num_minibatches=2),
    } | settings  # fmt: skip
    cfg = TrainerCfg(total_steps=steps, **settings)
    build = partial(build_policy, cfg=SMALL)
    make_env = make_env or MakeFake()
    return Trainer(make_env, build, cfg, run_dir, ranks=ranks, is_quiet=True)


def outcome(training):
    summary = training.run()
    weights = checksum(training.policy.state_dict())
    return {"weights": weights, "steps": training.steps, "by": summary["stopped_by"]}


class Recorded(FakeEnv):
    """Tells which episodes it was asked for, in a file for each environment."""

    folder = None

    def reset(self, *, seed=None, options=None):
        with open(self.folder / f"{self.index}.txt", "a") as file:
            file.write(f"{seed}\n")
        return super().reset(seed=seed, options=options)


def test_ranks_share_steps_and_weights_and_rank_0_alone_writes(tmp_path):
    def work(ranks):
        folder = tmp_path / f"of rank {ranks.rank}"
        return outcome(trainer(folder, ranks))

    first, second = on_ranks(work, tmp_path / "talk")
    assert first == second and first["steps"] == 4 * S and first["by"] is None
    assert not (tmp_path / "of rank 1").exists()
    lines = read_metrics(tmp_path / "of rank 0" / "metrics.jsonl")
    assert [line["step"] for line in lines] == [2 * S, 4 * S]
    numbers = load_newest(tmp_path / "of rank 0" / "checkpoints").manifest["snapshot"]
    # as many episodes as the environments of both ranks have begun, less those under way
    assert lines[-1]["episode/finished"] == sum(numbers["episode_numbers"])
    assert len(numbers["episode_numbers"]) == 2 * E


def test_no_rank_leaves_before_the_last_checkpoint_is_written(tmp_path, monkeypatch):
    """SLURM kills all ranks of a job half a minute after the first one has left."""
    save = records.save_run

    def slow_save(*given):
        time.sleep(1.0)
        save(*given)

    monkeypatch.setattr(records, "save_run", slow_save)

    def work(ranks):
        trainer(tmp_path / "run", ranks).run()
        return load_newest(tmp_path / "run" / "checkpoints").step

    assert on_ranks(work, tmp_path / "talk") == [4 * S, 4 * S]


class OneRankSucceeds(FakeEnv):
    """Quick episodes, so that more than the window holds end in an update of one rank."""

    def step(self, action):
        *given, _ = super().step(action)
        return *given, {"success": self.index < E}


def test_metrics_are_those_of_all_ranks_however_many_episodes_end(tmp_path):
    def work(ranks):
        make_env = partial(OneRankSucceeds, lengths=(1,))
        trainer(tmp_path / "run", ranks, make_env, steps=512, num_steps=64).run()

    on_ranks(work, tmp_path / "talk")
    for line in read_metrics(tmp_path / "run" / "metrics.jsonl"):
        assert line["episode/finished"] >= 250 and line["episode/averaged"] == 100
        assert line["episode/success"] == 0.5
        assert 100.0 < line["episode/return"] < 200.0  # 100 a number of the environment: 0 to 3


def test_a_run_goes_on_with_another_number_of_ranks_and_fresh_episodes(tmp_path):
    run_dir = tmp_path / "run"
    (tmp_path / "seeds").mkdir()
    Recorded.folder = tmp_path / "seeds"

    def work(steps, ranks):
        return outcome(trainer(run_dir, ranks, Recorded, steps, resume="auto"))

    on_ranks(partial(work, 4 * S), tmp_path / "talk")
    assert work(5 * S, ALONE)["steps"] == 5 * S
    first, second = on_ranks(partial(work, 7 * S), tmp_path / "talk")
    assert first == second and first["steps"] == 7 * S
    assert [line["step"] for line in read_metrics(run_dir / "metrics.jsonl")] == [
        2 * S, 4 * S, 5 * S, 7 * S,
    ]  # fmt: skip
    # An environment tried before the training takes the run's seed itself.
    played = [
        [int(line) for line in (Recorded.folder / f"{e}.txt").read_text().split()]
        for e in range(2 * E)
    ]
    played = [[seed for seed in seeds if seed != 3] for seeds in played]
    assert all(len(set(seeds)) == len(seeds) > 2 for seeds in played)
    assert len({seed for seeds in played for seed in seeds}) == sum(map(len, played))
    assert all(played[e][0] == episode_seed(3, e, 0) for e in range(2 * E))


@pytest.mark.parametrize(
    ("place", "settings"),
    [("act", {}), ("update", {}), ("update", {"overlap": True, "serial": False})],
    ids=str,
)
def test_a_rank_that_is_asked_to_stop_stops_all_and_rank_0_saves(tmp_path, place, settings):
    def work(ranks):
        training = trainer(tmp_path / "run", ranks, steps=10**6, **settings)
        owner = training.policy if place == "act" else training.algorithm
        before = getattr(owner, place)

        def asks_for_stop(*args, **kwargs):
            if ranks.rank == 1 and training.updates == 2:
                training.request_stop(signal.SIGTERM)
            return before(*args, **kwargs)

        setattr(owner, place, asks_for_stop)
        return outcome(training)

    first, second = on_ranks(work, tmp_path / "talk")
    assert first == second and first["by"] == "SIGTERM"
    assert load_newest(tmp_path / "run" / "checkpoints").step == first["steps"] >= 4 * S


@pytest.mark.parametrize("place", ["act", "update"])
def test_a_rank_that_is_killed_ends_the_others_soon_and_rank_0_saves(tmp_path, place):
    def work(ranks):
        training = trainer(tmp_path / "run", ranks, steps=10**6)
        owner = training.policy if place == "act" else training.algorithm
        before = getattr(owner, place)

        def dies(*args, **kwargs):
            if ranks.rank == 1 and training.updates == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return before(*args, **kwargs)

        setattr(owner, place, dies)
        try:
            training.run()
        except RanksLost as error:
            return str(error)

    begin = time.monotonic()
    said, _ = on_ranks(work, tmp_path / "talk", killed=[1])
    assert said.startswith("rank 0 lost the others") and "\n" not in said
    assert time.monotonic() - begin < TIMEOUT_S
    assert load_newest(tmp_path / "run" / "checkpoints").step == 4 * S


def test_a_bad_number_on_one_rank_ends_all_with_its_place(tmp_path):
    seed = episode_seed(3, E, 1)  # of rank 1's first environment
    poisoned = MakeFake(poison=((E, seed, 1),))

    def work(ranks):
        try:
            trainer(tmp_path / "run", ranks, poisoned, steps=10**6).run()
        except NonFinite as error:
            return str(error)

    first, second = on_ranks(work, tmp_path / "talk")
    assert first == second and first.startswith("rank 1: environment 0, episode 1, step 1")
    assert (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.parametrize(
    "settings",
    [{"mode": "ver"}, {"mode": "ver", "preemption": PreemptionCfg(fill=False)}, HTS_RL],
    ids=["ver", "discard", "htsrl"],
)
def test_rollouts_end_at_the_chosen_time_and_are_filled(tmp_path, monkeypatch, settings):
    settings = {"preemption": PreemptionCfg()} | settings
    # at once, from the third rollout on
    choices = iter([None, *[Choice(10, 0.0)] * 100])
    monkeypatch.setattr(Forecast, "choose", lambda forecast: next(choices))

    def work(ranks):
        return outcome(trainer(tmp_path / "run", ranks, steps=4 * S + 20, **settings))

    first, second = on_ranks(work, tmp_path / "talk")
    assert first == second
    lines = read_metrics(tmp_path / "run" / "metrics.jsonl")
    steps = [int(line["ver/preempt_real_steps"]) for line in lines]
    assert [line["step"] for line in lines] == np.cumsum(steps).tolist()
    assert first["steps"] == sum(steps) >= 4 * S + 20 and steps[:2] == [2 * S, 2 * S]
    for line, num_steps in list(zip(lines, steps, strict=True))[2:]:
        share = 1.0 - num_steps / (2 * S)
        assert line["ver/preempt_share"] == 1.0 and 4 <= num_steps < 2 * S
        is_filled = settings["preemption"].fill is not False
        assert line["ver/fraction_stale"] == pytest.approx(share if is_filled else 0.0)
        assert line["ver/learned_steps"] == (2 * S if is_filled else num_steps)
        assert line["ver/preempt_steps"] == 10 and line["ver/preempt_predicted_s"] == 0.0
        assert line["ver/preempt_error_s"] == line["ver/preempt_real_s"] > 0.0


def test_a_second_training_of_the_same_ranks_counts_from_its_own_beginning(tmp_path):
    preemption = PreemptionCfg(fraction=1.0)  # who is stopped last has all steps

    def work(ranks):
        for name in ("first", "second"):
            settings = {"mode": "ddppo", "preemption": preemption, "steps": 6 * S}
            outcome(trainer(tmp_path / name, ranks, **settings))

    on_ranks(work, tmp_path / "talk")
    for name in ("first", "second"):
        lines = read_metrics(tmp_path / name / "metrics.jsonl")
        assert [line["ver/preempt_share"] for line in lines] == [0.0] * 3


def test_stragglers_stop_once_the_others_have_finished(tmp_path, monkeypatch):
    monkeypatch.setattr(rank_sync, "_LOOK_EVERY_S", 0.0)
    preemption = PreemptionCfg(fraction=0.5)

    def work(ranks):
        run_dir = tmp_path / "run"
        training = trainer(run_dir, ranks, steps=7 * S, mode="ddppo", preemption=preemption)
        act, acts = training.policy.act, []

        def slow(*args):
            acts.append(training.updates)
            if acts.count(training.updates) > T // 8 and training.updates:
                wait_until(lambda: ranks.num_finished() > 2 * training.updates)  # rank 0 has
            return act(*args)

        if ranks.rank == 1:
            training.policy.act = slow
        return outcome(training)

    first, second = on_ranks(work, tmp_path / "talk")
    assert first == second
    lines = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert lines[0]["ver/preempt_real_steps"] == 2 * S  # there is nothing to fill it with
    for line in lines[1:]:
        assert line["ver/preempt_share"] == 0.5
        assert 1.25 * S <= line["ver/preempt_real_steps"] < 2 * S  # a quarter of its steps
        # DD-PPO has no stale steps; it learns from what there is
        assert line["ver/learned_steps"] == line["ver/preempt_real_steps"]
        assert line["ver/fraction_stale"] == 0.0


def test_what_ranks_cannot_do_is_refused_before_anything_starts(tmp_path):
    with pytest.raises(ValueError, match="async runs in one process"):
        ranks = Ranks(RankInfo(0, 2), store=object())
        trainer(tmp_path / "run", ranks, mode="async", serial=False)

    def work(ranks):
        try:
            trainer(tmp_path / "run", ranks, num_envs=E + 2 * ranks.rank)
        except UserError as error:
            return str(error)

    first, second = on_ranks(work, tmp_path / "talk")
    assert (
        first
        == second
        == ("all ranks need the same settings: num_envs is 2 on rank 0 and 4 on rank 1")
    )
    assert not (tmp_path / "run").exists()
