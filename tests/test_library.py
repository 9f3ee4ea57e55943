"""What `import rearrange` gives, used as the README says."""

import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import rearrange
from rearrange.errors import UserError
from rearrange.skills.deployed.trained_skills import shipped_skills

CHECKOUT = Path(__file__).parents[1]


def run(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=CHECKOUT, capture_output=True, text=True, check=True
    ).stdout


def test_the_loop_in_the_readme_picks_something_up():
    (code,) = re.findall(r"```python\n(.*?)```", (CHECKOUT / "README.md").read_text(), re.DOTALL)
    assert len(code.splitlines()) <= 12
    assert run(code).count("picked") >= 1  # of three episodes; the skill solves nine of ten


def test_importing_registers_the_environments_without_torch():
    code = (
        "import sys, rearrange, gymnasium; print(gymnasium.spec('rearrange/Pick-v0').id, "
        "[name for name in ('torch', 'mujoco', 'numba', 'hydra') if name in sys.modules])"
    )
    assert run(code).split() == ["rearrange/Pick-v0", "[]"]


@pytest.mark.parametrize("name", sorted({*shipped_skills()} & {"navigate", "pick"}))
def test_a_shipped_skill_acts_in_its_own_environment(name):
    skill = rearrange.load_skill(name)
    env = skill.make_env(seed=3)
    observation, _ = env.reset()
    taken = [skill.act(observation)]
    observation, *_ = env.step(taken[0])
    taken.append(skill.act(observation))
    skill.reset()
    np.testing.assert_array_equal(skill.act(env.reset(seed=3)[0]), taken[0])
    assert env.action_space.contains(taken[1]) and not np.array_equal(*taken)


def test_any_trained_environment_can_be_loaded(tmp_path, monkeypatch):
    from rearrange.cli import main

    args = ["train", "env=CartPole-v1", "total_steps=256", "num_steps=64", f"run_dir={tmp_path}"]
    assert main([*args, "num_envs=2", "scheme=serial"]) == 0
    monkeypatch.chdir(tmp_path.parent)
    for name in (tmp_path.name, f"./{tmp_path.name}"):
        assert rearrange.load_skill(name).env_id == "CartPole-v1"
    policy = rearrange.load_skill(tmp_path)
    env = policy.make_env()
    assert isinstance(env.unwrapped, gymnasium.envs.classic_control.CartPoleEnv)
    observation, _ = env.reset(seed=0)
    assert env.action_space.contains(policy.act(observation))


def test_what_does_not_exist_is_one_clear_line(tmp_path):
    with pytest.raises(UserError, match="unknown skill 'juggle': choose from .*pick"):
        rearrange.load_skill("juggle")
    with pytest.raises(UserError, match=r"unknown skill 'a\\x00b': choose from .*pick"):
        rearrange.load_skill("a\0b")
    with pytest.raises(UserError, match="there is no skill file"):
        rearrange.load_skill(tmp_path / "pick.safetensors")
    with pytest.raises(UserError, match="there is no home folder ~nouser"):
        rearrange.load_skill("~nouser/pick.safetensors")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((5,), "the name of a skill must be a text or a path, got 5"),
        ((None,), "the name of a skill must be a text or a path, got None"),
        ((b"pick",), "the name of a skill must be a text or a path, got b'pick'"),
        ((["pick"],), "the name of a skill must be a text or a path, got a list of 1"),
        (("",), "the name of a skill must be a text or a path, got ''"),
        (("pick", 5), "the folder of a skill must be a text or a path, got 5"),
        (("a" * 300,), "cannot read skill 'aaa.*: File name too long"),
        (("a" * 300 + ".safetensors",), "cannot read skill 'aaa.*: File name too long"),
    ],
)
def test_what_is_no_name_of_a_skill_is_one_clear_line(given, message):
    with pytest.raises(UserError, match=message):
        rearrange.load_skill(*given)


@pytest.fixture(scope="module")
def pick():
    skill = rearrange.load_skill("pick")
    return skill, skill.make_env(seed=3).reset()[0]


def test_a_skill_takes_lists_and_other_floats_for_the_same_numbers(pick):
    skill, seen = pick
    skill.reset()
    expected = skill.act(seen)
    vectors = {name: value for name, value in seen.items() if value.ndim == 1}
    for more in (
        {name: value.astype(np.float64) for name, value in seen.items()},
        {name: value.tolist() for name, value in vectors.items()},
        {"is_holding": [0]},
        {"is_holding": np.array([False])},
    ):
        skill.reset()
        np.testing.assert_array_equal(skill.act(seen | more), expected)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.zeros(6), r"'joint' must have shape \(7,\), got \(6,\)"),
        (np.zeros((1, 7)), r"'joint' must have shape \(7,\), got \(1, 7\)"),
        (None, r"'joint' must have shape \(7,\), got \(\)"),
        ([1.0] * 6 + [[2.0]], "'joint' must be an array: "),
        (["a"] * 7, "'joint' must be float32 numbers, got <U1"),
        (np.zeros(7, complex), "'joint' must be float32 numbers, got complex128"),
        (np.full(7, np.nan), "'joint' must be finite numbers"),
        (np.full(7, 1e300), "'joint' must be finite numbers"),
    ],
)
def test_a_wrong_observation_of_a_skill_is_named(pick, wrong, message):
    skill, seen = pick
    with pytest.raises(UserError, match=f"observation {message}"):
        skill.act(seen | {"joint": wrong})


def test_what_a_skill_lacks_is_named(pick):
    skill, seen = pick
    with pytest.raises(UserError, match="observation 'joint' is missing"):
        skill.act({name: value for name, value in seen.items() if name != "joint"})
    for seed in ("a", None, 2**70, 1.5, True, -1):
        with pytest.raises(UserError, match="seed must be a whole number"):
            skill.reset(seed=seed)
    skill.reset(seed=2**53, explore=True)
    skill.act(seen)
