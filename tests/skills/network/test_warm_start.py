"""A policy that learned with few sensors, made into one that has more."""

from dataclasses import replace

import pytest
import torch
from gymnasium import spaces

from rearrange.skills.network.pictures.encoder import EncoderCfg
from rearrange.skills.network.policy import build_policy
from rearrange.skills.network.policy_cfg import PolicyCfg
from rearrange.skills.network.warm_start import with_new_inputs
from rearrange.ver.workers.spaces import action_spec, observation_spec

GOAL = {"goal": spaces.Box(-1.0, 1.0, (5,))}
SCAN = {"scan": spaces.Box(-1.0, 1.0, (40,))}
PICTURE = {"depth": spaces.Box(0.0, 1.0, (32, 32, 1))}
PICTURE_SIZE, SCAN_SIZE = 24, 12


def make_policies(hidden_sizes, *observations):
    """A policy for each, of the same settings."""
    torch.manual_seed(0)
    action = action_spec(spaces.Box(-1.0, 1.0, (3,)))
    encoder = EncoderCfg(image_size=32, base_width=8, compressed_size=32, feature_size=PICTURE_SIZE)
    cfg = PolicyCfg(
        encoder=encoder, vector_size=8, scan_size=SCAN_SIZE, lstm_hidden=13,
        hidden_sizes=hidden_sizes,
    )  # fmt: skip
    return [build_policy(observation_spec(spaces.Dict(it)), action, cfg) for it in observations]


def draw_inputs():
    """All that any of them sees, in four environments."""
    return {
        "goal": torch.rand(4, 5), "scan": torch.rand(4, 40), "depth": torch.rand(4, 32, 32, 1)
    }  # fmt: skip


@pytest.mark.parametrize("hidden_sizes", [[16], []])
@pytest.mark.parametrize(
    "before, after, new",
    [
        (GOAL, GOAL | PICTURE, slice(0, PICTURE_SIZE)),
        (GOAL, GOAL | SCAN, slice(0, SCAN_SIZE)),
        (GOAL | SCAN, GOAL | SCAN | PICTURE, slice(0, PICTURE_SIZE)),
        (GOAL | PICTURE, GOAL | SCAN | PICTURE, slice(PICTURE_SIZE, PICTURE_SIZE + SCAN_SIZE)),
        (GOAL, GOAL | SCAN | PICTURE, slice(0, PICTURE_SIZE + SCAN_SIZE)),
    ],
)
def test_it_acts_alike_at_first_whatever_it_sees(before, after, new, hidden_sizes):
    old, grown = make_policies(hidden_sizes, before, after)
    grown.load_state_dict(
        with_new_inputs(old.state_dict(), grown.state_dict(), grown.embedding), strict=True
    )
    seen = draw_inputs()
    state, previous = torch.rand(4, old.state_size), torch.rand(4, 3)
    is_first = torch.tensor([True, False, False, False])

    def act(policy, names):
        chosen = {name: seen[name] for name in names}
        return policy.act(chosen, previous, is_first, state, deterministic=True)

    one, other = act(old, before), act(grown, after)
    torch.testing.assert_close(other.action, one.action)
    torch.testing.assert_close(other.value, one.value)
    policy_step = grown.act({n: seen[n] for n in after}, previous, is_first, state)
    policy_step.log_prob.sum().backward()
    takers = [p for p in grown.trunks.parameters() if p.shape[-1:] == (grown.embedding.size,)]
    assert any(p.grad[:, new].abs().sum() > 0.0 for p in takers)  # it can learn to look


