"""Forward and inverse kinematics of Fetch's arm; small steps of arm and base together.

    R_i = R_{i-1} Rot(axis_i, q_i)     p_i = p_{i-1} + R_{i-1} origin_i     J_i = a_i x (p_ee - p_i)
    dq  = z + J^T (J J^T + damping^2 I)^-1 (error - J z)     z: the pull to a preferred posture

All positions are in the base frame (`_b`; x forward, y left, z up, m), joints in the order of
`fetch.ARM_JOINTS` (rad). The end effector (ee) is the tip of the suction nozzle; its x axis, the
approach, points out of the gripper. Damped least squares: Nakamura and Hanafusa 1986; null-space
pull: Liegeois 1977.

F: frames, 7 links then gripper_link then ee.
"""

from __future__ import annotations

import numpy as np

from rearrange.sim.robot import fetch
from rearrange.skills.motion.arm_kernel import (
    APPROACH,
    FREE,
    FULL,
    descend_many,
    frames_of,
    jacobian_of,
    joint_step,
    postures_along,
)

ROTATION_TOLERANCE = 0.02  # rad
MAX_BASE_FORWARD = fetch.MAX_BASE_SPEED / 30.0  # m a control step
MAX_BASE_TURN = fetch.MAX_BASE_TURN / 30.0  # rad a control step
_NO_ROTATION = np.zeros((3, 3))


def link_frames(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions [F, 3] and rotations [F, 3, 3], base frame, of 7 links, gripper_link and ee."""
    return frames_of(np.asarray(q, dtype=np.float64))


def ee_pose(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Position [3] and rotation [3, 3] of the end effector in the base frame."""
    position, rotation = link_frames(q)
    return position[8], rotation[8]


def gripper_pose(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Position [3] and rotation [3, 3] of gripper_link in the base frame."""
    position, rotation = link_frames(q)
    return position[7], rotation[7]


def position_jacobian(q: np.ndarray) -> np.ndarray:
    """d ee position / d q, [3, 7] m/rad."""
    return jacobian_of(np.asarray(q, dtype=np.float64))[2][:3].copy()


def solve_ik(
    target_pos_b: np.ndarray,  # [3]
    approach_b: np.ndarray | None = None,  # [3] unit; roll about it stays free
    seed: np.ndarray | None = None,  # [7], default ARM_START
    *,
    rotation_b: np.ndarray | None = None,  # [3, 3]; the full pose
    preferred: np.ndarray | None = None,  # [7], default the seed
    approach_tolerance: float = ROTATION_TOLERANCE,
    posture_gain: float = 0.05,
    num_restarts: int = 8,
    random_seed: int = 0,
) -> np.ndarray | None:
    """Joints [7] within the limits that bring the ee to a pose, None if no descent arrives.

    Arrived means `POSITION_TOLERANCE`, and `approach_tolerance` (rad, also for `rotation_b`). The
    first descent starts at `seed`, the others at configurations that depend only on `random_seed`.
    Without `approach_b` and `rotation_b` any orientation will do.
    """
    found = solve_ik_many(
        target_pos_b, approach_b, seed, rotation_b=rotation_b, preferred=preferred, num_solutions=1,
        approach_tolerance=approach_tolerance, posture_gain=posture_gain, num_restarts=num_restarts,
        random_seed=random_seed,
    )  # fmt: skip
    return found[0] if len(found) else None


def solve_ik_many(
    target_pos_b: np.ndarray,
    approach_b: np.ndarray | None = None,
    seed: np.ndarray | None = None,
    *,
    num_solutions: int,
    rotation_b: np.ndarray | None = None,
    preferred: np.ndarray | None = None,
    approach_tolerance: float = ROTATION_TOLERANCE,
    posture_gain: float = 0.05,
    num_restarts: int = 24,
    random_seed: int = 0,
) -> np.ndarray:
    """As `solve_ik`, but up to `num_solutions` postures [n, 7], nearest to `preferred` first."""
    target = np.asarray(target_pos_b, dtype=np.float64)
    seed = fetch.ARM_START if seed is None else np.asarray(seed, dtype=np.float64)
    preferred = seed if preferred is None else np.asarray(preferred, dtype=np.float64)
    rotation, mode = _NO_ROTATION, FREE
    if rotation_b is not None:
        rotation, mode = np.ascontiguousarray(rotation_b, dtype=np.float64), FULL
    elif approach_b is not None:
        rotation, mode = np.zeros((3, 3)), APPROACH
        rotation[:, 0] = np.asarray(approach_b, dtype=np.float64)
        rotation[:, 0] /= np.linalg.norm(rotation[:, 0])
    return descend_many(
        target, rotation, mode, seed, preferred, float(approach_tolerance), float(posture_gain),
        int(num_restarts), int(num_solutions), int(random_seed),
    )  # fmt: skip


def straight_line(
    q_start: np.ndarray,  # [7]
    target_pos_b: np.ndarray,  # [3]
    keep: str = "approach",  # constraint from the start's pose: "approach", "rotation", "position"
    *,
    approach_tolerance: float = 0.05,
    step: float = 0.01,
) -> np.ndarray | None:
    """Joints [n, 7] that move the ee straight to a point, `step` metres apart, or None.

    From `q_start` on, no joint jumps: each row differs by less than 0.3 rad from the row before.
    """
    modes = {"position": FREE, "approach": APPROACH, "rotation": FULL}
    if keep not in modes:
        raise ValueError(f"keep must be one of {', '.join(modes)}, got {keep!r}")
    path, is_complete = postures_along(
        np.asarray(q_start, dtype=np.float64), np.asarray(target_pos_b, dtype=np.float64),
        modes[keep], float(approach_tolerance), float(step),
    )  # fmt: skip
    return path if is_complete else None


def whole_body_step(
    q: np.ndarray,  # [7]
    ee_step_b: np.ndarray,  # [3] wanted motion of the ee in the world, base axes, m a step
    base_allowed: bool = True,
    *,
    q_preferred: np.ndarray | None = None,  # [7], default the present posture
    weights: np.ndarray
    | None = None,  # [9] cost of moving: 7 joints (per rad), forward (per m), turn (per rad)
    posture_gain: float = 0.02,
    damping: float = 0.005,
) -> tuple[np.ndarray, np.ndarray]:
    """One control step of arm and base that moves the ee by a displacement.

    Returns dq [7] (each at most `MAX_ARM_STEP`, within limits) and base [2] (forward m,
    turn rad; within the base's speed limits), together as near to the displacement as the limits
    allow; the remaining freedom pulls the arm to `q_preferred`. The ee turns freely.
    """
    q = np.asarray(q, dtype=np.float64)
    limits = np.empty(9)
    limits[:7] = fetch.MAX_ARM_STEP
    limits[7:] = (MAX_BASE_FORWARD, MAX_BASE_TURN) if base_allowed else 0.0
    if weights is None:  # the base is slow and ignores furniture: the arm moves first
        weights = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0])
    preferred = q if q_preferred is None else np.asarray(q_preferred, dtype=np.float64)
    motion = joint_step(
        q, np.asarray(ee_step_b, dtype=np.float64), limits, preferred,
        np.asarray(weights, dtype=np.float64), float(posture_gain), float(damping),
    )  # fmt: skip
    return motion[:7], motion[7:]
