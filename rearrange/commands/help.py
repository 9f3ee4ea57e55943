"""What `rearrange VERB --help` prints: settings with types, defaults and meanings."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from typing import Any, get_type_hints

from rearrange.configs.schema import HIDDEN
from rearrange.configs.verbs import config_class


@dataclass(frozen=True)
class Verb:
    module: str  # its function run(settings) -> exit code does the work
    summary: str
    examples: tuple[str, ...]  # what to type after `rearrange`
    notes: str = ""


def verb_help(name: str, verb: Verb, settings: Any = None) -> str:
    """The text. With settings, their values instead of the defaults."""
    from rearrange.commands.overrides import BARE_KEYS
    from rearrange.commands.settings import verb_defaults

    values = verb_defaults(name) if settings is None else asdict(settings)
    lines = [f"rearrange {name}: {verb.summary}", "", "settings:"]
    for key, default, meaning in _settings(config_class(name), values):
        lines.append(f"  {key}" if key in BARE_KEYS else f"  {key}={default}")
        lines += [f"      {line}" for line in textwrap.wrap(meaning, 68)]
    lines += ["", "examples:", *(f"  rearrange {example}" for example in verb.examples)]
    if verb.notes:
        lines += ["", verb.notes]
    return "\n".join(lines)


def _settings(cls: type, values: dict[str, Any], prefix: str = "") -> list[tuple[str, str, str]]:
    """(key, default, meaning) of all settings; those of parts come last, with a dot.

    `values`: those that are not the class's own defaults, nested.
    """
    from rearrange.commands.overrides import CLOSED_GROUPS, GROUPS, group_options

    meanings, kinds, plain, parts = field_docs(cls), get_type_hints(cls), [], []
    own = cls.__dict__["__annotations__"]
    for field in sorted(fields(cls), key=lambda field: field.name not in own):
        name, meaning = field.name, meanings.get(field.name, "")
        is_part, is_group = is_dataclass(kinds[name]), name in GROUPS
        if name in HIDDEN:
            continue
        if is_part and is_group and name != "task":  # whose meaning names `rearrange list`
            meaning += f" Choose from {', '.join(group_options(name))}."
        if is_group or not is_part:
            default = values[name] if name in values else _default_of(field)
            plain.append((prefix + name, _shown(default), meaning))
            if isinstance(default, dict) and not is_group:
                plain += [
                    (f"{prefix}{name}.{key}", _shown(own), "") for key, own in default.items()
                ]
        if is_part and name not in CLOSED_GROUPS:
            nested = values.get(name)
            nested = nested if isinstance(nested, dict) else {}
            parts += _settings(kinds[name], nested, f"{prefix}{name}.")
    return plain + parts


def _default_of(field: Any) -> Any:
    if field.default is not MISSING:
        return field.default
    return "" if field.default_factory is MISSING else field.default_factory()


def _shown(value: Any) -> str:
    """A default as one would type it."""
    if isinstance(value, dict):  # what a preset made
        return value.get("name", "")
    if value == "???" or is_dataclass(value):
        return ""
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) if value else "[]"
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def field_docs(cls: type) -> dict[str, str]:
    """Field -> the string that stands under it in the source of the class or of its bases."""
    docs = {}
    for base in reversed([base for base in cls.__mro__ if is_dataclass(base)]):
        source = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(source, ast.ClassDef)
        for field, doc in zip(source.body, source.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(doc, ast.Expr):
                assert isinstance(field.target, ast.Name) and isinstance(doc.value, ast.Constant)
                docs[field.target.id] = " ".join(str(doc.value.value).split())
    return docs
