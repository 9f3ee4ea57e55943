"""Whether the arm goes right through something: what MuJoCo's contacts do not tell.

The collision of capsule and box (MuJoCo 4.0) misses some of the capsules whose axis crosses a thin
box: 17 of 811 random ones across a wall of 4 cm, and arms through the side of the fridge.
"""

from __future__ import annotations

import mujoco
import numpy as np

from rearrange.sim.model import HOUSE, ROBOT


def arm_pierces(model: mujoco.MjModel, data: mujoco.MjData) -> bool:
    """Whether the axis of one of the robot's capsules crosses a box of the house, as they are now.

    Args:
        data: with the positions of geoms computed.
    """
    is_arm = model.geom_type == mujoco.mjtGeom.mjGEOM_CAPSULE
    is_arm &= model.geom_contype & ROBOT > 0
    is_box = (model.geom_type == mujoco.mjtGeom.mjGEOM_BOX) & (model.geom_contype & HOUSE > 0)
    directions = data.geom_xmat[is_arm].reshape(-1, 3, 3)[:, :, 2]
    axes = directions * model.geom_size[is_arm, 1:2]  # [C, 3], half of each
    turns = data.geom_xmat[is_box].reshape(-1, 3, 3)  # [B, 3, 3], box to world
    # In each box's frame, [C, B, 3].
    off = data.geom_xpos[is_arm][:, None] - data.geom_xpos[is_box][None]
    middle = np.einsum("cbi,bij->cbj", off, turns)
    half = np.einsum("ci,bij->cbj", axes, turns)
    half = np.where(np.abs(half) < 1e-9, 1e-9, half)
    bounds = np.stack([(-s * model.geom_size[is_box] - middle) / half for s in (1.0, -1.0)])
    enters = bounds.min(axis=0).max(axis=2)  # [C, B], shares of the half axis
    leaves = bounds.max(axis=0).min(axis=2)
    return bool((np.maximum(enters, -1.0) < np.minimum(leaves, 1.0)).any())
