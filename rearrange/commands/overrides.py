"""From `key=value` overrides to typed values, with one clear line for every mistake.

    ["pick", "ppo.clip_coef=0.1", "policy=paper"]
        --> ParsedOverrides(choices={"skill": "pick", "policy": "paper"}, values={"ppo.clip_coef":
        0.1})

Nested settings are written with a dot. Commas or brackets in a path have no special meaning.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from rearrange.configs.choices import check_option, group_options
from rearrange.configs.schema import HIDDEN
from rearrange.configs.verbs import config_class
from rearrange.errors import UserError
from rearrange.renamed_settings import current_name

GROUPS = ("task", "skill", "policy", "scheme")
CLOSED_GROUPS = ("task", "skill")  # chosen as they are
BARE_KEYS = ("what", "skill", "runs")  # settings whose name need not be written
TRUE_VALUES, FALSE_VALUES = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_NAME = re.compile(r"[^\W\d][\w-]*")  # one of many, such as skills, which may have hyphens
INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)
MANY = 20  # so many names are not listed in one line


@dataclass(frozen=True)
class ParsedOverrides:
    """A parsed command line."""

    verb: str
    overrides: list[str] = field(default_factory=list)
    """The overrides, for processes that repeat the command."""
    choices: dict[str, str] = field(default_factory=dict)
    """Group -> chosen option."""
    values: dict[str, Any] = field(default_factory=dict)
    """All other settings, nested ones with a dot."""
    forwarded: list[str] = field(default_factory=list)
    """Overrides that are passed on to another verb."""

    def changed(self, values: Mapping[str, Any], without: tuple[str, ...] = ()) -> ParsedOverrides:
        """The same with other values, and without some."""
        kept = {key: value for key, value in self.values.items() if key not in without}
        return replace(self, values=kept | dict(values))


def read(verb: str, overrides: list[str]) -> ParsedOverrides:
    """Parses a command line's overrides.

    Args:
        overrides: `key=value` each, no key twice; bare ones are the value of the one setting of
            `BARE_KEYS` that the verb has.

    Raises:
        UserError: for an unknown or repeated key, a value of the wrong type, or an unknown choice.
    """
    cls = config_class(verb)
    paths, overrides = _bare_paths(cls, overrides)
    overrides = [
        _with_current_name(override) for override in _with_key(verb, cls, overrides, paths)
    ]
    _check_not_repeated([*(f"{name}={' '.join(paths[name])}" for name in paths), *overrides])
    kinds = setting_kinds(cls)
    forwarded = []
    if _takes_others(cls):  # the other verb checks them
        forwarded = [override for override in overrides if override.partition("=")[0] not in kinds]
        overrides = [override for override in overrides if override not in forwarded]
    choices = {}
    values = {name: [_text(name, path) for path in paths[name]] for name in paths}
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals:
            raise UserError(f"expected key=value after '{verb}', got '{override}'")
        kind = _kind_of(verb, kinds, key)
        if is_dataclass(kind):
            choices[key] = _option(key, value)
        else:
            values[key] = _value(key, value, kind)
    for setting in fields(cls):
        if _is_required(setting) and setting.name not in choices | values:
            raise UserError(f"{verb} needs {setting.name}=...; see `rearrange {verb} --help`")
    overrides = [*(path for name in paths for path in paths[name]), *overrides]
    return ParsedOverrides(verb, overrides, choices, values, forwarded)


def _with_current_name(override: str) -> str:
    key, equals, value = override.partition("=")
    return f"{current_name(key)}{equals}{value}"


def last_override_per_key(overrides: Iterable[str]) -> list[str]:
    """`key=value` overrides, only the last one of each key."""
    return list({override.partition("=")[0]: override for override in overrides}.values())


def _check_not_repeated(overrides: list[str]) -> None:
    first: dict[str, str] = {}
    for override in overrides:
        key, equals, _ = override.partition("=")
        if equals and first.setdefault(key, override) is not override:
            raise UserError(f"{key} is given twice, {first[key]} and {override}: leave one out")


@cache
def setting_kinds(cls: type, prefix: str = "") -> dict[str, Any]:
    """Key -> type of all settings of a class, nested ones with a dot."""
    kinds = {}
    for name, kind in get_type_hints(cls).items():
        if name in HIDDEN:
            continue
        if not is_dataclass(kind) or name in GROUPS:
            kinds[prefix + name] = kind
        if is_dataclass(kind) and name not in CLOSED_GROUPS:
            kinds |= setting_kinds(kind, f"{prefix}{name}.")
    return kinds


@cache
def _bare_setting(cls: type) -> tuple[str | None, bool]:
    """The setting of a verb that may be given without its name, and whether it is a list."""
    known = get_type_hints(cls)
    name = next((key for key in BARE_KEYS if key in known), None)
    return name, name is not None and get_origin(known[name]) is list


def _bare_paths(cls: type, overrides: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """{setting: its values} of a list that is given without its name, each as it is typed, and the
    other overrides."""
    name, is_list = _bare_setting(cls)
    if name is None or not is_list:
        return {}, overrides
    bare = [override for override in overrides if _is_bare(override)]
    others = [override for override in overrides if not _is_bare(override)]
    return ({name: bare} if bare else {}), others


def _with_key(
    verb: str, cls: type, overrides: list[str], paths: Mapping[str, list[str]]
) -> list[str]:
    """The overrides, with the key added to the word that may be given without it."""
    name, is_list = _bare_setting(cls)
    if name is None or name in paths:
        return overrides
    if not is_list and overrides and "=" not in overrides[0]:
        overrides = [f"{name}={overrides[0]}", *overrides[1:]]
    is_given = any(override.startswith(f"{name}=") for override in overrides)
    if not is_given and any(field.name == name and _is_required(field) for field in fields(cls)):
        what = f"one of {', '.join(group_options(name))}" if name in GROUPS else "a word"
        raise UserError(f"{verb} needs {what} after it; see `rearrange {verb} --help`")
    return overrides


def _is_bare(override: str) -> bool:
    """True for a path: an override without `=`, or with one that follows a slash."""
    key, equals, _ = override.partition("=")
    return not equals or "/" in key


def _takes_others(cls: type) -> bool:
    """Whether the verb passes on unknown overrides."""
    return any(field.name == "forwarded" for field in fields(cls))


def _is_required(field: Any) -> bool:
    return field.default == "???" or (
        field.default is NO_DEFAULT and field.default_factory is NO_DEFAULT
    )


def _kind_of(verb: str, kinds: dict[str, Any], key: str) -> Any:
    """The type of a setting; a dataclass for a group."""
    part, _, name = key.rpartition(".")
    if get_origin(kinds.get(part)) is dict and _NAME.fullmatch(name):
        return get_args(kinds[part])[1]
    inside = [known for known in kinds if known.startswith(f"{key}.")]
    if inside and key not in kinds:
        raise UserError(f"{key} has several settings: {', '.join(inside)}")
    if key not in kinds:
        raise UserError(f"{verb} has no setting '{key}': {nearest_key(key, verb, list(kinds))}")
    if get_origin(kinds[key]) is dict:
        raise UserError(f"set the values of {key} one by one: {key}.NAME=VALUE")
    return kinds[key]


def _option(group: str, value: str) -> str:
    """The choice of a group."""
    check_option(group, value)
    return value


def nearest_key(wanted: str, verb: str, known: list[str]) -> str:
    """As `nearest`; nested settings are also found by their last name, and by initials."""

    def likeness(key: str) -> tuple[float, float]:
        said, name = wanted.rpartition(".")[2], key.rpartition(".")[2]
        pairs = (wanted, key), (said, name)
        ratios = [difflib.SequenceMatcher(None, *pair).ratio() for pair in pairs]
        is_short_for = len(said) > 1 and said == "".join(part[:1] for part in name.split("_"))
        # for the same last name, the shorter key
        return max(*ratios, float(is_short_for)), ratios[0]

    best = max(sorted(known), key=likeness)
    if likeness(best)[0] >= 0.5:
        return f"did you mean '{best}'?"
    if len(known) > MANY:
        return f"`rearrange {verb} --help` lists them"
    return f"choose from {', '.join(sorted(known))}"


# --- values ---------------------------------------------------------------------------------------


def _value(key: str, value: str, kind: Any) -> Any:
    """An override's value, converted to the setting's type."""
    is_union = isinstance(kind, UnionType) or get_origin(kind) is Union
    choices = get_args(kind) if is_union else (kind,)
    if NoneType in choices and value.lower() in ("null", "none"):
        return None
    for choice in choices:
        if get_origin(choice) in (list, tuple):
            return _list(key, value, get_args(choice)[0])
    if Any in choices:
        return _guess(key, value)
    if bool in choices:
        if value.lower() not in TRUE_VALUES + FALSE_VALUES:
            raise UserError(f"{key} must be true or false, got '{value}'")
        return value.lower() in TRUE_VALUES
    if int in choices:
        if not INTEGER.fullmatch(value):
            raise UserError(f"{key} must be an integer, got '{value}'")
        return int(value)
    if float in choices:
        number = _number(value)
        if number is None:
            raise UserError(f"{key} must be a number, got '{value}'")
        return number
    if str in choices:
        return _text(key, value)
    raise AssertionError(f"no rule for {key}: {kind}")


def _list(key: str, value: str, kind: Any) -> list[Any]:
    """`a,b,c`, also in brackets; `[]` is the empty list."""
    if not value:
        raise UserError(f"{key} must be a list such as a,b,c, or [] for none; got ''")
    inside = value[1:-1] if value.startswith("[") and value.endswith("]") else value
    items = inside.split(",") if inside.strip() else []
    return [_value(key, item.strip(), kind) for item in items]


def _guess(key: str, value: str) -> Any:
    """A value of unknown type: 3, 0.5, true, none, or else text."""
    if value.lower() in ("null", "none"):
        return None
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    if INTEGER.fullmatch(value):
        return int(value)
    number = _number(value)
    return _text(key, value) if number is None else number


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _text(key: str, value: str) -> str:
    if "\0" in value or "${" in value:  # the second would be replaced by OmegaConf
        raise UserError(f"{key} must not contain a NUL character or '${{'")
    if not value:
        raise UserError(f"{key} must not be empty")
    try:
        value.encode()
    except UnicodeEncodeError as error:  # undecodable bytes of a path
        raise UserError(f"{key} must be UTF-8 text, got {ascii(value)}") from error
    return value
