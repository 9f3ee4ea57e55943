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


def test_any_trained_environment_can_be_loaded(tmp_path):
    from rearrange.cli import main

    args = ["train", "env=CartPole-v1", "total_steps=256", "num_steps=64", f"run_dir={tmp_path}"]
    assert main([*args, "num_envs=2", "scheme=serial"]) == 0
    policy = rearrange.load_skill(tmp_path)
    env = policy.make_env()
    assert isinstance(env.unwrapped, gymnasium.envs.classic_control.CartPoleEnv)
    observation, _ = env.reset(seed=0)
    assert env.action_space.contains(policy.act(observation))


def test_what_does_not_exist_is_one_clear_line(tmp_path):
    with pytest.raises(UserError, match="skill juggle does not come with the package"):
        rearrange.load_skill("juggle")
    with pytest.raises(UserError, match="there is no skill file"):
        rearrange.load_skill(tmp_path / "pick.safetensors")
