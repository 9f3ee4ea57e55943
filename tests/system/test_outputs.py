"""Files are whole or not there: full disk, missing folder, interruption."""

import json
import os
import stat
import subprocess
import sys

import pytest

from rearrange.errors import UserError
from rearrange.system.files import remove_unfinished
from rearrange.system.outputs import (
    atomic_path,
    atomic_write_json,
    atomic_write_text,
    prepare_file,
    prepare_folder,
)


def test_file_replaces_the_old_one_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "deep" / "file.txt"
    atomic_write_text(path, "old")
    atomic_write_text(path, "näw")
    assert path.read_text(encoding="utf-8") == "näw"
    assert [p.name for p in path.parent.iterdir()] == ["file.txt"]


def test_failure_in_the_middle_keeps_the_old_file(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic_path(path) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file.txt"]


def test_full_disk_is_one_line_and_leaves_nothing(tmp_path):
    # A limit on the size of files stands for the full disk: the write ends in the middle.
    code = f"""
import resource
from pathlib import Path
from rearrange import cli
from rearrange.system.outputs import atomic_write_text

def write(words):
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    atomic_write_text(Path({str(tmp_path)!r}) / "file.txt", "x" * 20_000)

cli._dispatch = write
raise SystemExit(cli.main([]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot write ") and done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written_are_named(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "below.txt", tmp_path / ("x" * 300)):
        with pytest.raises(UserError, match="^cannot write "):
            atomic_write_text(path, "text")
    with pytest.raises(UserError, match="it is a file"):
        prepare_folder(tmp_path / "file")


def test_a_link_stays_and_what_is_no_file_is_not_replaced(tmp_path):
    (tmp_path / "target.json").write_text("old")
    (tmp_path / "latest.json").symlink_to("target.json")
    atomic_write_text(tmp_path / "latest.json", "new")
    assert (tmp_path / "latest.json").is_symlink()
    assert (tmp_path / "target.json").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    for write in (prepare_file, lambda path: atomic_write_text(path, "text")):
        with pytest.raises(UserError, match="pipe: it is no regular file; name another"):
            write(tmp_path / "pipe")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_json_refuses_nan_and_reads_back(tmp_path):
    path = tmp_path / "figures.json"
    with pytest.raises(ValueError):
        atomic_write_json(path, {"x": float("nan")})
    assert not path.exists()
    atomic_write_json(path, {"x": [1, 2.5, None]})
    assert json.loads(path.read_text()) == {"x": [1, 2.5, None]}


def test_leftovers_of_killed_processes_are_removed(tmp_path):
    (tmp_path / ".film.unfinished-17.mp4").write_text("")
    (tmp_path / "film.mp4").write_text("")
    remove_unfinished(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["film.mp4"]


def test_a_file_that_could_not_be_written_is_known_before_the_work(tmp_path):
    assert prepare_file(tmp_path / "new/a.mp4") == tmp_path / "new/a.mp4"
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "folder.mp4").mkdir()
    with pytest.raises(UserError, match="there is a folder of that name"):
        prepare_file(tmp_path / "folder.mp4")