@pytest.mark.parametrize("hidden_sizes", [[16], []])
@pytest.mark.parametrize("after", [GOAL, GOAL | SCAN])
def test_without_its_pictures_it_acts_as_one_that_does_not_heed_them(after, hidden_sizes):
    old, blind = make_policies(hidden_sizes, after | PICTURE, after)
    for layer in old.trunks.parameters():
        if layer.shape[-1:] == (old.embedding.size,):
            layer.data[:, :PICTURE_SIZE] = 0.0
    weights = with_new_inputs(old.state_dict(), blind.state_dict(), blind.embedding)
    blind.load_state_dict(weights, strict=True)
    seen = draw_inputs()
    state = torch.rand(4, old.state_size)
    rest = torch.rand(4, 3), torch.tensor([True, False, False, False]), state
    one, other = (
        policy.act({name: seen[name] for name in names}, *rest, deterministic=True)
        for policy, names in ((old, after | PICTURE), (blind, after))
    )
    torch.testing.assert_close(other.action, one.action)
    torch.testing.assert_close(other.value, one.value)


def test_pictures_are_not_left_out_where_other_inputs_are_missing_too():
    old, blind = make_policies([16], GOAL | SCAN | PICTURE, GOAL)
    known = old.state_dict()
    assert with_new_inputs(known, blind.state_dict(), blind.embedding) is known


def test_long_vectors_are_scans_only_beside_short_ones():
    action = action_spec(spaces.Box(-1.0, 1.0, (3,)))
    alone = build_policy(observation_spec(spaces.Dict(SCAN)), action, PolicyCfg())
    assert alone.embedding.scans == [] and alone.embedding.vectors == ["scan"]
    both = build_policy(observation_spec(spaces.Dict(SCAN | GOAL)), action, PolicyCfg())
    assert both.embedding.scans == ["scan"] and both.embedding.vectors == ["goal"]
    other = build_policy(observation_spec(spaces.Dict(SCAN | GOAL)), action, PolicyCfg(scan_size=0))
    assert other.embedding.vectors == ["goal", "scan"]


def test_weights_that_lack_nothing_are_left_as_they_are():
    policy = build_policy(
        observation_spec(spaces.Dict(GOAL)), action_spec(spaces.Box(-1.0, 1.0, (3,))), PolicyCfg()
    )
    known = policy.state_dict()
    assert with_new_inputs(known, policy.state_dict(), policy.embedding) is known


def test_base_frame_vectors_are_ignored_at_first():
    torch.manual_seed(0)
    action = action_spec(spaces.Box(-1.0, 1.0, (3,)))
    before = {
        "joint": spaces.Box(-2.0, 2.0, (7,)), "obj_start_sensor": spaces.Box(-9.0, 9.0, (3,)),
    }  # fmt: skip
    cfg = PolicyCfg(vector_size=8, lstm_hidden=13, hidden_sizes=[16])
    old = build_policy(observation_spec(spaces.Dict(before)), action, cfg)
    grown_cfg = replace(cfg, base_frame_vectors=True)
    grown = build_policy(observation_spec(spaces.Dict(before)), action, grown_cfg)
    grown.load_state_dict(with_new_inputs(old.state_dict(), grown.state_dict(), grown.embedding))
    seen = {"joint": torch.rand(4, 7), "obj_start_sensor": torch.rand(4, 3)}
    rest = (torch.rand(4, 3), torch.zeros(4, dtype=torch.bool), torch.rand(4, old.state_size))
    one = old.act(seen, *rest, deterministic=True)
    other = grown.act(seen, *rest, deterministic=True)
    torch.testing.assert_close(other.action, one.action)
    other.value.sum().backward()
    layer = grown.embedding.vector_layer[0].weight
    assert layer.shape[1] == 10 + 6 and layer.grad[:, 10:].abs().sum() > 0.0


