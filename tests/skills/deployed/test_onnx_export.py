"""A policy as an ONNX model acts as it does in PyTorch, step after step with its memory."""

import json
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from rearrange import cli
from rearrange.skills.deployed.skill_files import SkillFile, read_skill, write_skill
from rearrange.skills.network.pictures.nearest import nearest_cells
from rearrange.skills.network.policy import build_policy
from rearrange.skills.network.policy_cfg import PRESETS
from rearrange.tasks.gym_factory import read_spaces
from rearrange.ver.workers.spaces import action_spec, observation_spec

# Looked for only: each of the suite's processes imports this file, few of them run it.
pytestmark = pytest.mark.skipif(
    not all(map(find_spec, ("onnxruntime", "onnxscript"))), reason="the extra `onnx` brings it"
)
NUM_ENVS, NUM_STEPS = 3, 12
TOLERANCE = 1e-5  # float32 sums in another order


def other_skill(env_id, preset, num_components=1):
    """A policy with fresh weights for an environment that is none of ours."""
    spaces = read_spaces(env_id, {})
    spaces = observation_spec(spaces[0]), action_spec(spaces[1])
    cfg = replace(PRESETS[preset], num_components=num_components)
    weights = build_policy(*spaces, cfg).state_dict()
    if num_components > 1:  # fresh ones all choose the first
        torch.nn.init.normal_(weights["actor.mixture.choice.weight"])
    return SkillFile(env_id, {}, cfg, *spaces, weights, {"steps": 1})


def exported(skill, tmp_path):
    """The model that the command makes of a skill's file."""
    import onnxruntime

    path, model = tmp_path / "skill.safetensors", tmp_path / "skill.onnx"
    write_skill(skill, path)
    arguments = ["export-skill", f"run={path}", "format=onnx", f"output={model}"]
    assert cli.main(arguments) == 0
    return read_skill(path), onnxruntime.InferenceSession(model)


@pytest.mark.parametrize(
    "make",
    ["pick", ("CartPole-v1", "mlp"), ("Pendulum-v1", "mlp_lstm"), ("Pendulum-v1", "mlp", 3)],
    ids=str,
)
def test_the_model_acts_as_the_policy_does(make, make_skill, tmp_path):
    torch.manual_seed(0)
    given = make_skill(make) if isinstance(make, str) else other_skill(*make)
    for weights in given.weights.values():  # fresh actors act nearly alike whatever they see
        weights.mul_(3.0)
    skill, session = exported(given, tmp_path)
    policy, rng = skill.build(), np.random.default_rng(0)
    header = json.loads(session.get_modelmeta().custom_metadata_map["rearrange"])
    assert header["env"] == skill.env_id and header["origin"] == skill.origin
    names = [entry.name for entry in session.get_inputs()]
    assert names[:-3] == list(header["observation"]) or not policy.state_size
    assert [entry.shape[0] for entry in session.get_inputs()] == ["batch"] * len(names)
    spec = skill.action
    before = {
        "previous_action": np.zeros((NUM_ENVS, spec.size), spec.dtype),
        "state": np.zeros((NUM_ENVS, policy.state_size), np.float32),
    }
    torch_before = {name: torch.from_numpy(value) for name, value in before.items()}
    chosen = []
    for step in range(NUM_STEPS):
        observation = {
            name: rng.uniform(-1.0, 1.0, (NUM_ENVS, *part.shape)).astype(part.dtype)
            for name, part in skill.observation.items()
        }
        is_first = np.array([step == 0, step in (0, 5), step % 4 == 0])
        inputs = observation | {"is_first": is_first} | before
        outputs = session.run(None, {name: inputs[name] for name in names})
        with torch.inference_mode():
            expected = policy.act(
                {name: torch.from_numpy(value) for name, value in observation.items()},
                torch_before["previous_action"], torch.from_numpy(is_first),
                torch_before["state"], deterministic=True,
            )  # fmt: skip
        torch_before = {"previous_action": expected.action, "state": expected.state}
        to_env = np.stack([spec.to_env(row) for row in expected.action.numpy()])
        close(outputs[0], to_env)
        close(outputs[1], expected.action.numpy())
        if policy.state_size:
            close(outputs[2], expected.state.numpy())
        before = {"previous_action": outputs[1], "state": outputs[-1]}
        chosen.append(outputs[1])
    assert np.ptp(chosen, axis=0).max() > 0.01  # it does look at what it is given


def close(found, expected):
    assert found.dtype == expected.dtype and found.shape == expected.shape
    np.testing.assert_allclose(found, expected, atol=TOLERANCE, rtol=TOLERANCE)


def test_cells_that_do_not_divide_the_picture_are_exported_too(tmp_path):
    import onnxruntime

    class Cells(torch.nn.Module):
        def forward(self, picture):
            return nearest_cells(picture, 8)

    size = torch.export.Dim("batch", min=1, max=64)
    program = torch.onnx.export(
        Cells(), (torch.rand(2, 50, 37, 1),), dynamo=True, verbose=False,
        dynamic_shapes={"picture": {0: size}},
    )  # fmt: skip
    program.save(tmp_path / "cells.onnx")
    picture = torch.rand(3, 50, 37, 1)
    session = onnxruntime.InferenceSession(tmp_path / "cells.onnx")
    (found,) = session.run(None, {session.get_inputs()[0].name: picture.numpy()})
    torch.testing.assert_close(torch.from_numpy(found), nearest_cells(picture, 8))
