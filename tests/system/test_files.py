"""Whole files: links are not followed, and what has no end is not read."""

import os

import pytest

from rearrange.errors import UserError, one_line
from rearrange.system.files import file_digest, read_whole_file, user_path, write_whole_file
from rearrange.system.outputs import atomic_write_text, prepare_folder


def planted_links(folder, *names):
    """Links of these names to a file that must not change."""
    victim = folder / "victim"
    victim.write_text("precious")
    for name in names:
        (folder / name).symlink_to(victim)
    return victim


def test_a_home_folder_is_filled_in_and_that_of_nobody_refused(monkeypatch):
    monkeypatch.setenv("HOME", "/somewhere")
    assert [str(user_path(path)) for path in ("~/a", "a/~/b")] == ["/somewhere/a", "a/~/b"]
    with pytest.raises(UserError, match="there is no home folder ~nouser: name one"):
        user_path("~nouser/a/b")


@pytest.mark.parametrize("write", ["whole", "atomic", "probe"])
def test_temporary_files_follow_no_links(tmp_path, write):
    pid = os.getpid()
    names = (f".a.txt.unfinished-{pid}", f".a.unfinished-{pid}.txt", f".unfinished-{pid}")
    victim = planted_links(tmp_path, *names)
    if write == "whole":
        write_whole_file(tmp_path / "a.txt", b"new")
    elif write == "atomic":
        atomic_write_text(tmp_path / "a.txt", "new")
    else:
        prepare_folder(tmp_path)
    assert victim.read_text() == "precious"
    assert write == "probe" or (tmp_path / "a.txt").read_text() == "new"


def test_only_regular_files_of_a_bounded_size_are_read(tmp_path):
    (tmp_path / "small").write_bytes(b"12345")
    assert read_whole_file(tmp_path / "small", 5) == b"12345"
    with pytest.raises(UserError, match="must have at most"):
        read_whole_file(tmp_path / "small", 4)
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(2**40)
    os.mkfifo(tmp_path / "pipe")
    for name in ("sparse", "pipe", ".", "missing", "x" * 300, "a\0b", "/dev/zero"):
        with pytest.raises(UserError):
            read_whole_file(tmp_path / name, 2**20)
        if name != "sparse":
            with pytest.raises(UserError):
                file_digest(tmp_path / name)


def test_a_line_repeats_no_escape_codes_and_no_kilobytes():
    assert one_line("a\n  b\tc") == "a b c"
    assert one_line("\x1b[31mred\x07 \u202eevil \ud800") == "\\x1b[31mred\\x07 \\u202eevil \\ud800"
    long = one_line("begin" + "\x1b" * 100_000 + "the advice")
    assert len(long) < 800 and long.startswith("begin") and long.endswith("the advice")
    assert one_line("Küche") == "Küche"
