"""The environments of `train-skill backend=habitat`: a skill's task in stock habitat-lab."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rearrange.configs.training import TrainSkillCfg
from rearrange.errors import UserError
from rearrange.eval.habitat.client import check_python
from rearrange.eval.habitat.data_folder import find_data
from rearrange.eval.habitat.lab.skill_env import ENV_ID
from rearrange.eval.habitat.lab.tasks import STOCK_TASKS
from rearrange.tasks.actions import action_slots
from rearrange.tasks.gym_factory import read_spaces
from rearrange.tasks.rules.names import TASK_OF_ID
from rearrange.ver.bridge.external_python import ExternalEnvs
from rearrange.ver.workers.spaces import observation_spec

_ID = f"rearrange.eval.habitat.lab.skill_env:{ENV_ID}"
_START_S = 300.0  # Habitat loads for long
_KNOWN = {"camera_size", "action_space", "observation_delay", "motor_lead", "split", "depth"}
_OURS_ALONE = {"starts"}  # of a recipe: there the episodes of the export begin as they are


def habitat_envs(settings: TrainSkillCfg, kwargs: dict[str, Any]) -> ExternalEnvs:
    """Those of the Python and the export that the settings name.

    Args:
        kwargs: of our own environment of the task, which tell what a policy sees and moves.

    Raises UserError for what is missing or has no counterpart there.
    """
    task, split = TASK_OF_ID[settings.skill.env], str(kwargs.get("split", "train"))
    if unknown := sorted(name for name in kwargs if name not in _KNOWN | _OURS_ALONE):
        raise UserError(
            f"backend=habitat has no env_kwargs.{unknown[0]}, only {', '.join(sorted(_KNOWN))}"
        )
    if task not in STOCK_TASKS:
        raise UserError(f"backend=habitat has {', '.join(STOCK_TASKS)}; got {task}")
    python = Path(check_python(settings.habitat.python))
    data = find_data(settings.habitat.data, task, split, " num_episodes=1000")
    space, _ = read_spaces(settings.skill.env, kwargs)
    content = {
        "folder": str(data.path), "is_export": data.is_export, "task": task, "split": split,
        "delay": kwargs["observation_delay"],
        "sensors": {name: list(spec.shape) for name, spec in observation_spec(space).items()},
        "slots": list(action_slots(task, kwargs["action_space"])),
        "camera_size": kwargs["camera_size"], "motor_lead": kwargs.get("motor_lead"),
        "base": settings.habitat.base,
    }  # fmt: skip
    return ExternalEnvs(python, _ID, content, _START_S)
