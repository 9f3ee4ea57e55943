"""Training that was stopped and restored takes the steps of one that was not."""

import json

import numpy as np
import pytest
import torch

from rearrange.errors import UserError
from rearrange.ver.run.checkpoint import below_prefix, load_newest, save_checkpoint, with_prefix
from rearrange.ver.run.training_state import (
    flatten_optimizer,
    numpy_random_state,
    restore_numpy_random_state,
    restore_optimizer,
    restore_torch_random_states,
    torch_random_states,
)

CPU = torch.device("cpu")
KINDS = {
    "Adam": (torch.optim.Adam, {}),
    "fused": (torch.optim.Adam, {"fused": True}),
    "AMSGrad": (torch.optim.AdamW, {"amsgrad": True, "weight_decay": 0.01}),
    "SGD": (torch.optim.SGD, {"momentum": 0.9}),
}


def make_training(kind):
    """A network and its optimiser with two groups, one parameter of which never has a gradient."""
    torch.manual_seed(3)
    network = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    network.unused = torch.nn.Parameter(torch.ones(3))
    cls, settings = KINDS[kind]
    groups = [
        {"params": [network.unused, *network[0].parameters()]},
        {"params": list(network[2].parameters()), "lr": 3e-4},
    ]
    return network, cls(groups, lr=1e-2, **settings)


def train(network, optimizer, rng, num_steps):
    for step in range(num_steps):
        for group in optimizer.param_groups:
            group["lr"] *= 0.9 + 0.01 * step
        inputs = torch.as_tensor(rng.normal(size=(5, 6)), dtype=torch.float32)
        loss = (network(inputs) + torch.randn(5, 2)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_before", [0, 5])
def test_training_goes_on_bit_for_bit_from_a_checkpoint(tmp_path, kind, num_before):
    network, optimizer = make_training(kind)
    rng = np.random.default_rng(5)
    train(network, optimizer, rng, num_before)
    state, groups = flatten_optimizer(optimizer)
    tensors = with_prefix("policy", network.state_dict()) | with_prefix("optimizer", state)
    tensors |= with_prefix("random", torch_random_states(CPU))
    save_checkpoint(tmp_path, 1, tensors, {"groups": groups, "random": numpy_random_state(rng)})
    train(network, optimizer, rng, 5)

    other, other_optimizer = make_training(kind)
    train(other, other_optimizer, np.random.default_rng(1), 2)  # leaves state that has to go
    other_rng = np.random.default_rng(99)
    loaded = load_newest(tmp_path)
    other.load_state_dict(below_prefix("policy", loaded.tensors))
    moments = below_prefix("optimizer", loaded.tensors)
    restore_optimizer(other_optimizer, moments, loaded.manifest["groups"])
    restore_numpy_random_state(loaded.manifest["random"], other_rng)
    restore_torch_random_states(below_prefix("random", loaded.tensors), CPU)
    before = {name: value.clone() for name, value in loaded.tensors.items()}
    train(other, other_optimizer, other_rng, 5)

    for name, weight in network.state_dict().items():
        assert torch.equal(weight, other.state_dict()[name]), name
    assert flatten_optimizer(optimizer)[1] == flatten_optimizer(other_optimizer)[1]
    for name, value in before.items():  # the checkpoint itself did not train along
        assert torch.equal(value, loaded.tensors[name])


def test_how_a_step_is_computed_stays_the_choice_of_whoever_restores():
    _, fused = make_training("fused")
    network, plain = make_training("Adam")
    restore_optimizer(plain, *flatten_optimizer(fused))
    assert plain.param_groups[0]["fused"] is None
    train(network, plain, np.random.default_rng(0), 1)


def test_optimizer_state_of_other_parameters_is_refused_and_changes_nothing():
    network, optimizer = make_training("Adam")
    train(network, optimizer, np.random.default_rng(0), 2)
    tensors, groups = flatten_optimizer(optimizer)
    wrong = {
        "parameters": (tensors, groups[:1]),
        "shape": (tensors | {"1/exp_avg": torch.zeros(2, 2)}, groups),
        "no parameter": (tensors | {"77/exp_avg": torch.zeros(2, 2)}, groups),
        "no setting 'eps'": (
            tensors,
            [{k: v for k, v in group.items() if k != "eps"} for group in groups],
        ),
        "damaged": (tensors, ["text"]),
    }
    for word, (state, settings) in wrong.items():
        with pytest.raises(UserError, match=word):
            restore_optimizer(optimizer, state, settings)
    after, _ = flatten_optimizer(optimizer)
    assert all(torch.equal(value, after[name]) for name, value in tensors.items())


def test_optimizer_that_json_cannot_hold_is_refused():
    parameter = torch.nn.Parameter(torch.ones(1))
    with pytest.raises(ValueError, match="lr must be a number"):
        flatten_optimizer(torch.optim.Adam([parameter], lr=torch.tensor(0.1)))


@pytest.mark.parametrize("kind", ["PCG64", "MT19937", "Philox", "SFC64", "PCG64DXSM"])
def test_numpy_generators_go_on_with_the_same_numbers(kind):
    rng = np.random.Generator(getattr(np.random, kind)(8))
    rng.integers(10, size=3, dtype=np.uint32)  # leaves half a draw behind
    state = json.loads(json.dumps(numpy_random_state(rng)))
    other = np.random.Generator(getattr(np.random, kind)(9))
    restore_numpy_random_state(state, other)
    assert other.integers(10, size=3, dtype=np.uint32).tolist() == (
        rng.integers(10, size=3, dtype=np.uint32).tolist()
    )
    assert other.normal(size=100).tolist() == rng.normal(size=100).tolist()


def test_torch_generator_goes_on_with_the_same_numbers():
    torch.manual_seed(1)
    torch.randn(3)
    states = torch_random_states(CPU)
    expected = torch.randn(9)
    torch.manual_seed(2)
    restore_torch_random_states(states, CPU)
    assert torch.equal(torch.randn(9), expected)


def test_the_generator_of_a_gpu_is_among_the_states(monkeypatch):
    """Without a GPU; with one see test_snapshot.py."""
    device, given = torch.device("cuda", 3), {}
    state = torch.arange(16, dtype=torch.uint8)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: state + device.index)
    monkeypatch.setattr(
        torch.cuda, "set_rng_state", lambda state, device: given.update({device: state})
    )
    states = torch_random_states(device)
    restore_torch_random_states(states, device)
    assert torch.equal(given[device], state + 3)
    restore_torch_random_states(torch_random_states(CPU), device)  # it had none: keeps its own
    assert len(given) == 1


