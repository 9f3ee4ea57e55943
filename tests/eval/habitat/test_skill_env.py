"""Training a skill in Habitat: its environment there, and the settings here."""

import os
import sys

import gymnasium
import numpy as np
import pytest

from rearrange.commands.training.habitat_envs import habitat_envs
from rearrange.commands.training.resolve import load_training
from rearrange.commands.training.training_env import training_env_of
from rearrange.configs.training import TrainSkillCfg
from rearrange.errors import UserError
from rearrange.eval.habitat.lab import skill_env
from rearrange.eval.habitat.lab.skill_env import SkillEnv
from rearrange.habitat.dataset import export
from rearrange.tasks.gym_factory import read_spaces
from tests.eval.habitat.fake_serving import SHAPES, FakeEnv

SENSORS = {"joint": [7], "is_holding": [1], "head_depth": [8, 8, 1]}
FULL = list(range(11))


class FakeStock(FakeEnv):
    def told(self):
        sensors, facts = super().told()
        return sensors, facts | {"reward": 0.5 * self.step_number}

    def close(self):
        self.is_closed = True


@pytest.fixture
def make(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "gym", gymnasium)
    monkeypatch.setattr(skill_env, "StockEnv", FakeStock)
    monkeypatch.chdir(tmp_path)

    def make_env(**more):
        words = {"folder": str(tmp_path), "sensors": SENSORS, "slots": FULL}
        words |= {"task": "pick", "split": "train", "camera_size": 8}
        return SkillEnv(**words | more)

    return make_env


@pytest.mark.parametrize("delay", [0, 1])
def test_an_episode_by_the_rules_there(make, delay):
    env = make(delay=delay)
    for is_even in (True, False):
        draws = (np.random.default_rng(seed).integers(FakeStock.num_episodes) for seed in range(99))
        seed = next(s for s, index in enumerate(draws) if (index % 2 == 0) == is_even)
        observation = env.reset(seed=seed)
        assert (env._stock.index % 2 == 0) == is_even
        for step in range(1, 5):
            assert env.observation_space.contains(observation)
            observation, reward, done, info = env.step(np.zeros(11, np.float32))
            assert observation["joint"].tolist() == [step - delay] * 7
            assert reward == 0.5 * step and done == (step == 4)
        assert info["success"] == is_even and info["TimeLimit.truncated"] is False
        assert info["failure"] == ("" if is_even else "dropped")


def test_a_slot_that_the_space_lacks_does_nothing(make):
    env = make(slots=[8, 9, 10])
    env.reset(seed=0)
    env.step(np.array([0.5, -0.25, 1.0]))
    assert env._stock.actions[0].tolist() == [0.0] * 7 + [1.0, 0.5, -0.25, 1.0]
    assert env.action_space.shape == (3,)


@pytest.fixture(scope="module")
def exported_train(tmp_path_factory):
    folder = tmp_path_factory.mktemp("habitat") / "train"
    export(folder, "train", ["pick"], 2)
    return folder


def test_what_is_trained_there_is_our_skill(hand_made, exported_train):
    cfg = load_training("train-skill", ["skill=pick"])
    assert isinstance(cfg, TrainSkillCfg)
    kwargs = training_env_of(cfg).kwargs | {"starts": "reach"}
    cfg.habitat.python, cfg.habitat.data = hand_made, str(exported_train)
    envs = habitat_envs(cfg, kwargs)
    told = envs.content["kwargs"]
    observation, action = read_spaces(cfg.skill.env, kwargs)
    assert told["sensors"] == {name: list(box.shape) for name, box in observation.items()}
    assert told["slots"] == FULL and action.shape == (11,)
    assert told["task"] == "pick" and told["split"] == "train" and told["delay"] == 1
    assert os.path.isdir(told["folder"]) and set(SHAPES) <= set(told["sensors"])


@pytest.mark.parametrize(
    "words, line",
    [
        (["env_kwargs.ranges=true"], "backend=habitat has no env_kwargs.ranges, only "),
        (["env_kwargs.split=val"], r"has no episodes of pick, val: rearrange export-homes"),
        (["method=imitation"], "backend=habitat needs method=ver and serial=false"),
        (["serial=true"], "backend=habitat needs method=ver and serial=false"),
        (["validation.every=8"], "validation.every evaluates in MuJoCo, and backend=habitat"),
    ],
)
def test_mistakes_are_one_line(words, line, hand_made, exported_train):
    here = [f"habitat.python={hand_made}", f"habitat.data={exported_train}", "backend=habitat"]
    with pytest.raises(UserError, match=line):
        load_training("train-skill", ["skill=pick", *here, *words])


@pytest.mark.parametrize(
    "words, line",
    [
        (["habitat.data=a"], r"habitat\.\* settings are for backend=habitat"),
        (["backend=bullet"], "backend must be mujoco or habitat, got bullet"),
        (["backend=habitat"], r"backend=habitat needs habitat\.python="),
    ],
)
def test_habitat_must_be_named(words, line):
    with pytest.raises(UserError, match=line):
        load_training("train-skill", ["skill=pick", *words])
