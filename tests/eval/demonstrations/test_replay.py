"""Stored actions give the stored states again, and others do not."""

import copy

import numpy as np
import pytest

from rearrange.eval.demonstrations.recorder import RecordingEnv
from rearrange.eval.demonstrations.replay import carry_out, first_difference
from rearrange.tasks.registry import make_env


@pytest.fixture(scope="module")
def played():
    """(environment, episode, demonstration) of 25 random steps; motors may lead less from the 10th
    on, as a chain of skills has it."""
    env = RecordingEnv(make_env("pick", camera_size=16))
    env.reset(options={"index": 0})
    rng = np.random.default_rng(5)
    for step in range(25):
        env.world.sim.motor_lead = 0.02 if step >= 10 else None
        env.step(np.append(rng.uniform(-1, 1, 10), -1.0))
    return env, env.world.episode, env.demonstration({})


def test_the_same_actions_give_the_same_bits(played):
    env, episode, stored = played
    assert first_difference(stored, carry_out(env, episode, stored)) is None


@pytest.mark.parametrize("step", [0, 12, 24])
def test_an_altered_action_shows_at_its_step(played, step):
    env, episode, stored = played
    altered = copy.deepcopy(stored)
    altered.actions[step, 8] = np.nextafter(altered.actions[step, 8], np.float32(0))
    again = carry_out(env, episode, altered)
    assert first_difference(altered, again) == f"the world differs after {step + 1} steps"


def test_another_lead_of_the_motors_shows(played):
    env, episode, stored = played
    altered = copy.deepcopy(stored)
    altered.motor_leads[:] = 0.0
    assert first_difference(altered, carry_out(env, episode, altered)) is not None


def test_every_kept_array_is_compared(played):
    env, episode, stored = played
    again = carry_out(env, episode, stored)
    names = {"rewards": 8, "success": 8, "depth": 7, "worlds": 7}
    for name, steps in names.items():
        altered = copy.deepcopy(stored)
        values = getattr(altered, name)
        values[7] = ~values[7] if values.dtype == bool else values[7] + 1
        assert first_difference(altered, again).endswith(f"after {steps} steps")
    altered = copy.deepcopy(stored)
    altered.observations["joint"][3, 2] += 1e-7
    assert first_difference(altered, again) == "joint differs after 3 steps"


def test_frames_say_the_step_in_words(played):
    assert set(played[2].steps) == {"pick up the strawberry"} and set(played[2].skills) == {"pick"}
