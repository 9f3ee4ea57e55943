"""Steps a second of trainings as measured before, `configs/speeds.yaml`: network, method, sight."""

from __future__ import annotations

from typing import Any

from rearrange.commands.settings import yaml_file
from rearrange.configs.training import AnyRunCfg, TrainSkillCfg


def method_of(settings: TrainSkillCfg) -> str:
    """How this training learns: the last one of method=imitation_ver does by VER."""
    return "imitation" if settings.method == "imitation" else "ver"


def speed_key(settings: TrainSkillCfg) -> str:
    """What a training's rate depends on most: network, method, and whether there are pictures."""
    sight = "blind" if settings.env_kwargs.get("depth") is False else "camera"
    return f"{settings.policy.name}_{method_of(settings)}_{sight}"


def speed_table() -> dict[str, Any]:
    """{machine: which, steps_per_second: {key: rate}}."""
    return yaml_file("speeds.yaml")


def usual_rate(settings: AnyRunCfg) -> float | None:
    """Steps a second by the table, which is of a CPU; None if nobody knows."""
    if not isinstance(settings, TrainSkillCfg):
        return None
    return speed_table()["steps_per_second"].get(speed_key(settings))
