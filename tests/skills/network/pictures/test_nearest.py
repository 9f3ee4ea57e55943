"""The short way around the encoder against the sensor that gives the same numbers."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from rearrange.skills.network.pictures.nearest import nearest_cells
from rearrange.skills.network.policy import build_policy
from rearrange.skills.network.policy_cfg import PolicyCfg
from rearrange.skills.network.warm_start import with_new_inputs
from rearrange.tasks.ranges import BASE_SCAN, CELLS, COARSE_DEPTH
from rearrange.tasks.registry import make_env
from rearrange.ver.workers.spaces import action_spec, observation_spec


@pytest.fixture(scope="module")
def seen():
    env = make_env("pick", "train", camera_size=64, ranges="camera")
    return [env.reset(options={"index": index})[0] for index in range(4)]


def test_cells_are_the_coarse_depth_sensor(seen):
    assert BASE_SCAN not in seen[0]
    pictures = torch.from_numpy(np.stack([one["head_depth"] for one in seen]))
    expected = torch.from_numpy(np.stack([one[COARSE_DEPTH] for one in seen]))
    torch.testing.assert_close(nearest_cells(pictures, CELLS), expected, atol=1e-6, rtol=0)


def test_sizes_that_do_not_divide_and_bytes():
    picture = torch.randint(1, 256, (2, 50, 37, 1), dtype=torch.uint8)
    found = nearest_cells(picture, 8).reshape(2, 8, 8)
    for row in range(8):
        top, bottom = row * 50 // 8, -(-(row + 1) * 50 // 8)
        for column in range(8):
            left, right = column * 37 // 8, -(-(column + 1) * 37 // 8)
            nearest = picture[:, top:bottom, left:right].float().amin((1, 2, 3)) / 25.5
            torch.testing.assert_close(found[:, row, column], (1 - nearest) / (1 + nearest))


def test_who_learned_with_the_sensor_acts_alike_with_the_camera(seen):
    torch.manual_seed(0)
    action = action_spec(spaces.Box(-1.0, 1.0, (11,)))
    cfg = PolicyCfg(nearest_cells=CELLS, lstm_hidden=16)
    specs = {name: spaces.Box(-9.0, 9.0, value.shape) for name, value in seen[0].items()}
    sensor = {name: spec for name, spec in specs.items() if name != "head_depth"}
    camera = {name: spec for name, spec in specs.items() if name != COARSE_DEPTH}
    old, grown = (
        build_policy(observation_spec(spaces.Dict(names)), action, cfg)
        for names in (sensor, camera)
    )
    weights = with_new_inputs(old.state_dict(), grown.state_dict(), grown.embedding)
    grown.load_state_dict(weights, strict=True)
    observation = {n: torch.from_numpy(np.stack([one[n] for one in seen])) for n in specs}
    rest = (torch.rand(4, 11), torch.zeros(4).bool(), torch.rand(4, old.state_size))
    one, other = (
        policy.act({n: observation[n] for n in names}, *rest, deterministic=True)
        for policy, names in ((old, sensor), (grown, camera))
    )
    torch.testing.assert_close(other.action, one.action)
    torch.testing.assert_close(other.value, one.value)


def test_bad_sizes_are_one_clear_line():
    action = action_spec(spaces.Box(-1.0, 1.0, (2,)))
    picture = observation_spec(spaces.Dict({"depth": spaces.Box(0.0, 1.0, (12, 16, 1))}))
    with pytest.raises(ValueError, match="at most the picture's 12 pixels a side, got 16"):
        build_policy(picture, action, PolicyCfg(nearest_cells=16))
    with pytest.raises(ValueError, match="need a scan_size above 0"):
        PolicyCfg(nearest_cells=16, scan_size=0)
