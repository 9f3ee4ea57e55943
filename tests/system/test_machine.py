"""The device that a setting means, on machines with and without GPUs."""

import pytest
import torch

from rearrange.errors import UserError
from rearrange.system.machine import pick_device


@pytest.fixture
def one_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)


@pytest.mark.usefixtures("one_gpu")
def test_a_rank_without_a_gpu_of_its_own_is_told_what_to_do():
    assert pick_device("auto") == torch.device("cuda")
    assert pick_device("auto", 0, 2) == torch.device("cuda", 0)
    with pytest.raises(UserError, match="2 ranks .* need a GPU each, torch sees 1: .* device=cpu"):
        pick_device("auto", 1, 2)
    with pytest.raises(UserError, match="device cuda:1 is not available: torch sees 1 GPUs"):
        pick_device("cuda:1")
