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
from rearrange.skills.network.seen import COMPASS, PICTURE, SeenScan
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


def test_what_was_seen_is_exported_too(tmp_path):
    import onnxruntime

    class Scan(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = SeenScan({PICTURE: (32, 32, 1), COMPASS: (2,)}, 11)

        def forward(self, picture, target, previous, state):
            return self.seen.step({PICTURE: picture, COMPASS: target}, previous, state)

    scan, rng = Scan(), np.random.default_rng(0)
    size = torch.export.Dim("batch", min=1, max=64)

    def drawn(*shape, least=0.0, most=1.0):
        return torch.from_numpy(rng.uniform(least, most, shape).astype(np.float32))

    state = torch.zeros(2, SeenScan.state_size)
    inputs = drawn(2, 32, 32, 1), drawn(2, 2), drawn(2, 11), state
    path = tmp_path / "scan.onnx"
    torch.onnx.export(
        scan, inputs, path, dynamo=True, verbose=False, opset_version=18,
        dynamic_shapes=tuple({0: size} for _ in inputs),
    )  # fmt: skip
    session = onnxruntime.InferenceSession(path)
    names = [entry.name for entry in session.get_inputs()]
    state = torch.zeros(3, SeenScan.state_size)
    for _ in range(6):
        distance, angle = drawn(3, least=1.0, most=4.0), drawn(3, least=-3.0, most=3.0)
        target = torch.stack([distance, angle], dim=-1)
        inputs = drawn(3, 32, 32, 1, most=0.5), target, drawn(3, 11, least=-1.0), state
        expected, state = scan(*inputs)
        given = {name: value.numpy() for name, value in zip(names, inputs, strict=True)}
        found = session.run(None, given)
        off = np.abs(found[0] - expected.numpy()) > TOLERANCE
        assert off.mean() < 0.01  # a point on the border of two directions may lie in either
    assert (expected > -0.8).float().mean() > 0.2  # it does hold something


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
