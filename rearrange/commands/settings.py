"""Merges the settings of a verb.

    schema defaults  <  verbs.yaml, presets of groups  <  layers  <  the command line's overrides

A layer is a nested mapping such as {"ppo": {"learning_rate": 1e-3}}: defaults for the environment,
a skill's recipe, a stage (`training/resolve.py`). The result is converted to the dataclasses of
`configs` once; no value becomes text again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, cast, get_type_hints

from rearrange.commands.overrides import GROUPS, ParsedOverrides, read
from rearrange.configs.choices import CONFIG_DIR, option_values, yaml_content
from rearrange.configs.verbs import config_class
from rearrange.errors import UserError

OPEN_GROUPS = ("policy", "scheme")  # their files hold only settings
TO_BE_CHOSEN = "auto"  # placeholder for a preset that is chosen later
Layer = Mapping[str, Any]


def load(verb: str, overrides: list[str]) -> Any:
    """The settings object of a verb, without layers. Raises UserError as `read` and `compose`."""
    return compose(read(verb, overrides))


def compose(given: ParsedOverrides, layers: Sequence[Layer] = ()) -> Any:
    """The settings object of a verb.

    Raises UserError for values that are out of range or do not go together.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        settings = cast("Any", OmegaConf.to_object(merged(given, layers)))
    except (OmegaConfBaseException, ValueError) as error:
        raise UserError(str(error).strip().splitlines()[0]) from error
    if hasattr(settings, "given"):
        settings.given = given
    if given.forwarded:
        settings.forwarded = given.forwarded
    return settings


def merged(given: ParsedOverrides, layers: Sequence[Layer] = ()) -> Any:
    """All settings in one `DictConfig`, with values of the right type but not checked further.

    A layer chooses the policy's preset by its `name`; the user's choice, except `auto`, takes
    precedence.
    """
    from omegaconf import OmegaConf

    cls = config_class(given.verb)
    begin = verb_defaults(given.verb)
    choices = {name: value for name, value in begin.items() if name in GROUPS}
    for layer in layers:
        if _names_policy(layer):
            choices["policy"] = layer["policy"]["name"]
    choices |= {name: value for name, value in given.choices.items() if value != TO_BE_CHOSEN}
    kinds = get_type_hints(cls)
    presets = {
        group: preset(group, option, kinds[group])
        for group, option in choices.items()
        if group not in OPEN_GROUPS
    }
    open_choices = tuple((name, choices[name]) for name in OPEN_GROUPS if name in choices)
    return OmegaConf.merge(  # copies the first one, so that the cached config stays as it is
        composed_by_hydra(given.verb, open_choices),
        {name: value for name, value in begin.items() if name not in GROUPS},
        presets,
        *(_without_choices(layer) for layer in layers),
        nested(given.values),
    )


@cache
def composed_by_hydra(verb: str, choices: tuple[tuple[str, str], ...]) -> Any:
    """A verb's schema with the presets of its groups of plain settings; not to be changed.

    Cached, since it takes a tenth of a second, and the settings of a skill's stages need it again
    and again.

    Args:
        choices: (group, option) pairs.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.config_store import ConfigStore
    from hydra.core.global_hydra import GlobalHydra
    from omegaconf import OmegaConf

    for group, option in choices:
        option_values(group, option)  # raises UserError for an unknown option
    name = f"{verb.replace(' ', '_')}_schema"
    ConfigStore.instance().store(name=name, node=config_class(verb))
    GlobalHydra.instance().clear()
    with initialize_config_dir(config_dir=str(CONFIG_DIR), version_base="1.3"):
        config = hydra_compose(name, [f"+{group}={option}" for group, option in choices])
    OmegaConf.set_struct(config, False)  # forwarded settings have arbitrary names
    return config


def verb_defaults(verb: str) -> dict[str, Any]:
    """A verb's entry in `verbs.yaml`: choices of groups, and values."""
    return yaml_file("verbs.yaml").get(verb, {})


def preset(group: str, option: str, cls: type) -> dict[str, Any]:
    """The values of a group's file, without a skill's recipes and stages."""
    values = option_values(group, option)
    if group != "skill":
        return values
    own = {field.name for field in fields(cls)}
    return {name: value for name, value in values.items() if name in own}


def yaml_file(name: str) -> dict[str, Any]:
    """A YAML file of `configs`."""
    return yaml_content(CONFIG_DIR / name)


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """{"ppo.clip_coef": 0.1} -> {"ppo": {"clip_coef": 0.1}}."""
    result: dict[str, Any] = {}
    for key, value in values.items():
        *parts, last = key.split(".")
        place = result
        for part in parts:
            place = place.setdefault(part, {})
        place[last] = value
    return result


def flattened(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The counterpart of `nested`; an empty mapping is a value."""
    result: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            result |= flattened(value, f"{prefix}{name}.")
        else:
            result[prefix + name] = value
    return result


def _names_policy(layer: Layer) -> bool:
    return "name" in layer.get("policy", {})


def _without_choices(layer: Layer) -> dict[str, Any]:
    if not _names_policy(layer):
        return dict(layer)
    policy = {name: value for name, value in layer["policy"].items() if name != "name"}
    return {**layer, "policy": policy}
