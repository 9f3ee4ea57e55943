"""`rearrange export-skill`: the newest checkpoint of a training run as one small file.

Of any environment: a skill file, which `load_skill` reads, or an ONNX model for other programs.

With `average` the mean of its weights and those of trainings that went on from it, or that it went
on from: among the minima around one another the mean is often better than each (Wortsman et al.,
2022, model soups). Of trainings from different fresh weights it is worth nothing. One that saw
the camera's cells alone counts for all but the picture network, which the others have.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from math import isqrt, prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rearrange.configs.schema import ExportSkillCfg
from rearrange.errors import UserError
from rearrange.eval.episode_store import differences
from rearrange.skills.deployed.onnx_export import onnx_bytes
from rearrange.skills.deployed.skill_files import (
    SkillFile,
    find_skill,
    is_of_run,
    read_skill,
    skill_bytes,
)
from rearrange.skills.network.warm_start import sees_pictures, with_pictures_of
from rearrange.system.files import user_path
from rearrange.system.outputs import atomic_write_bytes, prepare_file
from rearrange.tasks.env import RearrangeEnv
from rearrange.tasks.gym_factory import find_id
from rearrange.tasks.ranges import BASE_SCAN, COARSE_DEPTH
from rearrange.tasks.rules.names import SKILL_TASKS, TASK_OF_ID

MEGABYTE = 1_000_000
# Stages of one skill may differ in these: what the network's outputs mean does not depend on them,
# though with `switches` the policy is told +1 or -1 as its previous action. The first one's hold.
_OF_TRAINING = ("precision", "compile", "initial_log_std", "initial_means", "switches")
_OF_SKILL = (  # what a policy sees and moves, of `env_kwargs`
    "observation_delay", "motor_lead", "action_space", "camera_size", "ranges", "depth", "rgb",
    "panoptic", "handle_sensors", "floor_way",
)  # fmt: skip
_OF_PICTURES = {"camera_size", "ranges", "depth", "rgb", "panoptic"}  # of those


def run(cfg: ExportSkillCfg) -> int:
    """Writes the file, reads it back and says what it holds.

    Raises UserError for a folder without a checkpoint, for skills that cannot be averaged, and for
    a file that gets too large.
    """
    run_dir, output = user_path(cfg.run), user_path(cfg.output)
    if not is_of_run(run_dir) and not run_dir.is_file():
        raise UserError(f"{run_dir} is neither a training run's folder nor a skill file")
    if cfg.env is not None:
        find_id(cfg.env)  # imports its module
    prepare_file(output)
    paths = [run_dir, *(user_path(path) for path in cfg.average)]
    print(export(paths, output, cfg.max_megabytes, is_onnx=cfg.format == "onnx"))
    return 0


def export(
    paths: Sequence[Path],
    output: Path,
    max_megabytes: float,
    origin: Mapping[str, Any] | None = None,
    is_onnx: bool = False,
) -> str:
    """Writes the skill that runs or files hold, of several their mean; returns what to say of it.

    Args:
        origin: what the file is to say of where it comes from, beside what the first one says.

    Raises as `run`.
    """
    skills = [find_skill(path) for path in paths]
    skill = mean_of(skills) if len(skills) > 1 else skills[0]
    skill = replace(skill, origin=skill.origin | dict(origin or {}))
    content = onnx_bytes(skill) if is_onnx else skill_bytes(skill)
    size = len(content) / MEGABYTE
    if size > max_megabytes:
        raise UserError(
            f"the skill would take {size:.1f} MB, more than max_megabytes={max_megabytes:g}"
        )
    atomic_write_bytes(output, content)
    back = skill if is_onnx else read_skill(output)
    names = {gym_id: name for name, gym_id in SKILL_TASKS.items()}
    name = names.get(back.env_id, back.env_id)
    return f"{name} after {back.origin['steps']} steps: {output}, {size:.1f} MB"


def _meaning(skill: SkillFile, with_pictures: bool) -> dict[str, Any]:
    """What says how weights become actions: the network, and what it sees and moves.

    Without what only pictures need, cells of the camera's picture are the same whoever makes them.
    """
    network, usual = asdict(skill.policy_cfg), {}
    if skill.env_id in TASK_OF_ID:  # an option that is not given is as one that says the default
        parameters = inspect.signature(RearrangeEnv).parameters
        usual = {name: parameters[name].default for name in _OF_SKILL}
    env_kwargs = {name: skill.env_kwargs.get(name, usual.get(name)) for name in _OF_SKILL}
    if not with_pictures:
        cells = skill.observation.get(COARSE_DEPTH)
        network["nearest_cells"] = (
            isqrt(prod(cells.shape)) if cells else skill.policy_cfg.nearest_cells
        )
        env_kwargs["base_scan"] = BASE_SCAN in skill.observation
        network = {name: value for name, value in network.items() if name != "encoder"}
        env_kwargs = {name: env_kwargs[name] for name in env_kwargs.keys() - _OF_PICTURES}
    return {
        "policy": {name: value for name, value in network.items() if name not in _OF_TRAINING},
        "env_kwargs": env_kwargs,
    }


def mean_of(skills: Sequence[SkillFile]) -> SkillFile:
    """The first skill that sees pictures, or else the first, with the mean of the weights of all.

    The picture network is the mean of those that have one.

    Raises UserError where they are not of one environment and one network.
    """
    seeing = [skill for skill in skills if sees_pictures(skill.weights)] or list(skills)
    first = seeing[0]
    for other in skills:
        _check_alike(first, other)
    pictures = _mean([skill.weights for skill in seeing])
    size = first.policy_cfg.encoder.feature_size
    whole = [with_pictures_of(pictures, skill.weights, size) for skill in skills]
    weights = {name: weight.to(first.weights[name].dtype) for name, weight in _mean(whole).items()}
    origin = first.origin | {"mean_of": [skill.origin for skill in skills]}
    return replace(first, weights=weights, origin=origin)


def _check_alike(first: SkillFile, other: SkillFile) -> None:
    """Raises UserError unless the two are of one environment and one network.

    `other` may lack the picture network.
    """
    size = first.policy_cfg.encoder.feature_size
    weights = with_pictures_of(first.weights, other.weights, size)
    shapes = [{name: w.shape for name, w in found.items()} for found in (first.weights, weights)]
    if other.env_id != first.env_id or shapes[0] != shapes[1]:
        raise UserError(
            f"average: {other.source} is for another skill or network than {first.source}"
        )
    meanings = [_meaning(skill, with_pictures=weights is other.weights) for skill in (first, other)]
    for name, of_first, of_other in differences(meanings[0], meanings[1], None):
        raise UserError(
            f"average: the same weights mean something else in {other.source}, whose {name} "
            f"is {of_other}, than in {first.source}, where it is {of_first}"
        )


def _mean(of: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """In float32; what is no number with a fraction, of the first."""
    return {
        name: torch.stack([weights[name].float() for weights in of]).mean(dim=0)
        if own.is_floating_point()
        else own
        for name, own in of[0].items()
    }
