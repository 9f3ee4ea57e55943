"""Conversion between an episode and the rows of LeRobot's tables.

    observation.state               what the robot feels of itself (`demonstration.FELT`)
    observation.environment_state   where things are: the task's sensors
    observation.images.head_depth   video
    action                          [11]
    next.reward, next.done, next.truncated, next.success     after the action
    skill                           the skill at work
    motor_lead, world_digest        for playing back, see `demonstration`

The last observation, which comes with the end, has no row: rows are steps, T of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rearrange.eval.demonstrations.demonstration import (
    ACTION_NAMES,
    DEPTH,
    DEPTH_RANGE,
    FELT,
    FPS,
    Demonstration,
    checked,
)
from rearrange.eval.demonstrations.depth_video import GOP, PIXELS

STATE, PLACES, CAMERA = (
    "observation.state", "observation.environment_state", f"observation.images.{DEPTH}",
)  # fmt: skip
ACTION, REWARD, DONE = "action", "next.reward", "next.done"
TRUNCATED, SUCCESS = "next.truncated", "next.success"
SKILL, LEAD, WORLD = "skill", "motor_lead", "world_digest"
COUNTED = ("timestamp", "frame_index", "episode_index", "index", "task_index")
MEASURED = (STATE, PLACES, ACTION, REWARD, DONE, TRUNCATED, SUCCESS, "timestamp", "frame_index")
"""Columns with statistics, where they are there."""


def features_of(columns: dict[str, np.ndarray], names: dict[str, list[str]]) -> dict[str, Any]:
    """LeRobot's `features` of all columns but the video."""
    features: dict[str, Any] = {}
    for key, values in columns.items():
        kind = "string" if values.dtype.kind in "OU" else str(values.dtype)
        shape = list(values.shape[1:]) or [1]
        features[key] = {"dtype": kind, "shape": shape, "names": names.get(key)}
    for key in COUNTED:
        kind = "float32" if key == "timestamp" else "int64"
        features[key] = {"dtype": kind, "shape": [1], "names": None}
    return features


def camera_feature(height: int, width: int) -> dict[str, Any]:
    """The `feature` of the depth camera: lossless video, codes linear in the depth."""
    info = {
        "video.height": height, "video.width": width, "video.codec": "hevc",
        "video.pix_fmt": PIXELS, "video.fps": FPS, "video.channels": 1, "video.g": GOP,
        "video.extra_options": {"x265-params": "lossless=1"}, "video.depth_min": 0.0,
        "video.depth_max": DEPTH_RANGE, "video.shift": 0.0, "video.use_log": False,
        "has_audio": False, "is_depth_map": True, "depth_unit": "m",
    }  # fmt: skip
    names = ["height", "width", "channels"]
    return {"dtype": "video", "shape": [height, width, 1], "names": names, "info": info}


def columns_of(one: Demonstration) -> tuple[dict[str, np.ndarray], dict[str, list[str]]]:
    """The columns, [T] or [T, n], and the names of their entries, "joint.0"."""
    columns: dict[str, np.ndarray] = {}
    names: dict[str, list[str]] = {ACTION: list(ACTION_NAMES)}
    felt = [name for name in FELT if name in one.observations]
    others = [name for name in one.observations if name not in FELT]
    for key, sensors in ((STATE, felt), (PLACES, others)):
        if sensors:
            parts = {name: one.observations[name][:-1] for name in sensors}
            columns[key] = np.concatenate([*parts.values()], axis=1)
            names[key] = [f"{s}.{i}" for s, part in parts.items() for i in range(part.shape[1])]
    columns |= {
        ACTION: one.actions,
        REWARD: one.rewards.astype(np.float32),
        DONE: one.terminated | one.truncated,
        TRUNCATED: one.truncated,
        SUCCESS: one.success,
        SKILL: np.array(one.skills, object),
        LEAD: one.motor_leads,
        WORLD: one.worlds[:-1],
        "timestamp": (np.arange(len(one)) / FPS).astype(np.float32),
        "frame_index": np.arange(len(one)),
    }
    return columns, names


def demonstration_of(
    columns: dict[str, np.ndarray],
    names: dict[str, list[str]],
    steps: list[str],
    depth: np.ndarray | None,
    facts: dict[str, Any],
) -> Demonstration:
    """The counterpart of `columns_of`; observations have T rows, and rewards single precision.

    Raises ValueError and others for what is damaged.
    """
    observations: dict[str, np.ndarray] = {}
    for key in (STATE, PLACES):
        sensors = [name.rpartition(".")[0] for name in names.get(key) or []]
        if key in columns and columns[key].shape[1:] != (len(sensors),):
            raise ValueError(f"{key} must have {len(sensors)} numbers a row, as many as names")
        for sensor in dict.fromkeys(sensors):
            places = [i for i, name in enumerate(sensors) if name == sensor]
            observations[sensor] = columns[key][:, places]
    skills = columns[SKILL].tolist()
    if not all(isinstance(text, str) for text in [*skills, *steps]):
        raise ValueError(f"{SKILL} and the tasks must be texts")
    if (columns[TRUNCATED] & ~columns[DONE]).any():
        raise ValueError(f"{DONE} must be true where {TRUNCATED} is")
    one = Demonstration(
        facts=facts,
        observations=observations,
        depth=depth,
        actions=columns[ACTION],
        rewards=columns[REWARD],
        terminated=columns[DONE] & ~columns[TRUNCATED],
        truncated=columns[TRUNCATED],
        success=columns[SUCCESS],
        motor_leads=columns[LEAD],
        worlds=columns[WORLD],
        skills=skills,
        steps=steps,
    )
    return checked(one, in_frames=True)
