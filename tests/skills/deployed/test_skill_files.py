"""Trained skills: from a run's folder to a file and back, and what is refused."""

import json
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
import torch
from safetensors.torch import save

from rearrange.errors import UserError
from rearrange.skills.deployed.learned import LearnedPolicy
from rearrange.skills.deployed.skill_files import (
    FORMAT,
    OLD_FORMAT,
    SkillFile,
    _checksum,
    find_skill,
    find_weights,
    read_skill,
    write_skill,
)
from rearrange.skills.deployed.skill_header import header_json
from rearrange.skills.network.pictures.encoder import EncoderCfg
from rearrange.skills.network.policy import build_policy
from rearrange.skills.network.policy_cfg import PolicyCfg
from rearrange.tasks.gym_factory import registered_id
from rearrange.tasks.registry import make_env
from rearrange.ver.run.checkpoint import save_checkpoint, with_prefix
from rearrange.ver.workers.spaces import action_spec, observation_spec

CFG = PolicyCfg(encoder=EncoderCfg(base_width=4, image_size=16), lstm_hidden=8)
KWARGS = {
    "camera_size": 16, "action_space": "skill", "observation_delay": 1, "motor_lead": None,
}  # fmt: skip


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
    read = back.build().state_dict()
    for name, tensor in skill.build().state_dict().items():
        np.testing.assert_array_equal(read[name], tensor.half().float())
    assert path.stat().st_size < 2.2 * sum(w.numel() for w in skill.weights.values()) + 20_000


