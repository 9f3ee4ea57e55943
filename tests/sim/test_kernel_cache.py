"""Compiled kernels: what is damaged or cannot be kept is compiled again."""

import errno
import importlib.util
import sys

import numba
import pytest
from numba.core import caching

from rearrange.sim import kernel_cache

SOURCE = "from numba import njit\n\n@njit(cache=True)\ndef twice(x):\n    return 2 * x\n"


def load(folder):
    """The module as a new process would have it."""
    spec = importlib.util.spec_from_file_location("kernels", folder / "kernels.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.twice


@pytest.fixture(autouse=True)
def beside_the_source(monkeypatch):
    """Wherever whoever runs the tests keeps compiled kernels."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "kernels.py").write_text(SOURCE)
    assert load(tmp_path)(2) == 4
    return tmp_path


def files(folder):
    return {path.suffix: path for path in (folder / "__pycache__").iterdir()}


def was_compiled(kernel):
    return sum(kernel.stats.cache_misses.values()) > 0


def test_a_kernel_is_kept_and_plain_numba_can_read_it(folder, monkeypatch):
    kernel = load(folder)
    assert kernel(2) == 4 and not was_compiled(kernel)
    plain = kernel_cache.CheckedCacheFile.__mro__[1]
    monkeypatch.setattr(caching, "IndexDataCacheFile", plain)
    kernel = load(folder)
    assert kernel(2) == 4 and not was_compiled(kernel)


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("damage", ["cut", "emptied", "flipped", "replaced"])
def test_a_damaged_file_is_compiled_again(folder, suffix, damage):
    path = files(folder)[suffix]
    content = bytearray(path.read_bytes())
    flipped = content.copy()
    flipped[len(content) // 2] ^= 1
    changed = {"cut": content[:30], "emptied": b"", "flipped": flipped, "replaced": b"no cache."}
    path.write_bytes(changed[damage])
    kernel = load(folder)
    assert kernel(2) == 4 and was_compiled(kernel)
    kernel = load(folder)
    assert kernel(2) == 4 and not was_compiled(kernel)


def test_the_doctor_removes_what_is_damaged(folder):
    path = files(folder)[".nbc"]
    path.write_bytes(path.read_bytes()[:-50])
    assert kernel_cache.remove_damaged([folder]) == [path]
    assert kernel_cache.remove_damaged([folder]) == []


def test_a_full_disk_costs_the_cache_and_nothing_else(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "kernels.py").write_text(SOURCE)
    monkeypatch.setattr(kernel_cache._Hashed, "write", full)
    assert load(tmp_path)(2) == 4 and not list((tmp_path / "__pycache__").glob("*.nb*"))


def test_without_a_folder_to_write_to_kernels_are_the_processs_own(tmp_path, monkeypatch):
    def refuse(self):
        if not isinstance(self, kernel_cache.ProcessLocator):
            raise OSError(errno.EROFS, "read-only")

    (tmp_path / "kernels.py").write_text(SOURCE)
    monkeypatch.setattr(caching._CacheLocator, "ensure_cache_path", refuse)
    kernel = load(tmp_path)
    assert kernel(2) == 4 and "rearrange-kernels-" in kernel.stats.cache_path


def test_a_kernel_is_compiled_again_when_one_that_it_calls_has_changed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    calling = "from numba import njit\nfrom {0} import {0}\n\n@njit(cache=True)\ndef {1}(x):\n"
    calling += "    return {0}(x) + 1\n"
    for name, source in (
        ("twice", SOURCE), ("odd", calling.format("twice", "odd")),
        ("even", calling.format("odd", "even")),
    ):  # fmt: skip
        (tmp_path / f"{name}.py").write_text(source)

    def even():
        for name in ("twice", "odd", "even"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module("even").even

    assert even()(3) == 8
    kernel = even()
    assert kernel(3) == 8 and not was_compiled(kernel)
    (tmp_path / "twice.py").write_text(SOURCE.replace("2 * x", "20 * x"))
    assert even()(3) == 62
    for name in ("twice", "odd", "even"):
        sys.modules.pop(name)
