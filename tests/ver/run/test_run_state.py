"""What a training that goes on takes from its checkpoint, and what from its settings."""

import math

import numpy as np
import pytest
import torch

from rearrange.ver.rollout.storage import RolloutStorage
from rearrange.ver.run.checkpoint import load_newest
from rearrange.ver.run.episode_window import EpisodeWindow
from rearrange.ver.run.run_state import RunState, restore_run, save_run
from rearrange.ver.run.snapshot import Snapshot
from rearrange.ver.update.algorithm import LearnerCfg
from rearrange.ver.update.entropy import EntropyCfg
from rearrange.ver.update.imitation import Imitation, ImitationCfg
from rearrange.ver.update.ppo import PPOCfg
from rearrange.ver.update.ppo_learner import PPO
from rearrange.ver.workers.spaces import ActionSpec, ArraySpec

CPU = torch.device("cpu")


class Scale(torch.nn.Module):
    state_size = 0

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))


def made(algorithm, cfg=None, **more):
    policy = Scale()
    return policy, algorithm(policy, cfg or LearnerCfg(), 2, CPU, np.random.default_rng(0), **more)


def save(folder, policy, algorithm, step, keep=3, is_milestone=False):
    values = {
        "random": np.random.default_rng(0).bit_generator.state, "episode_numbers": [0, 0],
        "is_exact": False,
    }  # fmt: skip
    state = RunState(step, step, "ver", 0, EpisodeWindow(num_envs=2), Snapshot({}, values))
    save_run(folder, state, policy, algorithm, {}, keep, is_milestone, None)


def restored(folder, policy, algorithm):
    return restore_run(load_newest(folder), policy, algorithm, {}, EpisodeWindow(num_envs=2))


@pytest.mark.parametrize(
    ("entropy", "alpha"),
    [
        ({"learned": False, "initial": 0.0}, 0.0),
        ({"learned": False, "initial": 0.3}, 0.3),
        ({"initial": 0.7}, 0.05),  # a learned one goes on from where it was
        ({"initial": 0.02, "maximum": 0.02}, 0.02),  # within its bounds
    ],
)
def test_what_the_settings_say_holds_where_a_training_goes_on(tmp_path, entropy, alpha):
    save(tmp_path, *made(PPO, LearnerCfg(entropy=EntropyCfg(initial=0.05))), 64)
    entropy = EntropyCfg(learning_rate=1e-2, **entropy)
    policy, algorithm = made(PPO, LearnerCfg(entropy=entropy, ppo=PPOCfg(adam_eps=1e-3)))
    restored(tmp_path, policy, algorithm)
    assert float(algorithm.entropy.value) == pytest.approx(alpha)
    assert algorithm.entropy_optimizer.param_groups[0]["lr"] == 1e-2
    for optimizer in algorithm.optimizers().values():
        assert optimizer.param_groups[0]["eps"] == 1e-3


def test_one_that_begins_to_learn_its_coefficient_begins_within_the_bounds(tmp_path):
    fixed = LearnerCfg(entropy=EntropyCfg(learned=False, initial=0.0))
    save(tmp_path, *made(PPO, fixed), 64)
    policy, algorithm = made(PPO, LearnerCfg(entropy=EntropyCfg(minimum=1e-3)))
    restored(tmp_path, policy, algorithm)
    assert algorithm.entropy.log_alpha.item() == pytest.approx(math.log(1e-3))


@pytest.mark.parametrize("keep", [1, 3])
def test_rollouts_just_stored_stay_though_later_checkpoints_are_damaged(tmp_path, keep):
    """The run goes on from a milestone: the damaged ones are still those of the latest steps."""
    rollout = RolloutStorage(
        4, 2, {"o": ArraySpec((1,), np.dtype(np.float32))},
        ActionSpec("box", 1, (), -np.ones(1), np.ones(1)), 0, CPU,
    )  # fmt: skip

    def remember(algorithm, step):
        rollout.reward[:] = step
        algorithm.memory.add(rollout, np.arange(4), np.array([4]))

    policy, algorithm = made(Imitation, imitation=ImitationCfg())
    for step in (100, 200, 300, 400):
        remember(algorithm, step)
        save(tmp_path, policy, algorithm, step, keep, is_milestone=step == 100)
    for file in tmp_path.glob("*.safetensors"):
        if not file.name.startswith("000000000100"):
            file.write_bytes(file.read_bytes()[:-1])
    for step, known in ((150, 1), (160, 2)):
        policy, algorithm = made(Imitation, imitation=ImitationCfg())
        restored(tmp_path, policy, algorithm)
        assert len(algorithm.memory) == known
        remember(algorithm, step)
        save(tmp_path, policy, algorithm, step, keep)
