"""A registry: named entries of one kind, to which other packages can add theirs.

    TASKS.add("press_button", TaskDefinition(...))      in a module of theirs, run when imported
    rearrange evaluate task=my_module:press_button      imports the module, then looks the name up

A name is one that was added, or `package.module:Name`, where Name is what the module added or else
an object in it. Only `find` imports modules; it is for the user's own command line and the
arguments of a call. Names from files (skills, checkpoints, episodes) are looked up with `[]`, which
knows only what was added and imports no module that a file names.

An entry given as "module:Name" is imported when it is first used, so that adding it costs nothing.
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

from rearrange.errors import UserError, described, nearest
from rearrange.system.checked_json import quoted

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """Names and the things they stand for, of one kind, in the order in which they were added.

    Args:
        kind: what they are, for messages: "task".
        fits: whether an object found in a user's module is one of them.
    """

    def __init__(self, kind: str, fits: Callable[[Any], bool] = callable) -> None:
        self.kind, self._fits = kind, fits
        self.listeners: list[Callable[[str, T | str], None]] = []
        """Functions to be called with the name and the entry of everything added from now on."""
        self._entries: dict[str, T | str] = {}

    def add(self, name: str, entry: T | str) -> None:
        """Adds a name; adding the same thing again does nothing.

        Args:
            entry: the object, or "module:Name" of where it is defined.

        Raises UserError if the name is taken by something else, is empty, or has a colon or an
        unprintable character.
        """
        if not name or ":" in name or not name.isprintable():
            raise UserError(f"the name of a {self.kind} must be a word without ':', got {name!r}")
        if self._entries.setdefault(name, entry) != entry:
            raise UserError(f"the {self.kind} '{name}' exists already: choose another name")
        for listener in self.listeners:
            listener(name, entry)

    def find(self, word: str) -> T:
        """What a name stands for, or `package.module:Name`, whose module is imported.

        Only for names that the user typed, see above. Raises UserError for one that is unknown.
        """
        if not isinstance(word, str):  # a caller's
            raise UserError(f"the name of a {self.kind} must be a text, got {word!r}")
        module, colon, name = word.rpartition(":")
        if not colon:
            if word not in self._entries and word.isidentifier():
                raise self._unknown(word, f" (one of a module of your own: MODULE:{word})")
            return self[word]
        imported = import_module(module, f"{self.kind} '{word}'")
        if name in self._entries:
            return self[name]
        entry = getattr(imported, name, None)
        if not self._fits(entry):
            raise UserError(f"{module} has no {self.kind} '{name}': it neither adds nor defines it")
        own_name, fitting = getattr(entry, "name", None), cast("T", entry)
        self.add(own_name if isinstance(own_name, str) else name, fitting)
        return fitting

    def name_of(self, word: str) -> str:
        """The name under which `find` has this entry. Raises as `find`."""
        found = self.find(word)
        return next(name for name in self if self[name] is found)

    def __getitem__(self, name: str) -> T:
        """What a name stands for. Raises UserError, which suggests known names, for an unknown
        one."""
        if name not in self._entries:
            raise self._unknown(name)
        return resolved(self._entries[name])

    def _unknown(self, name: str, hint: str = "") -> UserError:
        return UserError(f"unknown {self.kind} {quoted(name)}: {nearest(name, list(self))}{hint}")

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def resolved(entry: Any) -> Any:
    """The object itself, or what "module:Name" names (from code, never from a file).

    Raises UserError if the module has no such name.
    """
    if not isinstance(entry, str):
        return entry
    module, _, name = entry.partition(":")
    found = getattr(importlib.import_module(module), name, None)
    if found is None:
        raise UserError(f"{module} has no '{name}', which '{entry}' names")
    return found


def import_module(module: str, what: str) -> Any:
    """Imports a module that the user named; UserError if it cannot be imported."""
    try:
        return importlib.import_module(module)
    except UserError as error:
        raise UserError(f"cannot import '{module}' for {what}: {error}") from error
    except Exception as error:  # a user's module may raise anything
        advice = (
            "the module has to be installed or to lie in a folder named in PYTHONPATH"
            if isinstance(error, ModuleNotFoundError) or module.startswith(".")
            else _last_line_of(error)
        )
        raise UserError(
            f"cannot import '{module}' for {what} ({described(error)}); {advice}"
        ) from error


def _last_line_of(error: BaseException) -> str:
    """Where an error was raised."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"raised in {last.filename}, line {last.lineno}"
