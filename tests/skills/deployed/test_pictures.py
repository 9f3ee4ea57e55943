"""A policy in front of a camera with more pixels than the one it learned with, or of colour."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch

from rearrange import load_skill
from rearrange.eval.runner import EpisodeRunnerCfg, make_env_and_agent
from rearrange.planner.agents import registry
from rearrange.skills.deployed import skill_files
from rearrange.skills.deployed.learned import fit_picture
from rearrange.tasks.registry import make_env


@pytest.mark.parametrize("factor", [2, 3])
def test_blocks_of_pixels_become_their_mean(factor):
    picture = np.random.default_rng(0).random((4 * factor, 5 * factor, 2), np.float32)
    pooled = torch.nn.functional.avg_pool2d(torch.from_numpy(picture).permute(2, 0, 1), factor)
    fitted = fit_picture(picture, (4, 5, 2))
    assert fitted.dtype == np.float32
    np.testing.assert_allclose(fitted, pooled.permute(1, 2, 0).numpy(), atol=1e-6)


@pytest.mark.parametrize("shape", [(4, 4, 1), (6, 8, 1), (2, 2, 1), (8, 8, 3), (8, 8)])
def test_what_is_no_whole_multiple_stays_as_it_is(shape):
    picture = np.zeros(shape, np.float32)
    assert fit_picture(picture, (4, 4, 1)) is picture


def test_pick_acts_in_the_environment_as_gymnasium_makes_it():
    env, skill = gymnasium.make("rearrange/Pick-v0", seed=0, split="val"), load_skill("pick")
    observation, _ = env.reset(options={"index": 0})
    side = observation["head_depth"].shape[0]
    assert side > skill.env_kwargs["camera_size"]
    assert env.action_space.contains(skill.act(observation))


def test_a_policy_is_evaluated_with_the_pictures_that_it_was_trained_on(monkeypatch, make_skill):
    kwargs = {"camera_size": 32, "depth": False, "rgb": "plain", "panoptic": True}
    env_kwargs = kwargs | {"homes": "mixed", "success_scale": 0.8}
    skill = replace(make_skill("pick"), env_kwargs=env_kwargs)
    monkeypatch.setattr(skill_files, "find_skill", lambda path: skill)
    monkeypatch.setattr(registry, "make_agent", lambda *made: made)
    env, _ = make_env_and_agent(EpisodeRunnerCfg(task="pick", agent="learned", split="val", seed=0))
    assert env.observation_space == make_env(task="pick", split="val", **kwargs).observation_space
    assert {"head_rgb", "arm_rgb", "head_panoptic"} <= set(env.observation_space)