@pytest.mark.parametrize("after", [GOAL, GOAL | SCAN], ids=["as before", "with a scan"])
@pytest.mark.parametrize("hidden_sizes", [[16], []])
def test_each_of_several_policies_acts_at_first_as_the_one_that_has_learned(after, hidden_sizes):
    torch.manual_seed(0)
    action = action_spec(spaces.Box(-1.0, 1.0, (3,)))
    cfg = PolicyCfg(vector_size=8, scan_size=12, lstm_hidden=13, hidden_sizes=hidden_sizes)
    old = build_policy(observation_spec(spaces.Dict(GOAL)), action, cfg)
    with torch.no_grad():
        old.actor.log_std[:] = torch.tensor([-1.0, 0.0, 0.5])
    several = replace(cfg, num_blocks=3, block_size=5)
    grown = build_policy(observation_spec(spaces.Dict(after)), action, several)
    grown.load_state_dict(with_new_inputs(old.state_dict(), grown.state_dict(), grown.embedding))
    seen = {"goal": torch.rand(4, 5), "scan": torch.rand(4, 40)}
    state, previous = torch.rand(4, old.state_size), torch.rand(4, 3)
    inputs = previous, torch.tensor([True, False, False, False]), state
    one = old.act({"goal": seen["goal"]}, *inputs, deterministic=True)
    blocks = {"sapg_block": torch.tensor([[0], [1], [2], [2]], dtype=torch.uint8)}
    for told in ({}, blocks):  # without a word the first one acts
        other = grown.act({name: seen[name] for name in after} | told, *inputs, deterministic=True)
        torch.testing.assert_close(other.action, one.action)
        torch.testing.assert_close(other.value, one.value)
        torch.testing.assert_close(other.log_prob, one.log_prob)  # as wide, too


def test_what_has_several_means_acts_at_first_as_what_had_one():
    torch.manual_seed(0)
    action = action_spec(spaces.Box(-1.0, 1.0, (3,)))
    cfg = PolicyCfg(vector_size=8, lstm_hidden=13, hidden_sizes=[16])
    old = build_policy(observation_spec(spaces.Dict(GOAL)), action, cfg)
    several = replace(cfg, num_components=3)
    grown = build_policy(observation_spec(spaces.Dict(GOAL)), action, several)
    grown.load_state_dict(with_new_inputs(old.state_dict(), grown.state_dict(), grown.embedding))
    seen, state = {"goal": torch.rand(4, 5)}, torch.rand(4, old.state_size)
    rest = torch.rand(4, 3), torch.zeros(4, dtype=torch.bool), state
    one = old.act(seen, *rest, deterministic=True)
    other = grown.act(seen, *rest, deterministic=True)
    torch.testing.assert_close(other.action, one.action)
    torch.testing.assert_close(other.value, one.value)
    others = grown.actor.mixture.others.weight.reshape(2, 3, 13) - old.actor.linear.weight
    assert (others.norm(dim=-1) > 0.1).all()  # apart, or all would learn the same
    assert (others[0] - others[1]).norm() > 0.1


def test_changes_are_ignored_at_first():
    torch.manual_seed(0)
    action = action_spec(spaces.Box(-1.0, 1.0, (3,)))
    observation = observation_spec(spaces.Dict({"joint": spaces.Box(-2.0, 2.0, (7,))}))
    cfg = PolicyCfg(vector_size=8, lstm_hidden=13, hidden_sizes=[16])
    old = build_policy(observation, action, cfg)
    grown = build_policy(observation, action, replace(cfg, vector_changes=True))
    grown.load_state_dict(with_new_inputs(old.state_dict(), grown.state_dict(), grown.embedding))
    seen, state = {"joint": torch.rand(4, 7)}, torch.rand(4, old.state_size)
    rest = (torch.rand(4, 3), torch.zeros(4, dtype=torch.bool))
    one = old.act(seen, *rest, state, deterministic=True)
    wider = torch.cat([state, torch.rand(4, 7)], dim=1)
    other = grown.act(seen, *rest, wider, deterministic=True)
    torch.testing.assert_close(other.action, one.action)
    other.value.sum().backward()
    layer = grown.embedding.vector_layer[0].weight
    assert layer.shape[1] == 2 * 7 and layer.grad[:, 7:].abs().sum() > 0.0
