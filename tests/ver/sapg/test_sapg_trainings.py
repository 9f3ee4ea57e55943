"""Trainings of several policies on shared layers: what is stored, counted, resumed and exported."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from test_trainer import CART_POLE, SMALL, assert_same_state, metrics, trainer

import rearrange
from rearrange.errors import UserError
from rearrange.skills.deployed.learned import load_skill
from rearrange.skills.deployed.skill_files import find_skill, read_skill, write_skill
from rearrange.skills.network.policy_cfg import PolicyCfg
from rearrange.tasks.gym_factory import make_gym, make_gym_vec
from rearrange.ver.sapg.aggregation import WithFollowers
from rearrange.ver.sapg.blocks import BLOCK, SapgCfg
from rearrange.ver.sapg.sapg_learner import SAPG
from rearrange.ver.trainer_cfg import TrainerCfg
from rearrange.ver.update.algorithm import ALGORITHMS
from rearrange.ver.update.packing import minibatch_rows
from rearrange.ver.update.ppo import PPOCfg

TWO = SapgCfg(num_blocks=2)
RECURRENT = replace(SMALL, num_blocks=2)
PLAIN = PolicyCfg(vector_size=0, prev_action_size=0, hidden_sizes=[32], lstm_layers=0, num_blocks=4)
CHAIN = {"env_id": "rearrange/SkillChain-v0", "kwargs": {"horizon": 20, "num_actions": 3}}


@pytest.mark.parametrize("mode", ["ver", "batched"])
def test_a_training_resumes_to_the_last_bit(tmp_path, mode):
    """With a memory, and rewards that are scaled."""
    how = {"serial": True} if mode == "ver" else {}
    make = partial(trainer, updates=4, policy=RECURRENT, sapg=TWO, mode=mode, **how)
    make(tmp_path / "whole").run()
    assert make(tmp_path / "parts", after=2).run()["stopped_by"] == "SIGINT"
    torch.manual_seed(999)  # what another process would have
    make(tmp_path / "parts", resume="auto").run()
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "parts")
    assert_same_state(tmp_path / "whole", tmp_path / "parts")
    assert all(line["sapg/follower_steps"] > 10 for line in metrics(tmp_path / "whole"))


@pytest.mark.parametrize("length", [4, 1])
def test_until_the_first_step_the_leader_is_its_old_self(tmp_path, monkeypatch, length):
    """Also with a memory that begins anew where learning cuts sequences: pi is pi_old, but for what
    the cut between two minibatches splits."""
    passes, found = SAPG._passes, []

    def watched(self, storage, sequences):
        for one in passes(self, storage, sequences):
            if not found and isinstance(one.rows, WithFollowers):
                rng = np.random.default_rng(0)
                for part in minibatch_rows(*one.sequences, 2, rng, length):
                    seen = one.rows.minibatch(*part)
                    with torch.no_grad():
                        log_ratio = self.policy.evaluate(seen).log_prob - seen.log_prob
                    found.extend(log_ratio.abs().tolist())
            yield one

    monkeypatch.setattr(SAPG, "_passes", watched)
    ppo = PPOCfg(num_epochs=1, num_minibatches=2, max_sequence_length=length)
    training = trainer(tmp_path, 1, policy=RECURRENT, sapg=TWO, serial=True, ppo=ppo)
    with torch.no_grad():
        training.policy.actor.linear.weight.mul_(300.0)  # as sure of itself as a trained one
    training.run()
    assert len(found) > 64 and np.mean(np.array(found) < 1e-5) > 0.9


def test_every_step_is_stored_with_its_block_and_the_leaders_episodes_count(tmp_path):
    training = trainer(tmp_path, 3, policy=PLAIN, sapg=SapgCfg(num_blocks=4), mode="batched")
    learn, seen = training.algorithm.learn, []

    def watched(storage, turn):
        rows = storage.complete_rows()
        blocks = storage.observation[BLOCK][rows, 0].numpy()
        assert blocks.tolist() == (storage.env_id[rows] % 4).tolist()
        ended = storage.terminated[rows] | storage.truncated[rows]
        seen.append(int(ended[storage.env_id[rows] == 0].sum()))
        return learn(storage, turn)

    training.algorithm.learn = watched
    training.run()
    assert metrics(tmp_path)[-1]["episode/finished"] == sum(seen) > 0


@pytest.mark.parametrize("what", ["CartPole-v1", "SkillChain-v0"])
def test_the_leader_gets_better(tmp_path, what):
    ppo = PPOCfg(num_epochs=6, num_minibatches=2, learning_rate=5e-3, normalize_advantages=True)
    settings = {"ppo": ppo, "policy": PLAIN, "sapg": SapgCfg(num_blocks=4), "mode": "batched",
                "schedule": "constant"}  # fmt: skip
    if what == "CartPole-v1":
        trainer(tmp_path, 24, CART_POLE, num_envs=8, num_steps=32, **settings).run()
        lengths = [line["episode/length"] for line in metrics(tmp_path)]
        assert lengths[1] < 30.0 and lengths[-1] > 35.0
        return
    make_env, make_envs = partial(make_gym, **CHAIN), partial(make_gym_vec, **CHAIN)
    trainer(
        tmp_path, 20, make_env, num_envs=32, num_steps=10, make_envs=make_envs,
        info_keys=["success", "accuracy"], **settings,
    ).run()  # fmt: skip
    accuracies = [line.get("episode/accuracy") for line in metrics(tmp_path)]
    assert accuracies[1] < 0.5 and accuracies[-1] > 0.6  # one action of three is right


def test_a_file_keeps_all_policies_and_acts_as_the_leader(tmp_path):
    rearrange.train(
        env="Pendulum-v1", mode="batched", num_envs=4, num_steps=16, total_steps=128,
        sapg={"num_blocks": 2}, ppo={"num_minibatches": 2}, run_dir=str(tmp_path / "run"),
    )  # fmt: skip
    skill = find_skill(tmp_path / "run")
    assert skill.policy_cfg.num_blocks == 2 and BLOCK not in skill.observation
    write_skill(skill, tmp_path / "it.safetensors")
    assert read_skill(tmp_path / "it.safetensors").policy_cfg == skill.policy_cfg
    policy, trained = skill.build(), load_skill(tmp_path / "run")
    observation = np.array([0.5, -0.5, 1.0], np.float32)
    seen = {"observation": torch.from_numpy(observation)[None]}
    acts = []
    for block in (0, 1):
        block_seen = seen | {BLOCK: torch.tensor([[block]], dtype=torch.uint8)}
        inputs = torch.zeros(1, 1), torch.ones(1, dtype=torch.bool), torch.zeros(1, 0)
        acts.append(policy.act(block_seen, *inputs, deterministic=True).action.item())
    assert trained.act(observation).item() == pytest.approx(2.0 * acts[0], abs=1e-6)
    assert acts[0] != acts[1]


@pytest.mark.parametrize(
    "settings, what",
    [
        ({"num_envs": 6, "sapg": SapgCfg(num_blocks=4)}, "num_envs (6) must be divisible by"),
        ({"num_steps": 1, "sapg": TWO}, "need num_steps of 2 or more"),
        ({"sapg": SapgCfg(entropy_step=1.0)}, "settings need sapg.num_blocks of 2 or more"),
    ],
)
def test_blocks_that_do_not_fit_are_refused(settings, what):
    with pytest.raises(ValueError) as raised:
        TrainerCfg(**settings)
    assert what in str(raised.value)


def test_who_learns_otherwise_has_no_blocks(monkeypatch):
    monkeypatch.setattr(ALGORITHMS, "_entries", dict(ALGORITHMS._entries))
    two = {"sapg": {"num_blocks": 2}, "num_envs": 4, "total_steps": 512}
    mine = "examples.my_algorithm.a2c:A2C"
    with pytest.raises(UserError, match="goes with algorithm=ppo"):
        rearrange.train(env="CartPole-v1", algorithm=mine, **two)
    with pytest.raises(UserError, match="is for method=ver"):
        rearrange.train(skill="pick", method="imitation", **two)
    with pytest.raises(UserError, match="policy.num_blocks follows sapg.num_blocks"):
        rearrange.train(env="CartPole-v1", policy={"num_blocks": 3}, **two)
