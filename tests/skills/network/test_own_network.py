"""A network of somebody else: named by the user, kept in skill files, imported by none of them."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import rearrange
from rearrange.commands.settings import load
from rearrange.commands.training.final_report import what_next
from rearrange.commands.training.resolve import load_training
from rearrange.commands.training.train import first_policy
from rearrange.commands.training.training_env import training_env_of
from rearrange.commands.training.validation import arguments_of
from rearrange.errors import UserError
from rearrange.skills.deployed.skill_files import (
    FoundWeights,
    find_skill,
    read_skill,
    write_skill,
)
from rearrange.skills.network.policy import NETWORKS, SkillPolicy, build_policy
from rearrange.skills.network.policy_cfg import PolicyCfg, policy_json

MODULE = """
from dataclasses import replace
import torch
from torch import nn
from rearrange.skills.network.actions.distributions import Categoricals
from rearrange.ver.rollout.types import Evaluation, PolicyStep
from rearrange.skills.network.policy import SkillPolicy

class Calm(SkillPolicy):
    def act(self, *inputs, **how):
        step = super().act(*inputs, **how)
        return replace(step, action=0.5 * step.action)

class Own(nn.Module):
    "The methods of a policy and nothing else; takes all observations that it is told of."
    state_size = 0

    def __init__(self, observation, action, cfg):
        super().__init__()
        self.names, self.choices = sorted(observation), action.num_choices
        sizes = [int(torch.tensor(observation[name].shape).prod()) for name in self.names]
        self.actor = nn.Linear(sum(sizes), sum(self.choices))
        self.worth = nn.Linear(sum(sizes), 1)

    def _seen(self, observation):
        x = torch.cat([observation[name].flatten(1).float() for name in self.names], dim=1)
        return Categoricals(self.actor(x), self.choices), self.worth(x)[:, 0]

    def act(self, observation, previous, is_first, state, deterministic=False):
        actions, value = self._seen(observation)
        action = actions.mode() if deterministic else actions.sample()
        return PolicyStep(action, actions.log_prob(action), value, state)

    def value(self, observation, previous, is_first, state):
        return self._seen(observation)[1]

    def evaluate(self, minibatch):
        actions, value = self._seen(minibatch.observation)
        return Evaluation(actions.log_prob(minibatch.action), actions.entropy(), value)

    def observe(self, observation, gather):
        pass

    def refresh(self):
        pass
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "somebodys_network.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(NETWORKS, "_entries", dict(NETWORKS._entries))
    yield "somebodys_network"
    sys.modules.pop("somebodys_network", None)


def test_what_files_say_of_ours_is_as_before():
    assert "network" not in policy_json(PolicyCfg())
    assert policy_json(PolicyCfg(network="other"))["network"] == "other"


def test_the_users_word_imports_it(module):
    word = f"policy.network={module}:Calm"
    cfg = load("train", ["env=CartPole-v1", "policy=mlp", word]).policy
    assert cfg.network == "Calm" and NETWORKS["Calm"].__module__ == module
    with pytest.raises(UserError, match="unknown network 'calm': did you mean 'Calm'"):
        load("train", ["env=CartPole-v1", "policy=mlp", "policy.network=calm"])


@pytest.mark.parametrize("blocks", [1, 2])
def test_one_with_the_methods_of_a_policy_alone_is_trained_saved_and_used(module, tmp_path, blocks):
    """Also among several policies, and if it cannot be drafted without memory."""
    run_dir = tmp_path / "run"
    rearrange.train(
        env="CartPole-v1", num_envs=4, num_steps=16, total_steps=64, serial=True, policy="mlp",
        run_dir=str(run_dir), sapg={"num_blocks": blocks},
        **{"policy.network": f"{module}:Own"},
    )  # fmt: skip
    write_skill(find_skill(run_dir), tmp_path / "it.safetensors")
    skill = rearrange.load_skill(tmp_path / "it.safetensors")
    assert skill.act(np.array([0.0, 0.1, 0.0, 0.1], np.float32)) in (0, 1)


