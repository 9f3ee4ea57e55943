"""A policy that learned without pictures, made into one that has them."""

import torch
from gymnasium import spaces

from rearrange.skills.encoder import EncoderCfg
from rearrange.skills.policy import PolicyCfg, build_policy
from rearrange.skills.train import with_eyes
from rearrange.ver.spaces import action_spec, observation_spec


def test_a_policy_without_pictures_grows_into_one_that_acts_alike_whatever_it_sees():
    torch.manual_seed(0)
    vector = {"goal": spaces.Box(-1.0, 1.0, (5,))}
    picture = {"depth": spaces.Box(0.0, 1.0, (32, 32, 1))}
    action = action_spec(spaces.Box(-1.0, 1.0, (3,)))
    for hidden_sizes in ([16], []):
        cfg = PolicyCfg(
            encoder=EncoderCfg(image_size=32, base_width=8, compressed_size=32, feature_size=24),
            vector_size=8, lstm_hidden=12, hidden_sizes=hidden_sizes,
        )  # fmt: skip
        blind = build_policy(observation_spec(spaces.Dict(vector)), action, cfg)
        seeing = build_policy(observation_spec(spaces.Dict(vector | picture)), action, cfg)
        own = seeing.state_dict()
        weights = with_eyes(blind.state_dict(), own, seeing.embedding)
        assert {n: t.shape for n, t in weights.items()} == {n: t.shape for n, t in own.items()}
        seeing.load_state_dict(weights)
        goal, state = torch.rand(4, 5), torch.rand(4, blind.state_size)
        previous, is_first = torch.rand(4, 3), torch.tensor([True, False, False, False])
        seen = {"goal": goal, "depth": torch.rand(4, 32, 32, 1)}
        one = blind.act({"goal": goal}, previous, is_first, state, deterministic=True)
        other = seeing.act(seen, previous, is_first, state, deterministic=True)
        torch.testing.assert_close(other.action, one.action)
        torch.testing.assert_close(other.value, one.value)
        seeing.act(seen, previous, is_first, state).log_prob.sum().backward()
        takes_pictures = [p for p in seeing.trunks.parameters() if p.shape[-1:] == (24 + 8 + 32,)]
        assert any(p.grad[:, :24].abs().sum() > 0.0 for p in takes_pictures)  # it can learn to look
