"""What two Pythons tell each other survives JSON unchanged."""

import json

import numpy as np
import pytest
from gymnasium import spaces

from rearrange.ver.bridge import messages
from rearrange.ver.workers.environment_worker import WorkerCfg
from rearrange.ver.workers.shared_memory import SlotLayout
from rearrange.ver.workers.spaces import action_spec, observation_spec

SEEN = spaces.Dict(
    {
        "camera": spaces.Box(0, 255, (5, 6, 3), np.uint8),
        "arm": spaces.Dict({"q": spaces.Box(-1, 1)}),
    }
)
ACTIONS = [
    spaces.Box(np.array([-np.inf, 0.1]), np.array([np.inf, 1 / 3]), dtype=np.float64),
    spaces.Discrete(4, start=-2),
    spaces.MultiDiscrete([[2, 5], [3, 4]], start=[[1, -1], [0, 7]]),
]


@pytest.mark.parametrize("space", ACTIONS)
def test_a_layout_is_the_same_on_the_other_side(space):
    layout = SlotLayout(3, observation_spec(SEEN), action_spec(space), 2)
    text = json.dumps(messages.layout_to_json(layout), allow_nan=False)
    back = messages.layout_from_json(json.loads(text))
    assert back.arrays() == layout.arrays()
    action = np.array([0.3, -0.9]) if layout.action.kind == "box" else np.zeros(layout.action.size)
    action = action.astype(layout.action.dtype)
    got, expected = back.action.to_env(action), layout.action.to_env(action)
    np.testing.assert_array_equal(got, expected)
    assert np.asarray(got).dtype == np.asarray(expected).dtype


def test_what_a_worker_is_told_is_the_same_on_the_other_side():
    failed = {2**31 - 1: 2, 7: 1}
    cfg = WorkerCfg(5, ("success", "a/b"), "clock", 64, 8, 0.25, failed, age=3)
    assert messages.cfg_from_json(json.loads(json.dumps(messages.cfg_to_json(cfg)))) == cfg