def test_random_state_of_another_kind_is_one_line():
    state = numpy_random_state(np.random.Generator(np.random.MT19937(1)))
    with pytest.raises(UserError, match="random state does not fit"):
        restore_numpy_random_state(state, np.random.default_rng())
    with pytest.raises(UserError, match="random state does not fit"):
        restore_numpy_random_state({}, np.random.default_rng())
    with pytest.raises(UserError, match="random state does not fit"):
        restore_torch_random_states({"torch": torch.zeros(7, dtype=torch.uint8)}, CPU)
    with pytest.raises(UserError, match="random state does not fit"):
        restore_torch_random_states({"torch": torch.zeros(7)}, CPU)


@pytest.mark.parametrize(
    "setting", [{"betas": True}, {"betas": [0.9]}, {"betas": [0.9, 1e300]}, {"eps": []},
                {"eps": None}, {"lr": "x"}, {"lr": 1e300}, {"maximize": None}, {"amsgrad": 1}],
    ids=str,
)  # fmt: skip
def test_settings_of_another_kind_are_refused_in_one_line(setting):
    _, optimizer = make_training("Adam")
    tensors, groups = flatten_optimizer(optimizer)
    before = [dict(group) for group in flatten_optimizer(optimizer)[1]]
    with pytest.raises(UserError, match=f"optimiser has {next(iter(setting))}=") as caught:
        restore_optimizer(optimizer, tensors, [groups[0] | setting, *groups[1:]])
    assert "\n" not in str(caught.value)
    assert flatten_optimizer(optimizer)[1] == before


def test_moments_lie_in_memory_as_their_parameters(tmp_path):
    """Fused kernels walk through memory: a checkpoint's moments, which are contiguous, must not
    stay so beside convolutions whose channels come last."""

    def made():
        torch.manual_seed(2)
        network = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
        return network, torch.optim.Adam(network.parameters(), lr=1e-2, fused=True)

    def step(network, optimizer, seed):
        pictures = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(seed))
        optimizer.zero_grad()
        network(pictures).square().sum().backward()
        optimizer.step()

    network, optimizer = made()
    for seed in range(3):
        step(network, optimizer, seed)
    tensors, groups = flatten_optimizer(optimizer)
    weights = {name: value.clone() for name, value in network.state_dict().items()}
    save_checkpoint(tmp_path, 1, tensors, {"groups": groups})
    stored = load_newest(tmp_path)
    again, its_optimizer = made()
    again.load_state_dict(weights)
    restore_optimizer(its_optimizer, stored.tensors, stored.manifest["groups"])
    for parameter in again.parameters():
        moments = its_optimizer.state[parameter]
        assert moments["exp_avg"].stride() == parameter.stride()
        assert moments["exp_avg_sq"].stride() == parameter.stride()
    step(network, optimizer, 9)
    step(again, its_optimizer, 9)
    ours, theirs = network.parameters(), again.parameters()
    assert all(torch.equal(*pair) for pair in zip(ours, theirs, strict=True))
