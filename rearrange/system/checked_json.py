"""Untrusted JSON, strictly decoded and checked; each error is one line that quotes the value.

    strict_json('{"rearrange": ...}')         -> value
    node = Node(json_value, "home.json.gz: episode 3: ")
    node["rearrange"]["base_yaw"].number()    -> float, finite
    node["targets"].items()                   -> (key, Node) pairs

A `Node` is a value and the path to it, so that the line names file, episode and field.
"""

from __future__ import annotations

import builtins
import json
import math
from collections.abc import Collection, Iterator
from typing import Any, Literal, NoReturn, TypeGuard, overload

from rearrange.errors import UserError, nearest

_KIND_NAMES = {dict: "an object", list: "a list", str: "a string"}
MAX_WHOLE = 2**53  # of seeds, indices and steps: a float holds all up to there
_LONGEST_QUOTE = 60  # characters of a wrong value that a line repeats
_MOST_DIGITS = 100  # of a whole number; it still fits a float, and a random state has 39


def strict_json(text: str) -> Any:
    """The value of a JSON text. It takes up to 30 times the text's memory: limit the text first.

    Raises:
        ValueError: if it is not JSON. NaN, infinities, numbers too large for a float and objects
            with a duplicate key are refused too.
    """
    try:
        return DECODER.decode(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def _fraction(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text[:20])


def _whole(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a whole number has {len(text)} digits")
    return int(text)


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError(f"a key occurs twice among {quoted([key for key, _ in pairs])}")
    return members


DECODER = json.JSONDecoder(
    parse_constant=_refuse,
    parse_float=_fraction,
    parse_int=_whole,
    object_pairs_hook=_no_key_twice,
)
"""The decoder of `strict_json`; its `raw_decode` may raise RecursionError."""


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a decoded value is an object; its keys are strings."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether a decoded value is a list."""
    return isinstance(value, list)


def quoted(value: Any) -> str:
    """A wrong value, short enough for a line and without line breaks."""
    outline = _outline(value)
    text = ascii(value) if outline is None else outline.format(len(value))
    text = " ".join(line.strip() for line in text.splitlines())  # an array's are several
    return text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 3] + "..."


def _outline(value: Any) -> str | None:
    if isinstance(value, list):
        return "a list of {}"
    return "an object of {} keys" if isinstance(value, dict) else None


class Node:
    """A decoded JSON value with the path that leads to it. All readers raise UserError."""

    __slots__ = ("path", "value", "where")

    def __init__(self, value: Any, where: str, path: str = "") -> None:
        self.value, self.where, self.path = value, where, path

    def fail(self, must: str, got: str | None = None) -> NoReturn:
        """Raises UserError: `path` must `must`, got `got` (by default the value)."""
        field = self.path or "the value"
        line = f"{self.where}{field} must {must}, got {got or quoted(self.value)}"
        raise UserError(line.replace("\n", " "))

    def _typed(self, kind: type) -> Any:
        if type(self.value) is not kind:
            self.fail(f"be {_KIND_NAMES[kind]}")
        return self.value

    def __getitem__(self, key: str) -> Node:
        """A member of an object, which must have it."""
        members = self._typed(dict)
        if key not in members:
            name = f"{self.path}.{key}" if self.path else key
            raise UserError(f"{self.where}{name} is missing".replace("\n", " "))
        return Node(members[key], self.where, f"{self.path}.{key}" if self.path else key)

    def items(self) -> Iterator[tuple[str, Node]]:
        """Members of an object."""
        for key, value in self._typed(dict).items():
            yield key, Node(value, self.where, f"{self.path}[{quoted(key)}]")

    def only(self, *fields: str) -> None:
        """An object with no other fields than these; some may be absent."""
        for name in self._typed(dict):
            if name not in fields:
                hint = nearest(name, fields)
                place = self.path or "the object"
                line = f"{self.where}{place} has no field {quoted(name)}, {hint}"
                raise UserError(line.replace("\n", " "))

    def list(self, most: int, least: int = 0) -> builtins.list[Node]:  # noqa: A003
        """Elements of a list, whose length must lie in [`least`, `most`]."""
        elements = self._typed(list)
        if not least <= len(elements) <= most:
            count = str(most) if least == most else f"{least} to {most}"
            self.fail(f"hold {count} elements", f"{len(elements)}")
        return [Node(e, self.where, f"{self.path}[{i}]") for i, e in enumerate(elements)]

    def text(self, known: Collection[str] | None = None) -> str:
        """A string, one of `known` if given."""
        text = self._typed(str)
        if known is not None and text not in known:
            self.fail(f"be one of {', '.join(known)}" if len(known) < 25 else "be a known name")
        return text

    def text_or_null(self, known: Collection[str]) -> str | None:
        """A known string, or null."""
        return None if self.value is None else self.text(known)

    def boolean(self) -> bool:
        """true or false."""
        if type(self.value) is not bool:
            self.fail("be true or false")
        return self.value

    def integer(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`."""
        if type(self.value) is not int:
            self.fail("be a whole number")
        if not low <= self.value <= high:
            self.fail(f"lie in [{low}, {high}]")
        return self.value

    def number(self, low: float = -math.inf, high: float = math.inf) -> float:
        """A finite number from `low` to `high`."""
        value = self.value
        if type(value) is not float and type(value) is not int:
            self.fail("be a number")
        try:
            value = float(value)
        except OverflowError:
            self.fail("be a number of usual size")
        if not math.isfinite(value):
            self.fail("be finite")
        if not low <= value <= high:
            self.fail(f"lie in [{low:g}, {high:g}]")
        return value

    @overload
    def numbers(self, count: Literal[2]) -> tuple[float, float]: ...
    @overload
    def numbers(self, count: Literal[3]) -> tuple[float, float, float]: ...
    @overload
    def numbers(self, count: Literal[4]) -> tuple[float, float, float, float]: ...
    @overload
    def numbers(self, count: int) -> tuple[float, ...]: ...
    def numbers(self, count: int) -> tuple[float, ...]:
        """A list of `count` finite numbers."""
        values = self._typed(list)
        if len(values) != count:
            self.fail(f"hold {count} numbers", f"{len(values)}")
        for i, value in enumerate(values):
            if type(value) is not float or not math.isfinite(value):
                Node(value, self.where, f"{self.path}[{i}]").number()
        return tuple(float(value) for value in values)

    def equal(self, expected: Any) -> None:
        """Exactly `expected`."""
        if type(self.value) is not type(expected) or self.value != expected:
            self.fail(f"be {quoted(expected)}")
