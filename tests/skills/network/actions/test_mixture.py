"""A choice among several means: which one acts, what it is to distributions and to weights."""

import numpy as np
import pytest
import torch

from rearrange.skills.network.actions.heads import GaussianHead, action_head
from rearrange.ver.rollout.types import Components
from rearrange.ver.workers.spaces import ActionSpec

HALF_OPEN = ActionSpec(
    kind="box", size=2, num_choices=(),
    low=np.array([-1.0, -np.inf], np.float32), high=np.array([1.0, np.inf], np.float32),
)  # fmt: skip


def head(num_components, switches=()) -> GaussianHead:
    torch.manual_seed(0)
    made = action_head(5, HALF_OPEN, -1.0, (), switches, num_components=num_components)
    assert isinstance(made, GaussianHead)
    return made


def test_the_likeliest_component_gives_the_whole_action():
    means = torch.arange(12.0).reshape(2, 3, 2)
    chosen = Components(means, torch.tensor([[0.0, 2.0, 1.0], [3.0, 2.0, 1.0]])).likeliest()
    assert chosen.tolist() == [[2.0, 3.0], [6.0, 7.0]]


@pytest.mark.parametrize("switches", [(), (0,)])
def test_the_distribution_is_that_of_the_chosen_component(switches):
    actor, features = head(3, switches), torch.randn(40, 5)
    assert actor.mixture is not None
    torch.nn.init.normal_(actor.mixture.choice.weight)
    distribution = actor(features)
    means, logits = distribution.components
    best = logits.argmax(-1)
    assert len(set(best.tolist())) == 3
    torch.testing.assert_close(distribution.mean, means[torch.arange(40), best])
    first = actor.linear(features)
    torch.testing.assert_close(means[:, 0, 0], first[:, 0].tanh())
    torch.testing.assert_close(means[:, 0, 1], first[:, 1])  # no range, no squashing
    assert (means[..., 0].abs() < 1.0).all() and (means[:, 1:, 1].abs() > 0.0).all()
    if not switches:
        torch.testing.assert_close(distribution.mode(), distribution.mean)
        normal = torch.distributions.Normal(distribution.mean, actor.log_std.exp())
        action = distribution.sample()
        torch.testing.assert_close(distribution.log_prob(action), normal.log_prob(action).sum(-1))


def test_one_component_is_no_mixture():
    actor = head(1)
    assert sorted(actor.state_dict()) == ["linear.bias", "linear.weight", "log_std"]
    assert actor(torch.randn(3, 5)).components is None


def test_discrete_actions_have_no_components():
    spec = ActionSpec(kind="discrete", size=1, num_choices=(3,), low=np.zeros(1), high=np.ones(1))
    with pytest.raises(ValueError, match="num_components are for Box actions, got 2"):
        action_head(5, spec, -1.0, num_components=2)
