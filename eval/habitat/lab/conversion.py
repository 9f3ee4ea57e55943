"""Between our actions and sensors and those of stock habitat-lab.

    ours                     there
    arm        7             arm_action, the same: 0.0125 rad of the motors' targets a control step
    grip                     grip_action, the same, where the task has it
    base       2             base_vel; forward x 0.4: 1.0 m/s here, 10 m/s over one substep there;
                             how it moves in that step: `driven_base`
    stop                     rearrange_stop, the same, where the task has it
    motor_lead               not there: the arm's action is held back so that targets stay within it
    head_depth               where nothing is seen 1, which is 0 there
    coarse_depth             from head_depth, the nearest surface of each cell
    base_scan                from rays against what collides, the robot left out
    marker_rel_pos, marker_js  from the marker; all else has its name and meaning there too

Runs in Habitat's Python too: numpy alone, Python 3.9.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

ACTION_SIZE = 11
ARM, GRIP, BASE, STOP = slice(0, 7), 7, slice(8, 10), 10
CONTROL_DT = 1.0 / 30.0  # s, of a control step
ARM_STEP = 0.0125  # rad, of the motors' targets at an action of 1, here and there
# A control step of 1/30 s moves ours by 1.0 m/s and 2.5 rad/s; there by 10 m/s and 10 rad/s over
# the 1/120 s of one substep (habitat-lab 0.3.320260507, BaseVelAction).
FORWARD = CONTROL_DT / (10.0 / 120.0)
TURN = 2.5 * CONTROL_DT / (10.0 / 120.0)
CELL = 4  # pixels a side of a cell of coarse_depth
MAX_RANGE = 10.0  # m
LASER_POS_B = (0.235, 0.0, 0.2878)  # m, base frame, z up
_SECTORS, _SECTOR_RAYS, _LASER_FOV = 3, 16, math.radians(220.0)


def stock_action(action: np.ndarray, parts: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    """An action of the full space, [11], as `habitat.Env.step` takes it.

    Args:
        parts: the task's actions there, and the names of what each takes; slots that none takes do
            nothing.
    """
    values = np.clip(np.asarray(action, np.float64), -1.0, 1.0)
    given = {
        "arm_action": values[ARM].astype(np.float32),
        "grip_action": values[GRIP : GRIP + 1].astype(np.float32),
        "base_vel": (values[BASE] * (FORWARD, TURN)).astype(np.float32),
        "rearrange_stop": values[STOP : STOP + 1].astype(np.float32),
    }
    wanted = [name for names in parts.values() for name in names]
    arguments = {name: value for name, value in given.items() if name in wanted}
    return {"action": tuple(parts), "action_args": arguments}


def held_back(
    action: np.ndarray, target: np.ndarray, joint: np.ndarray, lead: float | None,
    limits: tuple[np.ndarray, np.ndarray],
) -> np.ndarray:  # fmt: skip
    """The action, with the arm's part such that motors lead their joints by `lead` at most.

    Args:
        target, joint: [7] rad, of the motors and of the joints now.
        limits: of the joints, which targets do not pass then; None of a lead leaves all as it is.
    """
    if lead is None:
        return action
    arm = np.clip(np.asarray(action, np.float64)[ARM], -1.0, 1.0)
    wanted = np.clip(target + ARM_STEP * arm, joint - lead, joint + lead)
    wanted = np.clip(wanted, *limits)
    changed = np.array(action, np.float64)
    changed[ARM] = np.clip((wanted - target) / ARM_STEP, -1.0, 1.0)
    return changed


def nearness(distance: np.ndarray) -> np.ndarray:
    """(1 - d) / (1 + d) of distances in m, float32, as our range sensors are given."""
    return ((1.0 - distance) / (1.0 + distance)).astype(np.float32)


def with_nothing_far(head_depth: np.ndarray) -> np.ndarray:
    """A `head_depth` of theirs, 0 where there is nothing to see, as ours, 1 there."""
    return np.where(head_depth == 0.0, np.float32(1.0), head_depth)


def coarse_depth(head_depth: np.ndarray) -> np.ndarray:
    """[256] of a `head_depth` [64, 64, 1], which is divided by 10 m."""
    rows, columns = (size // CELL for size in head_depth.shape[:2])
    cells = head_depth[:, :, 0].reshape(rows, CELL, columns, CELL)
    return nearness(MAX_RANGE * cells.min(axis=(1, 3)).ravel())


def scan_directions() -> np.ndarray:
    """Of the rays of `base_scan`, [48, 3] in the base frame, z up, from the right to the left."""
    sector = _LASER_FOV / _SECTORS
    pixel = 2.0 * math.tan(sector / 2.0) / _SECTOR_RAYS
    across = (np.arange(_SECTOR_RAYS) + 0.5 - _SECTOR_RAYS / 2) * pixel
    centres = sector * (np.arange(_SECTORS) - (_SECTORS - 1) / 2)
    angles = (centres[:, None] + np.arctan(across)).ravel()
    return np.column_stack([np.cos(angles), np.sin(angles), np.zeros_like(angles)])


def to_habitat(point: Any) -> np.ndarray:
    """A point or direction of ours, z up, in Habitat's axes, y up."""
    x, y, z = (float(v) for v in point)
    return np.array([x, z, -y])


def from_habitat(point: Any) -> np.ndarray:
    """The other way."""
    x, y, z = (float(v) for v in point)
    return np.array([x, -z, y])
