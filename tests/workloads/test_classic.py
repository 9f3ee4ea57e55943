"""The masked environments hide numbers and change nothing else."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from rearrange.workloads import classic


@pytest.mark.parametrize("masked_id", classic.KEPT)
def test_masked_steps_are_the_plain_ones_with_numbers_left_out(masked_id):
    classic.register_all()
    classic.register_all()  # harmless
    plain_id, kept = classic.KEPT[masked_id]
    masked, plain = gymnasium.make(masked_id), gymnasium.make(plain_id)
    assert masked.spec.max_episode_steps == plain.spec.max_episode_steps
    (seen, _), (whole, _) = masked.reset(seed=3), plain.reset(seed=3)
    plain.action_space.seed(0)
    for _ in range(250):
        assert seen.tolist() == [whole[i] for i in kept]
        action = plain.action_space.sample()
        seen, *masked_rest = masked.step(action)
        whole, *plain_rest = plain.step(action)
        assert masked_rest == plain_rest
        if any(plain_rest[1:3]):
            break
    assert any(plain_rest[1:3])


@pytest.mark.filterwarnings("ignore::UserWarning")  # of Gymnasium, about its own boxes
@pytest.mark.parametrize("masked_id", classic.KEPT)
def test_gymnasiums_checker_passes(masked_id):
    classic.register_all()
    env = gymnasium.make(masked_id)
    check_env(env.unwrapped, skip_render_check=True)
    assert env.observation_space.shape == (2,) and env.observation_space.dtype == np.float32
