"""In every mode the camera policy acts quickly, and with the weights that it should have.

The encoder keeps for acting what it made of its weights (`DepthEncoder.refresh`). Whoever changes
weights and forgets to refresh would act slowly, or by old ones: neither happens in a training.
"""

import copy

import pytest
import torch
from fake_env import PictureEnv

from rearrange.skills.network.pictures.encoder import EncoderCfg
from rearrange.skills.network.policy import SkillPolicy
from rearrange.skills.network.policy_cfg import PolicyCfg
from rearrange.ver.trainer import Trainer
from rearrange.ver.trainer_cfg import TrainerCfg
from rearrange.ver.update.ppo import PPOCfg

E, T, UPDATES = 2, 8, 4
TINY = PolicyCfg(
    encoder=EncoderCfg(
        base_width=8, image_size=16, compressed_size=32, feature_size=16, norm_groups=4
    ),
    vector_size=0, prev_action_size=0, hidden_sizes=[], lstm_layers=0,
)  # fmt: skip


class Watched(SkillPolicy):
    """Whenever it acts it compares with a copy, which goes through the modules."""

    seen = []  # (quick, how far off, how many weights it has acted with)

    def act(self, *inputs):
        step = super().act(*inputs)
        expected = copy.deepcopy(self).value(*inputs)
        weight = self.embedding.encoder.linear.weight
        self.seen.append((
            self.embedding.encoder._inference is not None,
            (step.value - expected).abs().max().item(),
            weight.double().sum().item(),
        ))  # fmt: skip
        return step


@pytest.mark.parametrize(
    "settings",
    [{"serial": True}, {"mode": "nover"}, {"overlap": True}, {"mode": "async"}],
    ids=str,
)
def test_who_acts_is_quick_and_up_to_date(tmp_path, settings):
    cfg = TrainerCfg(
        num_envs=E, num_steps=T, total_steps=UPDATES * E * T, device="cpu", info_keys=[],
        ppo=PPOCfg(num_epochs=1, num_minibatches=2, learning_rate=0.01, normalize_advantages=True),
        num_threads=1, **settings,
    )  # fmt: skip
    Watched.seen.clear()

    def build(observation, action):
        return Watched(observation, action, TINY)

    one = Trainer(PictureEnv, build, cfg, tmp_path, is_quiet=True)
    one.run()
    quick, errors, weights = zip(*Watched.seen, strict=True)
    assert all(quick)
    assert max(errors) < 1e-5
    assert len(set(weights)) >= UPDATES - 1  # those of async change within a rollout too


def test_one_that_goes_on_acts_with_what_was_saved(tmp_path):
    def trainer(updates):
        cfg = TrainerCfg(
            num_envs=E, num_steps=T, total_steps=updates * E * T, device="cpu", info_keys=[],
            serial=True, resume="auto", num_threads=1,
        )  # fmt: skip
        return Trainer(PictureEnv, lambda *spec: Watched(*spec, TINY), cfg, tmp_path, is_quiet=True)

    first = trainer(1)
    first.run()
    Watched.seen.clear()
    second = trainer(2)
    saved = first.policy.embedding.encoder.linear.weight.double().sum().item()
    second.run()
    assert Watched.seen[0][2] == saved
    assert all(quick for quick, *_ in Watched.seen)
    assert max(error for _, error, _ in Watched.seen) < 1e-5
    assert torch.isfinite(second.policy.critic.weight).all()
