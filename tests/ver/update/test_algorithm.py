"""The four verbs: the trainer calls them all, whoever's they are, and keeps what they learn."""

import numpy as np
import pytest
import torch
from fake_env import FakeEnv
from fake_policy import FakePolicy

from rearrange.commands.settings import load
from rearrange.errors import UserError
from rearrange.ver.rollout.storage import RolloutStorage
from rearrange.ver.trainer import Trainer
from rearrange.ver.trainer_cfg import MODES, TrainerCfg
from rearrange.ver.update.algorithm import ALGORITHMS, Algorithm
from rearrange.ver.update.imitation import Imitation
from rearrange.ver.update.ppo_learner import PPO

E, T = 3, 8


class Counting(Algorithm):
    """Learns nothing but how often it was asked; its policy's weight counts the updates."""

    def __init__(self, *args, **others):
        super().__init__(*args, **others)
        self.calls, self.acting, self.judged = [], set(), []
        self.total = 0.0

    def act(self, policy, inputs):
        self.acting.add(id(policy))
        assert len(inputs.is_first) == len(inputs.state) <= E
        return super().act(policy, inputs)

    def store(self, storage, row, reward, terminated, truncated):
        assert isinstance(storage, RolloutStorage) and not storage.is_complete[row]
        self.total += reward
        super().store(storage, row, reward + 100.0, terminated, truncated)

    def compute_returns(self, storage):
        self.calls.append("compute_returns")
        sequences = super().compute_returns(storage)
        assert sequences.lengths.sum() == len(sequences.rows) == E * T
        return sequences

    def update(self, storage, sequences, context):
        self.calls.append("update")
        assert context.num_updates == len(self.judged)
        # In double precision: single sums of thousands would be off by more than the test allows.
        judged = storage.reward[sequences.rows].sum(dtype=np.float64)
        self.judged.append(judged - 100.0 * E * T)
        with torch.no_grad():
            self.policy.weight += 1.0
        self.num_applied += 1
        context.after_step()
        return {"mine/told": 7.0}

    def values(self):
        return {"total": self.total}

    def restore_values(self, values):
        self.total = values["total"]


def trained(run_dir, updates, algorithm=Counting, **settings):
    cfg = TrainerCfg(
        num_envs=E, num_steps=T, total_steps=updates * E * T, device="cpu", info_keys=[], **settings
    )
    one = Trainer(FakeEnv, lambda *spec: FakePolicy(), cfg, run_dir, make_algorithm=algorithm,
                  is_quiet=True)  # fmt: skip
    one.run()
    return one


@pytest.mark.parametrize(("mode", "serial"), [("ver", True), *((mode, False) for mode in MODES)])
def test_the_trainer_calls_all_four_of_an_algorithm_that_it_does_not_know(tmp_path, mode, serial):
    one = trained(tmp_path, 3, mode=mode, serial=serial)
    algorithm = one.algorithm
    assert algorithm.calls == 3 * ["compute_returns", "update"]
    assert (algorithm.acting == {id(one.policy)}) == (MODES[mode].interleaving == "alternating")
    # what it stored is what it learned from, but for steps that came after the last rollout
    assert np.sum(algorithm.judged) <= algorithm.total + 1e-3
    if mode == "nover":
        assert np.sum(algorithm.judged) == pytest.approx(algorithm.total, rel=1e-5)
    assert one.policy.weight.item() == 4.0
    assert '"mine/told": 7.0' in (tmp_path / "metrics.jsonl").read_text()


def test_what_it_says_of_itself_is_saved_and_comes_back(tmp_path):
    before = trained(tmp_path, 2, serial=True).algorithm
    after = trained(tmp_path, 2, serial=True, resume="auto").algorithm
    assert after.calls == [] and after.num_applied == 2
    assert after.total == before.total != 0.0


@pytest.mark.parametrize("name", ["policy", "memory", "a/b"])
def test_names_that_are_taken_are_refused_at_once(tmp_path, name):
    class Wrong(Counting):
        def values(self):
            return {name: 1}

    with pytest.raises(ValueError, match=f"got '{name}'"):
        trained(tmp_path, 1, algorithm=Wrong, serial=True)


def test_ours_are_algorithms_with_names():
    assert dict(ALGORITHMS) | {"ppo": PPO, "imitation": Imitation} == dict(ALGORITHMS)
    assert issubclass(PPO, Algorithm) and issubclass(Imitation, Algorithm)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["algorithm=a2c"], "unknown algorithm 'a2c'"),
        (["algorithm=imitation"], "use method=imitation of train-skill"),
        (["algorithm_kwargs.lr=1"], "ppo has its own settings"),
        (["algorithm=nowhere:A2C"], "nowhere"),
    ],
)
def test_a_mistake_is_said_in_one_line(arguments, said):
    with pytest.raises(UserError, match=said):
        load("train", ["env=CartPole-v1", *arguments])
