"""Measured training speeds, `configs/speeds.yaml`, by network, method and sensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rearrange.commands.settings import yaml_file
from rearrange.configs.training import AnyRunCfg, TrainSkillCfg
from rearrange.tasks.cameras import PLAIN

TABLE_CORES = 2  # of the table's machine; environments share them
LEAST_S = 30.0  # of training, before a measured rate says anything


def method_of(settings: TrainSkillCfg) -> str:
    """How this training learns: the last one of method=imitation_ver does by VER."""
    return "imitation" if settings.method == "imitation" else "ver"


def sight_of(settings: TrainSkillCfg) -> str:
    """Whether the policy gets pictures."""
    return "blind" if settings.env_kwargs.get("depth") is False else "camera"


def speed_key(settings: TrainSkillCfg) -> str:
    """What a training's rate depends on most: network, method, and whether there are pictures."""
    return f"{settings.policy.name}_{method_of(settings)}_{sight_of(settings)}"


def own_rate(steps: int, seconds: float) -> float | None:
    """Steps a second of a training that has stood so long; None if it says too little yet."""
    return steps / seconds if seconds >= LEAST_S else None


def sum_if_known(parts: Sequence[float | None]) -> float | None:
    """None if one of them is not known."""
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def speed_table() -> dict[str, Any]:
    """{machine: which, steps_per_second: {key: rate}}."""
    return yaml_file("speeds.yaml")


def picture_seconds(settings: TrainSkillCfg, costs: dict[str, float]) -> float:
    """CPU time of one core a step for colour pictures and ids of both cameras, by the table's."""
    kwargs = settings.env_kwargs
    rgb = kwargs.get("rgb", False)
    found = costs["panoptic"] if kwargs.get("panoptic") is True else 0.0
    if rgb is not False:
        found += costs["rgb_plain" if rgb == PLAIN else "rgb"]
    return found


def usual_rate(settings: AnyRunCfg, table: dict[str, Any] | None = None) -> float | None:
    """Steps a second by the table, which is of a CPU; None if nobody knows."""
    table = speed_table() if table is None else table
    if not isinstance(settings, TrainSkillCfg) or settings.backend != "mujoco":
        return None
    rate = table["steps_per_second"].get(speed_key(settings))
    if rate is None:
        return None
    return 1.0 / (1.0 / rate + picture_seconds(settings, table["picture_seconds"]) / TABLE_CORES)
