"""What a training begins with, and that it goes on with nothing else."""

import json

import pytest
import yaml

from rearrange.commands.training.resolve import load_training
from rearrange.commands.training.train import first_policy
from rearrange.commands.training.training_env import training_env_of
from rearrange.skills.deployed.skill_files import find_skill
from rearrange.skills.deployed.trained_skills import skill_path
from rearrange.tasks.gym_factory import read_spaces
from rearrange.ver.workers.spaces import action_spec, observation_spec
from tests.commands.training.commands import SLIGHT, TINY, fails, works

CART = ["train", "env=CartPole-v1", "serial=true", "num_envs=2", "num_steps=32"]


def begun_policy(arguments):
    settings = load_training("train-skill", arguments)
    training_env = training_env_of(settings)
    observation, action = read_spaces(training_env.env_id, training_env.kwargs)
    return first_policy(settings, training_env, observation_spec(observation), action_spec(action))


@pytest.mark.parametrize("widths", [(), ("fresh_log_std=true", "policy.initial_log_std=-2.1")])
def test_a_warm_start_begins_with_the_given_weights(capsys, tmp_path, widths):
    arguments = ["train-skill", "close_drawer", *TINY, *SLIGHT, "total_steps=64"]
    works(capsys, *arguments, "method=imitation", f"run_dir={tmp_path / 'a'}")
    given = ["close_drawer", *TINY, *SLIGHT, f"warm_start={tmp_path / 'a'}", *widths]
    policy = begun_policy(given)
    taught = find_skill(tmp_path / "a").weights
    (one,) = (tmp_path / "a/checkpoints").glob("*.json")
    assert find_skill(one).weights.keys() == taught.keys()  # a checkpoint by its manifest
    for name, tensor in policy.state_dict().items():
        is_width = widths and name == "actor.log_std"
        assert (tensor == (-2.1 if is_width else taught[name])).all(), name


def test_a_warm_start_by_name_is_the_skill_of_the_package_without_its_pictures():
    policy = begun_policy(["close_drawer", "stage=cells", "warm_start=close_drawer"])
    shipped = find_skill(skill_path("close_drawer")).weights
    own, first = policy.state_dict(), "embedding.vector_layer.0.weight"
    assert len(own) < len(shipped) and (own[first] == shipped[first]).all()


def test_weights_of_layers_that_mean_something_else_are_refused(capsys, tmp_path):
    cart = CART
    works(capsys, *cart, "total_steps=64", f"run_dir={tmp_path / 'a'}")
    other = [f"warm_start={tmp_path / 'a'}", f"run_dir={tmp_path / 'b'}", "policy.activation=gelu"]
    was = load_training("train", cart[1:]).policy.activation
    error = fails(capsys, *cart, "total_steps=64", *other)
    assert f"layers of {was}: they mean nothing with policy.activation=gelu" in error
    assert not list((tmp_path / "b").glob("checkpoints/*"))


def test_what_a_training_began_with_may_go_once_it_has_a_checkpoint(capsys, tmp_path):
    cart = CART
    first, second = tmp_path / "a", [*cart, f"warm_start={tmp_path / 'a'}", "resume=auto"]
    works(capsys, *cart, "total_steps=64", f"run_dir={first}")
    works(capsys, *second, "total_steps=64", f"run_dir={tmp_path / 'b'}")
    first.rename(tmp_path / "moved")
    works(capsys, *second, "total_steps=128", f"run_dir={tmp_path / 'b'}")
    assert "there is no skill file" in fails(
        capsys, *second, "total_steps=64", f"run_dir={tmp_path / 'c'}"
    )


def test_a_run_does_not_go_on_as_if_it_had_begun_with_other_weights(capsys, tmp_path):
    other, run = (f"run_dir={tmp_path / name}" for name in ("other", "run"))
    works(capsys, *CART, "total_steps=64", "seed=5", other)
    works(capsys, *CART, "total_steps=64", run)
    changed = [*CART, "total_steps=128", run, "resume=auto", f"warm_start={tmp_path / 'other'}"]
    assert "has begun with fresh weights and would go on from there" in fails(capsys, *changed)
    assert yaml.safe_load((tmp_path / "run/config.yaml").read_text())["warm_start"] is None
    works(capsys, *changed[:-1])


def test_a_stage_is_not_trained_on_once_the_next_has_begun(capsys, tmp_path):
    chain = ["train-skill", "close_drawer", *TINY, *SLIGHT, "method=imitation_ver"]
    chain += ["resume=auto", f"run_dir={tmp_path / 'run'}"]
    works(capsys, *chain, "imitation.total_steps=64", "total_steps=64")
    longer = fails(capsys, *chain, "imitation.total_steps=128", "total_steps=128")
    assert "imitation has after 64 steps, of 128 that are asked for now" in longer
    works(capsys, *chain, "imitation.total_steps=64", "total_steps=128")
    lines = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [64, 128]
