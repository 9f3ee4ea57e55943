"""numba's cache of compiled kernels, with a checksum at the end of each file.

    depth_kernel.py --compile--> code --pickled by numba--> code + MARK + SHA-256

numba trusts its cache: a truncated file makes every command fail, a flipped bit may crash the
process. Here a damaged file is removed and its kernel compiled again. Plain numba can read these
files; files that it wrote itself, without a checksum, are read here until they fail.
numba considers a kernel unchanged as long as its own source file is. Here the source files of the
kernels that it calls count too, because they are compiled into it.
Where nothing can be written (a full disk, no writable folder), kernels are compiled for this
process alone.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba.core import caching
from numba.core.dispatcher import Dispatcher

MARK = b"\nsha256 "  # behind the end of a pickle, where numba does not look
TRAILER = len(MARK) + hashlib.sha256().digest_size
SUFFIXES = (".nbi", ".nbc")

log = logging.getLogger(__name__)


def is_damaged(path: str | os.PathLike[str]) -> bool:
    """Whether the content of a cache file is not what was written. Raises OSError."""
    content = Path(path).read_bytes()
    if content[-TRAILER:].startswith(MARK):
        return hashlib.sha256(content[:-TRAILER]).digest() != content[-TRAILER + len(MARK) :]
    return not content.endswith(b".")  # the last byte of every pickle


def remove_damaged(folders: Iterable[Path]) -> list[Path]:
    """Removes the damaged files of caches; they are compiled again when they are needed."""
    removed = []
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            with suppress(OSError):
                if path.suffix in SUFFIXES and is_damaged(path):
                    path.unlink()
                    removed.append(path)
    return removed


class _Hashed:
    """A file with a running checksum of what is written to it."""

    def __init__(self, file: Any) -> None:
        self._file, self._digest = file, hashlib.sha256()

    def write(self, data: bytes) -> int:
        self._digest.update(data)
        return self._file.write(data)

    def end(self) -> None:
        self._file.write(MARK + self._digest.digest())


class CheckedCacheFile(caching.IndexDataCacheFile):
    """What numba keeps of one kernel."""

    def save(self, key: Any, data: Any) -> None:
        try:
            super().save(key, data)
        except OSError as error:
            _warn_once(f"compiled kernels cannot be kept: {error}")

    def _load_index(self) -> dict:
        return self._or_drop(self._index_path, super()._load_index, {})

    def _load_data(self, name: str) -> Any:
        path = self._data_path(name)
        return self._or_drop(path, lambda: super(CheckedCacheFile, self)._load_data(name), None)

    @staticmethod
    def _or_drop(path: str, load: Any, missing: Any) -> Any:
        try:
            if not is_damaged(path):
                return load()
        except FileNotFoundError:
            return missing
        except Exception as error:  # whatever unpickling raises for half a file of plain numba's
            log.debug("%s: %s", path, error)
        _warn_once(f"a damaged file of compiled kernels is replaced: {path}")
        with suppress(OSError):
            os.unlink(path)
        return missing

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[Any]:
        with super()._open_for_write(filepath) as file:
            hashed = _Hashed(file)
            yield hashed
            hashed.end()


class ProcessLocator(caching.UserWideCacheLocator):
    """The last resort: a folder that is removed when the process ends."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)
        self._cache_path = _folder_of_this_process()


@cache
def _folder_of_this_process() -> str:
    folder = tempfile.mkdtemp(prefix="rearrange-kernels-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _warn_once(line: str) -> None:
    log.warning("%s", line)


def called_files(path: str) -> set[str]:
    """The other files whose kernels those of a module's file may call, directly or not."""
    found: set[str] = set()
    # It is asked for while a module's kernels are defined, so from the last imported one.
    newest_first = reversed(list(sys.modules.values()))
    own = next((module for module in newest_first if _file(module) == path), None)
    to_see = [own] if own is not None else []
    while to_see:
        for thing in list(vars(to_see.pop()).values()):
            if not isinstance(thing, Dispatcher):
                continue
            file = thing.py_func.__code__.co_filename
            if file != path and file not in found:
                found.add(file)
                module = sys.modules.get(thing.py_func.__module__)
                to_see += [module] if module is not None else []
    return found


def _file(module: Any) -> str | None:
    return getattr(module, "__file__", None)


def _stamp_with_called(locator: Any) -> Any:
    """The stamp of a kernel's file and of those of the kernels that it calls, imported by now."""
    own = _own_stamp(locator)
    others = sorted(called_files(locator._py_file))
    digests = tuple(hashlib.sha256(Path(file).read_bytes()).digest() for file in others)
    return (own, *digests) if others else own


_own_stamp = caching._SourceFileBackedLocatorMixin.get_source_stamp


def install() -> None:
    """Makes numba use this for every kernel that is defined from now on. May be called again."""
    caching.IndexDataCacheFile = CheckedCacheFile
    mixin: Any = caching._SourceFileBackedLocatorMixin  # numba has no other way in
    mixin.get_source_stamp = _stamp_with_called
    if ProcessLocator not in caching.CacheImpl._locator_classes:
        caching.CacheImpl._locator_classes.append(ProcessLocator)
