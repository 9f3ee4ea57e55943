"""The pipe to Habitat's Python, with a hand-made environment at its other end."""

import os

import numpy as np
import pytest

from rearrange.errors import UserError
from rearrange.eval.benchmarks.chaos.run import processes
from rearrange.eval.habitat import client
from rearrange.eval.habitat.client import HabitatEnv, check_python
from rearrange.eval.habitat.lab.stock_env import StockCfg

CFG = StockCfg(task="pick", split="val", camera_size=8)


@pytest.fixture
def start(hand_made, tmp_path):
    made = []

    def start_env(cfg=CFG, delay=1):
        made.append(HabitatEnv(hand_made, tmp_path, cfg, delay))
        return made[-1]

    yield start_env
    for env in made:
        env.close()


@pytest.mark.parametrize("delay", [0, 1])
def test_observations_are_late_by_the_delay(start, delay):
    env = start(delay=delay)
    observation, facts = env.reset(2)
    assert observation["joint"].tolist() == [0.0] * 7 and facts["is_over"] is False
    for step in range(1, 5):
        observation, facts = env.step(np.zeros(11))
        assert observation["joint"].tolist() == [step - delay] * 7
        assert observation["head_depth"].shape == (8, 8, 1)
        assert observation["head_depth"].dtype == np.float32
        assert facts["steps"] == step
    assert facts["success"] is True and env.num_episodes == 10


def test_actions_arrive_as_they_were_sent(start):
    env = start()
    env.reset(0)
    action = np.linspace(-1, 1, 11).astype(np.float32)
    env.step(action)
    assert env.state()["actions"] == [[float(v) for v in action]]


def test_pictures_come_as_bytes(start):
    env = start()
    env.reset(0)
    env.step(np.zeros(11))
    picture = env.render()
    assert picture.shape == (32, 48, 3) and picture.dtype == np.uint8 and picture[0, 0, 0] == 1


def test_what_breaks_there_is_one_line_here(start):
    with pytest.raises(UserError, match=r"habitat-lab in .*: ValueError: no scene 'v3'"):
        start(StockCfg(task="pick", split="val", seed=13))


def test_a_death_there_is_one_line_here(start):
    env = start()
    env.reset(9)
    with pytest.raises(UserError, match="ended before it answered"):
        env.step(np.zeros(11))


def own_processes():
    return {pid for pid, (parent, _, _) in processes().items() if parent == os.getpid()}


def test_closing_leaves_no_process(hand_made, tmp_path):
    before = own_processes()
    env = HabitatEnv(hand_made, tmp_path, CFG)
    assert len(own_processes() - before) == 1
    env.close()
    env.close()
    assert not own_processes() - before


def test_a_python_must_be_named():
    with pytest.raises(UserError, match=r"needs habitat\.python=.*habitat-sim and habitat-lab"):
        check_python(None)


def test_a_python_without_habitat_says_how_to_get_it(hand_made, monkeypatch):
    monkeypatch.setattr(client, "describe", lambda python, timeout_s: {"habitat-lab": "0.3"})
    client.versions_of.cache_clear()
    with pytest.raises(UserError, match="lacks habitat-sim .*conda install habitat-sim"):
        check_python(hand_made)
