"""Trained skills: from a run's folder to a file and back, and what is refused."""

import numpy as np
import pytest
import torch

from rearrange.errors import UserError
from rearrange.skills.encoder import EncoderCfg
from rearrange.skills.learned import LearnedPolicy
from rearrange.skills.policy import PolicyCfg, build_policy
from rearrange.skills.skill_files import SkillFile, find_skill, read_skill, write_skill
from rearrange.tasks.registry import make_env
from rearrange.ver.spaces import action_spec, observation_spec

CFG = PolicyCfg(encoder=EncoderCfg(base_width=4, image_size=16), lstm_hidden=8)
KWARGS = {"camera_size": 16, "action_space": "skill", "observation_delay": 1}


@pytest.fixture(scope="module")
def env():
    return make_env("pick", "val", **KWARGS)


@pytest.fixture
def skill(env):
    torch.manual_seed(3)
    spaces = observation_spec(env.observation_space), action_spec(env.action_space)
    weights = build_policy(*spaces, CFG).state_dict()
    return SkillFile("rearrange/Pick-v0", KWARGS, CFG, *spaces, weights, {"steps": 7})


def test_a_skill_comes_back_in_half_precision(skill, tmp_path):
    path = tmp_path / "pick.safetensors"
    write_skill(skill, path)
    back = read_skill(path)
    assert (back.env_id, back.env_kwargs, back.origin) == (skill.env_id, KWARGS, {"steps": 7})
    assert back.policy_cfg == CFG and back.observation == skill.observation
    for name, tensor in skill.build().state_dict().items():
        np.testing.assert_array_equal(back.build().state_dict()[name], tensor.half().float())
    assert path.stat().st_size < 2.2 * sum(w.numel() for w in skill.weights.values()) + 20_000


def test_a_flipped_bit_is_found_wherever_it_is(skill, tmp_path):
    path = tmp_path / "pick.safetensors"
    write_skill(skill, path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(content), 40):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            back = read_skill(path)
        except UserError as error:
            assert "\n" not in str(error) and str(path) in str(error)
        else:  # the header's text may change without harm, the weights may not
            assert all(torch.equal(back.weights[n], w.half()) for n, w in skill.weights.items())


@pytest.mark.parametrize("content", [b"", b"no skill", b"\xff" * 100])
def test_what_is_no_skill_file_is_one_line(tmp_path, content):
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(UserError, match="is not a skill file") as caught:
        find_skill(path)
    assert "\n" not in str(caught.value)


def test_a_folder_without_checkpoints_is_one_line(tmp_path):
    with pytest.raises(UserError, match="has no checkpoint"):
        find_skill(tmp_path)


def test_a_learned_policy_acts_as_its_network_does_step_by_step(env, skill):
    policy, learned = skill.build(), LearnedPolicy(skill)
    state, previous = torch.zeros(1, policy.state_size), torch.zeros(1, 10)
    observation, _ = env.reset(options={"index": 0})
    for t in range(5):
        inputs = {name: torch.from_numpy(value)[None] for name, value in observation.items()}
        with torch.inference_mode():
            step = policy.act(inputs, previous, torch.tensor([t == 0]), state, True)
        state, previous = step.state, step.action
        action = learned.act(observation)
        np.testing.assert_allclose(action[:10], step.action[0].clamp(-1, 1), atol=1e-6)
        assert action.shape == (11,) and action[10] == 0.0  # Pick has no stop
        observation, *_ = env.step(action[:10])


def test_a_learned_policy_forgets_and_samples_the_same_again(env, skill):
    observation, _ = env.reset(options={"index": 0})
    learned = LearnedPolicy(skill, is_sampling=True)
    learned.reset(seed=5)
    first = [learned.act(observation) for _ in range(3)]
    torch.rand(10)  # whatever else this process draws
    learned.reset(seed=5)
    assert np.array_equal([learned.act(observation) for _ in range(3)], first)
    learned.reset(seed=6)
    assert not np.array_equal(learned.act(observation), first[0])


def test_a_skill_of_another_world_is_refused(skill):
    skill.env_id = "CartPole-v1"
    with pytest.raises(UserError, match="of the home"):
        LearnedPolicy(skill)
