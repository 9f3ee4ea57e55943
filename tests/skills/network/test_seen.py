"""What a policy makes of pictures and HAB's sensors, against the sensor that knows the base."""

import numpy as np
import pytest
import torch

from rearrange.sim.robot.seen import SEEN_SCAN, UNSEEN
from rearrange.skills.network.policy import build_policy
from rearrange.skills.network.policy_cfg import PRESETS
from rearrange.skills.network.seen import SeenScan
from rearrange.tasks.ranges import distance_of
from rearrange.tasks.registry import make_env
from rearrange.ver.workers.spaces import ActionSpec, ArraySpec


def tensors(observation) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(np.asarray(value))[None] for name, value in observation.items()}


@pytest.mark.parametrize("index", [0, 2])
@pytest.mark.parametrize("task", ["navigate", "pick", "place"])
def test_it_sees_what_the_sensor_sees(task, index):
    env = make_env(task, "train", ranges="seen", observation_delay=0)
    observation, _ = env.reset(options={"index": index})
    seen = SeenScan({name: value.shape for name, value in observation.items()}, 11)
    state, action = torch.zeros(1, seen.state_size), np.zeros(11, np.float32)
    rng = np.random.default_rng(index)
    for step in range(90):
        got, state = seen.step(tensors(observation), torch.from_numpy(action)[None], state)
        if step % 10 == 0:  # goes on for a while in one way
            action = rng.uniform(-0.3, 0.3, 11).astype(np.float32)
            action[7], action[10] = 1.0 if task == "place" else -1.0, -1.0  # holds on, goes on
            action[8:10] = rng.uniform(-1.0, 1.0, 2)
        observation, _, terminated, *_ = env.step(action)
        if terminated:
            break
    assert step > 40
    got, _ = seen.step(tensors(observation), torch.from_numpy(action)[None], state)
    ours, sensors = (distance_of(x) for x in (got[0].numpy(), observation[SEEN_SCAN]))
    is_known = [x < UNSEEN - 1e-3 for x in (ours, sensors)]
    both = is_known[0] & is_known[1]
    assert both.sum() > 30 and both.sum() > 0.7 * (is_known[0] | is_known[1]).sum()
    assert np.median(np.abs(ours - sensors)[both]) < 0.1


def test_sensors_that_it_needs_are_named():
    ones = np.ones(11, np.float32)
    action = ActionSpec(kind="box", size=11, num_choices=(), low=-ones, high=ones)
    spec = {"head_depth": ArraySpec((64, 64, 1), np.dtype(np.float32))}
    cfg = PRESETS["small"].__class__(seen_scan=True)
    needed = "seen_scan needs head_depth, goal_to_agent_gps_compass or obj_goal_sensor"
    with pytest.raises(ValueError, match=needed):
        build_policy(spec, action, cfg)
