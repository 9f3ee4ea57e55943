"""How old the weights are that acted, where a training collects while it learns."""

import threading

import pytest
import torch
from fake_env import MakeFake
from test_trainer import E, S, metrics, trainer

from rearrange.ver.rollout.actor import Actor
from rearrange.ver.rollout.collector import Collector
from rearrange.ver.update.ppo_learner import PPO
from tests.waits import wait_until


def test_the_staleness_of_gradients_is_that_of_the_weights_that_acted(tmp_path, monkeypatch):
    """async, made to collect all it has room for before it learns: the second and the third rollout
    are by weights which K and 2 K optimiser steps have changed when they are learned from."""
    num_collected = threading.Semaphore(0)
    collect, update = Collector.collect, PPO.update

    def counted(self, storage):
        report = collect(self, storage)
        num_collected.release()
        return report

    def when_all_is_collected(self, storage, *args, **kwargs):
        if self.num_applied == 0:
            for _ in range(3):  # storages
                assert num_collected.acquire(timeout=60.0)
        return update(self, storage, *args, **kwargs)

    monkeypatch.setattr(Collector, "collect", counted)
    monkeypatch.setattr(PPO, "update", when_all_is_collected)
    trainer(tmp_path, 3, mode="async").run()
    lines, k = metrics(tmp_path), 4  # two epochs of two minibatches
    assert [line["ver/gradient_staleness"] for line in lines] == [1.5, k + 1.5, 2 * k + 1.5]
    assert [line["ver/policy_lag"] for line in lines] == [0.0, 1.0, 2.0]


def test_what_is_collected_after_an_update_is_by_all_that_it_learned(tmp_path, monkeypatch):
    """async, made to collect each rollout after the update before: it is not stale, and the copy
    that acts has the normaliser too, which sees a rollout after its last optimiser step."""
    made, collect = [], Collector.collect

    class Kept(Actor):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            made.append(self)

    def when_all_is_learned(self, storage):
        wait_until(lambda: made[0]._versions[0] == len(made) - 1)
        made.append(storage)
        return collect(self, storage)

    monkeypatch.setattr("rearrange.ver.trainer.Actor", Kept)
    monkeypatch.setattr(Collector, "collect", when_all_is_learned)
    training = trainer(tmp_path, 3, mode="async", make_env=MakeFake(step_s=0.002))
    training.run()
    lines = metrics(tmp_path)
    for line in lines:  # but for what was decided as the rollout before became full
        lag = line["ver/policy_lag"]
        assert lag <= E / S and line["ver/gradient_staleness"] == pytest.approx(1.5 + 4 * lag)
    acting, learned = made[0].policy.state_dict(), training.policy.state_dict()
    assert made[0].policy is not training.policy and acting.keys() == learned.keys()
    for name, value in learned.items():
        assert torch.equal(value, acting[name]), name


def test_what_is_under_way_when_weights_change_is_learned_from_as_stale(tmp_path):
    trainer(tmp_path, 4, make_env=MakeFake(step_s=0.002)).run()
    for line in metrics(tmp_path)[1:]:  # by weights which one update, of four steps, has changed
        assert line["ver/gradient_staleness"] == pytest.approx(1.5 + 4 * line["ver/policy_lag"])


@pytest.mark.parametrize("settings", [{"async_correction": "vtrace"}, {}], ids=str)
def test_learning_while_collecting_keeps_numbers_finite(tmp_path, settings):
    overlap = {"mode": "async"} if settings else {"mode": "ver", "overlap": True}
    training = trainer(tmp_path, 4, make_env=MakeFake(), **overlap, **settings)
    training.run()
    assert len(metrics(tmp_path)) == 4
    assert all(value.isfinite().all() for value in training.policy.state_dict().values())
