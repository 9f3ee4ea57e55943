"""Vectors from hand to objects, rotated from the hand frame into the base frame.

    v_base = R(joint) v_hand,   R = Rz(q1) Ry(q2) Rx(q3) Ry(q4) Rx(q5) Ry(q6) Rx(q7)
    features: v_base [3], and 10 v_base clipped to +-1 [3], which resolves centimetres nearby

HAB's sensors give positions in the hand's frame, which turns with every joint. The height of the
hand above an object, to a centimetre, then takes a product of seven rotations, which a small
network does not learn. Fetch's torso is upright, so the base's axes are level.

B: batch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rearrange.sim.robot import fetch

IN_HAND = ("marker_rel_pos", "obj_goal_sensor", "obj_start_sensor")  # of one thing each, m
JOINT = "joint"
NEAR = 0.1  # m
BASE_FRAME_SIZE = 6


def hand_frame_vectors(shapes: dict[str, tuple[int, ...]]) -> list[str]:
    """Observations that can be rotated: vectors in the hand's frame, if joint angles are known."""
    if shapes.get(JOINT) != (len(fetch.ARM_AXES),):
        return []
    return [name for name in IN_HAND if shapes.get(name) == (3,)]


def in_base_frame(observation: dict[str, Tensor], names: list[str]) -> Tensor:
    """Features of these observations [B, 3], concatenated: [B, 6 len(names)]."""
    joint = observation[JOINT].float()
    cos, sin = joint.cos(), joint.sin()
    features = []
    for name in names:
        vector = list(observation[name].float().unbind(-1))
        for row in range(len(fetch.ARM_AXES) - 1, -1, -1):  # from the hand towards the base
            a, b = ((1, 2), (2, 0), (0, 1))[fetch.ARM_AXES[row]]
            c, s = cos[:, row], sin[:, row]
            vector[a], vector[b] = c * vector[a] - s * vector[b], s * vector[a] + c * vector[b]
        turned = torch.stack(vector, dim=-1)
        features += [turned, (turned / NEAR).clamp(-1.0, 1.0)]
    return torch.cat(features, dim=-1)