class Unbounded(gymnasium.Env):
    """Of actions without bounds on one side or both."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = gymnasium.spaces.Box(
        np.array([-np.inf, 0.0, -1.0], np.float32), np.array([np.inf, np.inf, 1.0], np.float32)
    )


def test_actions_without_bounds_are_kept_too(tmp_path):
    gymnasium.register("tests/Unbounded-v0", Unbounded)
    spaces = observation_spec(Unbounded.observation_space), action_spec(Unbounded.action_space)
    cfg = replace(CFG, normalize_observations=True)
    weights = build_policy(*spaces, cfg).state_dict()
    skill = SkillFile("tests/Unbounded-v0", {}, cfg, *spaces, weights, {"steps": 7})
    write_skill(skill, path := tmp_path / "it.safetensors")
    back = read_skill(path)
    assert back.action.low.tolist() == [-np.inf, 0.0, -1.0]
    assert back.action.high.tolist() == [np.inf, np.inf, 1.0]
    gymnasium.registry.pop("tests/Unbounded-v0")


def said(skill):
    """All that a skill says of itself, for comparison."""
    bounds = skill.action.low.tolist() + skill.action.high.tolist()
    seen = list(skill.observation.items())
    return skill.env_id, skill.env_kwargs, skill.policy_cfg, seen, bounds, skill.origin


def test_a_flipped_bit_is_found_wherever_it_is(skill, tmp_path):
    path = tmp_path / "pick.safetensors"
    write_skill(skill, path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    header = 8 + int.from_bytes(content[:8], "little")
    places = [*rng.integers(0, header, 120), *rng.integers(header, len(content), 10)]
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            back = read_skill(path)
        except UserError as error:
            assert "\n" not in str(error) and str(path) in str(error)
        else:  # blanks and the like
            assert said(back) == said(skill)
            assert all(torch.equal(back.weights[n], w.half()) for n, w in skill.weights.items())


def rewritten(skill, path, old=False, **changes):
    """A file with other words in its header and checksums that are right."""
    header = {"format": OLD_FORMAT if old else FORMAT, **header_json(skill), "origin": skill.origin}
    header |= changes
    weights = {name: w.half().contiguous() for name, w in skill.weights.items()}
    if old:
        header["checksum"] = _checksum(weights)
    text = json.dumps(header)
    metadata = {"rearrange": text}
    if not old:
        metadata["sha256"] = _checksum(weights, text)
    path.write_bytes(save(weights, metadata))
    return path


def test_weights_of_another_type_are_refused(skill, tmp_path):
    """The type is in no checksum."""
    path = tmp_path / "pick.safetensors"
    write_skill(skill, path)
    content = path.read_bytes()
    assert content.count(b'"dtype":"F16"') > 3
    path.write_bytes(content.replace(b'"dtype":"F16"', b'"dtype":"I16"', 1))
    with pytest.raises(UserError, match="are of type torch.int16"):
        read_skill(path)


def test_files_without_a_checksum_of_the_header_are_still_read(skill, tmp_path):
    assert said(read_skill(rewritten(skill, tmp_path / "old", old=True))) == said(skill)


def test_a_setting_of_the_policy_is_read_under_its_old_name(skill, tmp_path):
    policy = header_json(skill)["policy"]
    old = {n.replace("base_frame_vectors", "has_levelled"): v for n, v in policy.items()}
    assert "has_levelled" in old
    back = read_skill(rewritten(skill, tmp_path / "old", policy=old))
    assert list(header_json(back)["policy"].items()) == list(policy.items())


WRONG = {
    "a module": ({"env": "this:X-v0"}, "'this:X-v0' is not registered"),
    "another world": ({"env": "CartPole-v1"}, "cannot make env 'CartPole-v1'"),
    "its path": ({"env": "Ant-v5", "env_kwargs": {"xml_file": "/x.xml"}}, "with no path"),
    "its module": ({"env": "CartPole-v1", "env_kwargs": {"a": ["this:X-v0"]}}, "or module in it"),
    "its size": ({"env": "CartPole-v1", "env_kwargs": {"a": 1e9}}, "must lie in [-1e+06, 1e+06]"),
    "a path": ({"env_kwargs": KWARGS | {"xml_file": "/tmp/x.xml"}}, "env_kwargs['xml_file']"),
    "a huge camera": ({"env_kwargs": KWARGS | {"camera_size": 100_000}}, "must lie in [1, 1024]"),
    "a camera of text": ({"env_kwargs": KWARGS | {"camera_size": "16"}}, "a whole number"),
    "an unknown word": ({"env_kwargs": {"observatyon_delay": 1}}, "must be one of"),
    "no kwargs": ({"env_kwargs": None}, "must be an object"),
    "bounds": ({"action": {"kind": "box", "low": [-9.0] * 10, "high": [1.0] * 10}}, "the bounds"),
    "sensors": ({"observation": {"joint": [[7], "float32"]}}, "is missing"),
    "a long list": ({"policy": {"hidden_sizes": [1] * 1000, "encoder": {}}}, "0 to 64 elements"),
    "a huge memory": ({"policy": {"lstm_hidden": 65536, "encoder": {}}}, "at most 5e+08"),
    "a wrong size": ({"policy": {"lstm_hidden": -1, "encoder": {}}}, "lstm_hidden must lie"),
    "a huge width": ({"policy": {"initial_log_std": 1e300, "encoder": {}}}, "lie in [-20, 20]"),
    "a long width": ({"policy": {"initial_log_std": 10**80, "encoder": {}}}, "lie in [-20, 20]"),
    "no encoder": ({"policy": {}}, "policy.encoder is missing"),
    "no origin": ({"origin": []}, "origin must be an object"),
}


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("case", WRONG)
def test_each_field_is_checked_whatever_the_checksum(skill, tmp_path, case, old):
    changes, word = WRONG[case]
    with pytest.raises(UserError) as caught:
        read_skill(rewritten(skill, tmp_path / "x", old, **changes))
    assert word in str(caught.value) and "\n" not in str(caught.value)


def test_weights_that_are_not_finite_are_refused(skill, tmp_path):
    skill.weights["critic.bias"] = torch.tensor([float("nan")])
    with pytest.raises(UserError, match="not finite"):
        read_skill(rewritten(skill, tmp_path / "nan"))
    with pytest.raises(UserError, match="in half precision.*not finite"):
        write_skill(skill, tmp_path / "nan")
    skill.weights["critic.bias"] = torch.tensor([1e6])  # too large for half precision
    with pytest.raises(UserError, match="in half precision.*not finite"):
        write_skill(skill, tmp_path / "nan")


@pytest.mark.parametrize("where", [find_skill, find_weights])
def test_a_name_in_a_checkpoint_imports_nothing(skill, tmp_path, where, monkeypatch):
    (tmp_path / "planted.py").write_text("raise SystemExit('it ran')")
    monkeypatch.syspath_prepend(tmp_path)
    identity = header_json(skill) | {"env": "planted:X-v0"}
    tensors = with_prefix("policy", skill.weights)
    manifest = {"identity": identity, "mode": "ver"}
    save_checkpoint(tmp_path / "checkpoints", 1, tensors, manifest)
    if where is find_skill:
        with pytest.raises(UserError, match="is not registered"):
            find_skill(tmp_path)
    else:
        env_id, weights, _ = find_weights(tmp_path)
        assert registered_id(env_id) is None and weights.keys() == skill.weights.keys()


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
