"""The text of an episode file, decoded piece by piece.

    gzip -> {"episodes": [{...}, {...}, ...]} -> one JSON value at a time

A small file can unpack to a large text, and a text can take thirty times its size when decoded as a
whole. So both the text's length and what is decoded at once are limited.
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from rearrange.errors import UserError
from rearrange.system.checked_json import DECODER, quoted
from rearrange.system.files import read_whole_file

MAX_PACKED = 64 * 2**20  # bytes; the text compresses to less than a tenth
MAX_EPISODE = 256 * 2**10  # bytes of JSON; an episode of ours has 16 kB
_BLANKS = re.compile(rb"[ \t\n\r]*")
_CHUNK = 2**20  # bytes that are unpacked at once


def packed_episodes(path: Path, most: int) -> Iterator[Any]:
    """The JSON values in the list `episodes` of a gzip file, one after the other.

    Args:
        most: bytes of text.

    Raises UserError, when it gets there, for a file that holds anything else.
    """
    text = _Text(path, _unpacked(path, most))
    names: set[str] = set()
    text.expect("{", "an object, which begins with")
    is_empty = text.take("}")
    while not is_empty:
        name = text.value("a name")
        if not isinstance(name, str) or name in names:
            what = "twice" if isinstance(name, str) else "instead of a name"
            raise UserError(f"{path} must hold JSON with names, but {quoted(name)} comes {what}")
        names.add(name)
        text.expect(":")
        if name != "episodes":
            text.value("a value")
        else:
            text.expect("[", "episodes, which must be a list and begin with")
            if not text.take("]"):
                yield text.value("an episode")
                while not text.take("]"):
                    text.expect(",")
                    yield text.value("an episode")
        if text.take("}"):
            break
        text.expect(",")
    if "episodes" not in names:
        raise UserError(f"{path}: episodes is missing")
    text.end()


def _unpacked(path: Path, most: int) -> bytearray:
    """Chunks of the unpacked bytes of a gzip file. Every failure is a UserError."""
    if not path.is_file():
        what = "there is no such file" if not path.exists() else "it is not a regular file"
        raise UserError(f"cannot read episodes from {path}: {what}")
    text = bytearray()
    try:
        with gzip.open(io.BytesIO(read_whole_file(path, MAX_PACKED)), "rb") as stream:
            while len(text) <= most and (part := stream.read(_CHUNK)):
                text += part
    except EOFError:
        line = f"{path} must be a whole gzip file, but it ends early; copy it again"
        raise UserError(line) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        line = f"{path} must be a gzip file, but cannot be unpacked ({error}); copy it again"
        raise UserError(line.replace("\n", " ")) from None
    if len(text) > most:
        line = f"{path} must hold at most {most >> 20} MB of JSON, but holds more; split it"
        raise UserError(line)
    return text


class _Text:
    """A position in JSON text that advances over white space, punctuation and values."""

    def __init__(self, path: Path, text: bytearray) -> None:
        self._path, self._text, self._place = path, text, 0

    def take(self, sign: str) -> bool:
        """Whether this character comes next; if so, it is consumed."""
        self._skip_blanks()
        is_there = self._text[self._place : self._place + 1] == sign.encode()
        self._place += is_there
        return is_there

    def expect(self, sign: str, what: str = "") -> None:
        if not self.take(sign):
            self.fail(f"{what} {sign!r}".strip(), self._next())

    def value(self, what: str) -> Any:
        """The next value."""
        self._skip_blanks()
        part = bytes(memoryview(self._text)[self._place : self._place + MAX_EPISODE])
        is_all = self._place + len(part) == len(self._text)
        try:
            decoded = codecs.getincrementaldecoder("utf-8")().decode(part, final=is_all)
        except UnicodeDecodeError as error:
            byte = self._place + error.start
            raise UserError(f"{self._path} must hold UTF-8 text, but byte {byte} is none") from None
        try:
            value, length = DECODER.raw_decode(decoded)
        except RecursionError:
            line = f"{self._path} must hold episodes, but its JSON is nested too deeply"
            raise UserError(line) from None
        except ValueError as error:
            if not is_all and _is_cut_off(error, decoded):
                self.fail(f"{what} of at most {MAX_EPISODE >> 10} kB", self._next())
            line = f"{self._path} must hold JSON, but: {error}, in {what} at byte {self._place}"
            raise UserError(line.replace("\n", " ")) from None
        self._place += len(decoded[:length].encode())
        return value

    def _skip_blanks(self) -> None:
        blanks = _BLANKS.match(self._text, self._place)
        assert blanks is not None  # zero matches are a match, too
        self._place = blanks.end()

    def end(self) -> None:
        self._skip_blanks()
        if self._place < len(self._text):
            self.fail("nothing more", self._next())

    def _next(self) -> bytes:
        return bytes(self._text[self._place : self._place + 20])

    def fail(self, must: str, got: Any) -> NoReturn:
        line = f"{self._path} must hold JSON with {must} at byte {self._place}, got {quoted(got)}"
        raise UserError(line.replace("\n", " "))


def _is_cut_off(error: ValueError, text: str) -> bool:
    """Whether the text is truncated JSON rather than no JSON."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.msg.startswith("Unterminated") or error.pos >= len(text) - 16  # half a word
