"""Checkpoints whose numbers can be recognised."""

import json

import torch

from rearrange.ver.run.checkpoint import (
    save_checkpoint,
)


def tensors_of(step):
    """Recognisable numbers of several types and shapes."""
    return {
        "policy/weight": torch.full((20, 30), float(step)),
        "policy/is_seen": torch.tensor([True, False]),
        "policy/half": torch.tensor([step % 100], dtype=torch.bfloat16),
        "count": torch.tensor(step, dtype=torch.int64),
        "random": torch.arange(9, dtype=torch.uint8),
        "none": torch.zeros(0, 3),
    }


def save(folder, step, keep=10):
    return save_checkpoint(folder, step, tensors_of(step), {"skill": "pick", "n": [step]}, keep)


def tensors_file(manifest_path):
    return manifest_path.with_name(json.loads(manifest_path.read_text())["file"])


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def assert_is_whole(checkpoint):
    expected = tensors_of(checkpoint.step)
    assert checkpoint.manifest == {"skill": "pick", "n": [checkpoint.step]}
    assert checkpoint.tensors.keys() == expected.keys()
    for name, tensor in expected.items():
        assert tensor.dtype == checkpoint.tensors[name].dtype
        assert torch.equal(tensor, checkpoint.tensors[name])
