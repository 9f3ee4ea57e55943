"""The nearest surface in each cell of a depth image: a shortcut around the encoder.

    picture [B, H, W, C] --> nearest pixel of each of n x n cells --> nearness --> [B, C n n]

For a hand that must not touch anything the nearest surface matters most. The encoder can learn it,
slowly; this provides it at no cost. The numbers are those of the sensor `coarse_depth`
(`tasks/ranges.py`), so a policy trained with that sensor can be continued with the camera.

B: batch, C: channels, n: cells a side.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rearrange.tasks.ranges import MAX_RANGE


def _cells(size: int, number: int) -> list[slice]:
    """The pixels of each cell along a side, as adaptive pooling has them: they may overlap."""
    return [slice(i * size // number, -(-(i + 1) * size // number)) for i in range(number)]


def nearest_cells(picture: Tensor, num_cells: int) -> Tensor:
    """Nearness (1 - d) / (1 + d) of the nearest distance d (m) of each cell.

    Args:
        picture: [B, H, W, C] depth, in [0, 1] for 0 to 10 m; bytes: in [0, 255].
        num_cells: a side; at most H and W.

    Returns [B, C n n] float32 in [-1, 1], cells row by row from the top left.
    """
    if picture.dtype == torch.uint8:
        picture = picture.float() / 255.0
    depth = picture.float()
    size, height, width, channels = depth.shape
    if height % num_cells or width % num_cells:  # adaptive pooling, which ONNX does not have
        rows = torch.stack([depth[:, own].amin(1) for own in _cells(height, num_cells)], 1)
        cells = torch.stack([rows[:, :, own].amin(2) for own in _cells(width, num_cells)], 2)
        nearest = cells.permute(0, 3, 1, 2)
    else:  # rows, then columns: pooling takes five times as long where the channels are last
        rows = depth.reshape(size, num_cells, height // num_cells, width, channels).amin(2)
        cells = rows.reshape(size, num_cells, num_cells, width // num_cells, channels).amin(3)
        nearest = cells.permute(0, 3, 1, 2)
    distance = MAX_RANGE * nearest.flatten(1)
    return (1.0 - distance) / (1.0 + distance)
