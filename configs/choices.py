"""The options of a group of settings: registered tasks and skills, and files of `configs`.

task=pick, skill=pick                 of the registries
task=my_module:press_button           the same, of a module that is imported
policy=small, scheme=ver              configs/policy/small.yaml, configs/scheme/ver.yaml
"""

from __future__ import annotations

from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from rearrange.errors import UserError, nearest
from rearrange.skills.definition import SKILLS
from rearrange.tasks.rules.definition import TASKS

CONFIG_DIR = Path(__file__).resolve().parent
REGISTERED = {"task": TASKS, "skill": SKILLS}


def group_options(group: str) -> list[str]:
    """The names that may be chosen."""
    if group in REGISTERED:
        return sorted(REGISTERED[group])
    return sorted(path.stem for path in (CONFIG_DIR / group).glob("*.yaml"))


def check_option(group: str, option: str) -> None:
    """Raises UserError, with similar names, for an unknown choice."""
    if group in REGISTERED and ":" in option:
        REGISTERED[group].find(option)
    elif option not in group_options(group):
        raise UserError(f"unknown {group} '{option}': {nearest(option, group_options(group))}")


def option_values(group: str, option: str) -> dict[str, Any]:
    """The settings of a choice: of a task what reports need, of a skill its recipe."""
    if group == "task":
        task = TASKS.find(option)
        stages = [list(skills) for skills in task.stage_skills]
        return {"name": option, "title": task.title, "stage_skills": stages}
    if group == "skill":
        skill, (module, colon, _) = SKILLS.find(option), option.rpartition(":")
        env = module + colon + TASKS[skill.task].env_id  # worker processes import the module too
        return {"name": skill.name, "env": env} | yaml_content(skill.recipe)
    return yaml_content(CONFIG_DIR / group / f"{option}.yaml")


def yaml_content(path: Path) -> dict[str, Any]:
    """A YAML file, the caller's own copy. Values such as 1e-3 are numbers; duplicate keys are
    errors."""
    try:
        stat = path.stat()
        return deepcopy(_parsed(path, stat.st_mtime_ns, stat.st_size))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


@lru_cache(maxsize=64)  # the stages of a skill ask for the same few files again and again
def _parsed(path: Path, changed_ns: int, size: int) -> dict[str, Any]:
    """What the file held when it was changed last, which these numbers tell."""
    from omegaconf import OmegaConf

    return cast("dict[str, Any]", OmegaConf.to_container(OmegaConf.load(path)))