def test_one_whose_critic_cannot_learn_alone_is_one_line(module, tmp_path):
    settings = {"env": "CartPole-v1", "serial": True, "run_dir": str(tmp_path / "run")}
    settings |= {"policy": "mlp", "policy.network": f"{module}:Own"}
    with pytest.raises(UserError, match="needs a network with a Module `critic`.* Own has none"):
        rearrange.train(**settings, ppo={"critic_updates": 1})


def test_a_network_of_other_parts_begins_with_given_weights(module, tmp_path, monkeypatch):
    """It needs the methods of a policy, not the parts of ours."""

    class Plain(torch.nn.Module):
        def __init__(self, *spec):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(2))

    monkeypatch.setattr("rearrange.commands.training.train.build_policy", lambda *spec: Plain())
    given = {"weight": torch.ones(2)}
    monkeypatch.setattr(
        "rearrange.commands.training.train.find_weights",
        lambda path: FoundWeights("CartPole-v1", given, None),
    )
    settings = load_training("train", ["env=CartPole-v1", f"warm_start={tmp_path}"])
    policy = first_policy(settings, training_env_of(settings), {}, None)
    assert torch.equal(policy.weight, torch.ones(2))
    given["weight"] = torch.ones(3)
    with pytest.raises(UserError, match=r"has another network: weight is \(3,\) there"):
        first_policy(settings, training_env_of(settings), {}, None)


def test_other_processes_are_told_whose_module_to_import(module):
    """Those that evaluate a training's checkpoints, and who types what it prints at its end."""
    word, ours = f"policy.network={module}:Calm", "policy=small"
    for arguments, env_id in (
        (["train", "env=CartPole-v1", "policy=mlp"], "CartPole-v1"),
        (["train-skill", "pick", ours], "rearrange/Pick-v0"),
    ):
        settings = load_training(arguments[0], [*arguments[1:], word])
        training_env = training_env_of(settings)
        assert f"env={module}:{env_id}" in arguments_of(settings, training_env)
        summary = {"best": None}
        printed = what_next(training_env, summary, Path("RUN"), settings.policy.network)
        assert printed.count(f"env={module}:{env_id}") == 2
        settings = load_training(arguments[0], arguments[1:])
        assert module not in " ".join(arguments_of(settings, training_env))


def test_a_skill_file_keeps_it_and_imports_nothing(module, make_skill, tmp_path):
    NETWORKS.find(f"{module}:Calm")
    ours = make_skill("pick", depth=False)
    skill = replace(ours, policy_cfg=replace(ours.policy_cfg, network="Calm"))
    write_skill(skill, tmp_path / "calm.safetensors")
    write_skill(ours, tmp_path / "ours.safetensors")
    policy, other = (
        read_skill(tmp_path / f"{name}.safetensors").build() for name in ("calm", "ours")
    )
    assert type(policy).__name__ == "Calm" and type(other) is SkillPolicy
    inputs = (
        {name: torch.ones(1, *spec.shape) for name, spec in ours.observation.items()},
        torch.zeros(1, 11), torch.ones(1, dtype=torch.bool), torch.zeros(1, policy.state_size),
    )  # fmt: skip
    with torch.inference_mode():
        halved, whole = policy.act(*inputs, True).action, other.act(*inputs, True).action
    torch.testing.assert_close(halved, 0.5 * whole)

    del NETWORKS._entries["Calm"]
    sys.modules.pop(module)
    with pytest.raises(UserError, match="unknown network 'Calm'"):
        read_skill(tmp_path / "calm.safetensors")
    assert module not in sys.modules


def test_a_module_in_a_file_is_no_name(module, make_skill):
    skill = make_skill("pick", depth=False)
    cfg = replace(skill.policy_cfg, network=f"{module}:Calm")
    with pytest.raises(UserError, match="unknown network"):
        build_policy(skill.observation, skill.action, cfg)
    assert module not in sys.modules
