"""Reads recipes and stages from their YAML files, checked against the settings of `train-skill`.

    stages.yaml: recipes, stages  <  skill/NAME.yaml: recipes, stages  -->  Recipe, [Stage, ...]

A mistake in a file is one line that names file, stage and key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from rearrange.commands.overrides import nearest_key, setting_kinds
from rearrange.commands.settings import flattened, yaml_file
from rearrange.configs.choices import option_values
from rearrange.configs.stages import BEFORE, KINDS, PRESETS, Recipe, Stage
from rearrange.configs.training import TrainSkillCfg
from rearrange.errors import UserError, nearest
from rearrange.renamed_settings import with_current_names
from rearrange.skills.definition import SKILLS

SHARED_FILE = "stages.yaml"
AVERAGE_FILE = "mean.safetensors"
STAGE_OWN = ("method", "warm_start", "total_steps", "env_kwargs", "stage", "preset", "run_dir")
"""Settings that a stage says by fields of its own, or that are not for it to say."""


@dataclass
class SkillRecipes:
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    """Of all kinds but `fresh`, with any network."""
    recipes: dict[str, tuple[Recipe, ...]] = field(default_factory=dict)
    """Kind -> its recipes, the last one counts most."""
    stages: dict[str, list[Stage]] = field(default_factory=dict)
    """Preset -> stages in order."""

    def stage(self, preset: str, name: str) -> Stage:
        """Raises UserError for one that there is not."""
        if preset not in PRESETS:
            raise UserError(f"preset must be one of {', '.join(PRESETS)}, got {preset}")
        for stage in self.stages[preset]:
            if stage.name == name:
                return stage
        known = [stage.name for stage in self.stages[preset]]
        raise UserError(f"preset {preset} has no stage '{name}': {nearest(name, known)}")


@cache
def recipes_of(skill: str) -> SkillRecipes:
    """Of a skill, by name or `package.module:name`. Raises UserError for a mistake in its file."""
    path = SKILLS.find(skill).recipe
    file = f"{path.parent.name}/{path.name}"
    return read_recipes(file, option_values("skill", skill), shared_recipes())


def shared_recipes() -> dict[str, Any]:
    return yaml_file(SHARED_FILE)


def read_recipes(file: str, own: Mapping[str, Any], shared: Mapping[str, Any]) -> SkillRecipes:
    """A skill's recipes and stages from the content of its file and of the shared one."""
    _known_keys(own, ("name", "env", "env_kwargs", "recipes", "stages"), file)
    _known_keys(shared, ("recipes", "stages"), SHARED_FILE)
    own_recipes, stages = own.get("recipes", {}), own.get("stages", {})
    _known_keys(own_recipes, KINDS, f"{file}, recipes")
    _known_keys(stages, PRESETS, f"{file}, stages")
    recipes: dict[str, tuple[Recipe, ...]] = {
        kind: (
            _recipe(shared["recipes"]["all"], f"{SHARED_FILE}, recipe all"),
            _recipe(shared["recipes"][kind], f"{SHARED_FILE}, recipe {kind}"),
            _recipe(own_recipes.get(kind, {}), f"{file}, recipe {kind}"),
        )
        for kind in KINDS
    }
    found = SkillRecipes(dict(own.get("env_kwargs", {})), recipes)
    for preset in PRESETS:
        found.stages[preset] = [
            _stage(values, shared["stages"], file) for values in stages.get(preset, [])
        ]
        _check_order(found.stages[preset], f"{file}, stages of {preset}")
    return found


def begins_with(stages: Sequence[Stage], stage: Stage) -> str | None:
    """The name of the stage whose weights a stage begins with; None: fresh ones."""
    place = stages.index(stage)
    if stage.warm_start == BEFORE:
        return stages[place - 1].name if place else None
    return None if stage.warm_start == "none" else stage.warm_start


def weights_of(stage: Stage, folder: Path) -> Path:
    """What holds the weights that a stage made in its folder: a run, or a mean's file."""
    return folder / AVERAGE_FILE if stage.method == "average" else folder


def merged_values(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Nested mappings, of which the last one counts most."""
    result: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            old = result.get(name)
            if isinstance(value, Mapping) and isinstance(old, Mapping):
                value = merged_values(old, value)
            result[name] = value
    return result


def _stage(values: Mapping[str, Any], shared: Mapping[str, Any], file: str) -> Stage:
    where = f"{file}, stage {values.get('name', '?')}"
    like = values.get("like")
    if like is not None:
        if like not in shared:
            known = nearest(like, list(shared))
            raise UserError(f"{where}: no stage '{like}' to copy from: {known}")
        _recipe(shared[like], f"{SHARED_FILE}, stage {like}", Stage)
        values = merged_values(shared[like], values)
    return _recipe(values, where, Stage)


def _recipe(values: Mapping[str, Any], where: str, cls: type = Recipe) -> Any:
    """A typed recipe or stage."""
    if "settings" in values:
        values = {**values, "settings": with_current_names(values["settings"])}
    kinds = get_type_hints(cls)
    _known_keys(values, [own.name for own in fields(cls)], where)
    for name, value in values.items():
        _check_kind(value, kinds[name], f"{where}: {name}")
    check_settings(values.get("settings", {}), where)
    try:
        return cls(**values)
    except ValueError as error:
        raise UserError(f"{where}: {error}") from error


def check_settings(values: Mapping[str, Any], where: str) -> None:
    """Raises UserError for a nested key that `train-skill` has not, or a value of another type."""
    kinds = setting_kinds(TrainSkillCfg) | {"policy.name": str}
    for key, value in flattened(values).items():
        if key not in kinds or key in STAGE_OWN:
            names = [name for name in kinds if name not in STAGE_OWN]
            hint = nearest_key(key, "train-skill", names)
            raise UserError(f"{where}: no setting '{key}': {hint}")
        _check_kind(value, kinds[key], f"{where}: {key}")


def _check_order(stages: Sequence[Stage], where: str) -> None:
    """Each has a name of its own, and begins with the weights of an earlier one."""
    for place, stage in enumerate(stages):
        earlier = [other.name for other in stages[:place]]
        if stage.name in earlier or Path(stage.name).name != stage.name:
            raise UserError(
                f"{where}: names must be unique and valid folder names, got {stage.name}"
            )
        wanted = [*stage.average]
        if (first := begins_with(stages, stage)) is not None:
            wanted.append(first)
        for name in wanted:
            if name not in earlier:
                raise UserError(f"{where}: {stage.name} needs '{name}', which is no earlier stage")


def _known_keys(values: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in values:
        if key not in known:
            raise UserError(f"{where}: no key '{key}': {nearest(key, known)}")


def _check_kind(value: Any, kind: Any, where: str) -> None:
    is_union = isinstance(kind, UnionType) or get_origin(kind) is Union
    choices = get_args(kind) if is_union else (kind,)
    if not any(_fits(value, choice) for choice in choices):
        name = " or ".join(getattr(choice, "__name__", str(choice)) for choice in choices)
        raise UserError(f"{where} must be {name}, got {value!r}")


def _fits(value: Any, kind: Any) -> bool:
    origin = get_origin(kind)
    if kind is Any:
        return True
    if kind is NoneType:
        return value is None
    if origin is list:
        return isinstance(value, list) and all(_fits(item, get_args(kind)[0]) for item in value)
    if origin is dict:
        return isinstance(value, dict)
    if kind is float:
        return isinstance(value, float | int) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, kind)
