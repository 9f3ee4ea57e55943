"""Who acts: the policy that learns or a copy, always with the weights of the last refresh."""

import threading

import numpy as np
import pytest
import torch
from fake_policy import FakePolicy

from rearrange.ver.rollout.actor import Actor
from rearrange.ver.rollout.types import PolicyInputs

INPUTS = PolicyInputs(
    {"observation": torch.tensor([[0.0, 0.0, 3.0]])}, torch.zeros(1, 2),
    torch.tensor([True]), torch.zeros(1, 1),
)  # fmt: skip
JUDGED = 0.001 * 3.0 + 0.01 * 3.0  # of weight 1


def act(actor):
    with torch.no_grad():
        return actor.act(INPUTS)


@pytest.mark.parametrize("is_copy", [False, True])
def test_acts_with_the_weights_of_the_last_refresh_and_says_which(is_copy):
    policy = FakePolicy()
    actor = Actor(policy, is_copy=is_copy)
    actor.refresh(4, 11)
    with torch.no_grad():
        policy.weight.fill_(2.0)
    old = act(actor)
    assert old[1:] == (4, 11) and actor.policy.num_refreshed == 1
    assert old.step.value.item() == pytest.approx(JUDGED * (1.0 if is_copy else 2.0))
    actor.refresh(5, 17)
    new = act(actor)
    assert new[1:] == (5, 17) and actor.policy.num_refreshed == 2
    assert new.step.value.item() == pytest.approx(2.0 * JUDGED)
    with torch.no_grad():
        assert actor.value(INPUTS).item() == pytest.approx(2.0 * JUDGED)


def test_a_copy_is_never_seen_half_refreshed():
    """One thread acts as fast as it can while another brings over weights."""
    policy = FakePolicy()
    actor = Actor(policy, is_copy=True)
    actor.refresh(1, 1)
    seen, is_over = [], threading.Event()

    def act_on():
        with torch.inference_mode():
            while not is_over.is_set():
                decided = actor.act(INPUTS)
                seen.append((decided.step.value.item(), decided.policy_version))

    thread = threading.Thread(target=act_on)
    thread.start()
    for version in range(1, 200):
        with torch.no_grad():
            policy.weight.fill_(float(version))
        actor.refresh(version, version)
    is_over.set()
    thread.join()
    values, versions = np.array(seen).T
    np.testing.assert_allclose(values, JUDGED * versions, rtol=1e-5)
