"""Whether things lie still, told from what bears them: far cheaper than letting time pass.

A thing at rest on level surfaces that bear it all around its centre of mass does not move. What
leans, is squeezed or touches another thing is not judged here.
"""

from __future__ import annotations

import mujoco
import numpy as np

TOUCHDOWN = 1  # physics step, from 0, whose contacts bear what was put onto a surface
LEVEL = 0.999  # of a contact's normal, upwards
DEPTH = 0.001  # m; a fall of one physics step is 0.7 mm
_ANGLES = np.arange(32) * (2 * np.pi / 32)
_DIRECTIONS = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)])  # [2, 32]
# If a centre lay outside what bears it, all contacts would be on the other side of some line
# through it, and along the direction nearest to its normal, at most 5.63 degrees away, none
# farther than sin(5.63 deg) = 0.098 of the farthest contact's distance.
_SPREAD = 0.1


def all_rest(model: mujoco.MjModel, data: mujoco.MjData, bodies: np.ndarray) -> bool:
    """Whether each of `bodies` [N], awake and slow, is borne so that it stays where it is.

    False where that cannot be told from the contacts: two of them touch, or anything else that
    moves touches something.
    """
    contact = data.contact
    touching = model.geom_bodyid[contact.geom]  # [C, 2]
    number = np.full(model.nbody, -1)
    number[bodies] = np.arange(len(bodies))
    numbers = number[touching]
    owner = numbers.max(axis=1)
    if (owner < 0).any() or (numbers.min(axis=1) >= 0).any():
        return False
    if (np.abs(contact.frame[:, 2]) < LEVEL).any() or (contact.dist < -DEPTH).any():
        return False
    arms = contact.pos[:, :2] - data.xipos[bodies[owner], :2]  # [C, 2]
    lengths = np.hypot(*arms.T)
    farthest, reach = np.zeros(len(bodies)), np.full((len(bodies), len(_ANGLES)), -np.inf)
    np.maximum.at(farthest, owner, lengths)
    np.maximum.at(reach, owner, arms @ _DIRECTIONS)
    is_round = model.geom_type[model.body_geomadr[bodies]] == mujoco.mjtGeom.mjGEOM_SPHERE
    is_borne = (reach > _SPREAD * farthest[:, None]).all(axis=1)
    is_on_point = is_round & (reach > -np.inf).all(axis=1) & (farthest < DEPTH)
    return bool((is_borne | is_on_point).all())
