"""Environments by id: known, of somebody else's module, ours; and a line for every mistake."""

import multiprocessing
import pickle
import subprocess
import sys
from functools import partial

import gymnasium
import pytest

from rearrange.errors import UserError
from rearrange.tasks.env import RearrangeEnv
from rearrange.tasks.gym_factory import find_id, make_gym, read_spaces
from rearrange.tasks.rules.names import TASKS

MODULE = """
import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
gymnasium.register("theirs/Pole-v3", entry_point=CartPoleEnv, max_episode_steps=7)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "their_envs.py").write_text(MODULE)
    (tmp_path / "broken_envs.py").write_text("raise RuntimeError('no\\nlicence')")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    gymnasium.registry.pop("theirs/Pole-v3", None)
    sys.modules.pop("their_envs", None)


def fails(env_id, **kwargs):
    with pytest.raises(UserError) as caught:
        make_gym(0, env_id, 1, kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_task_of_the_home_is_made_bare_and_shares_a_stream():
    for env_id in TASKS.values():
        assert find_id(env_id) == env_id
    made = [make_gym(i, "rearrange/Pick-v0", 3, {"depth": False}) for i in range(3)]
    assert all(type(env) is RearrangeEnv for env in made)
    assert [env.reset()[1]["episode_index"] for env in made] == [0, 1, 2]
    assert [env.reset()[1]["episode_index"] for env in made] == [3, 4, 5]


def test_words_reach_the_environment():
    kwargs = {"camera_size": 16, "action_space": "skill", "max_episode_steps": 4}
    observation, action = read_spaces("rearrange/Pick-v0", kwargs)
    assert observation["head_depth"].shape == (16, 16, 1) and action.shape == (10,)
    env = make_gym(0, "rearrange/Pick-v0", 1, kwargs)
    env.reset()
    ends = [env.step([0.0] * 10) for _ in range(4)]
    assert ends[-1][3] and ends[-1][4]["failure"] == "time_limit"  # the task's own limit
    assert make_gym(0, "Pendulum-v1", 1, {"g": 3.0}).unwrapped.g == 3.0


def test_a_module_is_imported_for_its_ids(module):
    env = make_gym(0, "their_envs:theirs/Pole-v3")
    assert env.spec.max_episode_steps == 7
    assert "did not register it; did you mean theirs/Pole-v3" in fails("their_envs:theirs/Pol-v3")
    assert "RuntimeError: no licence" in fails("broken_envs:A-v0")


def test_an_environment_that_asks_for_its_number_gets_it():
    gymnasium.register(
        "numbered/Pole-v0",
        entry_point=lambda index: gymnasium.make("CartPole-v1", max_episode_steps=index + 1),
        kwargs={"index": 0},
    )
    try:
        made = [make_gym(i, "numbered/Pole-v0", 2) for i in range(2)]
        assert [env.spec.max_episode_steps for env in made] == [1, 2]
    finally:
        del gymnasium.registry["numbered/Pole-v0"]


def test_mistakes_are_one_line_that_names_the_nearest():
    assert "unknown env 'CartPole-v9': did you mean CartPole-v1" in fails("CartPole-v9")
    assert "did you mean rearrange/Pick-v0" in fails("rearrange/Pik-v0")
    assert "did you mean rearrange/MaskedCartPole-v1" in fails("rearrange/MaskCartPole-v1")
    assert "package.module:Id" in fails("qqqq")
    assert "cannot import 'no_such_module'" in fails("no_such_module:A-v0")
    assert "cannot import '..'" in fails("..:A-v0")
    assert "unexpected keyword argument 'size'" in fails("CartPole-v1", size=3)
    assert "unexpected keyword argument 'size'" in fails("rearrange/Pick-v0", size=3)
    assert "camera_size must be a whole number" in fails("rearrange/Pick-v0", camera_size=0.5)


def test_the_factory_travels_to_a_spawned_worker():
    make = partial(make_gym, env_id="rearrange/MaskedCartPole-v1", num_envs=2, kwargs={})
    assert len(pickle.dumps(make)) < 300
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        env = pool.apply(make, (1,))
    assert env.reset(seed=0)[0].shape == (2,)


def test_no_torch_and_no_simulator_for_somebody_elses_environment():
    code = (
        "import sys; from rearrange.tasks.gym_factory import make_gym; make_gym(0, 'CartPole-v1'); "
    )
    code += "print({'torch', 'mujoco', 'numba', 'hydra'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr
