"""Running statistics against numpy over all the data at once."""

from __future__ import annotations

import numpy as np
import torch

from rearrange.skills.network.normalizer import CLIP, RunningNormalizer


def test_parts_give_the_statistics_of_the_whole():
    rng = np.random.default_rng(0)
    parts = [rng.normal(1000.0, 0.5 + i, (n, 3)) for i, n in enumerate((1, 50, 2, 0, 700))]
    normalizer = RunningNormalizer(3)
    for part in parts:
        normalizer.update(torch.as_tensor(part))
    whole = np.concatenate(parts)
    assert normalizer.count.item() == 753
    np.testing.assert_allclose(normalizer.mean, whole.mean(0), rtol=1e-12)
    np.testing.assert_allclose(normalizer.variance, whole.var(0), rtol=1e-9)
    x = torch.as_tensor(whole[:5], dtype=torch.float32)
    expected = (whole[:5] - whole.mean(0)) / whole.std(0)
    np.testing.assert_allclose(normalizer(x), expected, atol=1e-3)  # float32 of numbers near 1000


def test_clips_and_takes_constants():
    normalizer = RunningNormalizer(2)
    normalizer.update(torch.tensor([[0.0, 7.0], [2.0, 7.0]]))
    out = normalizer(torch.tensor([[1e6, 7.0], [-1e6, 7.0], [1.0, 7.0]]))
    assert out.tolist() == [[CLIP, 0.0], [-CLIP, 0.0], [0.0, 0.0]]


def test_new_normalizer_leaves_things_as_they_are():
    x = torch.randn(4, 3)
    torch.testing.assert_close(RunningNormalizer(3)(x), x)
