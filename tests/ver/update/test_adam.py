"""Adam as PyTorch's, without its compiler."""

import subprocess
import sys

import pytest
import torch

from rearrange.ver.update.adam import Adam

TRAINING = """
import sys
from rearrange.cli import main
code = main(["train", "env=CartPole-v1", "run_dir=run", "total_steps=256", "num_envs=2",
             "num_steps=32", "mode=nover", "serial=true"])
assert code == 0
import rearrange
assert "head_depth" in rearrange.load_skill("pick").observation
print("torch._dynamo" in sys.modules)
"""


def trained(kind, fused, steps=5):
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    optimizer = kind(layers.parameters(), lr=0.01, eps=1e-5, fused=fused)
    for step in range(steps):
        optimizer.zero_grad()
        layers(torch.full((3, 4), 0.1 * step)).square().sum().backward()
        optimizer.step()
        if step == 2:  # as from a checkpoint
            state = optimizer.state_dict()
            optimizer = kind(layers.parameters(), lr=1.0, fused=fused)
            optimizer.load_state_dict(state)
    return [*layers.parameters(), *(value for _, value in sorted(optimizer.state_dict().items()))]


@pytest.mark.parametrize("fused", [True, False])
def test_the_numbers_are_pytorchs_to_the_last_bit(fused):
    *ours, groups, state = trained(Adam, fused)
    *theirs, their_groups, their_state = trained(torch.optim.Adam, fused)
    assert groups == their_groups and groups[0]["lr"] == 0.01
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a, b) and a.requires_grad
    for place, values in their_state.items():
        assert all(torch.equal(state[place][name], value) for name, value in values.items())


def test_a_training_and_a_skill_that_sees_start_without_the_compiler(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", TRAINING], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.split()[-1:] == ["False"], done.stdout + done.stderr
