"""From `key=value` words to the settings of a verb, with one clear line for every mistake.

Hydra composes `configs/<verb>.yaml`, the chosen `configs/task/*.yaml` and the words; the result is
turned into the dataclasses of `schema.py` once, here. The words are checked before Hydra sees them,
because its own messages take many lines and a path with a comma or a bracket is grammar to it.
"""

import difflib
import re
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_type_hints

from rearrange.configs.schema import VERB_CONFIGS
from rearrange.errors import UserError

CONFIG_DIR = Path(__file__).resolve().parent
GROUPS = ("task",)
TRUE_WORDS, FALSE_WORDS = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def nearest(word: str, known: list[str]) -> str:
    """' did you mean ...?' with the best match, or all that is known."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"did you mean '{close[0]}'?" if close else f"choose from {', '.join(known)}"


def group_options(group: str) -> list[str]:
    """The choices of a config group: the names of its YAML files."""
    return sorted(path.stem for path in (CONFIG_DIR / group).glob("*.yaml"))


def load(verb: str, words: list[str]) -> Any:
    """The settings object of a verb.

    Args:
        words: `key=value` each; a first one without `=` is the value of `what`, if there is one.

    Raises:
        UserError: for an unknown key, a value of the wrong type or range, or an unknown choice.
    """
    cls = VERB_CONFIGS[verb]
    keys = get_type_hints(cls)
    if "what" in keys:
        if words and "=" not in words[0]:
            words = [f"what={words[0]}", *words[1:]]
        elif not any(word.startswith("what=") for word in words) and _is_required(cls, "what"):
            raise UserError(f"{verb} needs a word after it; see `rearrange {verb} --help`")
    overrides = [_override(verb, word, keys) for word in words]
    return _compose(verb, cls, overrides)


def _is_required(cls: type, name: str) -> bool:
    return any(field.name == name and field.default in (NO_DEFAULT, "???") for field in fields(cls))


def _override(verb: str, word: str, keys: dict[str, Any]) -> str:
    """One word as an override in Hydra's grammar."""
    key, equals, value = word.partition("=")
    if not equals:
        raise UserError(f"expected key=value after '{verb}', got '{word}'")
    if key not in keys:
        raise UserError(f"{verb} has no setting '{key}': {nearest(key, sorted(keys))}")
    if key in GROUPS:
        options = group_options(key)
        if value not in options:
            raise UserError(f"unknown {key} '{value}': {nearest(value, options)}")
        return f"{key}={value}"
    return f"{key}={_value(key, value, keys[key])}"


def _value(key: str, value: str, kind: Any) -> str:
    """A value in Hydra's grammar: numbers as they are, text quoted."""
    choices = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    if NoneType in choices and value in ("null", "None"):
        return "null"
    if bool in choices:
        if value.lower() not in TRUE_WORDS + FALSE_WORDS:
            raise UserError(f"{key} must be true or false, got '{value}'")
        return str(value.lower() in TRUE_WORDS).lower()
    if int in choices:
        if not re.fullmatch(r"[+-]?\d{1,18}", value):
            raise UserError(f"{key} must be an integer, got '{value}'")
        return str(int(value))
    if float in choices:
        try:
            number = float(value)
        except ValueError:
            number = float("nan")
        if number != number or abs(number) == float("inf"):
            raise UserError(f"{key} must be a number, got '{value}'")
        return repr(number)
    if str in choices:
        if "\0" in value or "${" in value:
            raise UserError(f"{key} must not contain a NUL character or '${{'")
        if not value:
            raise UserError(f"{key} must not be empty")
        # Hydra: a backslash counts as such except before a quote, where it has to be doubled.
        quoted = re.sub(r"(\\+)('|$)", r"\1\1\2", value).replace("'", "\\'")
        return f"'{quoted}'"
    raise AssertionError(f"no rule for {key}: {kind}")


def _compose(verb: str, cls: type, overrides: list[str]) -> Any:
    from hydra import compose, initialize_config_dir
    from hydra.core.config_store import ConfigStore
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    ConfigStore.instance().store(name=f"{verb}_schema", node=cls)
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(config_dir=str(CONFIG_DIR), version_base="1.3"):
            return OmegaConf.to_object(compose(config_name=verb, overrides=overrides))
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise UserError(str(error).strip().splitlines()[0]) from error
