"""Demonstration: one episode as arrays, independent of the file format.

    observation_0 -- action_0 --> observation_1 -- action_1 --> ... observation_T

T: control steps. The environment's observations are late by one: observation_(k+1) is of before
action_k, and what the last action led to is in none. A picture of depth has 12 bits, as lossless
videos of depth have: a code c stands for c / 4095 of the camera's range of 10 m, steps of 2.4 mm.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from rearrange.sim.robot.fetch import ARM_JOINTS
from rearrange.system.checked_json import quoted

FPS = 30  # control steps a second
MOST_CODE = 4095
DEPTH_RANGE = 10.0  # m, of the head camera
DEPTH = "head_depth"
FELT = ("joint", "ee_pos", "is_holding", "relative_resting_position")
"""Observations of the robot itself; all other vectors tell where things are."""
ACTION_NAMES = (*(joint.name for joint in ARM_JOINTS), "grip", "forward", "turn", "stop")


@dataclass(kw_only=True)
class Demonstration:
    """What happened in an episode."""

    facts: dict[str, Any]
    """Of the whole episode, as JSON has them; see `facts_of`."""
    observations: dict[str, np.ndarray]
    """Vectors by name, [T + 1, n] float32, as the environment gave them."""
    depth: np.ndarray | None
    """[T + 1, H, W] uint16, codes; None without a camera."""
    actions: np.ndarray
    """[T, 11] float32."""
    rewards: np.ndarray
    """[T] float64."""
    terminated: np.ndarray
    """[T] bool."""
    truncated: np.ndarray
    """[T] bool."""
    success: np.ndarray
    """[T] bool, after the step."""
    motor_leads: np.ndarray
    """[T] float64, rad that motors' targets might run ahead in the step; 0: any. Chains of trained
    skills change it from skill to skill."""
    worlds: np.ndarray
    """[T + 1] int64, digests of the whole world's state: who plays an episode back knows by them
    that it is the same to the last bit."""
    skills: list[str]
    """T names: the skill at work; empty while there is none."""
    steps: list[str]
    """T sentences: the step of the plan, "pick up the gelatin box"; the task's title while there is
    none."""

    def __len__(self) -> int:
        """Control steps."""
        return len(self.actions)


def checked(one: Demonstration, *, in_frames: bool = False) -> Demonstration:
    """The same one, after a look at what was read from a file.

    Args:
        in_frames: T observations are stored instead of T + 1, and rewards in single precision.

    Raises ValueError for arrays and texts as no episode has them.
    """
    steps = len(one.actions) if np.ndim(one.actions) else 0
    seen = steps if in_frames else steps + 1
    arrays: dict[str, tuple[Any, int, str, int]] = {
        "actions": (one.actions, steps, "float32", 2),
        "rewards": (one.rewards, steps, "float32" if in_frames else "float64", 1),
        "terminated": (one.terminated, steps, "bool", 1),
        "truncated": (one.truncated, steps, "bool", 1),
        "success": (one.success, steps, "bool", 1),
        "motor_lead": (one.motor_leads, steps, "float64", 1),
        "the world's digests": (one.worlds, seen, "int64", 1),
    }
    if one.depth is not None:
        arrays[DEPTH] = one.depth, seen, "uint16", 3
    for name, values in one.observations.items():
        arrays[name] = values, seen, str(values.dtype), max(2, np.ndim(values))
        _check(values.dtype.kind in "biuf", f"{name} must be numbers, got {values.dtype}")
    _check(steps > 0, "actions must have a row for each step, got none")
    for name, (values, rows, dtype, dimensions) in arrays.items():
        shape = ", ".join([str(rows), *"n" * (dimensions - 1)])
        _check(
            np.ndim(values) == dimensions and len(values) == rows and values.dtype == dtype,
            f"{name} must be {dtype} of shape [{shape}], got "
            f"{np.asarray(values).dtype} of shape {[*np.shape(values)]}",
        )
    _check(bool((np.abs(one.actions) <= 1.0).all()), "actions must lie in [-1, 1]")
    is_lead = (one.motor_leads >= 0.0) & np.isfinite(one.motor_leads)
    _check(bool(is_lead.all()), "motor_lead must be finite and not below 0")
    for name, texts in (("skill", one.skills), ("step", one.steps)):
        _check(len(texts) == steps, f"{name} must have {steps} texts, got {len(texts)}")
    return one


def check_count(name: str, told: Any, found: int) -> None:
    """Raises ValueError if a file tells another number than is in it."""
    _check(type(told) is int and told == found, f"{name} must be {found}, got {quoted(told)}")


def _check(is_right: bool, line: str) -> None:
    if not is_right:
        raise ValueError(line)


def to_codes(depth: np.ndarray) -> np.ndarray:
    """Depth in [0, 1] as codes, uint16."""
    return np.rint(depth * np.float32(MOST_CODE)).astype(np.uint16)


def to_depth(codes: np.ndarray) -> np.ndarray:
    """Codes as depth in [0, 1], float32; `to_codes` gives the codes back."""
    return codes.astype(np.float32) / np.float32(MOST_CODE)


def world_digest(sim: Any) -> int:
    """64 bits that depend on each bit of the bodies' positions and velocities and of the motors'
    commands."""
    whole = hashlib.blake2b(digest_size=8)
    for part in (sim.data.qpos, sim.data.qvel, sim.data.ctrl, sim.arm_target):
        whole.update(np.ascontiguousarray(part).tobytes())
    return int.from_bytes(whole.digest(), "little", signed=True)
